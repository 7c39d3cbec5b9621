"""What the jobs of passages share: how documents are grouped, and how keys go to tasks and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.features.text_hashes import text_hashes
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.shards import read_shard
from mr_dedup.formats.tables import divided, one_array
from mr_dedup.jobs.contract import Counters, Keyed, TaskInput
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.reading import REJECT, DocumentReading
from mr_dedup.jobs.shares import hosts
from mr_dedup.passages.options import PassageOptions
from mr_dedup.passages.windows import CountTable, TextWindows

HOST = "host"
"""The group of a document that is the host of its id."""

WITHOUT_GROUP = "documents_without_group"
"""The counter of documents that are in no group, and so have no repeated passages."""

_CANDIDATES = "candidates"

MAX_ENTRIES = 1 << 22
"""Keys of a task that are in memory, some 200 MB; beyond that they are sent, and counted again."""


class PassageJob(DocumentJob, frozen=True, kw_only=True):
    """A job over documents that counts or finds windows.

    Attributes:
        passages: What a window is.
        per: The field whose value is the group of a document, or HOST; None for one group of all.
        min_documents: In how many documents of a group a repeated window is.
        partitions: Of keys.
        chunks_per_group: Consecutive chunks whose keys are brought together.
        max_entries: Keys that a task has in memory.
    """

    passages: PassageOptions = PassageOptions()
    per: str | None = None
    min_documents: int = 2
    partitions: int = 1
    chunks_per_group: int = 1
    max_entries: int = MAX_ENTRIES

    def reading_batches(
        self, part: TaskInput, counters: Counters, *, keep_records: bool = False
    ) -> DocumentReading:
        """Return the documents of a task's input, with the field of their group."""
        fields = () if self.per in (None, HOST) else (self.per,)
        return self.reading_of(part, counters, fields=fields, keep_records=keep_records)

    def groups_of(self, batch: DocumentBatch) -> pa.LargeStringArray | None:
        """Return the group of each document, null where it is in none; None for one of all."""
        if self.per is None:
            return None
        if self.per == HOST:
            return hosts(batch.ids)
        assert batch.fields is not None
        return one_array(batch.fields[self.per])

    def windows_of(
        self,
        batch: DocumentBatch,
        groups: pa.LargeStringArray | None,
        candidates: NDArray[np.bool_] | None = None,
    ) -> TextWindows:
        """Return the windows of the documents, or of the candidates, bool[n], among them."""
        texts = batch.texts
        if candidates is not None and not candidates.all():
            texts = pc.if_else(pa.array(candidates), texts, pa.scalar(None, texts.type))
        if groups is None:
            return TextWindows(texts, self.passages)
        values = groups.cast(pa.large_string())
        is_used = values.is_valid().to_numpy(zero_copy_only=False)
        hashes = np.ascontiguousarray(text_hashes(values)[:, 0])
        return TextWindows(texts, self.passages, hashes, is_used)

    def group_of_chunk(self, chunk: int) -> int:
        """Return the group of chunks that a chunk is of."""
        return chunk // self.chunks_per_group


def by_partition(table: pa.Table, partitions: int) -> Iterator[Keyed]:
    """Yield the rows of keys by partition: that of a key follows from its column ``one``."""
    if len(table):
        one = table["one"].to_numpy()
        high = (one >> np.uint64(32)) * np.uint64(partitions) >> np.uint64(32)
        yield from divided(table, high.astype(np.int64))


def size_of_chunk(
    chunk: int,
    documents: int,
    reject: bytes | None = None,
    candidates: NDArray[np.bool_] | None = None,
) -> pa.Table:
    """Return the table by which a chunk has a shard, also if nothing of it is repeated.

    ``reject`` is the first record that could not be read, as a line of JSON; ``candidates`` bool[n]
    are the documents that may have repeated windows, if that is known.
    """
    bits = None if candidates is None else np.packbits(candidates).tobytes()
    return pa.table(
        {
            "chunk": pa.array([chunk], pa.int32()),
            "documents_read": [documents],
            REJECT: pa.array([reject], pa.large_binary()),
            _CANDIDATES: pa.array([bits], pa.large_binary()),
        }
    )


def is_size(table: pa.Table) -> bool:
    """Return whether a table is that of ``size_of_chunk``."""
    names: list[str] = table.column_names
    return names == ["chunk", "documents_read", REJECT, _CANDIDATES]


def without_sizes(tables: Iterable[pa.Table]) -> tuple[list[tuple[int, pa.Table]], pa.Table | None]:
    """Return tables of ``size_of_chunk``, each with its chunk, and the rows of keys in others."""
    sizes, rows = [], []
    for table in tables:
        if is_size(table):
            sizes.append((table["chunk"][0].as_py(), table))
        else:
            rows.append(table)
    return sizes, pa.concat_tables(rows).combine_chunks() if rows else None


def as_rows(table: CountTable, chunk: int, names: Iterable[str]) -> pa.Table:
    """Return the keys of a table as rows with their chunk."""
    columns = table.columns()
    found = {name: columns[name] for name in names}
    return pa.table({"chunk": np.full(len(table), chunk, np.int32), **found})


def starts_of_keys(table: pa.Table) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return rows of keys, ordered by key and chunk, and where each key begins, int64[k]."""
    columns = [table["chunk"].to_numpy()]
    if "row" in table.column_names:
        columns = [table["start"].to_numpy(), table["row"].to_numpy(), *columns]
    keys = [table[name].to_numpy() for name in ("two", "one") if name in table.column_names]
    table = table.take(pa.array(np.lexsort([*columns, *keys])))
    keys = [table[name].to_numpy() for name in ("one", "two") if name in table.column_names]
    new = np.zeros(len(table), bool)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return table, np.flatnonzero(new)


def to_chunks(tables: Iterable[pa.Table]) -> Iterator[Keyed]:
    """Yield the size of each chunk and its rows, in their order, under the number of the chunk."""
    sizes, rows = without_sizes(tables)
    found = {} if rows is None else dict(divided_by_chunk(rows))
    for chunk, size in sorted(sizes, key=itemgetter(0)):
        yield chunk, size
        if chunk in found:
            yield chunk, found[chunk].drop_columns("chunk")


def divided_by_chunk(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each chunk, ordered by key."""
    names = [name for name in ("two", "one", "chunk") if name in table.column_names]
    order = np.lexsort([table[name].to_numpy() for name in names])
    table = table.take(pa.array(order))
    yield from divided(table, table["chunk"].to_numpy())


def require_unchanged(part: TaskInput, documents: int, expected: int) -> None:
    """Raise MrDedupError if a chunk has another number of documents than when it was first read."""
    if documents != expected:
        raise MrDedupError(f"{part.name}: has other documents than when it was first read")


def candidates_of_chunk(folder: str, chunk: int) -> NDArray[np.bool_]:
    """Return which documents of a chunk may have repeated windows; raises as ``read_shard``."""
    size = next(read_shard(folder, chunk))
    bits = np.frombuffer(size[_CANDIDATES][0].as_py(), np.uint8)
    return np.unpackbits(bits, count=size["documents_read"][0].as_py()).astype(bool)


def rows_of_chunk(folder: str, chunk: int) -> tuple[int, pa.Table | None]:
    """Return how many documents a chunk has, and its rows of keys; raises as ``read_shard``."""
    size, *tables = read_shard(folder, chunk)
    rows = pa.concat_tables(tables).combine_chunks() if tables else None
    return int(size["documents_read"][0].as_py()), rows
