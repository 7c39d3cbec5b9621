"""The data of the report of a de-duplication."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import NamedTuple

from mr_dedup.clusters.decisions import Reason
from mr_dedup.features.options import FeatureOptions
from mr_dedup.formats.documents.rejects import SKIP_PHRASES
from mr_dedup.jobs.shares import Share
from mr_dedup.pipeline.summary import StageSummary, Warnings
from mr_dedup.report.histograms import Distributions


class Run(NamedTuple):
    """How a run was made; texts are those of its options.

    Attributes:
        documents: the inputs.
        methods: the methods that find candidates.
        keep: the policies that order the documents of a cluster.
        similarity: the minimum similarity of a dropped text and a kept one; None if texts were
            not compared.
        is_containment: whether that is the share of the shingles of the dropped text that the kept
            one has, not their Jaccard index.
        shingles: the unit and length of what texts are compared by, in words; empty if unknown.
        version: the version of mr_dedup.
        recalls: names of methods, and the probability that each finds a pair of ``similarity``.
        made: when the report was made, in UTC; None if that is not known.
    """

    documents: str
    methods: str
    keep: str
    similarity: str | None
    shingles: str
    version: str
    recalls: Sequence[tuple[str, float]] = ()
    made: datetime | None = None
    is_containment: bool = False


def made_now() -> datetime:
    """Return the time of a report, which SOURCE_DATE_EPOCH sets."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return datetime.fromtimestamp(seconds, timezone.utc)


def run_of(options: Sequence[tuple[str, str]], summary: StageSummary) -> Run:
    """Return how a run with ``options`` was made, whose report is made now.

    If the environment variable SOURCE_DATE_EPOCH is set, its time stands for now, so that equal
    runs have equal reports.
    """
    said = dict(options)
    shingles = said.get("shingles", "")
    measure, _, similarity = said.get("verify", "off").rpartition(":")
    return Run(
        documents=said.get("documents", ""),
        methods=said.get("methods", ""),
        keep=said.get("keep", ""),
        similarity=None if similarity == "off" else similarity,
        shingles=FeatureOptions.parse(shingles, "binary").described_shingles if shingles else "",
        version=said.get("mr_dedup", ""),
        recalls=[(each["method"], each["recall"]) for each in summary["expected_recalls"]],
        made=made_now(),
        is_containment=measure == "contained",
    )


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
        kept_bytes: the size of the texts of kept documents, in UTF-8.
        dropped_bytes: that of dropped ones.
        skipped: records that are no documents, by what they were skipped for.
        incomplete_files: files that could not be read to the end.
        without_text: valid records whose text is null, which are no documents.
        empty: documents whose text is empty or white space.
        oversized_keys: keys of more documents than are all compared with one another.
        retained: kept documents that are near-duplicates of another kept one, by reason.
        pages: pages of HTML.
        cut_share: of their texts, the mean share that is not main content.
        skipped_files: files of other kinds, by ending.
        few_words: documents of fewer words than ``below_words``, two of which cannot differ.
        below_words: the number, if over half of the documents have fewer; else 0.
    """

    read: int
    rejected: int
    kept: int
    dropped: Mapping[str, int]
    earlier: int = 0
    for_earlier: int = 0
    in_split_clusters: int = 0
    kept_bytes: int = 0
    dropped_bytes: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    incomplete_files: int = 0
    without_text: int = 0
    empty: int = 0
    oversized_keys: int = 0
    retained: Mapping[str, int] = field(default_factory=dict)
    pages: int = 0
    cut_share: float = 0.0
    skipped_files: Mapping[str, int] = field(default_factory=dict)
    few_words: int = 0
    below_words: int = 0

    @property
    def all_dropped(self) -> int:
        """Dropped documents, for any reason."""
        return sum(self.dropped.values())


def totals_of(summary: StageSummary, kept_bytes: int, dropped_bytes: int) -> Totals:
    """Return the counts of a report, given the sizes of all kept and all dropped texts."""
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
        kept_bytes=kept_bytes,
        dropped_bytes=dropped_bytes,
        skipped={SKIP_PHRASES[why]: count for why, count in summary["skipped_records"].items()},
        incomplete_files=summary["incomplete_files"],
        without_text=summary["documents_without_text"],
        empty=summary["documents_empty"],
        oversized_keys=summary["oversized_keys"],
        retained={
            reason.phrase: summary["reasons"][reason.key]
            for reason in (Reason.AMONG_FIRST, Reason.SAMPLED)
            if summary["reasons"].get(reason.key)
        },
        pages=summary.get("html_pages", 0),
        cut_share=summary.get("html_cut_share", 0.0),
        skipped_files=summary.get("skipped_files_by_ending", {}),
        few_words=summary.get("documents_of_few_words", 0),
        below_words=summary.get("short_below_words", 0),
    )


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


class Cluster(NamedTuple):
    """A cluster that is listed.

    Attributes:
        cluster: its number.
        documents: how many documents it has.
        kept: how many of these are kept.
        examples: the ids of its first documents in this run.
        reasons: why each of these is kept or dropped.
        earlier: how many of the documents, all kept, are from earlier runs.
        similarity: the lowest similarity of a dropped document to the kept one that it duplicates;
            None if none is dropped, or no texts were compared.
        samples: some of its dropped documents.
    """

    cluster: int
    documents: int
    kept: int
    examples: Sequence[str]
    earlier: int = 0
    similarity: float | None = None
    samples: Sequence[Sample] = ()
    reasons: Sequence[Reason] = ()


def in_order(clusters: Sequence[Cluster]) -> list[Cluster]:
    """Return clusters as they are listed: those with samples by similarity, the others by size."""

    def key(cluster: Cluster) -> tuple[bool, float, int, int]:
        similarity = (cluster.similarity or 0.0) if cluster.samples else 0.0
        return not cluster.samples, similarity, -cluster.documents, cluster.cluster

    return sorted(clusters, key=key)


def no_warnings() -> Warnings:
    """Return that there is nothing to look at."""
    return {
        "template_clusters": 0,
        "template_clusters_listed": [],
        "losing_sources": 0,
        "losing_sources_listed": [],
    }


@dataclass(frozen=True)
class ReportData:
    """The data of a report; tables keep their order.

    Args:
        title: the title of the page.
        run: how the run was made.
        options: names and values of the options of the run.
        totals: counts of documents.
        distributions: of the sizes of clusters, distances, similarities, and fingerprints.
        shares: tables of documents by a field, or by ``"host"``.
        clusters: the largest clusters, and those of samples.
        warnings: what to look at before the result is used.
    """

    title: str
    run: Run
    options: Sequence[tuple[str, str]]
    totals: Totals
    distributions: Distributions
    shares: Sequence[tuple[str, Sequence[Share]]] = ()
    clusters: Sequence[Cluster] = ()
    warnings: Warnings = field(default_factory=no_warnings)
