"""Segments: tables over the documents that were added by some time, in a file that never changes.

A file is memory-mapped, so that all processes that read it share its pages. Each block of 64 KB is
held against its checksum when it is first touched, or when the segment is opened: what is damaged
is told, and nothing is answered from it.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.folders import FolderFile
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, TableDesign
from mr_dedup.index import kernels
from mr_dedup.index.ids import Ids
from mr_dedup.index.segment_file import BLOCK_BYTES, Description, IdTable, read_head
from mr_dedup.index.segment_layout import Column, columns_of, require_layout
from mr_dedup.index.tables import Permutation, permutations, tables_needed

Fingerprints = NDArray[np.uint64]

ABSENT = (1 << 64) - 1
"""The rank, or document, of what a segment does not hold."""

_MATCHES_AT_ONCE = 1 << 10
_DISTANCES = [np.uint64(k) for k in range(BITS + 1)]
_WORD_BYTES = 4


@dataclass(frozen=True)
class _Buffers:
    """What a probe writes to, one thread's at a time."""

    queries: NDArray[np.int64]
    fingerprints: Fingerprints
    ranks: NDArray[np.uint64]
    ranges: NDArray[np.uint64]

    @classmethod
    def of(cls, size: int, tables: int) -> _Buffers:
        """Return buffers for so many matches at a time."""
        fingerprints, ranks = np.empty((2, size), np.uint64)
        return cls(np.empty(size, np.int64), fingerprints, ranks, np.empty((tables, 4), np.uint64))


Found = tuple[NDArray[np.int64], Fingerprints, NDArray[np.uint64]]
"""Matches in one segment: positions of queries, fingerprints, ranks of these."""


class Segment:
    """The documents of one file: ranks are those of its distinct fingerprints in its first table.

    The documents of rank r are numbered from ``document_starts[r]``; those of one fingerprint in
    the order in which they were added. For several threads at a time.
    """

    def __init__(self, file: FolderFile, *, check: bool = True) -> None:
        """Open a file; with ``check`` read all of it, a few GB a second.

        Raises FormatError if it is damaged, FileNotFoundError if it is gone, MrDedupError if it
        cannot be read.
        """
        self.path = path = file.path
        try:
            with os.fdopen(file.open(os.O_RDONLY), "rb") as content:
                self._status = os.fstat(content.fileno())
                self._map = mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise
        except ValueError as error:
            raise FormatError(path, None, "is empty") from error
        except OSError as error:
            raise MrDedupError(f"{path}: cannot be read: {error.strerror or error}") from error
        self.description, self._checksums = read_head(path, memoryview(self._map))
        require_layout(path, self.description, len(self._map))
        self._columns = columns_of(self.description)
        whole = len(self._map) // _WORD_BYTES * _WORD_BYTES
        self._octets = np.frombuffer(self._map, np.uint8)
        self._words = np.frombuffer(self._map, np.uint32, whole // 4)
        self._halves = np.frombuffer(self._map, np.uint16, whole // 2)
        self._checked = np.zeros(len(self._checksums) + 1, np.uint8)
        self._checked[0] = 1
        self._comparing = threading.Lock()
        about = self.description
        self.documents, self.fingerprints = about.documents, about.fingerprints
        self.bytes = len(self._map)
        self.order = BitOrder.parse(about.order)
        self.design = TableDesign(about.design, about.k, tuple(about.masks))
        self._rotations, self._targets = permutations(self.design)
        self._tables = _table_fields(about, self.design)
        self._id_layout = _id_fields(about.ids)
        self._is_natural = self.order.is_natural
        self._free_buffers: list[_Buffers] = []
        needed = [tables_needed(self.design, k) for k in range(about.k + 1)]
        self._prefixes = [self._tables[:count] for count in needed]
        if check:
            self.check_all()

    def is_of(self, file: FolderFile) -> bool:
        """Return whether it is ``file`` that is open here, and not another of the same name."""
        status = file.stat()
        return status is not None and os.path.samestat(status, self._status)

    def _require_whole(self) -> None:
        """Raise FormatError if the file is not as long as it was: to read what is gone is SIGBUS.

        0.4 µs, where a query takes some 9. What is cut between this and the reading still ends the
        process. Two calls of pread, for directory and bucket, would take 3.4 µs for each table.
        """
        size = self._map.size()
        if size != self.bytes:
            reason = f"was changed while it was open: {size} bytes, {self.bytes} expected"
            raise FormatError(self.path, None, reason)

    def check_all(self) -> None:
        """Compare every block with its checksum; FormatError for the first that is damaged."""
        self._require_whole()
        for block in np.flatnonzero(self._checked == 0).tolist():
            self._check(block)

    def damaged_blocks(self) -> Iterator[FormatError]:
        """Yield what is to be said of each block that is damaged now; reads all of them."""
        for block in range(1, len(self._checked)):
            try:
                self._require_whole()
                self._check(block)
            except FormatError as error:
                yield error

    def _check(self, block: int) -> None:
        start = block * BLOCK_BYTES
        stop = min(start + BLOCK_BYTES, self.description.checksums_bytes)
        with memoryview(self._map) as content, content[start:stop] as held:
            right = xxhash.xxh3_64_intdigest(held) == int(self._checksums[block - 1])
        if not right:
            self._checked[block] = 0
            reason = f"the checksum of bytes {start} to {stop} is wrong"
            raise FormatError(self.path, f"block {block}", reason)
        # of two threads at neighbouring blocks the later one has to see the block of the other
        with self._comparing:
            for column in self._columns:
                if column.start < stop and start < column.stop:
                    self._check_column(column, block, start, stop)
            self._checked[block] = 1

    def _check_column(self, column: Column, block: int, start: int, stop: int) -> None:
        """Raise FormatError if numbers of a block are wrong, also beside those of its neighbours.

        Of two neighbours the one that is checked last is compared with the other.
        """
        if column.start < start and self._checked[block - 1]:
            start -= column.size
        if stop < column.stop and self._checked[block + 1]:
            stop += column.size
        fault = column.fault(self._octets, max(start, column.start), min(stop, column.stop))
        if fault is not None:
            self._checked[block] = 0
            raise FormatError(self.path, f"block {block}", f"its checksum is right, {fault}")

    def probe(
        self, queries: Fingerprints, k: int, enough: int | None = None
    ) -> tuple[Found | None, int]:
        """Return all fingerprints within ``k`` bits of the first of ``queries`` uint64[n].

        None for no match; and of how many queries: all, or with ``enough`` those after which there
        were so many matches, one query at least. Some microseconds a query.
        """
        self._require_whole()
        # what costs a call a microsecond costs a query of one a third
        moved = queries if self._is_natural else self.order.apply(queries)
        try:
            buffers = self._free_buffers.pop()
        except IndexError:
            buffers = _Buffers.of(_MATCHES_AT_ONCE, len(self._tables))
        parts: list[Found] = []
        begin, count, found = 0, len(moved), 0
        while begin < count and (enough is None or found < enough):
            written, begin, missing = kernels.probe(
                moved, begin, _DISTANCES[k], self._prefixes[k], self._rotations, self._targets,
                self._words, self._halves, self._octets, self._checked, buffers.ranges,
                buffers.queries, buffers.fingerprints, buffers.ranks,
            )  # fmt: skip
            if written:
                parts.append(self._found(buffers, written))
                found += written
            if missing != ABSENT:
                self._check(missing)
            elif begin < count and not written:
                buffers = _Buffers.of(2 * len(buffers.ranks), len(self._tables))
        self._free_buffers.append(buffers)
        if len(parts) < 2:
            return (parts[0] if parts else None), begin
        positions, values, ranks = zip(*parts, strict=True)
        whole = np.concatenate(positions), np.concatenate(values), np.concatenate(ranks)
        return whole, begin

    def _found(self, buffers: _Buffers, count: int) -> Found:
        """Return what a probe wrote, apart from where it writes."""
        values = buffers.fingerprints[:count].copy()
        if not self._is_natural:
            values = self.order.undo(values)
        return buffers.queries[:count].copy(), values, buffers.ranks[:count].copy()

    def find_fingerprints(self, values: Fingerprints) -> NDArray[np.uint64]:
        """Return the rank of each of ``values`` uint64[n], ABSENT for those not held."""
        moved = self.order.apply(values)
        out = np.empty(len(values), np.uint64)
        self._resumed(
            len(values),
            lambda begin: kernels.find_fingerprints(
                moved, begin, self._tables, self._rotations, self._targets, self._words,
                self._halves, self._octets, self._checked, out,
            ),
        )  # fmt: skip
        return out

    def find_ids(self, ids: Ids, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the document of each id, ABSENT for those not held; ``hashes`` are the ids'."""
        out = np.empty(len(ids), np.uint64)
        self._resumed(
            len(ids),
            lambda begin: kernels.find_ids(
                hashes, ids.content, ids.offsets, begin, self._id_layout, self._words,
                self._octets, self._checked, out,
            ),
        )  # fmt: skip
        return out

    def _resumed(self, size: int, run: Callable[[int], tuple[int, int]]) -> None:
        self._require_whole()
        begin = 0
        while begin < size:
            begin, missing = run(begin)
            if missing != ABSENT:
                self._check(missing)

    def documents_of(self, rank: int) -> range:
        """Return the documents that have the fingerprint of a rank."""
        if rank >= self.fingerprints:
            raise FormatError(self.path, "table 0", "lacks a fingerprint of another table")
        starts = self.description.starts_bytes
        if starts is None:
            return range(rank, rank + 1)
        at = starts // _WORD_BYTES + rank
        self._touch(at * _WORD_BYTES, (at + 2) * _WORD_BYTES)
        return range(int(self._words[at]), int(self._words[at + 1]))

    def id_of(self, document: int) -> str:
        """Return the id of a document."""
        table = self.description.ids
        assert table is not None, "the documents of this segment have no ids"
        size = _WORD_BYTES * table.offset_words
        at = table.offsets_bytes + document * size
        self._touch(at, at + 2 * size)
        start, stop = self._octets[at : at + 2 * size].view(f"<u{size}").tolist()
        self._touch(table.content_bytes + start, table.content_bytes + stop)
        try:
            return self._map[table.content_bytes + start : table.content_bytes + stop].decode()
        except UnicodeDecodeError as error:
            reason = "its checksum is right, and it is not UTF-8"
            raise FormatError(self.path, f"id {document}", reason) from error

    def _touch(self, start: int, stop: int) -> None:
        for block in range(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)):
            if not self._checked[block]:
                self._check(block)

    def ids(self) -> Ids:
        """Return all ids, by document: a view of the file, and 8 bytes each; reads all of it."""
        table = self.description.ids
        assert table is not None, "the documents of this segment have no ids"
        self.check_all()
        size = _WORD_BYTES * table.offset_words
        end = table.offsets_bytes + (self.documents + 1) * size
        offsets = self._octets[table.offsets_bytes : end].view(f"<u{size}").astype(np.int64)
        content = self._octets[table.content_bytes :][: table.content_length]
        return Ids(content, offsets)

    def distinct(self, table: int = 0) -> Fingerprints:
        """Return the fingerprints by rank, or as another table has them; reads all of it."""
        self.check_all()
        out = np.empty(self.fingerprints, np.uint64)
        kernels.decode(
            table, self._tables, self._rotations, self._targets, self._words, self._halves,
            self._octets, out,
        )  # fmt: skip
        kernels.restore_all(out, self._rotations, self._targets, table, out)
        return self.order.undo(out)

    def document_starts(self) -> NDArray[np.uint32]:
        """Return where the documents of each rank begin, uint32[ranks + 1]."""
        starts = self.description.starts_bytes
        if starts is None:
            return np.arange(self.fingerprints + 1, dtype=np.uint32)
        at = starts // _WORD_BYTES
        self._touch(starts, starts + (self.fingerprints + 1) * _WORD_BYTES)
        return self._words[at : at + self.fingerprints + 1]


def _table_fields(about: Description, design: TableDesign) -> NDArray[np.uint64]:
    """Return the tables as the kernels take them."""
    fields = np.zeros((len(about.tables), kernels.FIELDS), np.uint64)
    for number, table in enumerate(about.tables):
        width = min(design.key_widths[number], table.directory_bits)
        high_bytes = 2 if table.directory_bits < 24 else 1
        fields[number] = (
            Permutation.of(design, number).leading(width),
            width,
            table.directory_bits,
            table.directory_bytes // _WORD_BYTES,
            table.low_bytes // _WORD_BYTES,
            table.high_bytes // high_bytes,
            high_bytes,
        )
    return fields


def _id_fields(table: IdTable | None) -> NDArray[np.uint64]:
    fields = np.zeros(kernels.ID_FIELDS, np.uint64)
    if table is not None:
        fields[:] = (
            table.directory_bits,
            table.directory_bytes // _WORD_BYTES,
            table.tags_bytes // _WORD_BYTES,
            table.documents_bytes // _WORD_BYTES,
            table.offsets_bytes // _WORD_BYTES,
            table.offset_words,
            table.content_bytes,
        )
    return fields
