"""The file of a segment: a header, and blocks of 64 KB with checksums.

Block 0 is the header: magic, version, the length of the file, a description in JSON, and a checksum
over all of it. Tables and ids follow, each aligned to 64 bytes, and at the end the checksums of the
blocks after the header; docs/formats.md has the layout byte by byte.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, newer
from mr_dedup.files.folders import FolderFile
from mr_dedup.files.io_errors import cannot_be_written
from mr_dedup.index.kernels import BLOCK_BITS

MAGIC = b"\x89MRDSEG\n"
VERSION = 1
BLOCK_BYTES = 1 << BLOCK_BITS

_HEAD = struct.Struct("<8sIIQ")  # magic, version, length of the description, length of the file
_CHECKSUM = struct.Struct("<Q")
ALIGNMENT = 64
"""Tables and other parts begin at multiples of so many bytes."""

MAX_K = 32
"""The largest k of an index."""

MAX_DOCUMENTS = (1 << 32) - 64
"""The largest number of documents of a segment: they are numbered by 32 bits."""

_PADDING = bytes(BLOCK_BYTES)
_PIECE_BYTES = 1 << 22


class Table(msgspec.Struct, frozen=True):
    """A table: the bits of its directory, and the byte at which each of its parts begins."""

    directory_bits: int
    directory_bytes: int
    low_bytes: int
    high_bytes: int


class IdTable(msgspec.Struct, frozen=True):
    """The hash table of ids: its size, and the byte at which each of its parts begins."""

    directory_bits: int
    offset_words: int
    directory_bytes: int
    tags_bytes: int
    documents_bytes: int
    offsets_bytes: int
    content_bytes: int
    content_length: int


class Description(msgspec.Struct, frozen=True):
    """The description of a segment; at ``starts_bytes`` are the first documents of ranks."""

    documents: int
    fingerprints: int
    k: int
    design: str
    masks: list[int]
    order: str
    tables: list[Table]
    starts_bytes: int | None
    ids: IdTable | None
    checksums_bytes: int
    checksums_checksum: int


class BlockWriter:
    """Writes a file, and computes the checksum of each block."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._pending = bytearray()
        self._checksums: list[int] = []
        self.length = 0
        """Bytes written so far, including the header."""
        self.write(_PADDING)

    def align(self) -> int:
        """Pad to the next multiple of ALIGNMENT, and return it."""
        self.write(_PADDING[: -self.length % ALIGNMENT])
        return self.length

    def pad(self, size_bytes: int) -> None:
        """Write zeros, which kernels may read past the end of a part."""
        self.write(_PADDING[:size_bytes])

    def write(self, content: bytes | memoryview) -> None:
        """Append bytes."""
        self._pending += content
        self.length += len(content)
        if len(self._pending) >= _PIECE_BYTES:
            self._flush(len(self._pending) // BLOCK_BYTES * BLOCK_BYTES)

    def write_array(self, array: NDArray[np.generic]) -> None:
        """Append the bytes of an array."""
        raw = np.ascontiguousarray(array).view(np.uint8)
        for start in range(0, len(raw), _PIECE_BYTES):
            self.write(raw[start : start + _PIECE_BYTES].data)

    def finish(self, description: Description) -> None:
        """Write checksums and header; fills in the checksum fields of ``description``."""
        self._flush(len(self._pending))
        checksums = np.array(self._checksums[1:], "<u8").tobytes()
        described = msgspec.json.encode(
            msgspec.structs.replace(
                description,
                checksums_bytes=self.length,
                checksums_checksum=xxhash.xxh3_64_intdigest(checksums),
            )
        )
        _write_fully(self._handle, checksums)
        length = self.length + len(checksums)
        head = _HEAD.pack(MAGIC, VERSION, len(described), length) + described
        head = head.ljust(BLOCK_BYTES - _CHECKSUM.size, b"\0")
        head += _CHECKSUM.pack(xxhash.xxh3_64_intdigest(head))
        assert len(head) == BLOCK_BYTES
        os.lseek(self._handle, 0, os.SEEK_SET)
        _write_fully(self._handle, head)
        self.length = length

    def _flush(self, size: int) -> None:
        piece = bytes(self._pending[:size])
        del self._pending[:size]
        with memoryview(piece) as raw:
            for start in range(0, size, BLOCK_BYTES):
                block = raw[start : start + BLOCK_BYTES]
                self._checksums.append(xxhash.xxh3_64_intdigest(block))
        _write_fully(self._handle, piece)


@contextlib.contextmanager
def created(file: FolderFile) -> Iterator[BlockWriter]:
    """Yield the writer of a new file, which is forced to the disk when the block ends.

    Removed if the block raises. Raises MrDedupError if it cannot be written, as on a full disk.
    """
    handle = file.create()
    try:
        try:
            yield BlockWriter(handle)
            os.fsync(handle)
        except BaseException:
            file.remove()
            raise
        finally:
            os.close(handle)
    except OSError as error:
        raise cannot_be_written(file.path, error) from error


def read_head(path: Path, content: memoryview) -> tuple[Description, NDArray[np.uint64]]:
    """Return the description of a segment, and the checksums of its blocks from block 1 on.

    ``content`` is the file, whose blocks are not compared with the checksums here. Raises
    FormatError if the header is damaged, or the file has another length or a newer version.
    """
    if bytes(content[: len(MAGIC)]) != MAGIC:
        raise FormatError(path, "header", f"is not a segment, which begins with {MAGIC!r}")
    if len(content) < BLOCK_BYTES:
        raise FormatError(path, "header", f"the file ends there, at byte {len(content)}")
    _, version, described_length, length = _HEAD.unpack_from(content)
    if version > VERSION:
        raise FormatError(path, "header", newer(version, VERSION))
    stored = _CHECKSUM.unpack_from(content, BLOCK_BYTES - _CHECKSUM.size)[0]
    if stored != xxhash.xxh3_64_intdigest(content[: BLOCK_BYTES - _CHECKSUM.size]):
        raise FormatError(path, "header", "its checksum is wrong")
    if len(content) != length:
        what = "cut short" if len(content) < length else "followed by something else"
        raise FormatError(path, None, f"is {what}: {len(content)} bytes, {length} expected")
    raw = bytes(content[_HEAD.size : _HEAD.size + described_length])
    try:
        description = msgspec.json.decode(raw, type=Description)
    except (ValueError, RecursionError) as error:
        reason = f"its checksum is right, and its content wrong: {error}"
        raise FormatError(path, "header", reason) from error
    start = description.checksums_bytes
    if not BLOCK_BYTES <= start <= length or (length - start) % _CHECKSUM.size:
        raise FormatError(path, "header", f"there are no checksums at byte {start}")
    checksums = content[start:]
    if xxhash.xxh3_64_intdigest(checksums) != description.checksums_checksum:
        raise FormatError(path, "checksums", "their own checksum is wrong")
    return description, np.frombuffer(checksums, "<u8")


def _write_fully(handle: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while len(rest):
        rest = rest[os.write(handle, rest) :]
