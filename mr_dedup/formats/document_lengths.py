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
"""Ids, and the length of the text of each, int64."""

_BATCH_BYTES = 1 << 24


def lengths_of(ids: pa.LargeStringArray, batches: Iterable[Lengths]) -> NDArray[np.int64]:
    """Return the length of each document, int64[n].

    Args:
        ids: the distinct ids of the documents.
        batches: lengths of these documents and of others.

    Raises:
        MrDedupError: for a document without a length, or with several.
    """
    result = np.zeros(len(ids), np.int64)
    times = np.zeros(len(ids), np.int64)
    for batch_ids, lengths in batches:
        indices = pc.index_in(batch_ids, value_set=ids)
        is_known = indices.is_valid().to_numpy(zero_copy_only=False)
        rows = indices.drop_null().to_numpy()
        result[rows] = lengths[is_known]
        times += np.bincount(rows, minlength=times.size)
    for problem, reason in ((times == 0, "has no length"), (times > 1, "has several lengths")):
        if problem.any():
            id = ids[int(np.flatnonzero(problem)[0])].as_py()
            raise MrDedupError(f"the document {id!r} {reason}")
    return result


def document_lengths(batches: Iterable[DocumentBatch]) -> Iterator[Lengths]:
    """Yield the lengths of documents as they are read."""
    for batch in batches:
        yield batch.ids, batch.text_lengths


def fingerprint_file_lengths(path: Path) -> Iterator[Lengths]:
    """Yield the lengths in a Parquet file of fingerprints.

    Raises:
        FormatError: if it has no lengths, or they are not integers.
        MrDedupError: if it cannot be read.
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
                    raise FormatError(path, None, f"its lengths are invalid: {error}") from error
                if ids.null_count or lengths.null_count:
                    raise FormatError(path, None, f"has rows without {ID} or {LENGTH}")
                yield ids, lengths.to_numpy()
