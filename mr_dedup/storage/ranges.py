"""Read ranges of a remote file as from a local one: for formats that are read here and there."""

from __future__ import annotations

import io
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mr_dedup.files.io_errors import writing
from mr_dedup.storage.fetching import Piece, copy_ranges
from mr_dedup.storage.listing import RemoteFile

_BLOCK_BYTES = 2 << 20
"""What is fetched at a time: more than a page of Parquet, and less than a column of a row group."""


@dataclass(frozen=True)
class RangeSource:
    """A remote file of which blocks are fetched as they are read, to a temporary file.

    Attributes:
        file: The file, of known size.
        folder: The directory of the temporary file, which has no name.
    """

    file: RemoteFile
    folder: Path

    def open(self, mode: str = "rb", buffering: int = 0) -> io.RawIOBase:
        """Return the content as a seekable binary file, each block of which is fetched once."""
        return _RangeFile(self)


class _RangeFile(io.RawIOBase):
    def __init__(self, source: RangeSource) -> None:
        self._file = source.file
        self._size = source.file.size_bytes or 0
        self._position = 0
        self._fetched: set[int] = set()
        with writing(source.folder):
            self._copy = tempfile.TemporaryFile(dir=source.folder, buffering=0)  # noqa: SIM115

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, begin + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer).cast("B")
        stop = min(self._position + len(view), self._size)
        if stop <= self._position:
            return 0
        self._fetch(self._position, stop)
        got = os.preadv(self._copy.fileno(), [view[: stop - self._position]], self._position)
        self._position += got
        return got

    def _fetch(self, start: int, stop: int) -> None:
        blocks = range(start // _BLOCK_BYTES, -(-stop // _BLOCK_BYTES))
        missing = [block for block in blocks if block not in self._fetched]
        if missing:
            ranges = [
                Piece(block * _BLOCK_BYTES, min((block + 1) * _BLOCK_BYTES, self._size))
                for block in missing
            ]
            with writing(self._file.uri):
                copy_ranges(self._file, ranges, self._copy.fileno(), None)
            self._fetched.update(missing)

    def close(self) -> None:
        self._copy.close()
        super().close()
