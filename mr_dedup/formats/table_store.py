"""Tables by key, between steps and between jobs: in memory, beyond a budget in a temporary file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import writing

_STREAM_BYTES = 16 << 20
"""Bytes of tables of one key that are written as one stream, and read again at a time."""


_FREED_SHARE = 4
"""Of the bytes in memory, one in so many is written at a time: its memory is soon used again."""

_MAX_FILES = 50
"""Temporary files that are open at a time; those that are spilled later are in the last one."""


class _SpillFile:
    """A temporary file of tables, which is removed when nobody uses it any longer.

    Its users are the streams that were not dropped, and who made it or called ``use``.
    """

    def __init__(self, folder: Path | None) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, prefix="tables-")  # noqa: SIM115
        self._lock = Lock()
        self._users = 1
        self.size_bytes = 0

    @property
    def is_closed(self) -> bool:
        return self._file.closed

    def use(self) -> bool:
        """Count another user, unless the file was removed; return whether it was not."""
        with self._lock:
            self._users += 0 if self.is_closed else 1
            return not self.is_closed

    def write(self, tables: Sequence[pa.Table]) -> _Spilled:
        """Append tables of one schema."""
        batches = []
        with self._lock:
            start = self._file.seek(0, os.SEEK_END)
            with pa.ipc.new_stream(self._file, tables[0].schema) as writer:
                for table in tables:
                    parts = table.to_batches()
                    batches.append(len(parts))
                    for part in parts:
                        writer.write_batch(part)
            # tables are read by the descriptor
            self._file.flush()
            self._users += 1
            self.size_bytes = self._file.tell()
            return _Spilled(self, start, self.size_bytes - start, tuple(batches))

    def read(self, offset: int, size_bytes: int) -> pa.Buffer:
        # in memory that the allocator of tables reuses
        content = pa.allocate_buffer(size_bytes)
        rest = memoryview(content).cast("B")
        while rest:
            count = os.preadv(self._file.fileno(), [rest], offset + size_bytes - len(rest))
            if not count:
                raise MrDedupError("a temporary file of tables was cut short while it was in use")
            rest = rest[count:]
        return content

    def drop(self) -> None:
        """Count a user less."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self.close()

    def close(self) -> None:
        # after a write that failed, closing tries it again
        with contextlib.suppress(OSError):
            self._file.close()


class _Spilled(NamedTuple):
    """Where in a file some tables are: an Arrow IPC stream, with so many batches each.

    To read a stream takes some 50 microseconds, whatever its size.
    """

    file: _SpillFile
    offset: int
    size_bytes: int
    batches: tuple[int, ...]

    def tables(self) -> Iterator[pa.Table]:
        content = self.file.read(self.offset, self.size_bytes)
        with pa.ipc.open_stream(content) as reader:
            for count in self.batches:
                parts = [reader.read_next_batch() for _ in range(count)]
                yield pa.Table.from_batches(parts, reader.schema)


@dataclass
class _Buffered:
    """A table in memory; None once it was taken."""

    key: int
    table: pa.Table | None
    size_bytes: int


class TableStore:
    """Tables under keys, each key's in the order in which they were added; a context manager.

    Once the tables in memory have more than ``memory_bytes``, the first of them are written to a
    temporary file in ``folder``, which is removed when all of them were taken. (Slices of one table
    are added one after another, and its memory is free only without any.) Threads may read
    different keys at a time.

    Attributes:
        size_bytes: Bytes of all tables that were added.
        bytes_in_memory: Those that are in memory now.
        spilled_bytes: Those that were written to the file.
    """

    def __init__(self, memory_bytes: int, folder: Path | None = None) -> None:
        self.spilled_bytes = 0
        self.size_bytes = 0
        self._memory_bytes = memory_bytes
        self._folder = folder
        self._tables: dict[int, list[_Buffered | _Spilled]] = {}
        self._buffered: deque[_Buffered] = deque()
        self.bytes_in_memory = 0
        self._files: list[_SpillFile] = []
        self._lock = Lock()

    def __enter__(self) -> TableStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop all tables, and remove the files."""
        self._tables.clear()
        for file in self._files:
            file.close()

    def add(self, key: int, table: pa.Table) -> None:
        """Add a table to those of ``key``. Raises MrDedupError if it cannot be written."""
        size_bytes = table.nbytes
        buffered = _Buffered(key, table, size_bytes)
        with self._lock:
            self._tables.setdefault(key, []).append(buffered)
            self._buffered.append(buffered)
            self.size_bytes += size_bytes
            self.bytes_in_memory += size_bytes
            if self.bytes_in_memory > self._memory_bytes:
                self._spill()

    def sorted_keys(self) -> list[int]:
        """Return the keys of the tables that were not taken yet, ascending."""
        return sorted(self._tables)

    def take(self, key: int) -> Iterator[pa.Table]:
        """Yield the tables of ``key``, each of which is dropped then."""
        tables = self._removed(key)
        tables.reverse()
        while tables:
            table = tables.pop()
            if isinstance(table, _Spilled):
                yield from table.tables()
                table.file.drop()
            else:
                yield table

    def discard(self, key: int) -> None:
        """Drop the tables of ``key``, if there are any."""
        for table in self._removed(key):
            if isinstance(table, _Spilled):
                table.file.drop()

    def _removed(self, key: int) -> list[pa.Table | _Spilled]:
        with self._lock:
            tables = self._tables.pop(key, [])
            found = [each if isinstance(each, _Spilled) else each.table for each in tables]
            for each in tables:
                if isinstance(each, _Buffered):
                    self._forget(each)
        return found

    def read(self, key: int) -> Iterator[pa.Table]:
        """Yield the tables of ``key``, which stay."""
        with self._lock:
            tables = [
                each if isinstance(each, _Spilled) else each.table for each in self._tables[key]
            ]
        for table in tables:
            if isinstance(table, _Spilled):
                yield from table.tables()
            else:
                yield table

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield all (key, table) pairs, ascending by key; they stay."""
        for key in self.sorted_keys():
            for table in self.read(key):
                yield key, table

    def _spill(self) -> None:
        """Write the tables that were added first, until a share of the memory is free."""
        most = self._memory_bytes - self._memory_bytes // _FREED_SHARE
        with writing(f"temporary files in {self._folder or tempfile.gettempdir()}"):
            file = self._file_to_write()
            try:
                for first in self._first_by_key(self.bytes_in_memory - most):
                    self._write(first, file)
            finally:
                file.drop()

    def _first_by_key(self, size_bytes: int) -> list[list[_Buffered]]:
        """Return the tables that were added first, of at least ``size_bytes``, by key."""
        found: dict[int, list[_Buffered]] = {}
        for each in self._buffered:
            if size_bytes <= 0:
                break
            if each.table is not None:
                found.setdefault(each.key, []).append(each)
                size_bytes -= each.size_bytes
        return list(found.values())

    def _file_to_write(self) -> _SpillFile:
        """Return the last file, which then has a user more, or a new one after ``memory_bytes``."""
        self._files = [file for file in self._files if not file.is_closed]
        if self._files:
            last = self._files[-1]
            is_full = last.size_bytes >= self._memory_bytes and len(self._files) < _MAX_FILES
            if not is_full and last.use():
                return last
        self._files.append(_SpillFile(self._folder))
        return self._files[-1]

    def _write(self, first: Sequence[_Buffered], file: _SpillFile) -> None:
        """Replace the first tables in memory of a key by what is written of them."""
        tables = self._tables[first[0].key]
        # what was written before comes first
        begin = sum(isinstance(table, _Spilled) for table in tables)
        written = [file.write(group) for group in _grouped(each.table for each in first)]
        tables[begin : begin + len(first)] = written
        for each in first:
            self._forget(each)
            self.spilled_bytes += each.size_bytes

    def _forget(self, buffered: _Buffered) -> None:
        buffered.table = None
        self.bytes_in_memory -= buffered.size_bytes
        while self._buffered and self._buffered[0].table is None:
            self._buffered.popleft()


def _grouped(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    """Yield lists of consecutive tables of one schema, of up to _STREAM_BYTES or one table."""
    group: list[pa.Table] = []
    size_bytes = 0
    for table in tables:
        size_bytes += table.nbytes
        same = group and table.schema.equals(group[0].schema, check_metadata=True)
        if group and (not same or size_bytes > _STREAM_BYTES):
            yield group
            group, size_bytes = [], table.nbytes
        group.append(table)
    if group:
        yield group
