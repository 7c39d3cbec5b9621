"""The stages of a de-duplication: each runs jobs, and leaves shards and a record of them.

columns      columns.arrow, on this machine, if kept documents become rows of Parquet
fingerprint  rows/      a shard a chunk: id, fingerprint, length, file, position, signatures
cluster      attached/  a shard a chunk: which documents are in clusters
resolve      decided/   a shard a chunk: decisions on these; the clusters; what a report shows
keep         result/    the parts of the result, which tasks write

The client has in memory what it knows of each chunk, and nothing of documents; of a file of an
earlier result it has the rows while they are written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mr_dedup.clusters.decisions import Reason
from mr_dedup.clusters.splitting import UNVERIFIED, VERIFIED, ClusterLimit
from mr_dedup.clusters.suspects import LISTED, SOURCES, most_dropped
from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.count_tables import EARLIER_COUNTS as EARLIER_COLUMNS
from mr_dedup.formats.decision_file import CLUSTERS
from mr_dedup.formats.shards import Shard, write_shard
from mr_dedup.jobs.attach import LARGE, AttachJob
from mr_dedup.jobs.earlier_count_parts import (
    CountedChunk,
    EarlierCountPartsJob,
)
from mr_dedup.jobs.fingerprint import (
    TOO_MANY_SUBSETS,
    rare_counts,
    refuse_fields,
)
from mr_dedup.jobs.keep import KeepJob
from mr_dedup.jobs.kept_pieces import PIECES_FOLDER, join_pieces
from mr_dedup.jobs.order_decisions import OrderDecisionsJob
from mr_dedup.jobs.reading import (
    DOCUMENTS,
    has_rejects,
    reading_summary,
    require_documents,
)
from mr_dedup.jobs.report_counts import LOSING_SOURCES
from mr_dedup.jobs.rereading_job import EarlierReading
from mr_dedup.jobs.resolve import ResolveJob, reduce_keys_for
from mr_dedup.jobs.shard_parts import ShardPartsJob, write_part
from mr_dedup.jobs.signatures import SignaturesJob
from mr_dedup.jobs.split_clusters import SplitClustersJob
from mr_dedup.pipeline.components import connected
from mr_dedup.pipeline.dedup_options import DedupOptions
from mr_dedup.pipeline.document_files import columns_of_documents, document_parts
from mr_dedup.pipeline.known_counts import KnownCounts
from mr_dedup.pipeline.results import DOCUMENTS as DOCUMENTS_FOLDER
from mr_dedup.pipeline.results import EARLIER_COUNTS, EarlierResult, combined_checksum
from mr_dedup.pipeline.sharded_run import Left, ShardedRun
from mr_dedup.pipeline.stages import RESULT
from mr_dedup.signatures.columns import schema_of

if TYPE_CHECKING:
    from mr_dedup.jobs.join import JoinJob

COLUMNS = "columns.arrow"

_PARTITION_BYTES = 16 << 20
"""Bytes of what is shuffled for each partition of keys or fingerprints, about."""

_PAIRS_SIZE = 4
"""Pairs of a key and a node take about so many times the bytes of the compressed rows."""

_SHARED_ROWS = 2_000_000
"""Documents of which a task counts the values of fields: up to some 100 bytes a value in memory."""

_MAX_GROUPS = 64
"""Groups of chunks by which decisions are brought together."""

_CLUSTERS_PER_PART = 1 << 20


@dataclass(frozen=True)
class Plan:
    """What the stages share.

    Attributes:
        run: Where the run is, and its engine.
        options: How to de-duplicate.
        tasks: About how many tasks run at a time.
    """

    run: ShardedRun
    options: DedupOptions
    tasks: int

    @property
    def earlier(self) -> tuple[EarlierReading, ...]:
        """How the documents of each earlier result are read."""
        found, stop = [], 0
        for result in self.options.against:
            stop += len(result.files)
            reading = result.summary.reading
            found.append(EarlierReading(stop, result.name, reading.options(), reading.format))
        return tuple(found)

    @property
    def chunks_per_group(self) -> int:
        """Chunks whose documents are brought together."""
        return -(-self.run.chunk_count // _MAX_GROUPS) or 1

    def partitions(self, size_bytes: int) -> int:
        """Return how many partitions so many bytes get."""
        return max(self.tasks, -(-size_bytes // _PARTITION_BYTES))


def columns(plan: Plan) -> None:
    """Write COLUMNS, those of all documents as rows of Parquet; raises as ``united_columns``."""
    run, options = plan.run, plan.options
    found = columns_of_documents(run, options.reading, options.format)
    with whole_file(run.records / COLUMNS, overwrite=True) as file:
        file.write(found.serialize().to_pybytes())


def _columns(plan: Plan) -> pa.Schema | None:
    """Return COLUMNS, with those that kept documents get; None if there are no rows of Parquet."""
    if plan.options.documents != "parquet":
        return None
    found = pa.ipc.read_schema(pa.py_buffer((plan.run.records / COLUMNS).read_bytes()))
    for name in plan.options.counted:
        found = found.append(EARLIER_COLUMNS.field(name))
    return found


def fingerprint(plan: Plan) -> tuple[Left, Mapping[str, Any]]:
    """Leave the rows of all documents; return them, and a ReadingSummary.

    Raises NothingReadError if all records were rejected, FieldError if fields of documents do not
    fit the options.
    """
    run, options = plan.run, plan.options
    earlier = list(_earlier_rows(run, options))
    job = options.fingerprint_job()
    left, _ = run.over_documents(job, "fingerprint", run.chunks, "rows")
    counters = left.counters
    read = {**reading_summary(counters), **rare_counts(job, counters)}
    documents = read["documents_read"]
    require_documents(counters, (each for at in left.shards for each in left.tables(at.key)))
    refuse_fields(job, counters, documents)
    return Left(left.folder, [*earlier, *left.shards], counters), read


def _earlier_rows(run: ShardedRun, options: DedupOptions) -> Iterator[Shard]:
    """Write the rows of what earlier results kept, a shard for each file; yield the shards.

    In memory: the rows of one file.
    """
    key = 0
    known = KnownCounts(options.against)
    for result in options.against:
        for name, table in _rows_by_file(result, options, known):
            yield write_shard(run.at("rows"), key, [_as_rows(table, name)])
            key += 1


def _rows_by_file(
    result: EarlierResult, options: DedupOptions, known: KnownCounts
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the files of an earlier result, with rows, counts and signatures of their documents."""
    rows = _Rows(pa.Table.from_batches([batch]) for batch in result.rows())
    counts = _Rows(part.table() for part in known.of(result))
    signatures = _Rows(iter(result.signatures(options.methods)))
    for name, count in result.files:
        table = rows.take(count)
        more = [counts.take(count)]
        if options.methods:
            more.append(signatures.take(count))
        for columns in more:
            for column in columns.column_names:
                table = table.append_column(column, columns[column])
        yield name, table


class _Rows:
    """Takes rows from tables of one schema, so many at a time."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self._tables = tables
        self._rest: pa.Table | None = None

    def take(self, count: int) -> pa.Table:
        found: list[pa.Table] = []
        missing = count
        while missing or not found:
            if self._rest is None or not len(self._rest):
                self._rest = next(self._tables)
            found.append(self._rest.slice(0, missing))
            self._rest = self._rest.slice(missing)
            missing -= len(found[-1])
        return pa.concat_tables(found)


def _as_rows(table: pa.Table, file: str) -> pa.Table:
    names = pa.array([file], pa.large_string()).take(pa.array([0] * len(table), pa.int64()))
    table = table.append_column("file", names)
    # positions are found when the texts are read
    return table.append_column("position", pa.nulls(len(table), pa.int64()))


def cluster(plan: Plan, rows: Left) -> tuple[Left, Mapping[str, Any]]:
    """Leave which documents are in clusters; return that, and a ClusterSummary."""
    run, options = plan.run, plan.options
    edges, counts = _edges(plan, rows)
    limit = UNVERIFIED if options.verify is None else VERIFIED
    job, attached = _attached(plan, rows, edges, limit)
    split = {"clusters_split": 0, "documents_in_split_clusters": 0}
    if attached.counters.get(LARGE):
        divided = run.over_shards(
            SplitClustersJob(
                rows=rows.folder,
                attached=attached.folder,
                limit=limit,
                k=options.k,
                methods=tuple(method.name for method in options.methods),
                keyword_idf=options.keyword_idf,
                partitions=job.partitions,
            ),
            "divided",
            [rows],
        )
        split = {name: divided.counters.get(name, 0) for name in split}
        attached = run.over_shards(job, "attached", [rows, divided])
        run.remove("divided")
    summary = {
        name: attached.counters.get(name, 0)
        for name in ("distinct_fingerprints", "fingerprint_clusters")
    }
    return attached, {**counts, **summary, **split}


def connected_documents(plan: Plan, rows: Left) -> Left:
    """Leave which documents are connected by pairs of any method, however large clusters are.

    No pair is missed: where texts have too many keys, one that is shared connects them.
    """
    edges, _ = _edges(plan, rows, compares=False)
    _, attached = _attached(plan, rows, edges, ClusterLimit(sys.maxsize))
    return attached


def _attached(
    plan: Plan, rows: Left, edges: Sequence[Left], limit: ClusterLimit
) -> tuple[AttachJob, Left]:
    """Leave the labels of documents that edges, which are removed, connect; return the job too."""
    run = plan.run
    labels = connected(run, edges, plan.tasks)
    last = max((shard.key for shard in rows.shards), default=0)
    job = AttachJob(
        partitions=plan.partitions(64 * rows.rows),
        chunks_per_group=-(-(last + 1) // _MAX_GROUPS),
        earlier_chunks=len(run.earlier),
        limit=limit,
    )
    inputs = [rows] if labels is None else [rows, labels]
    attached = run.over_shards(job, "attached", inputs)
    for left in (*edges, *([] if labels is None else [labels])):
        run.remove(left.folder.rpartition("/")[2])
    return job, attached


def _edges(plan: Plan, rows: Left, *, compares: bool = True) -> tuple[list[Left], dict[str, int]]:
    """Leave the edges by all methods; return them, and counts.

    Unless it ``compares``, documents that share keys are linked, though their signatures may not
    match.
    """
    run, options = plan.run, plan.options
    edges: list[Left] = []
    counts: dict[str, int] = {"shared_key_links": 0, "oversized_keys": 0}
    if options.k is not None:
        left = run.over_shards(_join_job(options.k, rows.rows), "edges-simhash", [rows])
        counts["fingerprint_pairs"] = left.counters.get("pairs", 0)
        edges.append(left)
    for number, method in enumerate(options.methods):
        has_too_many = bool(rows.counters.get(f"{TOO_MANY_SUBSETS}{number}", 0))
        job = SignaturesJob(
            method=method.name,
            number=number,
            keyword_idf=options.keyword_idf,
            compared=compares and (method.needs_verification or has_too_many),
            min_shared_keys=1 if has_too_many and not compares else None,
            partitions=plan.partitions(_PAIRS_SIZE * rows.size_bytes),
        )
        left = run.over_shards(job, f"edges-{number}", [rows])
        for name in ("shared_key_links", "oversized_keys"):
            counts[name] += left.counters.get(name, 0)
        edges.append(left)
    return edges, counts


def _join_job(k: int, rows: int) -> JoinJob:
    """Return the job that pairs so many fingerprints; raises MrDedupError for endless work."""
    # only simhash needs it
    from mr_dedup.hamming.planner import DEFAULT_MEMORY_BYTES, parts_for, plan_self
    from mr_dedup.jobs.join import JoinJob

    size = max(1, rows)
    planned = plan_self(size, k, partitioned=True)
    job = JoinJob(
        k=k,
        design=planned.chosen.design.name,
        bit_order=str(planned.chosen.order),
        expected=size,
        partitions=parts_for(size, DEFAULT_MEMORY_BYTES),
        ordered=False,
    )
    planned.refuse_explosion(tasks=job.partition_count)
    return job


def resolve(plan: Plan, rows: Left, attached: Left) -> tuple[Left, Mapping[str, Any]]:
    """Leave the decisions on documents in clusters; return them, and a DecisionSummary."""
    run, options = plan.run, plan.options
    clusters = attached.counters.get("fingerprint_clusters", 0)
    ranges = 1 << max(0, -(-clusters // _CLUSTERS_PER_PART) - 1).bit_length()
    size_bytes = attached.counters.get("clustered_bytes", 0)
    documents = attached.counters.get("documents_in_clusters", 0)
    job = ResolveJob(
        **options.of_features,
        keep=tuple(options.keep),
        retention=options.retention,
        verify=options.verify,
        shingles=options.compared_by,
        reduce_keys=reduce_keys_for(size_bytes, documents),
        stored_bytes=run.stored_bytes,
        rows_at=rows.folder,
        attached=attached.folder,
        k=options.k,
        methods=tuple(options.method_names),
        keyword_idf=options.keyword_idf,
        earlier=plan.earlier,
        seen=options.seen,
        names_below=options.names_below,
    )
    resolved, _ = run.over_documents(job, "resolve", [*run.earlier, *run.chunks], "resolved")
    order = OrderDecisionsJob(
        chunks=run.chunk_count, chunks_per_group=plan.chunks_per_group, cluster_ranges=ranges
    )
    left = run.over_shards(order, "decided", [resolved])
    run.remove("resolved")
    _check_decided(run, attached, left)
    counters = resolved.counters
    left = replace(left, counters=counters)
    documents = rows.counters.get(DOCUMENTS, 0)
    reasons = {reason: counters.get(reason.key, 0) for reason in Reason}
    reasons[Reason.UNCLUSTERED] = documents - sum(reasons.values())
    kept = sum(count for reason, count in reasons.items() if reason.is_kept)
    return left, {
        "documents_kept": kept,
        "documents_dropped": documents - kept,
        "reasons": {reason.key: count for reason, count in reasons.items()},
        "earlier_documents": sum(result.documents for result in options.against),
        "documents_dropped_for_earlier": counters.get("documents_dropped_for_earlier", 0),
    }


def _check_decided(run: ShardedRun, attached: Left, decided: Left) -> None:
    """Raise RuntimeError unless each clustered document of this run was decided on."""
    found = {shard.key: shard.rows for shard in decided.shards}
    for shard in attached.shards:
        if shard.key >= len(run.earlier) and found.get(shard.key) != shard.rows:
            raise RuntimeError(f"not all documents of chunk {shard.key} were resolved")


@dataclass(frozen=True)
class Kept:
    """What the keep stage knows of the result.

    Attributes:
        documents: How many were written.
        files: To how many files.
        sizes: Of all texts, ``kept_bytes`` and ``dropped_bytes``.
        checksums: Of the datasets that later runs read, by their names.
        texts: Those that a report shows, by chunk and row.
        shares: Tables of the most common values of fields.
        losing: The ``number`` of values that lose most of their documents, and some, ``listed``.
    """

    documents: int
    files: int
    sizes: Mapping[str, int]
    checksums: dict[str, str]
    texts: Mapping[tuple[int, int], str]
    shares: Sequence[pa.Table]
    losing: dict[str, Any]


def keep(plan: Plan, rows: Left, decided: Left, shown: Sequence[tuple[int, int]]) -> Kept:
    """Have tasks write the result; return what is known of it."""
    run, options = plan.run, plan.options
    run.remove(RESULT)
    schema = pa.schema(schema_of(options.methods))
    job = KeepJob(
        **options.of_documents,
        documents=options.documents,
        rows_at=rows.folder,
        decided=decided.folder,
        result=run.at(RESULT),
        features=options.made_from,
        share_by=tuple(options.share_by),
        names_below=options.names_below,
        share_keys=1 + rows.rows // _SHARED_ROWS,
        earlier=plan.earlier,
        shown=tuple(shown),
        parts=document_parts(
            run,
            options.documents,
            options.reading.id_names,
            columns=_columns(plan),
            joined=run.is_here,
        ),
        leaves_pieces=run.is_here,
        has_rejects=has_rejects(rows.counters),
        signatures=schema.serialize().to_pybytes() if options.methods else None,
        seen=options.seen,
        counted=options.counted,
    )
    wanted = {chunk for chunk, _ in shown}
    earlier = [chunk for chunk in run.earlier if chunk.number in wanted]
    left, found = run.over_documents(job, "keep", [*earlier, *run.chunks], None)
    _write_clusters(run, decided)
    kept = _kept([table for _, table in found], bool(options.methods))
    if run.is_here:
        folder = Path(run.at(RESULT))
        names = job.parts.names_of_divided
        joined = join_pieces(folder / PIECES_FOLDER, folder / DOCUMENTS_FOLDER, names, plan.tasks)
        kept = replace(kept, files=kept.files + joined)
    kept.losing["number"] = left.counters.get(LOSING_SOURCES, 0)
    if options.against:
        kept.checksums[EARLIER_COUNTS] = _write_earlier_counts(run, decided, options)
    return kept


def _write_clusters(run: ShardedRun, decided: Left) -> None:
    """Have tasks write the clusters of the result."""
    folder = run.at(f"{RESULT}/clusters")
    first, last = run.chunk_count, decided.shards[-1].key
    shards = [shard for shard in decided.shards if first <= shard.key < last]
    if not shards:
        write_part(folder, 0, CLUSTERS.empty_table())
        return
    job = ShardPartsJob(keys=tuple(shard.key for shard in shards), folder=folder)
    run.over_shards(job, None, [replace(decided, shards=shards)])


def _write_earlier_counts(run: ShardedRun, decided: Left, options: DedupOptions) -> str:
    """Have tasks write what is dropped for documents of earlier results; return the checksum."""
    folder = run.at(f"{RESULT}/{EARLIER_COUNTS}")
    chunks = {chunk.key: chunk for chunk in _earlier_chunks(options)}
    # a row is the number of documents
    shards = [shard for shard in decided.shards if shard.key in chunks and shard.rows > 1]
    if not shards:
        return combined_checksum([write_part(folder, 0, EARLIER_COLUMNS.empty_table())])
    job = EarlierCountPartsJob(chunks=tuple(chunks[shard.key] for shard in shards), folder=folder)
    found = run.yielded_over_shards(job, [replace(decided, shards=shards)])
    sums = {table["part"][0].as_py(): table["checksum"][0].as_py() for _, table in found}
    return combined_checksum([sums[number] for number in range(len(shards))])


def _earlier_chunks(options: DedupOptions) -> Iterator[CountedChunk]:
    """Yield the chunks of earlier results, in their order."""
    key = 0
    for result in options.against:
        first = 0
        for name, count in result.files:
            yield CountedChunk(key, result.identifier, name, first)
            first += count
            key += 1


def _kept(tables: Sequence[pa.Table], has_signatures: bool) -> Kept:
    """Return what is known of the result, from what its tasks have left."""
    parts: dict[int, dict[str, Any]] = {}
    texts: dict[tuple[int, int], str] = {}
    shares = []
    losing = [SOURCES.empty_table()]
    for table in tables:
        if "loses" in table.column_names:
            losing.append(table.drop_columns("loses").cast(SOURCES))
        elif "part" in table.column_names:
            (row,) = table.to_pylist()
            parts[row["part"]] = row
        elif "text" in table.column_names:
            for row in table.to_pylist():
                texts[row["chunk"], row["row"]] = row["text"]
        else:
            shares.append(table)
    names = ["fingerprints", "counts", *(["signatures"] if has_signatures else [])]
    checksums = {
        name: combined_checksum([row[name] for _, row in sorted(parts.items())]) for name in names
    }
    documents, files = (sum(row[name] for row in parts.values()) for name in ("kept", "files"))
    sizes = {
        name: sum(row[name] for row in parts.values()) for name in ("kept_bytes", "dropped_bytes")
    }
    listed = most_dropped(pa.concat_tables(losing)).slice(0, LISTED).to_pylist()
    return Kept(documents, files, sizes, checksums, texts, shares, {"listed": listed})
