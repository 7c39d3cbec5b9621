"""The groups of documents that a job of pairs compares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.jobs.side_table import SideTable, rows_between

WHOLE = 2
"""The side of documents that are paired with all; those of sides 0 and 1 only with the other."""


@dataclass(frozen=True)
class GroupedRows(SideTable):
    """A row for each document and group that it is in.

    Attributes:
        numbers: int64[n], of documents, ascending.
        keys: int64[n], the reduce keys of groups.
        sides: int64[n], 0, 1 or WHOLE.
        lengths: int64[n], of texts in bytes.
    """

    numbers: NDArray[np.int64]
    keys: NDArray[np.int64]
    sides: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def between(self, start: int, stop: int) -> GroupedRows:
        """Return the rows of documents ``start`` to ``stop``."""
        return self.chosen(rows_between(self.numbers, start, stop))
