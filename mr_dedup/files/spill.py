"""Spill arrays to disk, by part, where a task has more than fits its memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import reason_of
from mr_dedup.files.outputs import write_fully
from mr_dedup.files.temporary import temporary_folder

_ROWS_AT_ONCE = 1 << 18
"""Rows that are read at a time."""


class Spill:
    """Rows of uint64 numbers, one temporary file per part; a context manager.

    Rows are written at once, and nothing is kept in memory. Raises MrDedupError, naming the
    directory, where the disk is full.
    """

    def __init__(self, columns: int = 1) -> None:
        self._columns = columns
        self._rows: dict[int, int] = {}

    def __enter__(self) -> Spill:
        self._stack = contextlib.ExitStack()
        self._folder = self._stack.enter_context(temporary_folder())
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def rows(self) -> dict[int, int]:
        """The number of rows of each part, by its number, ascending."""
        return dict(sorted(self._rows.items()))

    def append(self, part: int, columns: Sequence[NDArray[np.uint64]]) -> None:
        """Append rows to a part; ``columns`` are uint64[n] each."""
        # not tofile, which ignores a full disk
        with self._naming_folder(), self._path(part).open("ab", buffering=0) as file:
            write_fully(file, np.column_stack(columns).tobytes())
        self._rows[part] = self._rows.get(part, 0) + columns[0].size

    def read(self, part: int) -> Iterator[list[NDArray[np.uint64]]]:
        """Yield the columns of a part, some rows at a time, in the order of ``append``."""
        left = self._rows.get(part, 0)
        if left == 0:
            return
        with self._naming_folder(), self._path(part).open("rb") as file:
            while left:
                count = min(left, _ROWS_AT_ONCE)
                rows = np.empty((count, self._columns), dtype=np.uint64)
                if file.readinto(rows.data.cast("B")) != rows.nbytes:
                    raise OSError(f"file {part} is cut short")
                left -= count
                yield list(np.ascontiguousarray(rows.T))

    def remove(self, part: int) -> None:
        """Delete the file of a part."""
        if self._rows.pop(part, 0):
            with self._naming_folder():
                self._path(part).unlink()

    def _path(self, part: int) -> Path:
        return self._folder / str(part)

    @contextlib.contextmanager
    def _naming_folder(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise MrDedupError(f"temporary directory {self._folder}: {reason_of(error)}") from error
