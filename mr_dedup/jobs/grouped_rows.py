"""Which documents are compared with which, by their places: what a job of pairs is told of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.tables import read_side_file, write_side_file

WHOLE = 2
"""The side of documents all of whose pairs count; those of sides 0 and 1 make pairs across."""

_COLUMNS = ("numbers", "keys", "sides", "lengths")


@dataclass(frozen=True)
class GroupedRows:
    """What goes where: n rows, as many of a document as it goes to reduce keys.

    ``numbers`` int64[n] are places among all documents, ascending, ``keys`` int64[n] reduce keys,
    ``sides`` int64[n] 0, 1 or WHOLE, and ``lengths`` int64[n] those of texts in bytes. ``ranges``
    are where the documents of each chunk start and stop.
    """

    numbers: NDArray[np.int64]
    keys: NDArray[np.int64]
    sides: NDArray[np.int64]
    lengths: NDArray[np.int64]
    ranges: dict[int, tuple[int, int]]

    def between(self, start: int, stop: int) -> GroupedRows:
        """Return those whose numbers are from ``start`` to ``stop``."""
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
