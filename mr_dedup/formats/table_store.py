"""Tables by key, between steps and between jobs: in memory, beyond a budget in a temporary file."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.io_errors import writing


class _Spilled(NamedTuple):
    """Where in the file of a store a table is, as an Arrow IPC stream."""

    offset: int
    size_bytes: int


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
        with self._lock:
            self._tables.setdefault(key, []).append(table)
            self.size_bytes += table.nbytes
            self.bytes_in_memory += table.nbytes
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
            yield self._read(table) if isinstance(table, _Spilled) else table

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
            yield self._read(table) if isinstance(table, _Spilled) else table

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
            for index, table in enumerate(tables):
                if isinstance(table, _Spilled):
                    continue
                start = self._file.tell()
                with pa.ipc.new_stream(self._file, table.schema) as writer:
                    writer.write_table(table)
                tables[index] = _Spilled(start, self._file.tell() - start)

    def _read(self, spilled: _Spilled) -> pa.Table:
        assert self._file is not None
        with self._lock:
            self._file.seek(spilled.offset)
            content = self._file.read(spilled.size_bytes)
        if len(content) != spilled.size_bytes:
            raise MrDedupError("a temporary file of tables was cut short while it was in use")
        return pa.ipc.open_stream(content).read_all()
