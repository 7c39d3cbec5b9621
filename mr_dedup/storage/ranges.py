"""Read ranges of a remote file as from a local one: for formats that are read here and there."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mr_dedup.files.io_errors import writing
from mr_dedup.storage.fetching import Piece, copy_ranges, require_unchanged, stream
from mr_dedup.storage.listing import RemoteFile
from mr_dedup.storage.web import NoRangesError

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
        self._file, self._folder = source.file, source.folder
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
            with writing(self._folder):
                try:
                    copy_ranges(self._file, self._ranges(missing), self._copy.fileno(), None)
                except NoRangesError:
                    # it sends a whole file for each block, so it is read once
                    missing = list(range(-(-self._size // _BLOCK_BYTES)))
                    stream(self._file, self._copy.fileno())
            # a store that does not check the version itself
            require_unchanged(self._file)
            self._fetched.update(missing)

    def _ranges(self, blocks: Sequence[int]) -> list[Piece]:
        """Return the pieces of consecutive blocks: one request for several blocks."""
        ranges: list[Piece] = []
        for block in blocks:
            start, stop = block * _BLOCK_BYTES, min((block + 1) * _BLOCK_BYTES, self._size)
            if ranges and ranges[-1].stop == start:
                start = ranges.pop().start
            ranges.append(Piece(start, stop))
        return ranges

    def close(self) -> None:
        self._copy.close()
        super().close()
