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
    """

    read: int
    rejected: int
    kept: int
    dropped: Mapping[str, int]
    earlier: int = 0
    for_earlier: int = 0
    in_split_clusters: int = 0

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
        distances: of dropped documents from the kept ones that they duplicate, in bits, uint8[d].
        similarities: of dropped documents to the same, float64[d]; NaN where texts were not
            compared.
        fingerprints: all fingerprints or a sample, uint64[f].
        shares: tables of documents by a field, or by ``"host"``.
        largest: the largest clusters.
        samples: dropped documents beside the kept ones that they duplicate.
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
