"""De-duplicate documents: fingerprints, pairs, clusters, decisions, and what is kept of them.

Each stage is a job over the documents or a computation over their fingerprints, and leaves files:

fingerprint  rows.parquet       a row a document: chunk, id, fingerprint, length; rejects.jsonl
cluster      labels.parquet     the fingerprints that several documents or their neighbours have
resolve      kept.parquet       which are kept; decisions.parquet, clusters.parquet; samples.json
keep         documents/         the kept documents, as they came; shown.json, texts of the samples
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.clusters.components import components
from mr_dedup.clusters.decisions import Reason
from mr_dedup.formats.outputs import whole_file
from mr_dedup.hamming.self_join import self_join
from mr_dedup.jobs.batches import Kind, decode_bytes, kind_of, read_batches
from mr_dedup.jobs.fingerprint import WITHOUT_FEATURES, FingerprintJob, decode_documents
from mr_dedup.jobs.job import Job
from mr_dedup.jobs.keep import KeepJob, Kept
from mr_dedup.jobs.resolve import Labels, ResolveJob
from mr_dedup.pipeline.kept_documents import KeptDocuments
from mr_dedup.pipeline.stages import Stages
from mr_dedup.runners import JobResult

RunJob = Callable[[type[Job], Sequence[str], str], AbstractContextManager[JobResult]]
"""Runs a job over the documents, given its options and what to call it; yields what it left."""

RESULT = "result"
"""The folder, in that of the stages, that becomes the result."""

ROWS, LABELS, KEPT = "rows.parquet", "labels.parquet", "kept.parquet"
SAMPLES, SHOWN = "samples.json", "shown.json"
REJECTS = f"{RESULT}/rejects.jsonl"
DECISIONS, CLUSTERS = f"{RESULT}/decisions.parquet", f"{RESULT}/clusters.parquet"
DOCUMENTS = f"{RESULT}/documents"

_GROUP_BYTES = 16 << 20
"""Bytes of text of the documents that are resolved together, about."""

_MOST_REDUCE_KEYS = 4096

_SAMPLES = 12
"""Dropped documents that are shown beside their keepers."""


@dataclass(frozen=True)
class DedupOptions:
    """How to de-duplicate.

    ``k`` bits between fingerprints of one cluster's documents; ``keep`` policies; ``verify`` the
    least similarity to a keeper, None if texts are not compared; ``shingles`` what by;
    ``share_by`` fields that ROWS has as well; ``reading`` and ``features`` are arguments for jobs.
    """

    k: int
    keep: Sequence[str]
    verify: float | None
    shingles: str
    share_by: Sequence[str] = field(default_factory=tuple)
    reading: Sequence[str] = field(default_factory=tuple)
    features: Sequence[str] = field(default_factory=tuple)

    @property
    def resolving(self) -> list[str]:
        """The arguments of the resolve job besides those of all."""
        verify = "off" if self.verify is None else repr(self.verify)
        keep = [f"--keep={policy}" for policy in self.keep]
        return [*keep, f"--verify={verify}", f"--shingles={self.shingles}"]


def dedup(stages: Stages, options: DedupOptions, run_job: RunJob) -> dict[str, Any]:
    """Run the stages that are not done yet; return a summary of all.

    In memory: 40 bytes a document, and the ids of the clustered ones.
    """
    folder = stages.folder
    (folder / RESULT).mkdir(exist_ok=True)
    if not stages.is_done("fingerprint"):
        told = _fingerprint(folder, options, run_job)
        stages.finish("fingerprint", [ROWS, REJECTS], told)
    if not stages.is_done("cluster"):
        stages.finish("cluster", [LABELS], _cluster(folder, options))
    if not stages.is_done("resolve"):
        told = _resolve(folder, options, run_job)
        stages.finish("resolve", [DECISIONS, CLUSTERS, KEPT, SAMPLES], told)
    if not stages.is_done("keep"):
        names = _keep(folder, options, run_job)
        stages.finish("keep", [*names, SHOWN], {"files": len(names)})
    return {
        **stages.values("fingerprint"),
        **stages.values("cluster"),
        **stages.values("resolve"),
    }


def _fingerprint(folder: Path, options: DedupOptions, run_job: RunJob) -> dict[str, Any]:
    schema = pa.schema(
        [
            pa.field("chunk", pa.int64()),
            pa.field("id", pa.large_string()),
            pa.field("fingerprint", pa.int64()),
            pa.field("length", pa.int64()),
            *(pa.field(name, pa.large_string()) for name in options.share_by),
        ]
    )
    arguments = [*options.reading, *options.features, "--as-batches"]
    arguments += [f"--keep-field={name}" for name in options.share_by]
    rows = rejected = empty = 0
    with (
        run_job(FingerprintJob, arguments, "fingerprint") as result,
        whole_file(folder / ROWS, overwrite=True) as file,
        whole_file(folder / REJECTS, overwrite=True) as rejects,
        pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for key, batch in read_batches(result.parts):
            if kind_of(batch) == Kind.REJECTS:
                count, lines = decode_bytes(Kind.REJECTS, batch)
                rejects.write(lines)
                rejected += count
                continue
            table = decode_documents(batch)
            rows += len(table)
            empty += table["fingerprint"].null_count
            chunk = pa.array(np.full(len(table), key, np.int64))
            columns = [table[name] for name in schema.names[1:]]
            writer.write_table(pa.Table.from_arrays([chunk, *columns], schema=schema))
    return {"read": rows, "rejected": rejected, WITHOUT_FEATURES: empty}


def _cluster(folder: Path, options: DedupOptions) -> dict[str, Any]:
    """Find which fingerprints of several documents are one cluster."""
    table = pq.read_table(folder / ROWS, columns=["fingerprint"])["fingerprint"].drop_null()
    values = np.sort(table.to_numpy()).view(np.uint64)
    new = np.ones(values.size, bool)
    new[1:] = values[1:] != values[:-1]
    distinct = values[new]
    repeated = np.unique(values[~new])
    pairs = self_join(distinct, options.k)
    labels = components(
        np.concatenate([pairs.left, repeated]), np.concatenate([pairs.right, repeated])
    )
    order = np.argsort(labels.nodes)
    Labels(labels.nodes[order], labels.labels[order]).write(folder / LABELS)
    return {
        "distinct fingerprints": int(distinct.size),
        "pairs of fingerprints": len(pairs),
        "clusters of fingerprints": int(labels.roots.sum()),
    }


def _resolve(folder: Path, options: DedupOptions, run_job: RunJob) -> dict[str, Any]:
    rows = _Rows.read(folder / ROWS)
    labels = Labels.read(folder / LABELS)
    cluster, clustered = labels.of(rows.fingerprints)
    clustered &= rows.exist
    size_bytes = int(rows.lengths[clustered].sum())
    keys = min(_MOST_REDUCE_KEYS, 1 + size_bytes // _GROUP_BYTES)
    found = _Decided.unclustered(rows, cluster, clustered)
    if clustered.any():
        arguments = [*options.reading, *options.features, *options.resolving]
        arguments += [f"--labels={folder / LABELS}", f"--reduce-keys={keys}"]
        with run_job(ResolveJob, arguments, "resolve") as result:
            for part in result.parts:
                for _, batch in read_batches([part]):
                    found.take(rows, decode_documents(batch))
    found.check()
    found.write(folder, rows)
    samples = found.samples()
    shown = np.zeros(found.kept.size, bool)
    shown[[number for pair in samples for number in pair]] = True
    Kept(found.kept, shown, rows.ranges).write(folder / KEPT)
    _write_json(folder / SAMPLES, samples)
    counts = np.bincount(found.reasons, minlength=len(Reason)).tolist()
    return {
        "kept": int(found.kept.sum()),
        "dropped": int((~found.kept).sum()),
        "reasons": {reason.text: counts[reason] for reason in Reason},
    }


def _keep(folder: Path, options: DedupOptions, run_job: RunJob) -> list[str]:
    documents = folder / DOCUMENTS
    # what a killed run has begun
    shutil.rmtree(documents, ignore_errors=True)
    documents.mkdir()
    ranges = _Rows.read(folder / ROWS).ranges
    shown: dict[int, str] = {}
    arguments = [*options.reading, *options.features, f"--kept={folder / KEPT}"]
    with (
        run_job(KeepJob, arguments, "keep") as result,
        KeptDocuments(documents) as kept,
    ):
        for chunk, batch in read_batches(result.parts):
            if kind_of(batch) != Kind.DOCUMENTS:
                continue
            table = decode_documents(batch)
            if table.column_names == ["row", "text"]:
                first = ranges[chunk][0]
                numbers = (table["row"].to_numpy() + first).tolist()
                shown.update(zip(numbers, table["text"].to_pylist(), strict=True))
            else:
                kept.write(table)
    _write_json(folder / SHOWN, {str(number): text for number, text in sorted(shown.items())})
    return [f"{DOCUMENTS}/{name}" for name in kept.names]


@dataclass(frozen=True)
class _Rows:
    """All documents, in order; ``ranges`` are where those of each chunk start and stop."""

    path: Path
    fingerprints: NDArray[np.uint64]
    exist: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    ranges: dict[int, tuple[int, int]]

    @classmethod
    def read(cls, path: Path) -> _Rows:
        table = pq.read_table(path, columns=["chunk", "fingerprint", "length"])
        column = table["fingerprint"]
        chunks = table["chunk"].to_numpy()
        numbers, starts = np.unique(chunks, return_index=True)
        stops = [*starts[1:].tolist(), len(chunks)] if len(chunks) else []
        return cls(
            path,
            column.fill_null(0).to_numpy().view(np.uint64),
            column.is_valid().to_numpy(),
            table["length"].to_numpy(),
            dict(zip(numbers.tolist(), zip(starts.tolist(), stops, strict=True), strict=True)),
        )

    def numbers_of(self, table: pa.Table) -> NDArray[np.int64]:
        """Return which of all documents rows of the resolve job are."""
        starts = {chunk: start for chunk, (start, _) in self.ranges.items()}
        chunks, inverse = np.unique(table["chunk"].to_numpy(), return_inverse=True)
        first = np.array([starts[chunk] for chunk in chunks.tolist()], np.int64)
        numbers: NDArray[np.int64] = first[inverse] + table["row"].to_numpy()
        return numbers


@dataclass
class _Decided:
    """The decisions on all documents, aligned with them; ids of keepers of the dropped ones."""

    clusters: NDArray[np.uint64]
    distances: NDArray[np.uint8]
    similarities: NDArray[np.float64]
    reasons: NDArray[np.uint8]
    waiting: NDArray[np.bool_]
    keepers: dict[int, str] = field(default_factory=dict)
    keeper_numbers: dict[int, int] = field(default_factory=dict)

    @classmethod
    def unclustered(
        cls, rows: _Rows, cluster: NDArray[np.uint64], clustered: NDArray[np.bool_]
    ) -> _Decided:
        """Return the decisions on what is in no cluster; the others are waited for."""
        reasons = np.where(rows.exist, Reason.ALONE, Reason.WITHOUT_FEATURES).astype(np.uint8)
        return cls(
            np.where(clustered, cluster, rows.fingerprints),
            np.zeros(reasons.size, np.uint8),
            np.full(reasons.size, np.nan),
            reasons,
            clustered.copy(),
        )

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which documents are kept."""
        return self.reasons <= Reason.WITHOUT_FEATURES

    def take(self, rows: _Rows, table: pa.Table) -> None:
        """Take decisions of the resolve job."""
        numbers = rows.numbers_of(table)
        self.waiting[numbers] = False
        self.distances[numbers] = table["distance"].to_numpy()
        self.similarities[numbers] = table["similarity"].to_numpy()
        self.reasons[numbers] = table["reason"].to_numpy()
        dropped = ~self.kept[numbers]
        of_dropped = table.filter(pa.array(dropped))
        names = of_dropped["keeper"].to_pylist()
        self.keepers.update(zip(numbers[dropped].tolist(), names, strict=True))
        keepers = of_dropped.select(["keeper chunk", "keeper row"]).rename_columns(["chunk", "row"])
        pairs = zip(numbers[dropped].tolist(), rows.numbers_of(keepers).tolist(), strict=True)
        self.keeper_numbers.update(pairs)

    def samples(self) -> list[tuple[int, int]]:
        """Return some dropped documents and their keepers, from the least similar to the most."""
        dropped = np.flatnonzero(self.reasons == Reason.NEAR_DUPLICATE)
        if not dropped.size:
            dropped = np.flatnonzero(~self.kept)
        ranked = dropped[np.argsort(self.similarities[dropped], kind="stable")]
        chosen = (
            ranked[np.linspace(0, max(0, ranked.size - 1), _SAMPLES).astype(np.int64)]
            if ranked.size
            else ranked
        )
        return [(number, self.keeper_numbers[number]) for number in dict.fromkeys(chosen.tolist())]

    def check(self) -> None:
        """Raise RuntimeError if a document of a cluster was not decided on."""
        if self.waiting.any():
            raise RuntimeError(f"{int(self.waiting.sum())} documents were not resolved")

    def write(self, folder: Path, rows: _Rows) -> None:
        """Write the decisions, and the clusters of two documents and more."""
        with (
            whole_file(folder / DECISIONS, overwrite=True) as file,
            pq.ParquetWriter(
                file, _DECISIONS, compression="zstd", write_page_checksum=True
            ) as writer,
        ):
            start = 0
            for batch in _batches(rows.path, ["id"]):
                writer.write_batch(self._batch(batch.column(0), start))
                start += len(batch)
        featured = self.clusters[rows.exist].view(np.int64)
        values, places, sizes = np.unique(featured, return_inverse=True, return_counts=True)
        kept = np.bincount(places, self.kept[rows.exist], minlength=values.size)
        several = sizes >= 2
        table = pa.table(
            {
                "cluster": values[several],
                "documents": sizes[several],
                "kept": kept[several].astype(np.int64),
            }
        )
        with whole_file(folder / CLUSTERS, overwrite=True) as file:
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)

    def _batch(self, ids: pa.LargeStringArray, start: int) -> pa.RecordBatch:
        """Return the decisions on the documents from ``start`` on, which are called ``ids``."""
        these = slice(start, start + len(ids))
        kept = self.kept[these]
        names = ids.to_pylist()
        for place in np.flatnonzero(~kept).tolist():
            names[place] = self.keepers[start + place]
        without = self.reasons[these] == Reason.WITHOUT_FEATURES
        similarities = self.similarities[these]
        texts = pa.array([reason.text for reason in Reason])
        return pa.RecordBatch.from_arrays(
            [
                ids,
                pa.array(self.clusters[these].view(np.int64), mask=without),
                pa.array(names, pa.large_string()),
                pa.array(self.distances[these], mask=kept),
                pa.array(similarities, mask=np.isnan(similarities)),
                texts.take(pa.array(self.reasons[these])),
            ],
            schema=_DECISIONS,
        )


_DECISIONS = pa.schema(
    [
        pa.field("id", pa.large_string()),
        pa.field("cluster", pa.int64()),
        pa.field("keeper", pa.large_string()),
        pa.field("distance", pa.uint8()),
        pa.field("similarity", pa.float64()),
        pa.field("reason", pa.string()),
    ]
)


def _write_json(path: Path, content: object) -> None:
    with whole_file(path, overwrite=True) as file:
        file.write(json.dumps(content).encode())


def _batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        yield from file.iter_batches(1 << 16, columns=list(columns))
