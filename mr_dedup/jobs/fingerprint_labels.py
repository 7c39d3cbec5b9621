"""The labels of fingerprints that are in clusters, and their file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.clusters.components import Ranks
from mr_dedup.errors import FormatError
from mr_dedup.formats.tables import read_table


class Labels:
    """The fingerprints that are in clusters of several documents, and their labels."""

    def __init__(self, fingerprints: NDArray[np.uint64], labels: NDArray[np.uint64]) -> None:
        """Take aligned arrays; ``fingerprints`` strictly ascending."""
        self.fingerprints = fingerprints
        self.labels = labels
        self._ranks: Ranks | None = None

    @classmethod
    def read(cls, path: Path) -> Labels:
        """Return what ``write`` wrote; raises FormatError where it is damaged."""
        try:
            table = read_table(path)
            return cls(table["fingerprint"].to_numpy(), table["label"].to_numpy())
        except (pa.ArrowException, OSError, KeyError) as error:
            raise FormatError(path, None, f"not a file of labels: {error}") from error

    def write(self, path: Path) -> None:
        """Write them to ``path``, Parquet with checksums."""
        table = pa.table({"fingerprint": self.fingerprints, "label": self.labels})
        pq.write_table(table, path, write_page_checksum=True, use_dictionary=False)

    def of(self, fingerprints: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the label of each of ``fingerprints``, and whether there is one."""
        if not self.fingerprints.size:
            return np.zeros(fingerprints.size, np.uint64), np.zeros(fingerprints.size, bool)
        if self._ranks is None:
            self._ranks = Ranks(self.fingerprints)
        ranks = self._ranks.of(fingerprints)
        return self.labels[ranks], ranks >= 0
