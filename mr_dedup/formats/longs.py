"""Fingerprints as longs: 8 bytes each, two's complement, big-endian as Java's ``writeLong``.

The file is nothing but longs, so fingerprint number i sits at byte 8 * i and any range can be
read on its own. Little-endian files, such as NumPy's ``tofile`` leaves, differ in the byte order
alone. In memory a fingerprint is always an unsigned 64-bit number: -1 is read as 2**64 - 1.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError

ByteOrder = Literal["big", "little"]

LONG_BYTES = 8


class ReadableInto(Protocol):
    """A binary stream that fills buffers, as every binary file of Python does."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Read up to ``len(buffer)`` bytes into ``buffer``; return how many, 0 at the end."""


_DTYPES = {"big": np.dtype(">u8"), "little": np.dtype("<u8")}


def count(path: str | os.PathLike[str]) -> int:
    """Return the number of longs in the file at ``path``, from its length alone.

    Raises FormatError if the length is not a multiple of 8, OSError if it cannot be opened.
    """
    with Path(path).open("rb", buffering=0) as file:
        return _count(file, path)


def read_range(
    path: str | os.PathLike[str],
    start: int = 0,
    stop: int | None = None,
    byte_order: ByteOrder = "big",
    max_count: int = 1 << 20,
) -> Iterator[NDArray[np.uint64]]:
    """Yield fingerprints ``start`` to ``stop`` (a slice of the file) in their order.

    Each array is uint64, new and of 1 to ``max_count`` fingerprints; one is in memory at a time.
    Raises FormatError before the first array if the length of the file is not a
    multiple of 8, and later if the file shrinks meanwhile; OSError if it cannot be opened or read.
    """
    with Path(path).open("rb", buffering=0) as file:
        total = _count(file, path)
        stop = total if stop is None else min(stop, total)
        file.seek(start * LONG_BYTES)
        for rank in range(start, stop, max_count):
            longs = np.empty(min(max_count, stop - rank), dtype=_DTYPES[byte_order])
            got_bytes = read_fully(file, longs.view(np.uint8).data)
            if got_bytes < longs.nbytes:
                offset = f"byte {rank * LONG_BYTES + got_bytes}"
                raise FormatError(path, offset, "the file became shorter while it was read")
            yield _unsigned(longs)


def read_stream(
    file: ReadableInto,
    path: str | os.PathLike[str],
    byte_order: ByteOrder = "big",
    max_count: int = 1 << 20,
) -> Iterator[NDArray[np.uint64]]:
    """Yield the fingerprints of a binary stream from its current position, in order.

    Each array is uint64, fresh and of 1 to ``max_count`` fingerprints. Raises FormatError, naming
    ``path`` and the byte counted from where reading began, if the stream ends inside a long; the
    whole longs before it have then been yielded.
    """
    done_bytes = 0
    while True:
        longs = np.empty(max_count, dtype=_DTYPES[byte_order])
        got_bytes = read_fully(file, longs.view(np.uint8).data)
        whole, rest_bytes = divmod(got_bytes, LONG_BYTES)
        if whole:
            yield _unsigned(longs[:whole])
        done_bytes += whole * LONG_BYTES
        if rest_bytes:
            raise _cut_short(path, done_bytes, rest_bytes)
        if whole < max_count:
            return


def write(file: BinaryIO, fingerprints: NDArray[np.uint64], byte_order: ByteOrder = "big") -> None:
    """Append ``fingerprints`` (uint64) to the binary stream ``file``."""
    longs = np.ascontiguousarray(fingerprints, dtype=_DTYPES[byte_order])
    file.write(longs.view(np.uint8).data)


def read_fully(file: ReadableInto, buffer: memoryview) -> int:
    """Fill ``buffer`` (bytes) from ``file``; return the bytes read, fewer only at its end."""
    done = 0
    while done < len(buffer):
        got = file.readinto(buffer[done:])
        if not got:
            break
        done += got
    return done


def _count(file: BinaryIO | io.RawIOBase, path: str | os.PathLike[str]) -> int:
    whole, rest_bytes = divmod(file.seek(0, os.SEEK_END), LONG_BYTES)
    if rest_bytes:
        raise _cut_short(path, whole * LONG_BYTES, rest_bytes)
    return whole


def _unsigned(longs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return ``longs``, of either byte order, as native uint64: swapped where they are."""
    return longs if longs.dtype.isnative else longs.byteswap(inplace=True).view(np.uint64)


def _cut_short(path: str | os.PathLike[str], offset_bytes: int, rest_bytes: int) -> FormatError:
    return FormatError(
        path,
        f"byte {offset_bytes}",
        f"ends inside a long, {rest_bytes} of its 8 bytes there: "
        "the length of longs is a multiple of 8",
    )
