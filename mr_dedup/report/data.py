"""What the report of a de-duplication shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Totals:
    """What became of all documents.

    Each that was ``read`` is ``kept``, or ``dropped`` for a reason, such as near-duplicate. The
    ``rejected`` records were never read as documents.
    All were compared with so many ``earlier`` documents, which are not counted elsewhere; of the
    dropped so many are ``for_earlier`` ones. Of documents ``in_split_clusters``, earlier ones too,
    near-duplicates may be kept. Raises ValueError for numbers that do not add up.
    """

    read: int
    rejected: int
    kept: int
    dropped: Mapping[str, int]
    earlier: int = 0
    for_earlier: int = 0
    in_split_clusters: int = 0

    def __post_init__(self) -> None:
        for name in (
            "read", "rejected", "kept", "earlier", "for_earlier", "in_split_clusters",
        ):  # fmt: skip
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")
        for reason, count in self.dropped.items():
            if count < 0:
                raise ValueError(f"dropped[{reason!r}] must be at least 0, not {count}")
        if self.kept + self.all_dropped != self.read:
            raise ValueError(
                f"kept, dropped: {self.kept} and {self.all_dropped} are not the {self.read} read"
            )
        if self.in_split_clusters > self.read + self.earlier:
            raise ValueError(
                f"in_split_clusters: expected at most the {self.read + self.earlier} read and "
                f"earlier, got {self.in_split_clusters}"
            )
        if self.for_earlier > (self.all_dropped if self.earlier else 0):
            raise ValueError(
                f"for_earlier: {self.for_earlier} of {self.all_dropped} dropped, for one of "
                f"{self.earlier} earlier documents"
            )

    @property
    def all_dropped(self) -> int:
        """Dropped documents, whatever the reason."""
        return sum(self.dropped.values())


class Share(NamedTuple):
    """Of so many documents that have a value in a field, how many were dropped."""

    value: str
    documents: int
    dropped: int


class LargeCluster(NamedTuple):
    """A cluster, how many documents it has and keeps, and the ids of some.

    ``earlier`` of them, all kept, are of earlier runs.
    """

    cluster: int
    documents: int
    kept: int
    examples: Sequence[str]
    earlier: int = 0


class Sample(NamedTuple):
    """A dropped document beside its keeper; ``similarity`` None if texts were not compared.

    ``earlier`` names the earlier result that the keeper is of, if it is of one.
    """

    id: str
    keeper: str
    distance: int
    similarity: float | None
    text: str
    keeper_text: str
    earlier: str | None = None


@dataclass(frozen=True)
class ReportData:
    """All that a report shows; tables are shown in the order given.

    ``options`` say what was run, a name and a value each. ``cluster_sizes`` int64[c] are those of
    clusters of two documents and more; ``distances`` uint8[d], in bits, and ``similarities``
    float64[d], NaN where texts were not compared, those of dropped documents to their keepers.
    ``fingerprints`` uint64[f] are all, or a sample. ``shares`` are by field, or ``"host"``.

    Raises ValueError for columns of other types, and for numbers that cannot be.
    """

    title: str
    options: Sequence[tuple[str, str]]
    totals: Totals
    cluster_sizes: NDArray[np.int64]
    distances: NDArray[np.uint8]
    similarities: NDArray[np.float64]
    fingerprints: NDArray[np.uint64]
    shares: Sequence[tuple[str, Sequence[Share]]] = ()
    largest: Sequence[LargeCluster] = ()
    samples: Sequence[Sample] = ()

    def __post_init__(self) -> None:
        self._check_columns()
        for field, values in self.shares:
            for value, documents, dropped in values:
                if not 0 <= dropped <= documents or not documents:
                    raise ValueError(f"shares: {dropped} of {documents} for {field} {value!r}")
        for cluster, documents, kept, _, earlier in self.largest:
            if not 0 <= earlier <= kept <= documents:
                raise ValueError(f"largest: {kept} of {documents} kept of cluster {cluster}")
        for sample in self.samples:
            if not 0 <= sample.distance <= 64:
                raise ValueError(f"samples: a distance of {sample.distance} bits")
            if sample.similarity is not None and not 0 <= sample.similarity <= 1:
                raise ValueError(f"samples: a similarity of {sample.similarity}")

    def _check_columns(self) -> None:
        for name, dtype in (
            ("cluster_sizes", np.int64),
            ("distances", np.uint8),
            ("similarities", np.float64),
            ("fingerprints", np.uint64),
        ):
            column = getattr(self, name)
            if column.dtype != dtype or column.ndim != 1:
                raise ValueError(f"{name}: expected {np.dtype(dtype)}[n], got {column.dtype}")
        if (self.cluster_sizes < 2).any():
            raise ValueError(f"cluster_sizes: expected 2 and more, got {self.cluster_sizes.min()}")
        if self.distances.size and self.distances.max() > 64:
            raise ValueError(f"distances: expected at most 64 bits, got {self.distances.max()}")
        if self.distances.size != self.totals.all_dropped:
            raise ValueError(
                f"distances: expected one for each of {self.totals.all_dropped} dropped "
                f"documents, got {self.distances.size}"
            )
        if self.similarities.shape != self.distances.shape:
            raise ValueError(
                f"similarities: expected {self.distances.size}, got {self.similarities.size}"
            )
        # NaN is smaller and larger than nothing
        lowest = np.fmin.reduce(self.similarities, initial=1.0)
        highest = np.fmax.reduce(self.similarities, initial=0.0)
        if lowest < 0 or highest > 1:
            raise ValueError(f"similarities: expected 0 to 1, got {lowest} to {highest}")
