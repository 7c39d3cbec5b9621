"""The documents that are in clusters, as the resolve job needs them for each chunk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.tables import read_side_file, write_side_file


@dataclass(frozen=True)
class ClusteredRows:
    """The n documents that are in clusters.

    Attributes:
        numbers: int64[n], among all documents, ascending.
        fingerprints, labels: uint64[n]; the label of the cluster.
        lengths: int64[n], of texts in bytes.
        ranges: The number of the first document of each chunk, and the one after its last.
    """

    numbers: NDArray[np.int64]
    fingerprints: NDArray[np.uint64]
    labels: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    ranges: dict[int, tuple[int, int]]

    def of(self, chunk: int) -> tuple[ClusteredRows, int]:
        """Return the rows of a chunk, numbered from its first document, and how many it has."""
        start, stop = self.ranges.get(chunk, (0, 0))
        rows = self.between(start, stop)
        return rows, stop - start

    def take(self, order: NDArray[np.int64]) -> ClusteredRows:
        """Return the rows ``order``, in that order."""
        return ClusteredRows(
            self.numbers[order],
            self.fingerprints[order],
            self.labels[order],
            self.lengths[order],
            {},
        )

    def between(self, start: int, stop: int) -> ClusteredRows:
        """Return the rows of documents ``start`` to ``stop``, numbered from ``start``."""
        these = slice(*np.searchsorted(self.numbers, [start, stop]).tolist())
        return ClusteredRows(
            self.numbers[these] - start,
            self.fingerprints[these],
            self.labels[these],
            self.lengths[these],
            {},
        )

    @classmethod
    def read(cls, path: Path) -> ClusteredRows:
        """Return what ``write`` wrote; raises FormatError where it is damaged."""
        table, metadata = read_side_file(path, _COLUMNS)
        ranges = {int(chunk): tuple(range) for chunk, range in metadata["ranges"].items()}
        columns = {name: table[name].to_numpy() for name in _COLUMNS}
        return cls(**columns, ranges=ranges)

    def write(self, path: Path) -> None:
        """Write them to ``path``, a side file."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        write_side_file(path, columns, {"ranges": self.ranges})


_COLUMNS = ("numbers", "fingerprints", "labels", "lengths")
