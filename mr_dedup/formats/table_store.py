"""Tables by key, between steps and between jobs: in memory, beyond a budget in a temporary file."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.io_errors import writing

_STREAM_BYTES = 16 << 20
"""Bytes of tables of one key that are written as one stream, and read again at a time."""


class _Spilled(NamedTuple):
    """Where in the file of a store some tables are: an Arrow IPC stream, with so many batches each.

    To read a stream takes some 50 microseconds, whatever its size.
    """

    offset: int
    size_bytes: int
    batches: tuple[int, ...]


class TableStore:
    """Tables under keys, each key's in the order in which they were added; a context manager.

    Once the tables in memory have more than ``memory_bytes``, all of them are written to a
    temporary file in ``folder``. Threads may read different keys at a time.

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
        self._file: BinaryIO | None = None
        self._lock = Lock()

    def __enter__(self) -> TableStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop all tables, and remove the file."""
        self._tables.clear()
        if self._file is not None:
            # after a write that failed, closing tries it again
            with contextlib.suppress(OSError):
                self._file.close()

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
            yield from self._read(tables.pop())

    def discard(self, key: int) -> None:
        """Drop the tables of ``key``, if there are any."""
        self._removed(key)

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
            yield from self._read(table)

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
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, prefix="tables-")  # noqa: SIM115
        self._file.seek(0, 2)
        for tables in self._tables.values():
            # what was spilled before comes first
            begin = sum(isinstance(table, _Spilled) for table in tables)
            tables[begin:] = [self._written(group) for group in _grouped(tables[begin:])]

    def _written(self, tables: Sequence[pa.Table]) -> _Spilled:
        assert self._file is not None
        start = self._file.tell()
        batches = []
        with pa.ipc.new_stream(self._file, tables[0].schema) as writer:
            for table in tables:
                parts = table.to_batches()
                batches.append(len(parts))
                for part in parts:
                    writer.write_batch(part)
        return _Spilled(start, self._file.tell() - start, tuple(batches))

    def _read(self, stored: pa.Table | _Spilled) -> Iterator[pa.Table]:
        if not isinstance(stored, _Spilled):
            yield stored
            return
        assert self._file is not None
        with self._lock:
            self._file.seek(stored.offset)
            content = self._file.read(stored.size_bytes)
        if len(content) != stored.size_bytes:
            raise MrDedupError("a temporary file of tables was cut short while it was in use")
        with pa.ipc.open_stream(content) as reader:
            for count in stored.batches:
                parts = [reader.read_next_batch() for _ in range(count)]
                yield pa.Table.from_batches(parts, reader.schema)


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
