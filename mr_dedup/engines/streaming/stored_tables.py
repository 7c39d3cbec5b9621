"""Tables between the steps of a job in files of a store; Hadoop's shuffle carries references.

Through Hadoop's own shuffle tables go as lines of text, which the Java of tasks sorts, copies and
merges, several times each. Instead a task writes all tables that it yields to one file, ordered by
key, and yields a reference for each key: a range of the file, which the task that reduces the key
reads. Of a task that was run several times the references of one attempt arrive.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from operator import itemgetter

import pyarrow as pa

from mr_dedup.formats.shards import new_file, read_tables, write_tables
from mr_dedup.formats.table_store import TableStore
from mr_dedup.jobs.contract import Keyed
from mr_dedup.storage.fetching import Piece, copy_ranges
from mr_dedup.storage.listing import RemoteFile
from mr_dedup.storage.uris import joined, without_secrets

_MEMORY_BYTES = 64 << 20
"""Tables that are in memory until a task has ended; beyond, they are in a temporary file."""

_REFERENCE = pa.schema(
    [
        pa.field("tables_in", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("stop", pa.int64(), nullable=False),
    ]
)


def stored(tables: Iterable[Keyed], folder: str, name: str) -> Iterator[Keyed]:
    """Write tables to a file, and yield a reference under each of their keys, ascending.

    In memory: 64 MB of tables; the others are written to TMPDIR first.

    Args:
        tables: What a task yields, in any order of keys.
        folder: The directory of the file, a URI, which is made.
        name: The name of the file; without tables there is none.

    Raises:
        MrDedupError: If the file cannot be written.
    """
    with TableStore(_MEMORY_BYTES) as store:
        for key, table in tables:
            store.add(key, table)
        if not store.sorted_keys():
            return
        address = joined(folder, name)
        references = []
        with new_file(address) as path, path.open("wb") as file:
            for key, of_key in itertools.groupby(store.tables(), itemgetter(0)):
                start = file.tell()
                write_tables(file, (table for _, table in of_key))
                columns = {"tables_in": [address], "start": [start], "stop": [file.tell()]}
                references.append((key, pa.table(columns, schema=_REFERENCE)))
    yield from references


def followed(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the tables of a key: those that references refer to, and others as they are.

    A range of a file is copied to TMPDIR while its tables are read.

    Raises:
        FormatError: If a range is damaged.
        MrDedupError: If it cannot be read.
    """
    for table in tables:
        if not table.schema.equals(_REFERENCE):
            yield table
            continue
        for row in table.to_pylist():
            yield from _read_range(row["tables_in"], row["start"], row["stop"])


def _read_range(address: str, start: int, stop: int) -> Iterator[pa.Table]:
    with tempfile.TemporaryFile() as file:
        copy_ranges(RemoteFile(address, stop, ""), [Piece(start, stop)], file.fileno(), None)
        file.seek(start)
        yield from read_tables(pa.PythonFile(file, "r"), without_secrets(address))
