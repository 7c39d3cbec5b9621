"""The shards of a chunk: rows of its documents, and which of these are in clusters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.duplicate_counts import DuplicateCounts
from mr_dedup.formats.shards import read_shard
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.reading import is_rejects


@dataclass(frozen=True)
class Attached:
    """The clustered documents of a chunk: n of ``documents``.

    Attributes:
        documents: How many documents the chunk has.
        rows: int64[n], of the documents in clusters, ascending.
        nodes, labels: uint64[n].
        lengths: int64[n], of their texts in bytes.
    """

    documents: int
    rows: NDArray[np.int64]
    nodes: NDArray[np.uint64]
    labels: NDArray[np.uint64]
    lengths: NDArray[np.int64]

    @classmethod
    def read(cls, folder: str, chunk: int) -> Attached:
        """Return what the attach job has left for a chunk; raises as ``read_shard``."""
        sizes, *tables = read_shard(folder, chunk)
        names = ("row", "node", "label", "length")
        columns: list[NDArray[np.generic]]
        if tables:
            table = pa.concat_tables(tables)
            columns = [table[name].to_numpy() for name in names]
        else:
            columns = [np.empty(0, kind) for kind in (np.int64, np.uint64, np.uint64, np.int64)]
        return cls(int(sizes["documents"][0].as_py()), *columns)  # type: ignore[arg-type]

    def between(self, start: int, stop: int) -> Attached:
        """Return the clustered ones of documents ``start`` to ``stop``, as rows from ``start``."""
        found = self.chosen(slice(*np.searchsorted(self.rows, [start, stop]).tolist()))
        return replace(found, documents=stop - start, rows=found.rows - start)

    def chosen(self, which: slice | NDArray[np.int64]) -> Attached:
        """Return those of the clustered documents that a slice or an index array chooses."""
        columns = (each[which] for each in (self.rows, self.nodes, self.labels, self.lengths))
        return Attached(self.documents, *columns)  # type: ignore[arg-type]


def counts_of_rows(rows: pa.Table, seen: str | None) -> DuplicateCounts:
    """Return the counts of documents of this run before any is dropped, given their rows.

    ``seen`` is the field of rows by which documents are seen; None if there is none.
    """
    if seen is None:
        return DuplicateCounts.nothing(len(rows))
    values = one_array(rows[seen])
    return DuplicateCounts.of(np.zeros(len(rows), np.int64), values, values)


def offsets_in_rows(folder: str, chunk: int) -> list[pa.Table]:
    """Return where the records of the documents of a chunk begin: ``file`` and ``offset``."""
    rows = document_rows(folder, chunk)
    names = ["file", "offset"]
    return [] if rows is None else [rows.select(["file", "position"]).rename_columns(names)]


def document_rows(folder: str, chunk: int) -> pa.Table | None:
    """Return the rows of the documents of a chunk; None if it has no documents."""
    tables = [table for table in read_shard(folder, chunk) if not is_rejects(table)]
    return pa.concat_tables(tables).combine_chunks() if tables else None
