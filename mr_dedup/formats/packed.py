"""The packed form: sorted distinct fingerprints, compressed, in blocks that decode on their own.

A file is a header, the blocks, and a directory that names for each block its last fingerprint,
where it begins and its checksum; docs/formats.md has the layout byte by byte. The directory is
what a search needs: a fingerprint f is in the first block whose last fingerprint is f or more.
Every byte is under a checksum (xxh3, 64 bits), and the header has the length of the file, so that
all damage is noticed; sizes are checked against that length before memory is allocated.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, newer
from mr_dedup.formats import packed_kernels as kernels
from mr_dedup.formats.longs import ReadableInto, read_fully

MAGIC = b"\x89FPZ\r\n\x1a\n"
VERSION = 1

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("block_size", "<u4"),
        ("flags", "<u8"),
        ("count", "<u8"),
        ("directory_offset_bytes", "<u8"),
        ("file_length_bytes", "<u8"),
        ("directory_checksum", "<u8"),
        ("header_checksum", "<u8"),
    ]
)
DIRECTORY_ENTRY = np.dtype([("last", "<u8"), ("offset_bytes", "<u8"), ("checksum", "<u8")])
_WORD = np.dtype("<u8")
_CHECKED_HEADER_BYTES = HEADER.itemsize - _WORD.itemsize

BLOCK_SIZE = 4096
"""Fingerprints a block: 8,192 would save 0.004 bytes a fingerprint, 1,024 would cost 0.09."""

MAX_BLOCK_SIZE = 1 << 16

_BEFORE_THE_FIRST = np.uint64(2**64 - 1)
_BATCH_COUNT = 1 << 17  # decoded between two reads: what is read and written stays in the cache


class SeekableSource(ReadableInto, Protocol):
    """A binary file to read anywhere in, as a file of Python opened for reading is."""

    def seek(self, offset: int, whence: int = ..., /) -> int:
        """Go to a byte; return its offset from the beginning."""


class PackedReader:
    """The fingerprints of a packed file, in ascending order, by their rank.

    Keeps the directory in memory, 24 bytes a block. Not to be shared between threads.
    """

    def __init__(self, file: SeekableSource, path: str | os.PathLike[str]) -> None:
        """Read the header and the directory of ``file``: unbuffered, seekable, named ``path``.

        Raises FormatError where they are damaged or do not agree with the length of the file.
        """
        self._file = file
        self._path = path
        length_bytes = file.seek(0, os.SEEK_END)
        header = self._read_header(length_bytes)
        self.count = int(header["count"])
        self.block_size = int(header["block_size"])
        self.block_count = -(-self.count // self.block_size)
        self._starts_bytes, self.lasts, self._checksums = self._read_directory(header, length_bytes)
        # allocated once: fresh memory for each batch costs page faults
        self._batch_blocks = max(1, _BATCH_COUNT // self.block_size)
        words = self._batch_blocks * kernels.max_block_words(self.block_size)
        self._words = np.empty(kernels.padded_words(words), dtype=_WORD)
        self._positions = kernels.position_scratch(self.block_size)

    def batches(
        self, start: int = 0, stop: int | None = None, max_count: int = 1 << 20
    ) -> Iterator[NDArray[np.uint64]]:
        """Yield fingerprints ``start`` to ``stop`` (a slice of the file) in their order.

        Each array is uint64, fresh and of 1 to ``max_count`` fingerprints. Decodes whole blocks
        only, so a short range costs a block. Raises FormatError naming the block that is damaged,
        when it is reached.
        """
        stop = self.count if stop is None else min(stop, self.count)
        if start >= stop:
            return
        end_block = -(-stop // self.block_size)
        step = max(1, max_count // self.block_size)
        for first in range(start // self.block_size, end_block, step):
            decoded = self._decode(first, min(first + step, end_block))
            rank = first * self.block_size
            end = min(stop - rank, len(decoded))
            for begin in range(max(start - rank, 0), end, max_count):
                yield decoded[begin : min(begin + max_count, end)]

    def read(self) -> NDArray[np.uint64]:
        """Return all fingerprints, uint64[count]; FormatError if a block is damaged."""
        return self._decode(0, self.block_count)

    def _read_header(self, length_bytes: int) -> np.void:
        raw = self._read_bytes(0, min(length_bytes, HEADER.itemsize), "header")
        if raw[: len(MAGIC)] != MAGIC:
            raise self._damage("header", f"is not a packed file, which begins with {MAGIC!r}")
        if len(raw) < HEADER.itemsize:
            raise self._damage("header", f"the file ends there, at byte {length_bytes}")
        header: np.void = np.frombuffer(raw, dtype=HEADER)[0]
        version = int(header["version"])
        # checked first: a later version may have another layout after this field
        if version > VERSION:
            raise self._damage("header", newer(version, VERSION))
        if header["header_checksum"] != _checksum(raw[:_CHECKED_HEADER_BYTES]):
            raise self._damage("header", "its checksum is wrong")
        if version != VERSION or header["flags"] != 0:
            reason = f"version {version} with flags {header['flags']:#x} does not exist"
            raise self._damage("header", reason)
        block_size = int(header["block_size"])
        if not _is_block_size(block_size):
            raise self._damage("header", f"blocks of {block_size} fingerprints do not exist")
        expected_bytes = int(header["file_length_bytes"])
        if length_bytes != expected_bytes:
            what = "cut short" if length_bytes < expected_bytes else "followed by something else"
            reason = f"the file is {what}: {length_bytes} bytes, {expected_bytes} expected"
            raise self._damage("header", reason)
        directory_bytes = -(-int(header["count"]) // block_size) * DIRECTORY_ENTRY.itemsize
        if int(header["directory_offset_bytes"]) + directory_bytes != length_bytes:
            raise self._damage("header", "count and directory do not fit the length of the file")
        return header

    def _read_directory(
        self, header: np.void, length_bytes: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the blocks' byte offsets [blocks + 1], last fingerprints and checksums [blocks].

        They are checked: blocks follow each other without gaps, each of a possible length, and
        their last fingerprints ascend.
        """
        directory_offset = int(header["directory_offset_bytes"])
        raw = self._read_bytes(directory_offset, length_bytes - directory_offset, "directory")
        if header["directory_checksum"] != _checksum(raw):
            raise self._damage("directory", "its checksum is wrong")
        directory = np.frombuffer(raw, dtype=DIRECTORY_ENTRY)
        lasts = directory["last"].astype(np.uint64)
        if (lasts[1:] <= lasts[:-1]).any():
            raise self._damage("directory", "the last fingerprints of the blocks do not ascend")
        starts = np.append(directory["offset_bytes"], np.uint64(directory_offset))
        counts = np.full(self.block_count, self.block_size)
        counts[-1:] = self.count - (self.block_count - 1) * self.block_size
        # lengths are meaningful only where offsets ascend; a block has at least a bit for each
        # fingerprint, so that a small file cannot claim to contain very many
        lengths = np.diff(starts)
        valid = (starts[1:] > starts[:-1]) & (lengths % _WORD.itemsize == 0)
        valid &= lengths <= kernels.max_block_words(self.block_size) * _WORD.itemsize
        valid &= lengths >= (1 + -(-counts // 64)) * _WORD.itemsize
        if starts[0] != HEADER.itemsize or not valid.all():
            raise self._damage("directory", "the offsets of the blocks are impossible")
        return starts, lasts, directory["checksum"].astype(np.uint64)

    def _decode(self, first: int, stop: int) -> NDArray[np.uint64]:
        """Return the fingerprints of the blocks ``first`` to ``stop``."""
        rank = first * self.block_size
        count = min(stop * self.block_size, self.count) - rank
        fingerprints = np.empty(kernels.decoded_length(count), dtype=np.uint64)
        for begin in range(first, stop, self._batch_blocks):
            end = min(begin + self._batch_blocks, stop)
            starts = self._read_blocks(begin, end)
            previous = self.lasts[begin - 1] if begin else _BEFORE_THE_FIRST
            lasts = np.concatenate(([previous], self.lasts[begin:end]))
            done = (begin - first) * self.block_size
            batch_count = min((end - begin) * self.block_size, count - done)
            bad = kernels.decode_blocks(
                self._words,
                starts,
                lasts,
                batch_count,
                self.block_size,
                self._positions,
                fingerprints[done:],
            )
            if bad >= 0:
                reason = (
                    "does not contain ascending fingerprints up to the last one of the directory"
                )
                raise self._damage(
                    f"block {begin + bad}", f"{reason}, though its checksum is right"
                )
        return fingerprints[:count]

    def _read_blocks(self, begin: int, end: int) -> NDArray[np.uint64]:
        """Fill the words with neighbouring blocks, checked; return where each begins and ends."""
        offset_bytes = int(self._starts_bytes[begin])
        ends_bytes = (self._starts_bytes[begin : end + 1] - self._starts_bytes[begin]).tolist()
        raw = self._words.view(np.uint8).data[: ends_bytes[-1]]
        self._file.seek(offset_bytes)
        if read_fully(self._file, raw) < len(raw):
            raise self._damage(f"block {begin}", "the file became shorter while it was read")
        for index in range(begin, end):
            low, high = ends_bytes[index - begin], ends_bytes[index - begin + 1]
            if _checksum(raw[low:high]) != self._checksums[index]:
                raise self._damage(f"block {index}", "its checksum is wrong")
        return np.array(ends_bytes, dtype=np.uint64) // np.uint64(_WORD.itemsize)

    def _read_bytes(self, offset_bytes: int, length_bytes: int, section: str) -> bytes:
        raw = bytearray(length_bytes)
        self._file.seek(offset_bytes)
        if read_fully(self._file, memoryview(raw)) < length_bytes:
            raise self._damage(section, "the file became shorter while it was read")
        return bytes(raw)

    def _damage(self, section: str, reason: str) -> FormatError:
        return FormatError(self._path, section, reason)


@contextlib.contextmanager
def open_packed(path: str | os.PathLike[str]) -> Iterator[PackedReader]:
    """Open a packed file; yield a reader that lasts as long as the block.

    Raises FormatError as PackedReader does, OSError if the file cannot be opened.
    """
    with Path(path).open("rb", buffering=0) as file:
        yield PackedReader(file, path)


class PackedWriter:
    """Writes ascending fingerprints to a packed file, a block at a time.

    In memory: a block of fingerprints, copies of the array being written, and 24 bytes for each
    finished block. The file is complete only after ``finish``: until then its header is zeros, and
    no reader accepts it.
    """

    def __init__(self, file: BinaryIO, block_size: int = BLOCK_SIZE) -> None:
        """Begin a file of blocks of ``block_size`` in ``file``: empty, seekable, binary.

        Raises ValueError unless ``block_size`` is a multiple of 32 up to MAX_BLOCK_SIZE.
        """
        if not _is_block_size(block_size):
            raise ValueError(
                f"block_size: expected a multiple of {kernels.LANES} up to {MAX_BLOCK_SIZE}, "
                f"got {block_size}"
            )
        self.count = 0
        self._file = file
        self._block_size = block_size
        # the last fingerprint in a block, and those that do not fill one yet
        self._encoded_last: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._pending: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._directory: list[NDArray[np.void]] = []
        self._offset_bytes = file.write(bytes(HEADER.itemsize))

    def write(self, fingerprints: NDArray[np.uint64]) -> None:
        """Append ``fingerprints``, uint64, strictly ascending from those written before.

        Raises ValueError, naming the first that is not greater than the one before it, before
        any of them is written.
        """
        if fingerprints.dtype != np.uint64:
            raise ValueError(f"fingerprints: expected uint64, got {fingerprints.dtype}")
        self._check_order(fingerprints)
        self.count += len(fingerprints)
        pending = np.concatenate((self._pending, fingerprints))
        whole = len(pending) // self._block_size * self._block_size
        self._encode(pending[:whole])
        self._pending = pending[whole:].copy()

    def finish(self) -> None:
        """Write what is still pending, the directory and the header; not to be called twice."""
        self._encode(self._pending)
        directory = np.concatenate([np.empty(0, dtype=DIRECTORY_ENTRY), *self._directory])
        self._file.write(directory.tobytes())
        header = np.zeros((), dtype=HEADER)
        header["magic"] = MAGIC
        header["version"] = VERSION
        header["block_size"] = self._block_size
        header["count"] = self.count
        header["directory_offset_bytes"] = self._offset_bytes
        header["file_length_bytes"] = self._offset_bytes + directory.nbytes
        header["directory_checksum"] = _checksum(directory.tobytes())
        header["header_checksum"] = _checksum(header.tobytes()[:_CHECKED_HEADER_BYTES])
        self._file.seek(0)
        self._file.write(header.tobytes())

    def _check_order(self, fingerprints: NDArray[np.uint64]) -> None:
        before = self._pending[-1:] if len(self._pending) else self._encoded_last
        run = np.concatenate((before, fingerprints))
        (descents,) = np.nonzero(run[1:] <= run[:-1])
        if len(descents):
            left, right = run[descents[0]], run[descents[0] + 1]
            rank = self.count + int(descents[0]) + 1 - len(before)
            raise ValueError(
                f"fingerprints: expected strictly ascending ones, as unsigned numbers; "
                f"number {rank} (from 0) is {right:#018x} after {left:#018x}"
            )

    def _encode(self, fingerprints: NDArray[np.uint64]) -> None:
        """Write ``fingerprints`` as blocks, all of them full but perhaps the last."""
        step = max(1, _BATCH_COUNT // self._block_size) * self._block_size
        for start in range(0, len(fingerprints), step):
            batch = fingerprints[start : start + step]
            directory = np.empty(-(-len(batch) // self._block_size), dtype=DIRECTORY_ENTRY)
            block_words = kernels.max_block_words(self._block_size)
            words = np.empty(len(directory) * block_words, dtype=_WORD)
            sizes = np.empty(len(directory), dtype=np.int64)
            previous = self._encoded_last[0] if len(self._encoded_last) else _BEFORE_THE_FIRST
            kernels.encode_blocks(batch, previous, self._block_size, words, sizes)
            ends_bytes = (sizes.cumsum() * _WORD.itemsize).tolist()
            raw = words.view(np.uint8).data[: ends_bytes[-1]]
            starts_bytes = [0, *ends_bytes[:-1]]
            directory["offset_bytes"] = self._offset_bytes + np.array(starts_bytes)
            directory["last"][:-1] = batch[self._block_size - 1 :: self._block_size][
                : len(directory) - 1
            ]
            directory["last"][-1] = batch[-1]
            directory["checksum"] = [
                _checksum(raw[low:high]) for low, high in zip(starts_bytes, ends_bytes, strict=True)
            ]
            self._file.write(raw)
            self._offset_bytes += len(raw)
            self._directory.append(directory)
            self._encoded_last = batch[-1:].copy()


def _is_block_size(block_size: int) -> bool:
    return kernels.LANES <= block_size <= MAX_BLOCK_SIZE and block_size % kernels.LANES == 0


def _checksum(raw: bytes | memoryview) -> int:
    return xxhash.xxh3_64_intdigest(raw)
