"""The report of a de-duplication, from what its stages left."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.clusters.decisions import Reason
from mr_dedup.clusters.suspects import (
    LISTED,
    MIN_DOCUMENTS,
    TEMPLATES,
    ClusterMembers,
    losing_sources,
    most_dropped,
    template_clusters,
)
from mr_dedup.formats.parts import part_batches, read_parts
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.report_counts import EXAMPLES, LARGEST
from mr_dedup.jobs.shares import DIRECTORY, HOST, Share, ShareCounter, directories, hosts
from mr_dedup.pipeline.dedup_stages.files import CLUSTERS, DECISIONS, ROWS, SAMPLES, SHOWN
from mr_dedup.pipeline.document_rows import row_batches
from mr_dedup.pipeline.summary import StageSummary, Warnings
from mr_dedup.report.data import Cluster, ReportData, Sample, in_order, run_of, totals_of
from mr_dedup.report.histograms import Distributions
from mr_dedup.report.html import write_report

_VALUES = 50

_DECISIONS = (
    "id", "cluster", "kept_id", "distance_bits", "similarity", "reason", "earlier_result",
)  # fmt: skip
"""The columns of decisions that a report shows."""

_ROWS_AT_ONCE = 1 << 14

_KEPT = pa.array([reason.key for reason in Reason if reason.is_kept])


def write_dedup_report(
    file: BinaryIO,
    folder: Path,
    summary: StageSummary,
    options: Sequence[tuple[str, str]],
    share_by: Sequence[str],
    names_below: str = "",
) -> Warnings:
    """Write the report of the run whose stages are in ``folder``; see ``report_data``.

    Returns what the user should look at.
    """
    data = report_data(folder, summary, options, share_by, names_below)
    write_report(file, data)
    return data.warnings


def report_data(
    folder: Path,
    summary: StageSummary,
    options: Sequence[tuple[str, str]],
    share_by: Sequence[str],
    names_below: str = "",
) -> ReportData:
    """Return what the report of the run shows whose stages are in ``folder``.

    In memory: some 16,384 documents at a time, 8 bytes a document and 9 a dropped one, 29 bytes a
    document of a cluster of 20 and more, a table of the clusters, and each distinct host and value
    of ``share_by``.
    """
    earlier = summary["earlier_documents"]
    clusters = read_parts(folder / CLUSTERS)
    sizes = clusters["documents"].to_numpy() + clusters["earlier_documents"].to_numpy()
    pairs = json.loads((folder / SAMPLES).read_bytes())
    sampled = {number - earlier: kept for number, kept in pairs}
    listed = _listed(clusters, sizes, _clusters_of(folder, list(sampled)))
    large = clusters.filter(pc.greater_equal(clusters["documents"], MIN_DOCUMENTS))["cluster"]
    gathered = _ReportScan(listed, list(sampled), one_array(large), names_below)
    for batch in part_batches(folder / DECISIONS, _DECISIONS, _ROWS_AT_ONCE):
        gathered.add(batch)
    rows = row_batches(folder / ROWS, ["fingerprint", "length", *share_by], earlier, _ROWS_AT_ONCE)
    found = _of_rows(rows, gathered, share_by)
    texts = json.loads((folder / SHOWN).read_bytes())
    for number, kept in sampled.items():
        gathered.compare(number, texts[str(number + earlier)], texts[str(kept)])
    return ReportData(
        title="De-duplication",
        run=run_of(options, summary),
        options=options,
        totals=totals_of(summary, found.kept_bytes, found.dropped_bytes),
        distributions=Distributions.of_values(
            sizes,
            np.concatenate([np.empty(0, np.uint8), *gathered.distances]),
            np.concatenate([np.empty(0), *gathered.similarities]),
            found.fingerprints,
        ),
        shares=[*gathered.shares(), *found.shares],
        clusters=in_order([gathered.cluster(row) for row in listed]),
        warnings=_warnings(gathered.templates(), [*gathered.losing(), *found.losing]),
    )


def _warnings(templates: pa.Table, sources: Sequence[pa.Table]) -> Warnings:
    """Return what the user should look at: the largest of all."""
    losing = most_dropped(pa.concat_tables(sources))
    return {
        "template_clusters": len(templates),
        "template_clusters_listed": templates.slice(0, LISTED).to_pylist(),
        "losing_sources": len(losing),
        "losing_sources_listed": losing.slice(0, LISTED).to_pylist(),
    }


def _clusters_of(folder: Path, numbers: Sequence[int]) -> list[int]:
    """Return the clusters of documents."""
    found, wanted, first = [], np.sort(numbers), 0
    for batch in part_batches(folder / DECISIONS, ["cluster"], _ROWS_AT_ONCE):
        these = slice(*wanted.searchsorted([first, first + len(batch)]))
        found += batch["cluster"].take(pa.array(wanted[these] - first, pa.int64())).to_pylist()
        first += len(batch)
    return found


def _listed(
    clusters: pa.Table, sizes: NDArray[np.int64], sampled: Sequence[int]
) -> list[dict[str, int]]:
    """Return the largest clusters and the ``sampled`` ones, with their ``size``."""
    clusters = clusters.append_column("size", pa.array(sizes))
    order = [("size", "descending"), ("cluster", "ascending")]
    is_listed = pc.is_in(clusters["cluster"], pa.array(sampled, pa.int64())).to_numpy()
    is_listed[pc.sort_indices(clusters, sort_keys=order)[:LARGEST].to_numpy()] = True
    found: list[dict[str, int]] = clusters.filter(pa.array(is_listed)).to_pylist()
    return found


class _ReportScan:
    """What a report shows of the decisions, which are gone through once, in batches."""

    def __init__(
        self,
        listed: Sequence[Mapping[str, int]],
        samples: Sequence[int],
        large: pa.Int64Array,
        names_below: str,
    ) -> None:
        """Look for examples of the ``listed`` clusters, and the documents numbered ``samples``.

        And for all documents of the clusters ``large``. Directories are those of ``names_below``.
        """
        self._names_below = names_below
        self._large = large
        self._members: list[pa.RecordBatch] = []
        self.dropped: list[NDArray[np.bool_]] = []
        self.distances: list[NDArray[np.uint8]] = []
        self.similarities: list[NDArray[np.float64]] = []
        self._sources = {HOST: ShareCounter(), DIRECTORY: ShareCounter()}
        self._examples: dict[int, list[str]] = {row["cluster"]: [] for row in listed}
        self._reasons: dict[int, list[Reason]] = {row["cluster"]: [] for row in listed}
        self._lowest: dict[int, float] = {}
        self._compared: dict[int, list[Sample]] = {row["cluster"]: [] for row in listed}
        self._wanted = sorted(samples)
        self._samples: dict[int, dict[str, Any]] = {}
        self._first = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take decisions, in order."""
        is_dropped = batch["distance_bits"].is_valid()
        dropped = is_dropped.to_numpy(zero_copy_only=False)
        of_dropped = batch.select(["distance_bits", "similarity"]).filter(is_dropped)
        self.dropped.append(dropped)
        self.distances.append(of_dropped["distance_bits"].to_numpy())
        similarities = of_dropped["similarity"].fill_null(float("nan"))
        self.similarities.append(similarities.to_numpy())
        names = {HOST: hosts(batch["id"]), DIRECTORY: directories(batch["id"], self._names_below)}
        for field, values in names.items():
            self._sources[field].add(values, dropped)
        self._find_members(batch, pc.coalesce(*names.values()))
        self._find_examples(batch)
        self._find_samples(batch)
        self._first += len(batch)

    def _find_examples(self, batch: pa.RecordBatch) -> None:
        is_in = pc.is_in(batch["cluster"], pa.array(self._examples, pa.int64()))
        members = batch.select(["id", "cluster", "similarity", "reason"]).filter(is_in)
        for cluster in pc.unique(members["cluster"]).to_pylist():
            of_cluster = members.filter(pc.equal(members["cluster"], cluster))
            lowest = pc.min(of_cluster["similarity"]).as_py()
            if lowest is not None:
                self._lowest[cluster] = min(lowest, self._lowest.get(cluster, 1.0))
            missing = EXAMPLES - len(self._examples[cluster])
            first = of_cluster.slice(0, missing)
            self._examples[cluster] += first["id"].to_pylist()
            self._reasons[cluster] += [Reason[key.upper()] for key in first["reason"].to_pylist()]

    def _find_members(self, batch: pa.RecordBatch, names: pa.LargeStringArray) -> None:
        some = pc.is_in(batch["cluster"], value_set=self._large)
        members = batch.select(["cluster", "similarity", "reason"])
        self._members.append(members.append_column("host", names.dictionary_encode()).filter(some))

    def templates(self) -> pa.Table:
        """Return the clusters that look like templates."""
        if not self._members:
            return TEMPLATES.empty_table()
        members = pa.Table.from_batches(self._members)
        return template_clusters(
            ClusterMembers(
                members["cluster"].to_numpy(),
                one_array(members["host"].cast(pa.large_string())),
                pc.is_in(members["reason"], value_set=_KEPT).to_numpy(),
                members["similarity"].fill_null(np.nan).to_numpy(),
            )
        )

    def losing(self) -> list[pa.Table]:
        """Return the hosts, and directories, that lose most of their documents."""
        return [losing_sources(name, each.table()) for name, each in self._sources.items()]

    def _find_samples(self, batch: pa.RecordBatch) -> None:
        for number in self._wanted:
            if self._first <= number < self._first + len(batch):
                (self._samples[number],) = batch.slice(number - self._first, 1).to_pylist()

    def shares(self) -> list[tuple[str, list[Share]]]:
        """Return the shares by host, and by directory, if ids are URLs, or paths."""
        shares = [(name, each.most_common(_VALUES)) for name, each in self._sources.items()]
        return [(name, values) for name, values in shares if values]

    def cluster(self, row: Mapping[str, int]) -> Cluster:
        """Return a listed cluster with its examples and samples."""
        cluster, earlier = row["cluster"], row["earlier_documents"]
        return Cluster(
            cluster=cluster,
            documents=row["size"],
            kept=row["documents_kept"] + earlier,
            examples=self._examples[cluster],
            earlier=earlier,
            similarity=self._lowest.get(cluster),
            samples=self._compared[cluster],
            reasons=self._reasons[cluster],
        )

    def compare(self, number: int, text: str, kept_text: str) -> None:
        """Take the texts of a sample and of the kept document that it duplicates."""
        row = self._samples[number]
        sample = Sample(
            id=row["id"],
            kept_id=row["kept_id"],
            distance=row["distance_bits"],
            similarity=row["similarity"],
            text=text,
            kept_text=kept_text,
            earlier=row["earlier_result"],
        )
        self._compared[row["cluster"]].append(sample)


class _OfRows(NamedTuple):
    """The fingerprints of documents, the sizes of their texts, and the shares by their fields.

    And the values of fields that lose most of their documents.
    """

    fingerprints: NDArray[np.uint64]
    kept_bytes: int
    dropped_bytes: int
    shares: list[tuple[str, list[Share]]]
    losing: list[pa.Table]


def _of_rows(
    batches: Iterator[pa.RecordBatch], gathered: _ReportScan, share_by: Sequence[str]
) -> _OfRows:
    fingerprints = [np.empty(0, np.uint64)]
    counters = {name: ShareCounter() for name in share_by}
    dropped = np.concatenate([np.empty(0, np.bool_), *gathered.dropped])
    first = all_bytes = dropped_bytes = 0
    for batch in batches:
        values = batch["fingerprint"].drop_null().to_numpy().view(np.uint64)
        # not the batch's own, which has more
        fingerprints.append(values.copy())
        of_batch = dropped[first : first + len(batch)]
        lengths = batch["length"].to_numpy()
        all_bytes += int(lengths.sum())
        dropped_bytes += int(lengths[of_batch].sum())
        for name, counter in counters.items():
            counter.add(batch[name], of_batch)
        first += len(batch)
    shares = [(name, counter.most_common(_VALUES)) for name, counter in counters.items()]
    losing = [losing_sources(name, counter.table()) for name, counter in counters.items()]
    kept_bytes = all_bytes - dropped_bytes
    return _OfRows(np.concatenate(fingerprints), kept_bytes, dropped_bytes, shares, losing)
