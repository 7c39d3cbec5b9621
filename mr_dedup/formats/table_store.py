"""Tables by key, between steps and between jobs: in memory, beyond a budget in a temporary file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import writing

_STREAM_BYTES = 16 << 20
"""Bytes of tables of one key that are written as one stream, and read again at a time."""


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
            self._users += 1
            return _Spilled(self, start, self._file.tell() - start, tuple(batches))

    def read(self, offset: int, size_bytes: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            content = self._file.read(size_bytes)
        if len(content) != size_bytes:
            raise MrDedupError("a temporary file of tables was cut short while it was in use")
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


class TableStore:
    """Tables under keys, each key's in the order in which they were added; a context manager.

    Once the tables in memory have more than ``memory_bytes``, all of them are written to a
    temporary file in ``folder``, which is removed when all of them were taken. Threads may read
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
        self._tables: dict[int, list[pa.Table | _Spilled]] = {}
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
        with self._lock:
            self._tables.setdefault(key, []).append(table)
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
            self.bytes_in_memory -= sum(
                table.nbytes for table in tables if not isinstance(table, _Spilled)
            )
        return tables

    def read(self, key: int) -> Iterator[pa.Table]:
        """Yield the tables of ``key``, which stay."""
        with self._lock:
            tables = list(self._tables[key])
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
        """Write all tables that are in memory."""
        with writing(f"temporary files in {self._folder or tempfile.gettempdir()}"):
            self._write_tables()
        self.spilled_bytes += self.bytes_in_memory
        self.bytes_in_memory = 0

    def _write_tables(self) -> None:
        self._files = [file for file in self._files if not file.is_closed]
        if len(self._files) < _MAX_FILES or not self._files[-1].use():
            self._files.append(_SpillFile(self._folder))
        file = self._files[-1]
        try:
            for tables in self._tables.values():
                # what was spilled before comes first
                begin = sum(isinstance(table, _Spilled) for table in tables)
                tables[begin:] = [file.write(group) for group in _grouped(tables[begin:])]
        finally:
            file.drop()


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
