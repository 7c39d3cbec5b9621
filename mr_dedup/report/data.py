"""The data of the report of a de-duplication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mr_dedup.clusters.decisions import Reason
from mr_dedup.jobs.shares import Share
from mr_dedup.pipeline.summary import StageSummary
from mr_dedup.report.histograms import Distributions


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


def totals_of(summary: StageSummary) -> Totals:
    """Return the counts of a report."""
    return Totals(
        read=summary["documents_read"],
        rejected=summary["rejected_records"],
        kept=summary["documents_kept"],
        dropped={
            reason.phrase: summary["reasons"][reason.key]
            for reason in Reason
            if summary["reasons"][reason.key] and not reason.is_kept
        },
        earlier=summary["earlier_documents"],
        for_earlier=summary["documents_dropped_for_earlier"],
        in_split_clusters=summary["documents_in_split_clusters"],
    )


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
        distributions: of the sizes of clusters, distances, similarities, and fingerprints.
        shares: tables of documents by a field, or by ``"host"``.
        largest: the largest clusters.
        samples: dropped documents beside the kept ones that they duplicate.
    """

    title: str
    options: Sequence[tuple[str, str]]
    totals: Totals
    distributions: Distributions
    shares: Sequence[tuple[str, Sequence[Share]]] = ()
    largest: Sequence[LargeCluster] = ()
    samples: Sequence[Sample] = ()
