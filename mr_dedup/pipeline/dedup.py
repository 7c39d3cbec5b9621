"""De-duplicate documents: fingerprints, pairs, clusters, decisions, and what is kept of them.

Each stage is a job over the documents or a computation over their fingerprints, and leaves files:

fingerprint  rows.parquet       a row a document: chunk, id, fingerprint, length; rejects.jsonl
             signatures.arrow   a row a document, if there are methods by keys
cluster      labels.parquet     the fingerprints that several documents or their neighbours have
earlier      earlier-….parquet  texts of documents that earlier runs kept, in clusters with new ones
resolve      kept.parquet       which are kept; decisions.parquet, clusters.parquet; samples.json
keep         documents/         the kept documents, as they came; fingerprints.parquet and
                                signatures.parquet, for later runs; shown.json, texts of the samples

Documents that earlier runs kept are in rows.parquet as well, before all others, so that numbers of
documents and clusters of fingerprints are those of both; they stay kept, and are not written again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mr_dedup.clusters.keep_policy import KeepPolicy
from mr_dedup.engines.engine import JobOutput
from mr_dedup.features.options import FeatureOptions
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.files import DocumentFile, DocumentFormat
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import ReadCounts
from mr_dedup.formats.outputs import whole_file
from mr_dedup.formats.tables import read_table
from mr_dedup.jobs.clustered_rows import ClusteredRows
from mr_dedup.jobs.contract import Job
from mr_dedup.jobs.fingerprint import FingerprintJob
from mr_dedup.jobs.fingerprint_labels import Labels
from mr_dedup.jobs.keep import KeepJob, Kept, has_texts
from mr_dedup.jobs.method_options import SIMHASH
from mr_dedup.jobs.reading import is_rejects, reject_lines, skipped_records
from mr_dedup.jobs.resolve import EARLIER, ResolveJob
from mr_dedup.pipeline import results
from mr_dedup.pipeline.document_clusters import MethodSignatures, cluster_documents, method_names
from mr_dedup.pipeline.document_rows import Rows, rows_schema
from mr_dedup.pipeline.earlier_texts import (
    as_documents,
    earlier_locations,
    read_earlier_texts,
    write_earlier_texts,
)
from mr_dedup.pipeline.fingerprint_clusters import UNVERIFIED, VERIFIED, JoinSettings
from mr_dedup.pipeline.kept_documents import KeptDocuments
from mr_dedup.pipeline.results import EarlierResult, write_fingerprints, write_signatures
from mr_dedup.pipeline.run_decisions import RunDecisions
from mr_dedup.pipeline.signature_rows import read_signatures, signature_writer
from mr_dedup.pipeline.stages import Stages
from mr_dedup.pipeline.summary import (
    ClusterSummary,
    DecisionSummary,
    ReadingSummary,
    StageSummary,
)
from mr_dedup.signatures.protocol import SignatureMethod

STAGES = ("fingerprint", "cluster", "earlier", "resolve", "keep")
"""In their order; the third only where there are earlier results."""


class RunJob(Protocol):
    """Runs jobs over the documents of a run, given names for their temporary folders."""

    def __call__(
        self, job: Job, name: str, earlier: Sequence[DocumentFile] = ()
    ) -> AbstractContextManager[JobOutput]:
        """Run a job over the documents, and after them over files of earlier ones.

        If there are such, the field ``earlier_from`` of the job is set to the first chunk of them.
        """

    def here(
        self, job: Job, name: str, chunks: Sequence[DocumentChunk]
    ) -> AbstractContextManager[JobOutput]:
        """Run a job over chunks of this machine, and on it."""

    def join_settings(self) -> AbstractContextManager[JoinSettings]:
        """Return the settings to find pairs of fingerprints with."""


RESULT = "result"
"""The folder, in that of the stages, that becomes the result."""

ROWS, LABELS, KEPT = "rows.parquet", "labels.parquet", "kept.parquet"
SIGNATURES = "signatures.arrow"
CLUSTERED = "clustered.parquet"
SAMPLES, SHOWN = "samples.json", "shown.json"
REJECTS = f"{RESULT}/{results.REJECTS}"
DECISIONS, CLUSTERS = f"{RESULT}/decisions.parquet", f"{RESULT}/clusters.parquet"
DOCUMENTS = f"{RESULT}/{results.DOCUMENTS}"
FINGERPRINTS = f"{RESULT}/{results.FINGERPRINTS}"

_GROUP_BYTES = 16 << 20
"""Bytes of text of the documents that are resolved together, about."""

_MAX_REDUCE_KEYS = 4096


@dataclass(frozen=True)
class DedupOptions:
    """How to de-duplicate.

    ``k`` bits between fingerprints of one cluster's documents, None if these are not looked at, and
    ``methods`` by keys; ``keep`` policies; ``verify`` the least similarity to a kept one, None if
    texts are not compared; ``shingles`` what by; ``share_by`` fields that ROWS has as well;
    ``reading`` and ``format`` how documents are read; ``features`` what fingerprints are made of,
    weighted by the file ``idf``. ``made_from`` says so in a line. Nothing is kept that is similar
    to what the results ``against`` kept. ``keyword_idf`` is the file that keywords are weighted by.
    """

    k: int | None
    keep: Sequence[str]
    verify: float | None
    shingles: str
    share_by: Sequence[str] = field(default_factory=tuple)
    reading: ReadOptions = field(default_factory=ReadOptions)
    format: DocumentFormat | None = None
    features: FeatureOptions = field(default_factory=FeatureOptions)
    idf: str | None = None
    made_from: str = ""
    against: Sequence[EarlierResult] = field(default_factory=tuple)
    methods: Sequence[SignatureMethod] = field(default_factory=tuple)
    keyword_idf: Path | None = None

    @property
    def method_names(self) -> list[str]:
        """The names of the methods."""
        names = [] if self.k is None else [f"{SIMHASH}:k={self.k}"]
        return names + [method.name for method in self.methods]

    @property
    def earlier(self) -> list[tuple[str, int]]:
        """The names of the earlier results, and their numbers of documents."""
        return [(result.name, result.documents) for result in self.against]

    @property
    def compared_by(self) -> FeatureOptions:
        """The shingles that texts are compared by."""
        return FeatureOptions.parse(self.shingles, "binary", self.features.normalize)

    @property
    def of_documents(self) -> dict[str, Any]:
        """The fields that all jobs over the documents share."""
        return {"reading": self.reading, "format": self.format}

    @property
    def of_features(self) -> dict[str, Any]:
        """The fields of jobs that compute fingerprints."""
        return {**self.of_documents, "features": self.features, "idf": self.idf}

    @property
    def keyword_file(self) -> str | None:
        """The file that keywords are weighted by, as jobs take it."""
        return None if self.keyword_idf is None else str(self.keyword_idf)


def dedup(stages: Stages, options: DedupOptions, run_job: RunJob) -> StageSummary:
    """Run the stages that are not done yet; return a summary of all.

    In memory: 53 bytes a document, earlier ones too, in one process 80, and ids of clustered
    ones; before that what ``cluster_documents`` takes.
    """
    folder = stages.folder
    (folder / RESULT).mkdir(exist_ok=True)
    for unfinished in (folder / RESULT).glob(".*"):
        # files that a killed run was writing, which would become part of the result
        unfinished.unlink()
    if not stages.is_done("fingerprint"):
        reading = fingerprint_documents(folder, options, run_job)
        signatures = [SIGNATURES] if options.methods else []
        stages.finish("fingerprint", [ROWS, REJECTS, *signatures], reading)
    if not stages.is_done("cluster"):
        clusters = _cluster(folder, options, run_job)
        if options.against:
            _narrow_to_new(folder)
        stages.finish("cluster", [LABELS], clusters)
    parts: list[str] = []
    if options.against:
        if not stages.is_done("earlier"):
            parts = _earlier(folder, options, run_job)
            stages.finish("earlier", parts, {"files": parts})
        parts = stages.values("earlier")["files"]
    if not stages.is_done("resolve"):
        counts = _resolve(folder, options, run_job, parts)
        stages.finish("resolve", [DECISIONS, CLUSTERS, KEPT, SAMPLES], counts)
    if not stages.is_done("keep"):
        names = _keep(folder, options, run_job, parts)
        signatures = [f"{RESULT}/{results.SIGNATURES}"] if options.methods else []
        files = [*names, FINGERPRINTS, *signatures, SHOWN]
        stages.finish("keep", files, {"files": len(names)})
    summary = {
        **stages.values("fingerprint"),
        **stages.values("cluster"),
        **stages.values("resolve"),
    }
    return cast("StageSummary", summary)


def fingerprint_documents(folder: Path, options: DedupOptions, run_job: RunJob) -> ReadingSummary:
    """Leave ROWS, REJECTS and SIGNATURES in ``folder``; return counts.

    Raises NothingReadError if all records were rejected.
    """
    schema = rows_schema(options.share_by)
    job = FingerprintJob(
        **options.of_features,
        fields=tuple(options.share_by),
        methods=tuple(method.name for method in options.methods),
        keyword_idf=options.keyword_file,
        cached_sets=None if options.verify is None else options.compared_by,
        cached_fields=tuple(KeepPolicy.parse(options.keep).fields) if options.keep else (),
    )
    counts = ReadCounts()
    with (
        run_job(job, "fingerprint") as output,
        whole_file(folder / ROWS, overwrite=True) as file,
        whole_file(folder / REJECTS, overwrite=True) as rejects,
        pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            write_page_checksum=True,
            use_dictionary=["chunk", *options.share_by],
        ) as writer,
        signature_writer(folder / SIGNATURES, options.methods) as write_signatures,
    ):
        for earlier in options.against:
            for batch in earlier.rows():
                writer.write_table(_earlier_rows(batch, schema))
            for table in earlier.signatures(options.methods):
                write_signatures(table)
        for key, table in output:
            if is_rejects(table):
                lines = reject_lines(table)
                rejects.write(lines)
                counts.add_lines(lines)
                continue
            counts.documents += len(table)
            chunk = pa.array(np.full(len(table), key, np.int64))
            columns = [table[name].cast(schema.field(name).type) for name in schema.names[1:]]
            writer.write_table(pa.Table.from_arrays([chunk, *columns], schema=schema))
            write_signatures(table)
    counts.require_documents()
    return {
        "documents_read": counts.documents,
        "rejected_records": counts.rejected,
        "incomplete_files": counts.incomplete_files,
        # none, if the logs of a cluster are not read
        "skipped_records": skipped_records(output.counters),
    }


def signed_documents(
    folder: Path, methods: Sequence[SignatureMethod]
) -> Iterator[MethodSignatures]:
    """Yield the signatures of all documents, one method after the other."""
    yield from (MethodSignatures(*each) for each in read_signatures(folder / SIGNATURES, methods))


def _earlier_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Return the rows of documents that an earlier run kept; other fields are null."""
    known = dict(zip(batch.schema.names, batch.columns, strict=True))
    known["chunk"] = pa.array(np.full(len(batch), EARLIER))
    columns = [
        known[column.name] if column.name in known else pa.nulls(len(batch), column.type)
        for column in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _cluster(folder: Path, options: DedupOptions, run_job: RunJob) -> ClusterSummary:
    """Find which fingerprints of several documents are one cluster."""
    rows = Rows.read(folder / ROWS)
    numbers = np.flatnonzero(rows.has_fingerprint)

    def signed() -> Iterator[MethodSignatures]:
        for each in signed_documents(folder, options.methods):
            # documents without a fingerprint are not nodes
            whole = numbers.size == sum(map(len, each.parts))
            yield each if whole else MethodSignatures(each.method, [each.signatures.take(numbers)])

    with run_job.join_settings() as settings:
        labels, counts = cluster_documents(
            rows.fingerprints[numbers], rows.lengths[numbers], options.k, signed, settings,
            UNVERIFIED if options.verify is None else VERIFIED,
        )  # fmt: skip
    order = np.argsort(labels.nodes)
    Labels(labels.nodes[order], labels.labels[order]).write(folder / LABELS)
    return counts


def _narrow_to_new(folder: Path) -> None:
    """Remove the labels of clusters without a document of this run."""
    rows, labels = Rows.read(folder / ROWS), Labels.read(folder / LABELS)
    new = slice(rows.earlier, None)
    label, known = labels.of(rows.fingerprints[new])
    wanted = np.isin(labels.labels, label[known & rows.has_fingerprint[new]])
    Labels(labels.fingerprints[wanted], labels.labels[wanted]).write(folder / LABELS)


def _earlier(folder: Path, options: DedupOptions, run_job: RunJob) -> list[str]:
    rows, labels = Rows.read(folder / ROWS), Labels.read(folder / LABELS)
    names = options.reading.id_names[0], options.reading.text_name
    return write_earlier_texts(folder, rows, labels, options.against, names, run_job.here)


def _resolve(
    folder: Path, options: DedupOptions, run_job: RunJob, parts: Sequence[str]
) -> DecisionSummary:
    """Decide which documents are kept; write the decisions, and return their counts."""
    rows = Rows.read(folder / ROWS)
    labels = Labels.read(folder / LABELS)
    cluster, clustered = labels.of(rows.fingerprints)
    clustered &= rows.has_fingerprint
    keys = reduce_keys_for(int(rows.lengths[clustered].sum()))
    found = RunDecisions.unclustered(rows, cluster, clustered, options.earlier)
    if clustered.any():
        numbers = np.flatnonzero(clustered)
        ClusteredRows(
            numbers,
            rows.fingerprints[numbers],
            cluster[numbers],
            rows.lengths[numbers],
            rows.ranges,
        ).write(folder / CLUSTERED)
        job = ResolveJob(
            **options.of_features,
            clustered=str(folder / CLUSTERED),
            labels=str(folder / LABELS),
            keep=tuple(options.keep),
            verify=options.verify,
            shingles=options.compared_by,
            reduce_keys=keys,
        )
        with run_job(job, "resolve", as_documents(folder, parts)) as output:
            for _, table in output:
                found.take(rows, table)
    found.check(rows)
    samples = found.samples()
    shown = np.zeros(found.kept.size, bool)
    shown[[number for pair in samples for number in pair]] = True
    Kept(found.kept, shown, rows.ranges).write(folder / KEPT)
    _write_json(folder / SAMPLES, samples)
    found.name_methods(
        lambda distances, first, second: method_names(
            options.method_names, distances, options.k,
            lambda: signed_documents(folder, options.methods), first, second,
        )
    )  # fmt: skip
    earlier = partial(earlier_locations, folder, parts, options.against)
    found.write(folder / DECISIONS, folder / CLUSTERS, rows, earlier)
    return found.counts()


def reduce_keys_for(size_bytes: int) -> int:
    """Return the number of reduce keys for texts in clusters of ``size_bytes``."""
    return min(_MAX_REDUCE_KEYS, 1 + size_bytes // _GROUP_BYTES)


def known_reduce_keys(folder: Path) -> int:
    """Return the number of reduce keys of the resolve stage, from the files of earlier stages."""
    rows = Rows.read(folder / ROWS)
    _, clustered = Labels.read(folder / LABELS).of(rows.fingerprints)
    return reduce_keys_for(int(rows.lengths[clustered & rows.has_fingerprint].sum()))


def _keep(folder: Path, options: DedupOptions, run_job: RunJob, parts: Sequence[str]) -> list[str]:
    """Write the kept documents; return the names of their files."""
    documents = folder / DOCUMENTS
    # of a killed run
    shutil.rmtree(documents, ignore_errors=True)
    documents.mkdir()
    rows = Rows.read(folder / ROWS)
    shown: dict[int, str] = {}
    job = KeepJob(**options.of_documents, kept=str(folder / KEPT))
    is_kept = read_table(folder / KEPT, columns=["kept"])["kept"].to_numpy()[rows.earlier :]
    with (
        run_job(job, "keep") as output,
        KeptDocuments(documents) as kept,
    ):
        for chunk, table in output:
            if has_texts(table):
                first = rows.ranges[chunk][0]
                numbers = (table["row"].to_numpy() + first).tolist()
                shown.update(zip(numbers, table["text"].to_pylist(), strict=True))
            else:
                kept.write(table)
    if options.methods:
        signatures = folder / RESULT / results.SIGNATURES
        write_signatures(signatures, folder / SIGNATURES, options.methods, rows.earlier, is_kept)
    batches = rows.batches(["id", "fingerprint", "length"])
    write_fingerprints(folder / FINGERPRINTS, options.made_from, batches, is_kept, kept.files)
    if parts:
        shown |= _earlier_shown(folder, parts)
    _write_json(folder / SHOWN, {str(number): text for number, text in sorted(shown.items())})
    return [f"{DOCUMENTS}/{name}" for name, _ in kept.files]


def _earlier_shown(folder: Path, parts: Sequence[str]) -> dict[int, str]:
    """Return the texts of earlier documents that samples show, by their numbers."""
    pairs = json.loads((folder / SAMPLES).read_bytes())
    return read_earlier_texts(folder, parts, np.array([kept for _, kept in pairs], np.int64))


def _write_json(path: Path, content: object) -> None:
    with whole_file(path, overwrite=True) as file:
        file.write(json.dumps(content).encode())
