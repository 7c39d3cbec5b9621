"""Read decisions: which documents are kept, and which kept document each dropped one duplicates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.formats.parquet_rows import ParquetRows, open_parquet
from mr_dedup.formats.parts import PARQUET, part_files

NAME = "decisions"
"""The directory of a result with its decisions."""

_BATCH_BYTES = 1 << 24

_LOCATIONS = ("file", "position"), ("kept_file", "kept_position")
"""The columns that identify a document, and the kept document that it duplicates."""


REPEATED = [
    "file", "cluster", "kept_file", "distance_bits", "similarity", "reason", "earlier_result",
    "methods", "first_seen", "last_seen",
]  # fmt: skip
"""Columns whose values repeat."""

DECISIONS = pa.schema(
    [
        pa.field("id", pa.large_string()),
        pa.field("file", pa.large_string()),
        pa.field("position", pa.int64()),
        pa.field("cluster", pa.int64()),
        pa.field("kept_id", pa.large_string()),
        pa.field("kept_file", pa.large_string()),
        pa.field("kept_position", pa.int64()),
        pa.field("distance_bits", pa.uint8()),
        pa.field("similarity", pa.float64()),
        pa.field("reason", pa.string()),
        pa.field("earlier_result", pa.large_string()),
        pa.field("methods", pa.string()),
        pa.field("duplicates", pa.int64()),
        pa.field("duplicates_total", pa.int64()),
        pa.field("first_seen", pa.large_string()),
        pa.field("last_seen", pa.large_string()),
    ]
)
"""The columns of decisions."""


@dataclass(frozen=True)
class DecidedDocuments:
    """n documents with their decisions.

    Args:
        ids: the ids of the documents; kept documents of earlier runs come last.
        kept_rows: int64[n], the row of the kept document that each duplicates; for a kept document
            its own row.
    """

    ids: pa.LargeStringArray
    kept_rows: NDArray[np.int64]

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which documents are kept, bool[n]."""
        own: NDArray[np.bool_] = self.kept_rows == np.arange(self.kept_rows.size)
        return own


def read_decisions(path: Path, expected: int | None = None) -> DecidedDocuments:
    """Read decisions. Takes a few times the size of their ids in memory.

    A document is identified by ``file`` and ``position``, the kept document that it duplicates by
    ``kept_file`` and ``kept_position``; without these columns by ``id`` and ``kept_id``.

    Args:
        path: a Parquet file, a directory of such files, or a result, a directory that contains the
            directory ``decisions``.
        expected: the number of documents, if it is known.

    Raises:
        FormatError: if it contains other files, or decisions of format version 1; if a document
            occurs twice, or if a kept document is missing or not kept; for a missing part, and for
            another number of documents than ``expected``.
        MrDedupError: if it cannot be read.
    """
    files = _files(path)
    read: list[list[tuple[pa.Array, ...]]] = []
    for each in files:
        with open_parquet(each, str(each)) as file:
            read.append(_columns(file, each))
    ids, kept_ids, earlier, keys, kept_keys = (
        pa.concat_arrays(parts) for parts in zip(*itertools.chain(*read), strict=True)
    )
    if expected is not None and len(ids) != expected:
        reason = f"has decisions on {len(ids):,} documents, expected {expected:,}"
        raise FormatError(path, None, reason)
    rows_of = _RowNames(files, [sum(len(part[0]) for part in parts) for parts in read])
    # the kept documents of earlier runs become rows after those of this run
    others = pa.table({"kept_id": kept_ids, "earlier": earlier, "key": kept_keys})
    others = others.filter(earlier.is_valid())
    others = others.group_by(["earlier", "key"], use_threads=False).aggregate([("kept_id", "min")])
    of_earlier = _with_result(others["key"].combine_chunks(), others["earlier"].combine_chunks())
    keys = pa.concat_arrays([_with_result(keys, pa.nulls(len(keys), earlier.type)), of_earlier])
    kept_keys = pa.concat_arrays([_with_result(kept_keys, earlier), of_earlier])
    ids = pa.concat_arrays([ids, others["kept_id_min"].combine_chunks()])
    rows = pc.index_in(keys, value_set=keys).to_numpy()
    again = np.flatnonzero(rows != np.arange(len(ids)))
    if again.size:
        row, first = int(again[0]), int(rows[again[0]])
        of = rows_of.phrase(first, row)
        raise rows_of.error(row, f"repeats the document {ids[row].as_py()!r} of {of}")
    kept_rows = pc.index_in(kept_keys, value_set=keys)
    if kept_rows.null_count:
        row = int(np.flatnonzero(kept_rows.is_null())[0])
        kept_id = kept_ids[row].as_py()
        where = "file" if len(files) == 1 else "directory"
        raise rows_of.error(row, f"its kept document {kept_id!r} is not in the {where}")
    decided = DecidedDocuments(ids, kept_rows.to_numpy().astype(np.int64))
    dropped = np.flatnonzero(~decided.kept[decided.kept_rows])
    if dropped.size:
        row = int(dropped[0])
        kept_id = kept_ids[row].as_py()
        raise rows_of.error(row, f"its kept document {kept_id!r} is not kept")
    return decided


def _files(path: Path) -> list[Path]:
    """Return the files of decisions in their order; raise as ``read_decisions``."""
    if not path.is_dir():
        return [path]
    folder = path / NAME if (path / NAME).is_dir() else path
    files = part_files(folder)
    if any(file.suffix.lower() != PARQUET for file in files):
        raise FormatError(path, None, f"contains no directory {NAME}, and not only Parquet files")
    return files


class _RowNames:
    """Names rows of several files."""

    def __init__(self, files: Sequence[Path], counts: Sequence[int]) -> None:
        self._files = files
        self._stops = np.cumsum(counts)
        self._starts = self._stops - counts

    def error(self, row: int, reason: str) -> FormatError:
        """Return an error in a row of all files."""
        file = self._file(row)
        return FormatError(self._files[file], f"row {row - self._starts[file]}", reason)

    def phrase(self, row: int, seen_from: int) -> str:
        """Return what to call a row in an error in another one."""
        file = self._file(row)
        inside = "" if file == self._file(seen_from) else f"{self._files[file].name}, "
        return f"{inside}row {row - self._starts[file]}"

    def _file(self, row: int) -> int:
        return int(np.searchsorted(self._stops, row, side="right"))


def _with_result(keys: pa.LargeStringArray, earlier: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return keys joined with the earlier result that each document is from; null for this run."""
    parts = keys, pc.fill_null(earlier, ""), pa.scalar("\0", pa.large_string())
    return pc.binary_join_element_wise(*parts)


def _columns(file: ParquetRows, path: Path) -> list[tuple[pa.Array, ...]]:
    """Return the columns id, kept_id and earlier_result, and the keys of both documents, in parts.

    ``earlier_result`` is null if the file has no such column. Raises FormatError if there are no
    ids, and for a file of format version 1.
    """
    empty = pa.array([], pa.large_string())
    parts: list[tuple[pa.Array, ...]] = [(empty,) * 5]
    if "keeper" in file.columns and "kept_id" not in file.columns:
        reason = "is of a result of format version 1; de-duplicate its documents again"
        raise FormatError(path, None, reason)
    for name in ("id", "kept_id"):
        if file.columns.count(name) != 1:
            raise FormatError(path, None, f"not a file of decisions: it has no column {name!r}")
    optional = ["earlier_result"] if file.columns.count("earlier_result") == 1 else []
    located = all(file.columns.count(name) == 1 for each in _LOCATIONS for name in each)
    if located:
        optional += [name for each in _LOCATIONS for name in each]
    for group in range(len(file.group_rows)):
        for rows in file.rows(group, ["id", "kept_id", *optional], [], _BATCH_BYTES):
            ids = [_ids(rows.column(name), name, path) for name in ("id", "kept_id")]
            earlier = pa.nulls(len(rows), pa.large_string())
            if "earlier_result" in optional:
                earlier = _text(rows.column("earlier_result"), "earlier_result", path)
            keys = [_key(rows, names, path) for names in _LOCATIONS] if located else ids
            parts.append((*ids, earlier, *keys))
    return parts


def _key(rows: pa.RecordBatch, names: tuple[str, str], path: Path) -> pa.LargeStringArray:
    """Return files and positions, joined."""
    file, position = (_ids(rows.column(name), name, path) for name in names)
    return pc.binary_join_element_wise(file, position, pa.scalar("\0", pa.large_string()))


def _ids(column: pa.Array, name: str, path: Path) -> pa.LargeStringArray:
    text = _text(column, name, path)
    if text.null_count:
        raise FormatError(path, None, f"its column {name!r} has rows without an id")
    return text


def _text(column: pa.Array, name: str, path: Path) -> pa.LargeStringArray:
    try:
        text = column.cast(pa.large_string())
        text.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = f"its column {name!r} is not text"
        raise FormatError(path, None, reason) from error
    return text


CLUSTERS = pa.schema(
    [
        pa.field("cluster", pa.int64()),
        pa.field("documents", pa.int64()),
        pa.field("documents_kept", pa.int64()),
        pa.field("earlier_documents", pa.int64()),
    ]
)
"""A row a cluster of two or more documents."""
