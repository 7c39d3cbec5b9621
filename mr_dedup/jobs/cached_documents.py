"""What a process keeps of documents between jobs: sets of shingles, and texts of pages."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.shingle_sets import MAX_SHINGLES, ShingleSets
from mr_dedup.features.text_hashes import text_hashes
from mr_dedup.formats.documents.batch import DocumentBatch, KnownText
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.html_process import Extracted
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.part_cache import Cache

HASHES = ["text_hash_0", "text_hash_1"]
"""The columns of hashes of texts, uint64 each."""

SETS = ["shingles", "shingle_count"]
"""The columns of sets of shingles: lists of hashes, and how many shingles there are."""

_SETS, _TEXTS = "sets of shingles", "texts of pages"


def put_sets(cache: Cache, number: int, batch: DocumentBatch, sets: ShingleSets) -> None:
    """Keep what compares the documents of a batch of chunk ``number``.

    Columns ``id``, HASHES and SETS, ``has_text``, and those of ``fields_of``. Of a text that a
    document of any chunk had before, the set is empty, and ``has_text`` false: that document is in
    the same cluster, and comes with its text if its set was not kept.
    """
    hashes = text_hashes(batch.texts)
    is_new = np.ones(len(batch), np.bool_)
    if cache.texts is not None:
        is_new = ~cache.texts.add(hashes)
        sets = sets.emptied(~is_new)
    columns = {"id": batch.ids, "has_text": is_new} | columns_of_hashes(hashes)
    cache.put(_SETS, number, pa.table(columns | columns_of_sets(sets) | fields_of(batch)))


def take_sets(cache: Cache | None, number: int) -> Iterator[pa.Table] | None:
    """Return what ``put_sets`` kept of the documents of a chunk, None if they are not cached."""
    return cache.take(_SETS, number) if cache is not None else None


def put_texts(cache: Cache, number: int, batch: DocumentBatch) -> None:
    """Keep the text of each document of a batch."""
    cache.put(_TEXTS, number, pa.table({"text": batch.texts}))


def take_texts(
    cache: Cache | None, number: int, *, stays: bool = False
) -> Iterator[pa.Table] | None:
    """Return what ``put_texts`` kept of the documents of a chunk, None if it is not cached."""
    return cache.take(_TEXTS, number, stays=stays) if cache is not None else None


def has_offsets(chunk: DocumentChunk) -> bool:
    """Return whether the records of a chunk can be found by their file and offset: lines."""
    return all(part.file.format == "jsonl" for part in chunk.parts)


def has_pages(chunk: DocumentChunk) -> bool:
    """Return whether texts of a chunk are extracted from files and records that are pages."""
    return any(part.file.format in ("html", "warc") for part in chunk.parts)


def known_texts(
    offsets: Iterable[pa.Table], wanted: NDArray[np.bool_], texts: Iterable[pa.Table] | None
) -> KnownText:
    """Return what is known of the pages of a chunk, whose documents were read before.

    Args:
        offsets: Their ``file`` and ``offset``, in their order; other pages are no documents.
        wanted: Which of their texts are needed; others become empty.
        texts: Their texts; None if those that are needed are to be extracted.
    """

    @functools.cache
    def rows() -> dict[tuple[str, int], int]:
        tables = (table.select(["file", "offset"]).to_pydict() for table in offsets)
        begins = itertools.chain.from_iterable(
            zip(table["file"], table["offset"], strict=True) for table in tables
        )
        return {begin: row for row, begin in enumerate(begins)}

    @functools.cache
    def columns() -> pa.ChunkedArray | None:
        return None if texts is None else pa.concat_tables(texts)["text"]

    def known(file: str, offset: int) -> Extracted | None:
        row = rows().get((file, offset))
        if row is None:
            return Extracted(None)
        if not wanted[row]:
            return Extracted("")
        found = columns()
        return None if found is None else Extracted(found[row].as_py())

    return known


def fields_of(batch: DocumentBatch) -> dict[str, pa.ChunkedArray]:
    """Return the fields of documents as columns ``field_NAME``."""
    if batch.fields is None:
        return {}
    names = batch.fields.column_names
    return {f"field_{name}": batch.fields[name] for name in names}


def columns_of_hashes(hashes: NDArray[np.uint64]) -> dict[str, NDArray[np.uint64]]:
    """Return hashes uint64[n, 2] as the columns HASHES."""
    return dict(zip(HASHES, hashes.T, strict=True))


def columns_of_sets(sets: ShingleSets) -> dict[str, pa.Array]:
    """Return sets as the columns SETS."""
    lists = pa.LargeListArray.from_arrays(pa.array(sets.offsets), pa.array(sets.hashes))
    return dict(zip(SETS, (lists, pa.array(sets.sizes)), strict=True))


def sets_in(table: pa.Table, max_hashes: int = MAX_SHINGLES) -> ShingleSets:
    """Return the sets of the columns SETS, which were cut at ``max_hashes``."""
    lists, sizes = (one_array(table[name]) for name in SETS)
    return ShingleSets.of_sizes(sizes.to_numpy(), lists.flatten().to_numpy(), max_hashes)
