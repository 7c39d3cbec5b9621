"""Write segments: the tables over fingerprints, and the hash table of ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.files.folders import FolderFile
from mr_dedup.hamming.design import BITS
from mr_dedup.hamming.kernels import sort_runs
from mr_dedup.hamming.planner import spread_sample
from mr_dedup.index import kernels
from mr_dedup.index.ids import Ids
from mr_dedup.index.segment_file import (
    MAX_DOCUMENTS,
    BlockWriter,
    Description,
    IdTable,
    Table,
    created,
)
from mr_dedup.index.tables import chosen_design, directory_bits_for, table_rows
from mr_dedup.kernels.distances import LANES

Fingerprints = NDArray[np.uint64]

_WORD_BYTES = 4
_PIECE = 1 << 20
_NO_STARTS = np.empty(0, np.uint32)


class StoppedError(Exception):
    """Writing was stopped by the caller."""


def write_segment(
    file: FolderFile,
    fingerprints: Fingerprints,
    ids: Sequence[Ids] | None,
    k: int,
    design: str | None = None,
    stop: Callable[[], bool] = lambda: False,
    *,
    directory_bits: int | None = None,
) -> None:
    """Write the segment of documents.

    Takes some 30 ns a fingerprint and table; 24 bytes of memory a document, with ids 32 and those
    of a million ids.

    Args:
        file: the new file, forced to the disk; after an error there is none.
        fingerprints: uint64[n], n up to MAX_DOCUMENTS, in the order in which they were added.
        ids: the ids of the documents, in parts one after another; None for distinct fingerprints
            without ids.
        k: the largest distance of a query.
        design: the name of the table design, by default the best one.
        stop: called before each table; True stops the writing.
        directory_bits: of each table, 16 to 31, by default the best for the size.

    Raises:
        MrDedupError: the file cannot be written, or there are too many documents.
        StoppedError: ``stop`` returned True.
    """
    if len(fingerprints) > MAX_DOCUMENTS:
        raise MrDedupError(
            f"{file.path}: {len(fingerprints):,} documents; a segment has fewer than 2³²"
        )
    chosen, order = chosen_design(spread_sample(fingerprints), len(fingerprints), k, design)
    rows = table_rows(chosen)
    values = np.empty(len(fingerprints), np.uint64)
    kernels.permute_all(order.apply(fingerprints), rows, 0, values)
    by_rank: NDArray[np.int64] | None = None
    if ids is None:
        values.sort()
    else:
        by_rank = np.argsort(values).astype(np.int64, copy=False)
        values = values[by_rank]
        sort_runs(values, by_rank)
    starts, values = _distinct(values)
    with created(file) as out:
        tables = []
        for table in range(len(chosen.masks)):
            if stop():
                raise StoppedError
            bits = directory_bits or directory_bits_for(len(values), chosen.key_widths[table])
            tables.append(_write_table(out, values, rows, table, bits))
        starts_bytes = None
        if len(starts):
            starts_bytes = out.align()
            out.write_array(starts)
        id_table = None
        if ids is not None and by_rank is not None:
            id_table = _write_ids(out, ids, by_rank)
        out.pad(LANES * 8)
        out.align()
        out.finish(
            Description(
                documents=len(fingerprints), fingerprints=len(values), k=chosen.k,
                design=chosen.name, masks=list(chosen.masks), order=str(order), tables=tables,
                starts_bytes=starts_bytes, ids=id_table, checksums_bytes=0, checksums_checksum=0,
            )
        )  # fmt: skip


def _distinct(ordered: Fingerprints) -> tuple[NDArray[np.uint32], Fingerprints]:
    """Return the first row of each distinct value, uint32[m + 1], and the distinct values.

    There are no first rows if all values are distinct.
    """
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    if new.all():
        return _NO_STARTS, ordered
    return np.append(np.flatnonzero(new), len(ordered)).astype(np.uint32), ordered[new]


def _write_table(
    out: BlockWriter,
    values: Fingerprints,
    rows: NDArray[np.uint64],
    table: int,
    bits: int,
) -> Table:
    """Write a table over ``values`` uint64[n], which are permuted and sorted for the first one."""
    if table:
        permuted = np.empty_like(values)
        kernels.restore_all(values, rows, 0, permuted)
        kernels.permute_all(permuted, rows, table, permuted)
        permuted.sort()
        values = permuted
    directory = np.empty((1 << bits) + 1, np.uint32)
    kernels.fill_directory(values, np.uint64(BITS - bits), directory)
    directory_bytes = out.align()
    out.write_array(directory)
    low_bytes = out.align()
    for start in range(0, len(values), _PIECE):
        out.write_array(values[start : start + _PIECE].astype(np.uint32))
    out.pad(LANES * _WORD_BYTES)
    high_bytes = out.align()
    kind = np.uint16 if bits < 24 else np.uint8
    mask = np.uint64((1 << (32 - bits)) - 1)
    for start in range(0, len(values), _PIECE):
        out.write_array((values[start : start + _PIECE] >> np.uint64(32) & mask).astype(kind))
    return Table(bits, directory_bytes, low_bytes, high_bytes)


def _write_ids(out: BlockWriter, parts: Sequence[Ids], by_rank: NDArray[np.int64]) -> IdTable:
    """Write the ids of documents and their hash table; ``by_rank`` int64[n] are rows of ids."""
    count = len(by_rank)
    lengths = np.concatenate([np.empty(0, np.int64), *(np.diff(part.offsets) for part in parts)])
    hashes = np.concatenate([np.empty(0, np.uint64), *(part.hashes() for part in parts)])[by_rank]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths[by_rank], out=offsets[1:])
    del lengths
    bits = max(1, min(28, max(1, count // 8).bit_length()))
    documents = np.argsort(hashes)
    hashes = hashes[documents]
    directory = np.empty((1 << bits) + 1, np.uint32)
    kernels.fill_directory(hashes, np.uint64(BITS - bits), directory)
    starts_bytes = [out.align()]
    out.write_array(directory)
    for column in (hashes, documents):
        starts_bytes.append(out.align())
        for start in range(0, count, _PIECE):
            out.write_array(column[start : start + _PIECE].astype(np.uint32))
    del hashes, documents
    words = 1 if offsets[-1] < 1 << 32 else 2
    starts_bytes.append(out.align())
    for start in range(0, count + 1, _PIECE):
        out.write_array(offsets[start : start + _PIECE].astype(f"<u{4 * words}"))
    starts_bytes.append(out.align())
    _write_content(out, parts, by_rank, offsets)
    directory_at, tags_at, documents_at, offsets_at, content_at = starts_bytes
    return IdTable(
        bits, words, directory_at, tags_at, documents_at, offsets_at, content_at, int(offsets[-1])
    )


def _write_content(
    out: BlockWriter, parts: Sequence[Ids], by_rank: NDArray[np.int64], offsets: NDArray[np.int64]
) -> None:
    """Write the text of ids by rank, a million at a time."""
    edges = np.cumsum([0, *map(len, parts)])
    for start in range(0, len(by_rank), _PIECE):
        wanted = by_rank[start : start + _PIECE]
        local_offsets = offsets[start : start + len(wanted) + 1] - offsets[start]
        content = np.empty(int(local_offsets[-1]), np.uint8)
        for part, first, end in zip(parts, edges[:-1], edges[1:], strict=True):
            rows = np.where((wanted >= first) & (wanted < end), wanted - first, -1)
            kernels.copy_ids(part.content, part.offsets, rows, local_offsets, content)
        out.write_array(content)
