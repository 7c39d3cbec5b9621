"""The groups of documents that a job of pairs compares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.tables import read_side_file, write_side_file

WHOLE = 2
"""The side of documents that are paired with all; those of sides 0 and 1 only with the other."""

_COLUMNS = ("numbers", "keys", "sides", "lengths")


@dataclass(frozen=True)
class GroupedRows:
    """A row for each document and group that it is in.

    Attributes:
        numbers: int64[n], of documents, ascending.
        keys: int64[n], the reduce keys of groups.
        sides: int64[n], 0, 1 or WHOLE.
        lengths: int64[n], of texts in bytes.
        ranges: The number of the first document of each chunk, and the one after its last.
    """

    numbers: NDArray[np.int64]
    keys: NDArray[np.int64]
    sides: NDArray[np.int64]
    lengths: NDArray[np.int64]
    ranges: dict[int, tuple[int, int]]

    def between(self, start: int, stop: int) -> GroupedRows:
        """Return the rows of documents ``start`` to ``stop``."""
        these = slice(*np.searchsorted(self.numbers, [start, stop]).tolist())
        columns = {name: getattr(self, name)[these] for name in _COLUMNS}
        return GroupedRows(**columns, ranges=self.ranges)

    @classmethod
    def read(cls, path: Path) -> GroupedRows:
        """Return what ``write`` wrote; raises FormatError where it is damaged."""
        table, metadata = read_side_file(path, _COLUMNS)
        ranges = {int(chunk): tuple(range) for chunk, range in metadata["ranges"].items()}
        columns = {name: table[name].to_numpy() for name in _COLUMNS}
        return cls(**columns, ranges=ranges)

    def write(self, path: Path) -> None:
        """Write them to ``path``, a side file."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        write_side_file(path, columns, {"ranges": self.ranges})
