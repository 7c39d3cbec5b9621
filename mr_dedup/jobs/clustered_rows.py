"""The documents that are in clusters, as the resolve job needs them for each chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mr_dedup.jobs.side_table import SideTable, rows_between


@dataclass(frozen=True)
class ClusteredRows(SideTable):
    """The n documents that are in clusters.

    Attributes:
        numbers: int64[n], among all documents, ascending.
        fingerprints, labels: uint64[n]; the label of the cluster.
        lengths: int64[n], of texts in bytes.
    """

    numbers: NDArray[np.int64]
    fingerprints: NDArray[np.uint64]
    labels: NDArray[np.uint64]
    lengths: NDArray[np.int64]

    def of(self, chunk: int) -> tuple[ClusteredRows, int]:
        """Return the rows of a chunk, numbered from its first document, and how many it has."""
        start, stop = self.ranges.get(chunk, (0, 0))
        rows = self.between(start, stop)
        return rows, stop - start

    def between(self, start: int, stop: int) -> ClusteredRows:
        """Return the rows of documents ``start`` to ``stop``, numbered from ``start``."""
        chosen = self.chosen(rows_between(self.numbers, start, stop))
        return replace(chosen, numbers=chosen.numbers - start)
