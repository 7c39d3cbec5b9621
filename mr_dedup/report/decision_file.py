"""Decisions read back: which documents were kept, and for whom the others were dropped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.formats.parquet_rows import ParquetRows, open_parquet

NAME = "decisions.parquet"

_BATCH_BYTES = 1 << 24


@dataclass(frozen=True)
class DecidedDocuments:
    """n documents, their ``ids`` distinct; ``keepers`` int64[n], positions, of the kept their own.

    Whoever is a keeper is kept. Keepers that are documents of earlier runs come last.
    """

    ids: pa.LargeStringArray
    keepers: NDArray[np.int64]

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which documents are kept, bool[n]."""
        own: NDArray[np.bool_] = self.keepers == np.arange(self.keepers.size)
        return own


def read_decisions(path: Path) -> DecidedDocuments:
    """Read the columns ``id`` and ``keeper`` of a file of decisions, or of the one in a folder.

    In memory: the ids, a few times. Raises FormatError if it is no such file, if an id comes twice,
    and if a keeper is not there or not kept; MrDedupError if it cannot be read.
    """
    path = path / NAME if path.is_dir() else path
    with open_parquet(path, str(path)) as file:
        columns = _columns(file, path)
    ids, keepers, earlier = (pa.concat_arrays(parts) for parts in zip(*columns, strict=True))
    read = len(ids)
    # a document for each of them, though two results may call theirs the same
    others = pa.table({"keeper": keepers, "earlier": earlier}).filter(earlier.is_valid())
    others = others.group_by(["keeper", "earlier"], use_threads=False).aggregate([])
    names = others["keeper"].combine_chunks()
    ids, keepers = pa.concat_arrays([ids, names]), pa.concat_arrays([keepers, names])
    positions = pc.index_in(ids, value_set=ids).to_numpy()
    again = np.flatnonzero(positions != np.arange(len(ids)))
    if again.size:
        row, first = int(again[0]), int(positions[again[0]])
        if row >= read:
            reason = f"has documents of several runs that are called {ids[row].as_py()!r}"
            raise FormatError(path, None, reason)
        raise FormatError(path, f"row {row}", f"has the id {ids[row].as_py()!r} of row {first}")
    places = pc.index_in(keepers, value_set=ids)
    if places.null_count:
        row = int(np.flatnonzero(places.is_null())[0])
        keeper = keepers[row].as_py()
        raise FormatError(path, f"row {row}", f"its keeper {keeper!r} is no document of the file")
    decided = DecidedDocuments(ids, places.to_numpy().astype(np.int64))
    dropped = np.flatnonzero(~decided.kept[decided.keepers])
    if dropped.size:
        row = int(dropped[0])
        raise FormatError(path, f"row {row}", f"its keeper {keepers[row].as_py()!r} is not kept")
    return decided


def _columns(file: ParquetRows, path: Path) -> list[tuple[pa.Array, ...]]:
    """Return id, keeper and earlier in parts; FormatError unless ids are there, and are ids.

    The last is null where a file has no such column.
    """
    empty = pa.array([], pa.large_string())
    parts: list[tuple[pa.Array, ...]] = [(empty, empty, empty)]
    for name in ("id", "keeper"):
        if file.columns.count(name) != 1:
            raise FormatError(path, None, f"is no file of decisions: it has no column {name!r}")
    optional = ["earlier"] if file.columns.count("earlier") == 1 else []
    for group in range(len(file.group_rows)):
        for rows in file.rows(group, ["id", "keeper", *optional], [], _BATCH_BYTES):
            ids = [_ids(rows.column(name), name, path) for name in ("id", "keeper")]
            earlier = pa.nulls(len(rows), pa.large_string())
            if optional:
                earlier = _text(rows.column("earlier"), "earlier", path)
            parts.append((*ids, earlier))
    return parts


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
        reason = f"its column {name!r} is not of text"
        raise FormatError(path, None, reason) from error
    return text
