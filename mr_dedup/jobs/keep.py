"""The keep job: documents are read once more, and each task writes its part of the result.

A map task reads the documents of a chunk and writes the records of those that are kept, as they
came or as JSON lines, their fingerprints and signatures, the decisions on all, and the rejected
records: a part of each directory of the result. A reduce step counts documents by their hosts and
by fields.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from mr_dedup.clusters.decisions import Reason, are_kept
from mr_dedup.clusters.duplicate_counts import summed
from mr_dedup.clusters.suspects import LISTED, losing_sources
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.count_tables import COUNTED, COUNTS
from mr_dedup.formats.decision_file import DECISIONS, REPEATED
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.lines_at import lines_at
from mr_dedup.formats.kept_fingerprints import write_fingerprints
from mr_dedup.formats.shards import new_files, read_shard
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.added_members import with_columns, with_lines
from mr_dedup.jobs.cached_documents import has_offsets
from mr_dedup.jobs.contract import Counters, Group, Keyed, Reduce, TaskInput
from mr_dedup.jobs.document_parts import (
    DOCUMENTS_FOLDER,
    DocumentParts,
    Writer,
    write_rejects,
)
from mr_dedup.jobs.kept_documents import KeptDocuments
from mr_dedup.jobs.kept_pieces import PIECES_FOLDER, PieceDocuments
from mr_dedup.jobs.kept_records import FILE_KEY, KeptFormat, as_written, records_of
from mr_dedup.jobs.lines_by_offset import parts_with_offsets, text_of_line
from mr_dedup.jobs.order_decisions import DECISION
from mr_dedup.jobs.reading import chunk_of, is_rejects, local_chunk
from mr_dedup.jobs.report_counts import LOSING_SOURCES
from mr_dedup.jobs.rereading_job import RereadingJob
from mr_dedup.jobs.row_shards import counts_of_rows, document_rows
from mr_dedup.jobs.shard_parts import one_part
from mr_dedup.jobs.shares import DIRECTORY, HOST, ShareCounter, directories, hosts

_SHOWN = ["row", "text", "position"]
"""Columns of texts that are to be shown."""

_MOST_COMMON = 50
"""Values of a field that are in a report."""

DECISIONS_FOLDER, COUNTS_FOLDER = "decisions", "counts"
FINGERPRINTS_FOLDER, SIGNATURES_FOLDER = "fingerprints", "signatures"
"""The directories of a result, besides those of ``document_parts``."""

_ROW_GROUP = 1 << 15


class KeepJob(RereadingJob, frozen=True, kw_only=True):
    """See the module.

    What it leaves: tables of the most common values, ``field``, ``value``, ``documents``
    and ``dropped``, and the same of those that lose most of their documents, with ``loses``; for
    each chunk a row with ``part``, its number, ``kept`` documents, the sizes of texts as
    ``kept_bytes`` and ``dropped_bytes``, and the checksums of its ``fingerprints``, ``counts`` and
    ``signatures``; and texts that are to be shown, ``chunk``,
    ``row`` and ``text``. It counts values that lose most of their documents.

    Attributes:
        documents: How kept documents are written. Unless it is ``same``, records of other formats
            than JSON lines are converted to these, but rows of Parquet for Parquet.
        decided: The directory of the shards of decisions.
        result: That of the result.
        features: What fingerprints are made from, in a line.
        share_by: Fields of the documents that are counted.
        names_below: The directory whose directories are counted, as of ``shares.directories``.
        shown: Documents whose texts are to be shown, as chunk and row.
        parts: How kept documents are written.
        leaves_pieces: Whether files of documents that several tasks write are joined afterwards.
        has_rejects: Whether any record was rejected.
        signatures: The columns of signatures, an Arrow schema; None if there are none.
        seen: The field of rows by which documents are seen.
        counted: The counts that kept records get.
        share_keys: Groups of values that are counted together.
    """

    decided: str
    result: str
    documents: KeptFormat = "same"
    features: str = ""
    share_by: tuple[str, ...] = ()
    names_below: str = ""
    shown: tuple[tuple[int, int], ...] = ()
    parts: DocumentParts = DocumentParts()
    leaves_pieces: bool = False
    has_rejects: bool = False
    signatures: bytes | None = None
    seen: str | None = None
    counted: tuple[str, ...] = ()
    share_keys: int = 1

    def _flags_of(self, chunk: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which documents of a chunk are kept, and which are shown."""
        if chunk < self.earlier_chunks:
            # of which nothing is written
            kept = np.zeros(_documents_in(self.decided, chunk), bool)
        else:
            kept = self._decided(chunk).kept
        shown = np.zeros(kept.size, bool)
        for of_chunk, row in self.shown:
            if of_chunk == chunk:
                shown[row] = True
        return kept, shown

    def _members_of(self, chunk: int) -> pa.Table | None:
        """Return the counts that each document of a chunk gets if it is kept."""
        if not self.counted or chunk < self.earlier_chunks:
            return None
        rows = document_rows(self.rows_at, chunk)
        if rows is None:
            return None
        return self._counts(rows, self._decided(chunk)).select(self.counted)

    def _counts(self, rows: pa.Table, decided: _Decided) -> pa.Table:
        """Return the columns COUNTED of all documents of a chunk."""
        own = summed(np.arange(len(rows)), len(rows), counts_of_rows(rows, self.seen)).table()
        index = np.full(len(rows), -1)
        index[decided.table["row"].to_numpy()] = np.arange(len(decided.table))
        is_clustered, at = pa.array(index >= 0), pa.array(index, mask=index < 0)
        columns = {}
        for name in COUNTED:
            before = own["duplicates" if name not in own.column_names else name]
            found = one_array(decided.table[name]).take(at)
            columns[name] = pc.if_else(is_clustered, found, one_array(before))
        return pa.table(columns)

    def _decided(self, chunk: int) -> _Decided:
        return _Decided.read(self.decided, chunk)

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Write the parts of a chunk; yield what is known of them, texts, and counts by values."""
        chunk = chunk_of(part, self.format).number
        is_new = chunk >= self.earlier_chunks
        key = self.share_keys
        if not is_new:
            for table in self._kept(part, counters):
                yield key, self._shown(table, chunk)
            return
        with new_files(self.result) as folder:
            number = chunk - self.earlier_chunks
            with self._writer(folder, chunk, number) as writer:
                for table in self._kept(part, counters):
                    if _has_texts(table):
                        yield key, self._shown(table, chunk)
                    else:
                        writer.write(table)
            written = self.parts.finish(folder, writer.files, number)
            files = [(name, count) for name, count in written if count]
            record: dict[str, Any] = {"part": number}
            record["kept"] = sum(count for _, count in files)
            written_files = (folder / DOCUMENTS_FOLDER).rglob("*")
            record["files"] = sum(1 for path in written_files if path.is_file())
            rows, rejects = self._rows_and_rejects(chunk)
            decided = self._decided(chunk)
            if rows is not None and len(rows) != decided.kept.size:
                raise MrDedupError(f"{part.name}: has other decisions than documents")
            record |= self._write_tables(folder, number, rows, decided, files)
            lengths = np.empty(0, np.int64) if rows is None else rows["length"].to_numpy()
            record["kept_bytes"] = int(lengths[decided.kept[: lengths.size]].sum())
            record["dropped_bytes"] = int(lengths.sum()) - record["kept_bytes"]
            if self.has_rejects:
                write_rejects(folder, number, rejects)
        yield key, pa.table({name: pa.array([value]) for name, value in record.items()})
        if rows is not None:
            yield from self._shares(rows, ~decided.kept)

    def _kept(self, part: TaskInput, counters: Counters) -> Iterator[pa.Table]:
        """Yield the kept records of one chunk, in order, and the texts to be shown."""
        chunk = chunk_of(part, self.format)
        kept, shown = self._flags_of(chunk.number)
        members = self._members_of(chunk.number)
        offsets = self.offsets_of(chunk.number) if has_offsets(chunk) else None
        if offsets is not None:
            with local_chunk(chunk, part) as local:
                yield from self._by_offsets(local, offsets, (kept, shown, members))
            counters["documents_kept"] += int(np.count_nonzero(kept))
            return
        done = 0
        wanted = shown if self.documents == "same" else kept | shown
        known = self.known_texts(part, chunk.number, wanted)
        with self.reading_of(part, counters, keep_records=True) as reading:
            for batch in reading.batches(known):
                mask = kept[done : done + len(batch)]
                if len(mask) != len(batch):
                    done += len(batch)
                    break
                rows = np.flatnonzero(shown[done : done + len(batch)])
                if rows.size:
                    yield _texts(batch, rows, done)
                done += len(batch)
                if mask.any():
                    counters["documents_kept"] += int(mask.sum())
                    records = records_of(batch, mask)
                    if self.documents != "same":
                        records = as_written(
                            records, batch, mask, chunk, self.reading, self.documents
                        )
                    if members is not None:
                        of_batch = members.slice(done - len(batch), len(batch))
                        records = self._with(records, of_batch.filter(pa.array(mask)), chunk)
                    yield records
        if done != len(kept):
            raise _changed(chunk)

    def _with(self, records: pa.Table, members: pa.Table, chunk: DocumentChunk) -> pa.Table:
        """Return kept records with further members."""
        if FILE_KEY in (records.schema.metadata or {}):
            return with_columns(records, members, chunk.name)
        return with_lines(records, members, chunk.name, self.reading.max_record_bytes)

    def _by_offsets(
        self,
        chunk: DocumentChunk,
        offsets: Iterable[pa.Table],
        known: tuple[NDArray[np.bool_], NDArray[np.bool_], pa.Table | None],
    ) -> Iterator[pa.Table]:
        """Yield the same of a chunk of lines whose offsets are known, without decoding them.

        Of its documents it is ``known`` which are kept, which are shown, and their members.
        """
        kept, shown, members = known
        options = replace(self.reading, keep_records=True)
        done = 0
        documents = ((one_array(each["file"]), each["offset"].to_numpy()) for each in offsets)
        for part, starts in parts_with_offsets(chunk, documents):
            rows = np.arange(done, done + starts.size)
            done += starts.size
            rows = rows[kept[rows] | shown[rows]]
            wanted = starts[rows - (done - starts.size)]
            begin = 0
            for lines in lines_at(part, wanted, options.max_record_bytes, options.encoding):
                these = slice(begin, begin + len(lines))
                begin += len(lines)
                for index in np.flatnonzero(shown[rows[these]]).tolist():
                    text = text_of_line(lines[index], options)
                    if text is None:
                        raise _changed(chunk)
                    row = slice(index, index + 1)
                    columns = {
                        "row": rows[these][row],
                        "text": text,
                        "position": wanted[these][row],
                    }
                    yield pa.table(columns)
                chosen = kept[rows[these]]
                if not chosen.any():
                    continue
                records = lines if chosen.all() else lines.filter(pa.array(chosen))
                files = pa.DictionaryArray.from_arrays(
                    np.zeros(len(records), np.int32), pa.array([part.file.name], pa.string())
                )
                found = pa.table({"file": files, "record": records})
                if members is not None:
                    of_kept = members.take(pa.array(rows[these][chosen]))
                    found = self._with(found, of_kept, chunk)
                yield found

    def _writer(self, folder: Path, chunk: int, number: int) -> Writer | PieceDocuments:
        writer = self.parts.writer(folder, chunk, number)
        if not self.leaves_pieces or not isinstance(writer, KeptDocuments):
            return writer
        names = self.parts.names_of_divided
        return PieceDocuments(writer, folder / PIECES_FOLDER, names, chunk)

    def _shown(self, table: pa.Table, chunk: int) -> pa.Table:
        return pa.table(
            {
                "chunk": np.full(len(table), chunk),
                "row": table["row"],
                "text": table["text"].cast(pa.large_string()),
            }
        )

    def _rows_and_rejects(self, chunk: int) -> tuple[pa.Table | None, list[pa.Table]]:
        rows: list[pa.Table] = []
        rejects: list[pa.Table] = []
        for table in read_shard(self.rows_at, chunk):
            (rejects if is_rejects(table) else rows).append(table)
        return (pa.concat_tables(rows).combine_chunks() if rows else None), rejects

    def _write_tables(
        self,
        folder: Path,
        number: int,
        rows: pa.Table | None,
        decided: _Decided,
        files: Sequence[tuple[str, int]],
    ) -> dict[str, str | None]:
        """Write the parts with decisions, fingerprints, counts and signatures.

        Returns the checksums of the last three.
        """
        counts = None if rows is None else self._counts(rows, decided)
        decisions = folder / DECISIONS_FOLDER
        with one_part(decisions, number, DECISIONS, use_dictionary=REPEATED) as parts:
            if rows is not None:
                parts.write_table(self._decisions(rows, decided, counts))
        batches = [] if rows is None else rows.select(["id", "fingerprint", "length"]).to_batches()
        fingerprints = folder / FINGERPRINTS_FOLDER
        (name,) = write_fingerprints(
            fingerprints, self.features, iter(batches), decided.kept, files, sys.maxsize, number
        )
        sums: dict[str, str | None] = {"fingerprints": _checksum(fingerprints / name)}
        with one_part(folder / COUNTS_FOLDER, number, COUNTS) as parts:
            if counts is not None:
                of_kept = counts.filter(pa.array(decided.kept)).select(COUNTS.names)
                parts.write_table(of_kept.combine_chunks())
        sums["counts"] = _checksum(folder / COUNTS_FOLDER / name)
        sums["signatures"] = None
        if self.signatures is not None:
            schema = pa.ipc.read_schema(pa.py_buffer(self.signatures))
            some = schema.empty_table()
            if rows is not None:
                some = rows.select(schema.names).filter(pa.array(decided.kept)).combine_chunks()
            signatures = folder / SIGNATURES_FOLDER
            settings: dict[str, Any] = {"compression": "none", "use_dictionary": False}
            with one_part(signatures, number, some.schema, **settings) as parts:
                for start in range(0, len(some), _ROW_GROUP):
                    group = some.slice(start, _ROW_GROUP).combine_chunks()
                    parts.write_table(group, _ROW_GROUP)
            sums["signatures"] = _checksum(signatures / name)
        return sums

    def _decisions(self, rows: pa.Table, decided: _Decided, counts: pa.Table) -> pa.Table:
        """Return the decisions on all documents of a chunk."""
        unclustered = np.full(len(rows), True)
        found = decided.table
        clustered = found["row"].to_numpy()
        unclustered[clustered] = False
        index = np.full(len(rows), -1)
        index[clustered] = np.arange(clustered.size)
        at = pa.array(index, mask=index < 0)
        reasons = np.full(len(rows), int(Reason.UNCLUSTERED))
        reasons[clustered] = found["reason"].to_numpy()
        keys = pa.array([reason.key for reason in Reason])
        nodes = np.asarray(one_array(rows["fingerprint"]).fill_null(0)).copy()
        nodes[clustered] = found["cluster"].to_numpy().view(np.int64)
        names = pa.array([each.name for each in self.earlier], pa.large_string())
        stops = np.array([each.stop for each in self.earlier], np.int64)
        kept_chunks = np.asarray(one_array(found["kept_chunk"]).fill_null(sys.maxsize))
        source = np.searchsorted(stops, kept_chunks, "right")
        sources = names.take(pa.array(source, mask=source == stops.size))

        def of(name: str) -> pa.Array:
            return one_array(found[name]).take(at)

        ids, files, positions = (one_array(rows[name]) for name in ("id", "file", "position"))
        if pa.types.is_dictionary(files.type):
            files = files.cast(pa.large_string())
        return pa.Table.from_arrays(
            [
                ids,
                files,
                positions,
                pa.array(nodes),
                # of a kept document its own
                pc.coalesce(of("kept_id"), ids),
                pc.coalesce(of("kept_file"), files),
                pc.coalesce(of("kept_position"), positions),
                of("distance_bits"),
                of("similarity"),
                keys.take(pa.array(reasons)),
                sources.take(at),
                of("methods"),
                *map(one_array, counts.columns),
            ],
            schema=DECISIONS,
        )

    def _shares(self, rows: pa.Table, dropped: NDArray[np.bool_]) -> Iterator[Keyed]:
        """Yield how many documents of a chunk have each value of the counted fields."""
        ids = one_array(rows["id"])
        columns = {HOST: hosts(ids), DIRECTORY: directories(ids, self.names_below)}
        columns |= {name: one_array(rows[name]) for name in self.share_by}
        for field, values in columns.items():
            counter = ShareCounter()
            counter.add(values, dropped)
            table = counter.table()
            texts = table["value"].to_pylist()
            to = np.array([_share_key(text, self.share_keys) for text in texts], int)
            named = table.append_column("field", pa.array([field] * len(table), pa.string()))
            for key in np.unique(to).tolist():
                yield key, named.filter(pa.array(to == key))

    def max_keys(self) -> Sequence[int | None]:
        """Return the number of keys of each reduce step."""
        return [self.share_keys]

    def reduces(self) -> Sequence[Reduce]:
        """Return the step that counts by values."""
        return [self.count_values]

    def count_values(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the most common values of each field, and all else as it is."""
        for key, tables in groups:
            if key >= self.share_keys:
                yield from ((key, table) for table in tables)
                continue
            counted: dict[str, ShareCounter] = {}
            for table in tables:
                field = table["field"][0].as_py()
                counted.setdefault(field, ShareCounter()).add_table(table.drop_columns("field"))
            for field, counter in sorted(counted.items()):
                shares = counter.most_common(_MOST_COMMON)
                columns = {name: [getattr(it, name) for it in shares] for name in _SHARE_COLUMNS}
                yield key, pa.table({"field": [field] * len(shares), **columns})
                losing = losing_sources(field, counter.table())
                counters[LOSING_SOURCES] += len(losing)
                listed = losing.slice(0, LISTED)
                yield key, listed.append_column("loses", pa.repeat(True, len(listed)))


_SHARE_COLUMNS = ("value", "documents", "dropped")


class _Decided:
    """The decisions on the clustered documents of a chunk: a table as DECISION."""

    def __init__(self, documents: int, table: pa.Table) -> None:
        self.table = table
        self.kept = np.ones(documents, bool)
        self.kept[table["row"].to_numpy()] = are_kept(table["reason"].to_numpy())

    @classmethod
    def read(cls, folder: str, chunk: int) -> _Decided:
        sizes, *tables = read_shard(folder, chunk)
        table = pa.concat_tables([DECISION.empty_table(), *tables]).combine_chunks()
        return cls(int(sizes["documents"][0].as_py()), table)


def _documents_in(folder: str, chunk: int) -> int:
    """Return the number of documents of a chunk."""
    size = next(iter(read_shard(folder, chunk)))
    return int(size["documents"][0].as_py())


def _checksum(path: Path) -> str:
    return xxhash.xxh3_128(path.read_bytes()).hexdigest()


def _share_key(text: str, keys: int) -> int:
    return xxhash.xxh3_64_intdigest(text.encode(errors="surrogatepass")) % keys


def most_common(tables: Sequence[pa.Table], field: str) -> pa.Table:
    """Return the most common values of a field, from what the tasks of the job have left."""
    of_field = [table.filter(pc.field("field") == field) for table in tables]
    table = pa.concat_tables(of_field)
    order = pc.sort_indices(table, sort_keys=[("documents", "descending"), ("value", "ascending")])
    return table.take(order[:_MOST_COMMON])


def _changed(chunk: DocumentChunk) -> MrDedupError:
    return MrDedupError(f"{chunk.name}: has other documents than when it was first read")


def _has_texts(table: pa.Table) -> bool:
    """Return whether a batch of the job has texts that are to be shown, not records."""
    # rows of a Parquet file may have columns of any names
    return table.column_names == _SHOWN and FILE_KEY not in (table.schema.metadata or {})


def _texts(batch: DocumentBatch, rows: NDArray[np.int64], first: int) -> pa.Table:
    """Return the texts of some rows of a batch whose first is row ``first`` of its chunk."""
    texts = batch.texts.take(pa.array(rows))
    return pa.table({"row": rows + first, "text": texts, "position": batch.offsets[rows]})
