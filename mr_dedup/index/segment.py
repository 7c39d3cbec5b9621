"""Segments: immutable files of tables over documents.

A file is memory-mapped, so that all processes that read it share its pages. Each block of 64 KB is
compared with its checksum before it is first used, or when the segment is opened: damage is
reported as FormatError, and no result is made of it.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.files.folders import FolderFile
from mr_dedup.files.io_errors import cannot_be_read
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, TableDesign
from mr_dedup.index import kernels
from mr_dedup.index.ids import Ids
from mr_dedup.index.segment_file import BLOCK_BYTES, Description, IdTable, read_head
from mr_dedup.index.segment_layout import Column, columns_of, require_layout
from mr_dedup.index.tables import Permutation, table_rows, tables_needed
from mr_dedup.kernels.library import VARIES

Fingerprints = NDArray[np.uint64]

ABSENT = (1 << 64) - 1
"""The rank, or document, of what a segment does not contain."""

BUFFERED_MATCHES = 1 << 10
"""Matches that the buffer of a probe has room for at first."""

_DISTANCES = [np.uint64(k) for k in range(BITS + 1)]
_WORD_BYTES = 4


class _Buffers(NamedTuple):
    """What a probe of one thread writes to, views of it, and the probe that writes there."""

    rows: NDArray[np.int64]
    fingerprints: NDArray[np.uint64]
    ranks: NDArray[np.uint64]
    probe: Callable[..., tuple[int, int, np.uint64]]


Found = tuple[NDArray[np.int64], Fingerprints, NDArray[np.uint64]]
"""Matches in one segment: rows of queries, fingerprints, ranks of these."""


class Segment:
    """The documents of one file; several threads may read it.

    The rank of a fingerprint is its row in the first table. The documents of rank r are numbered
    from ``document_starts[r]``; those of one fingerprint in the order in which they were added.

    Args:
        file: the file, which is mapped into memory.
        check: compare all of it with its checksums first, a few GB a second.

    Raises:
        FormatError: the file is damaged.
        FileNotFoundError: it is missing.
        MrDedupError: it cannot be read.
    """

    def __init__(self, file: FolderFile, *, check: bool = True) -> None:
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
            raise cannot_be_read(path, error) from error
        self.description, self._checksums = read_head(path, memoryview(self._map))
        require_layout(path, self.description, len(self._map))
        self._columns = columns_of(self.description)
        whole = len(self._map) // _WORD_BYTES * _WORD_BYTES
        self._octets = np.frombuffer(self._map, np.uint8)
        self._words = np.frombuffer(self._map, np.uint32, whole // 4)
        self._halves = np.frombuffer(self._map, np.uint16, whole // 2)
        self._verified = np.zeros(len(self._checksums) + 1, np.uint8)
        self._verified[0] = 1
        self._comparing = threading.Lock()
        about = self.description
        self.documents, self.fingerprints = about.documents, about.fingerprints
        self.bytes = len(self._map)
        self.order = BitOrder.parse(about.order)
        self.design = TableDesign(about.design, about.k, tuple(about.masks))
        self._tables = _table_fields(about, self.design)
        self._id_layout = _id_fields(about.ids)
        self._is_natural = self.order.is_natural
        self._free_buffers: list[_Buffers] = []
        needed = [tables_needed(self.design, k) for k in range(about.k + 1)]
        self._prefixes = [self._tables[:count] for count in needed]
        if check:
            self.check_all()

    @property
    def made(self) -> float:
        """When the file was written, in seconds since 1970."""
        return self._status.st_mtime

    def is_of(self, file: FolderFile) -> bool:
        """Return whether ``file`` is the file that is open here, and not another of its name."""
        status = file.stat()
        return status is not None and os.path.samestat(status, self._status)

    def _require_whole(self) -> None:
        """Raise FormatError if the file is not as long as it was: to read past its end is SIGBUS.

        0.4 µs, where a query takes some 9. A file that is cut between this and the reading still
        ends the process. Two calls of pread, for directory and bucket, would take 3.4 µs a table.
        """
        size = self._map.size()
        if size != self.bytes:
            reason = f"was changed while it was open: {size} bytes, {self.bytes} expected"
            raise FormatError(self.path, None, reason)

    def check_all(self) -> None:
        """Compare every block with its checksum; FormatError for the first that is damaged."""
        self._require_whole()
        for block in np.flatnonzero(self._verified == 0).tolist():
            self._check(block)

    def damaged_blocks(self) -> Iterator[FormatError]:
        """Yield an error for each block that is damaged now; reads all blocks."""
        for block in range(1, len(self._verified)):
            try:
                self._require_whole()
                self._check(block)
            except FormatError as error:
                yield error

    def _check(self, block: int) -> None:
        start = block * BLOCK_BYTES
        stop = min(start + BLOCK_BYTES, self.description.checksums_bytes)
        with memoryview(self._map) as content, content[start:stop] as raw:
            intact = xxhash.xxh3_64_intdigest(raw) == int(self._checksums[block - 1])
        if not intact:
            self._verified[block] = 0
            reason = f"the checksum of bytes {start} to {stop} is wrong"
            raise FormatError(self.path, f"block {block}", reason)
        # of two threads at neighbouring blocks the later one has to see the block of the other
        with self._comparing:
            for column in self._columns:
                if column.start < stop and start < column.stop:
                    self._check_column(column, block, start, stop)
            self._verified[block] = 1

    def _check_column(self, column: Column, block: int, start: int, stop: int) -> None:
        """Raise FormatError if numbers of a block are wrong, also beside those of its neighbours.

        Of two neighbours the one that is verified last is compared with the other.
        """
        if column.start < start and self._verified[block - 1]:
            start -= column.size
        if stop < column.stop and self._verified[block + 1]:
            stop += column.size
        fault = column.fault(self._octets, max(start, column.start), min(stop, column.stop))
        if fault is not None:
            self._verified[block] = 0
            raise FormatError(self.path, f"block {block}", f"its checksum is right, {fault}")

    def probe(
        self,
        queries: Fingerprints,
        k: int,
        stop_after: int | None = None,
        buffered: int = BUFFERED_MATCHES,
    ) -> tuple[Found | None, int]:
        """Return the fingerprints within ``k`` bits of the first of ``queries`` uint64[n].

        Some microseconds a query. ``buffered`` is the number of matches that a new buffer has room
        for; it is doubled if a query has more.

        Returns:
            The matches, None if there are none; and the number of queries that were processed: all,
            or up to the one that made ``stop_after`` matches.
        """
        self._require_whole()
        # what costs a call a microsecond costs a query of one a third
        moved = queries if self._is_natural else self.order.apply(queries)
        try:
            buffers = self._free_buffers.pop()
        except IndexError:
            buffers = self._new_buffers(buffered)
        parts: list[Found] = []
        begin, count, found = 0, len(moved), 0
        while begin < count and (stop_after is None or found < stop_after):
            written, begin, missing = buffers.probe(moved, begin, _DISTANCES[k], self._prefixes[k])
            if written:
                parts.append(self._found(buffers, written))
                found += written
            if missing != ABSENT:
                self._check(int(missing))
            elif begin < count and not written:
                buffers = self._new_buffers(2 * len(buffers.ranks))
        if len(buffers.ranks) <= max(buffered, BUFFERED_MATCHES):
            # not those that grew for a query with very many matches
            self._free_buffers.append(buffers)
        if len(parts) < 2:
            return (parts[0] if parts else None), begin
        rows, values, ranks = zip(*parts, strict=True)
        return (np.concatenate(rows), np.concatenate(values), np.concatenate(ranks)), begin

    def _new_buffers(self, size: int) -> _Buffers:
        """Return buffers for ``size`` matches."""
        matches = np.empty((3, size), np.uint64)
        rows, values, ranks = matches
        probe = kernels.probe.bind(
            VARIES, VARIES, VARIES, VARIES, self._words, self._halves, self._octets,
            self._verified, np.empty((len(self._tables), 4), np.uint64), matches,
        )  # fmt: skip
        return _Buffers(rows.view(np.int64), values, ranks, probe)

    def _found(self, buffers: _Buffers, count: int) -> Found:
        """Return a copy of the matches that a probe wrote, fingerprints with their own bits."""
        values = buffers.fingerprints[:count].copy()
        if not self._is_natural:
            values = self.order.undo(values)
        return buffers.rows[:count].copy(), values, buffers.ranks[:count].copy()

    def find_fingerprints(self, values: Fingerprints) -> NDArray[np.uint64]:
        """Return the rank of each of ``values`` uint64[n], ABSENT for those not in the segment."""
        moved = self.order.apply(values)
        out = np.empty(len(values), np.uint64)
        self._resumed(
            len(values),
            lambda begin: kernels.find_fingerprints(
                moved, begin, self._tables, self._words, self._halves, self._octets,
                self._verified, out,
            ),
        )  # fmt: skip
        return out

    def find_ids(self, ids: Ids, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the document of each id, ABSENT for those not in the segment.

        ``hashes`` uint64[n] are ``ids.hashes()``.
        """
        out = np.empty(len(ids), np.uint64)
        self._resumed(
            len(ids),
            lambda begin: kernels.find_ids(
                hashes, ids.content, ids.offsets, begin, self._id_layout, self._words,
                self._octets, self._verified, out,
            ),
        )  # fmt: skip
        return out

    def _resumed(self, size: int, run: Callable[[int], tuple[int, np.uint64]]) -> None:
        """Call a kernel until all rows are done, and verify the blocks that it needs."""
        self._require_whole()
        begin = 0
        while begin < size:
            begin, missing = run(begin)
            if missing != ABSENT:
                self._check(int(missing))

    def documents_of(self, rank: int) -> range:
        """Return the documents that have the fingerprint of a rank."""
        if rank >= self.fingerprints:
            raise FormatError(self.path, "table 0", "lacks a fingerprint of another table")
        starts = self.description.starts_bytes
        if starts is None:
            return range(rank, rank + 1)
        at = starts // _WORD_BYTES + rank
        self._verify_bytes(at * _WORD_BYTES, (at + 2) * _WORD_BYTES)
        return range(int(self._words[at]), int(self._words[at + 1]))

    def fingerprint_of(self, document: int) -> int:
        """Return the fingerprint of a document; some hundred microseconds."""
        rank = self._rank_of(document)
        fields = self._tables[0].tolist()
        bits, directory = fields[kernels.BITS], fields[kernels.DIRECTORY]
        bucket = self._last_at_most(directory, (1 << bits) + 1, rank)
        low = fields[kernels.LOW] + rank
        self._verify_bytes(low * _WORD_BYTES, (low + 1) * _WORD_BYTES)
        size, high = fields[kernels.HIGH_BYTES], fields[kernels.HIGH] + rank
        self._verify_bytes(high * size, (high + 1) * size)
        highs = self._halves if size == 2 else self._octets
        moved = bucket << 64 - bits | int(highs[high]) << 32 | int(self._words[low])
        value = np.array([moved], np.uint64)
        kernels.restore_all(value, self._tables, 0, value)
        return int(self.order.undo(value)[0])

    def _rank_of(self, document: int) -> int:
        """Return the rank of the fingerprint of a document."""
        starts = self.description.starts_bytes
        if starts is None:
            return document
        return self._last_at_most(starts // _WORD_BYTES, self.fingerprints + 1, document)

    def _last_at_most(self, begin: int, count: int, value: int) -> int:
        """Return the row of the last of ``count`` ascending words that is at most ``value``."""
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            at = begin + middle
            self._verify_bytes(at * _WORD_BYTES, (at + 1) * _WORD_BYTES)
            if int(self._words[at]) <= value:
                low = middle
            else:
                high = middle
        return low

    def id_of(self, document: int) -> str:
        """Return the id of a document."""
        table = self.description.ids
        assert table is not None, "the documents of this segment have no ids"
        size = _WORD_BYTES * table.offset_words
        at = table.offsets_bytes + document * size
        self._verify_bytes(at, at + 2 * size)
        start, stop = self._octets[at : at + 2 * size].view(f"<u{size}").tolist()
        self._verify_bytes(table.content_bytes + start, table.content_bytes + stop)
        try:
            return self._map[table.content_bytes + start : table.content_bytes + stop].decode()
        except UnicodeDecodeError as error:
            reason = "its checksum is right, and it is not UTF-8"
            raise FormatError(self.path, f"id {document}", reason) from error

    def _verify_bytes(self, start: int, stop: int) -> None:
        for block in range(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)):
            if not self._verified[block]:
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
        """Return the fingerprints by rank, or in the order of another table; reads all of it."""
        self.check_all()
        out = np.empty(self.fingerprints, np.uint64)
        kernels.decode(table, self._tables, self._words, self._halves, self._octets, out)
        kernels.restore_all(out, self._tables, table, out)
        return self.order.undo(out)

    def document_starts(self) -> NDArray[np.uint32]:
        """Return the first document of each rank, and the number of all, uint32[ranks + 1]."""
        starts = self.description.starts_bytes
        if starts is None:
            return np.arange(self.fingerprints + 1, dtype=np.uint32)
        at = starts // _WORD_BYTES
        self._verify_bytes(starts, starts + (self.fingerprints + 1) * _WORD_BYTES)
        return self._words[at : at + self.fingerprints + 1]


def _table_fields(about: Description, design: TableDesign) -> NDArray[np.uint64]:
    """Return the rows of the tables for the kernels."""
    rows = table_rows(design)
    for number, table in enumerate(about.tables):
        width = min(design.key_widths[number], table.directory_bits)
        high_bytes = 2 if table.directory_bits < 24 else 1
        rows[number, : kernels.FIELDS] = (
            Permutation.of(design, number).leading(width),
            width,
            table.directory_bits,
            table.directory_bytes // _WORD_BYTES,
            table.low_bytes // _WORD_BYTES,
            table.high_bytes // high_bytes,
            high_bytes,
        )
    return rows


def _id_fields(table: IdTable | None) -> NDArray[np.uint64]:
    """Return the fields of the id table for the kernels, zeros if there are no ids."""
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
