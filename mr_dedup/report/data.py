"""The data of the report of a de-duplication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Totals:
    """Counts of documents.

    Args:
        read: all documents; each is kept or dropped.
        rejected: records that could not be read as documents.
        kept: documents that are kept.
        dropped: documents that are dropped, by reason.
        earlier: documents of earlier runs that they were compared with, not counted elsewhere.
        for_earlier: dropped documents that duplicate one of an earlier run.
        in_split_clusters: documents, earlier ones too, in clusters that were split, so that
            near-duplicates among them may be kept.

    Raises:
        ValueError: for counts that contradict each other.
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
        """Dropped documents, for any reason."""
        return sum(self.dropped.values())


class Share(NamedTuple):
    """How many documents have a value in a field, and how many of these were dropped."""

    value: str
    documents: int
    dropped: int


class LargeCluster(NamedTuple):
    """A cluster: the number of its documents and of those kept, and the ids of some.

    ``earlier`` of its documents, all kept, are from earlier runs.
    """

    cluster: int
    documents: int
    kept: int
    examples: Sequence[str]
    earlier: int = 0


class Sample(NamedTuple):
    """A dropped document beside the kept document that it duplicates.

    ``similarity`` is None if the texts were not compared; ``earlier`` is the earlier result that
    the kept document is from, None if it is from this run.
    """

    id: str
    kept_id: str
    distance: int
    similarity: float | None
    text: str
    kept_text: str
    earlier: str | None = None


@dataclass(frozen=True)
class ReportData:
    """The data of a report; tables keep their order.

    Args:
        title: the title of the page.
        options: names and values of the options of the run.
        totals: counts of documents.
        cluster_sizes: documents of each cluster of two and more, int64[c].
        distances: of dropped documents from the kept ones, in bits, uint8[d].
        similarities: of dropped documents to the kept ones, float64[d]; NaN where texts were not
            compared.
        fingerprints: all fingerprints or a sample, uint64[f].
        shares: tables of documents by a field, or by ``"host"``.
        largest: the largest clusters.
        samples: dropped documents beside those that they duplicate.

    Raises:
        ValueError: for arrays of other types, and for values out of range.
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
        # comparisons with NaN are false
        lowest = np.fmin.reduce(self.similarities, initial=1.0)
        highest = np.fmax.reduce(self.similarities, initial=0.0)
        if lowest < 0 or highest > 1:
            raise ValueError(f"similarities: expected 0 to 1, got {lowest} to {highest}")
