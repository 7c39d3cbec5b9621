"""Lengths of documents by their ids, in bytes of their texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.fingerprint_parquet import ID, LENGTH
from mr_dedup.formats.parquet_rows import open_parquet

Lengths = tuple[pa.LargeStringArray, NDArray[np.int64]]
"""Ids, and the length of each one's text."""

_BATCH_BYTES = 1 << 24


def lengths_of(wanted: pa.LargeStringArray, known: Iterable[Lengths]) -> NDArray[np.int64]:
    """Return the length of each document in ``wanted``, whose ids are distinct: int64[n].

    Raises MrDedupError for one that is not ``known``, or twice.
    """
    found = np.zeros(len(wanted), np.int64)
    times = np.zeros(len(wanted), np.int64)
    for ids, lengths in known:
        places = pc.index_in(ids, value_set=wanted)
        is_wanted = places.is_valid().to_numpy(zero_copy_only=False)
        rows = places.drop_null().to_numpy()
        found[rows] = lengths[is_wanted]
        times += np.bincount(rows, minlength=times.size)
    for problem, reason in ((times == 0, "has no length"), (times > 1, "has several lengths")):
        if problem.any():
            id = wanted[int(np.flatnonzero(problem)[0])].as_py()
            raise MrDedupError(f"the document {id!r} {reason}")
    return found


def document_lengths(batches: Iterable[DocumentBatch]) -> Iterator[Lengths]:
    """Yield the lengths of documents as they are read."""
    for batch in batches:
        yield batch.ids, np.diff(batch.text_bytes()[0])


def fingerprint_file_lengths(path: Path) -> Iterator[Lengths]:
    """Yield the lengths that a Parquet file of fingerprints has.

    Raises FormatError if it has none, or they are no integers, and MrDedupError if it cannot be
    read.
    """
    with open_parquet(path, str(path)) as file:
        for name in (ID, LENGTH):
            if file.columns.count(name) != 1:
                raise FormatError(path, None, f"has no column {name!r}")
        for group in range(len(file.group_rows)):
            for rows in file.rows(group, [ID, LENGTH], [], _BATCH_BYTES):
                try:
                    ids = rows.column(ID).cast(pa.large_string())
                    lengths = rows.column(LENGTH).cast(pa.int64())
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise FormatError(path, None, f"its columns are no lengths: {error}") from error
                if ids.null_count or lengths.null_count:
                    raise FormatError(path, None, f"has rows without {ID} or {LENGTH}")
                yield ids, lengths.to_numpy()
