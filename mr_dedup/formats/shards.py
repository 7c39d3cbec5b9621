"""Shards: files of tables that tasks write and other tasks read, on this machine or in a store.

A shard has a header, its tables, each as ``formats/table_bytes`` encodes it after its size, and an
end with their number. It is written whole or not at all, and replaced by what an equal task writes.
"""

from __future__ import annotations

import contextlib
import struct
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import pyarrow as pa

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.io_errors import filling, reading
from mr_dedup.files.outputs import whole_file
from mr_dedup.files.temporary import temporary_folder
from mr_dedup.formats.table_bytes import ALIGNMENT, from_bytes, sliced, to_bytes
from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.listing import file_info
from mr_dedup.storage.uris import file_name, is_uri, joined, without_secrets
from mr_dedup.storage.writing import put

SHARDS_SUFFIX = ".shards.json"
"""The ending of a file that names shards."""

_HEADER = b"mrdshard-2 \n\0\0\0\0"
_SIZE = struct.Struct("<q")
_TRANSFERS = 4
"""Files that are copied to a store at a time."""

_END = -1
"""The size in whose place the number of tables follows."""


class Shard(NamedTuple):
    """A shard: its key, which states its name, its rows, and its size in bytes."""

    key: int
    rows: int
    size_bytes: int


def shard_at(folder: str, key: int) -> str:
    """Return the path or URI of the shard of a key in a directory.

    >>> shard_at("s3://crawl/rows", 7)
    's3://crawl/rows/00000007'
    """
    return joined(folder, f"{key:08}")


def write_shard(folder: str, key: int, tables: Iterable[pa.Table]) -> Shard:
    """Write tables as the shard of a key in a directory, which is made; return what was written.

    In memory: a table. Raises MrDedupError if it cannot be written.
    """
    address = shard_at(folder, key)
    with new_file(address) as path, path.open("wb") as file:
        # on this machine compressing takes longer than what it saves
        rows = write_tables(file, tables, compress=is_uri(address))
        size_bytes = file.tell()
    return Shard(key, rows, size_bytes)


@contextlib.contextmanager
def new_file(address: str) -> Iterator[Path]:
    """Yield the path of a file that is moved or copied to ``address`` at the end of the block.

    Directories are made. It appears whole, and replaces an existing file.

    Raises:
        MrDedupError: If it cannot be written.
    """
    if is_uri(address):
        with temporary_folder() as made:
            path = made / file_name(address)
            with filling(path):
                yield path
            put(path, address, overwrite=True)
        return
    target = Path(address)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as folder:
        path = Path(folder) / target.name
        with filling(target):
            yield path
        path.replace(target)


@contextlib.contextmanager
def new_files(folder: str) -> Iterator[Path]:
    """Yield a directory whose files are moved or copied below ``folder`` at the end of the block.

    As by ``new_file``, each whole, in no order. The directory is on the same file system.
    """
    if is_uri(folder):
        with temporary_folder() as made:
            with filling(made):
                yield made

            def copy(path: Path) -> None:
                put(path, joined(folder, path.relative_to(made).as_posix()), overwrite=True)

            # a store confirms each after a while, HDFS after half a second
            with ThreadPoolExecutor(_TRANSFERS) as pool:
                for _ in pool.map(copy, _files_below(made)):
                    pass
        return
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=target) as name:
        made = Path(name)
        with filling(target):
            yield made
        for path in _files_below(made):
            moved = target / path.relative_to(made)
            moved.parent.mkdir(parents=True, exist_ok=True)
            path.replace(moved)


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def write_tables(file: BinaryIO, tables: Iterable[pa.Table], *, compress: bool = True) -> int:
    """Write tables as a shard at the position of a file; return their rows."""
    rows = count = 0
    file.write(_HEADER)
    for table in tables:
        for part in sliced(table):
            content = to_bytes(part, compress=compress)
            file.write(_SIZE.pack(len(content)))
            file.write(content)
            file.write(bytes(-len(content) % ALIGNMENT))
            rows += len(part)
            count += 1
    file.write(_SIZE.pack(_END) + _SIZE.pack(count))
    return rows


def read_shard(folder: str, key: int) -> Iterator[pa.Table]:
    """Yield the tables of a shard, in order.

    Raises:
        FormatError: If it is damaged.
        MrDedupError: If it cannot be read.
    """
    address = shard_at(folder, key)
    with _local(address) as path, reading(path):
        # Arrow has a longer message for a missing file
        path.stat()
        with pa.memory_map(str(path)) as file:
            yield from read_tables(file, without_secrets(address))


@contextlib.contextmanager
def _local(address: str) -> Iterator[Path]:
    """Yield the path of a file, or of a copy of one in a store."""
    if not is_uri(address):
        yield Path(address)
        return
    with temporary_folder() as folder:
        path = folder / "shard"
        fetch(file_info(address), path)
        yield path


def read_tables(file: pa.NativeFile, name: str) -> Iterator[pa.Table]:
    """Yield the tables of the shard that begins at the position of a file, called ``name``.

    Raises:
        FormatError: If it is damaged.
    """
    start = file.tell()
    if file.read(len(_HEADER)) != _HEADER:
        reason = "is not a shard of mr_dedup, or of another version"
        raise FormatError(name, f"byte {start}", reason)
    count, file_bytes = 0, file.size()
    while True:
        offset = file.tell()
        size = _number(file, name)
        if size == _END:
            break
        if not 0 <= size <= file_bytes - file.tell():
            raise FormatError(name, f"byte {offset}", "ends within a table")
        content = file.read_buffer(size)
        padding = file.read(-size % ALIGNMENT)
        try:
            table = from_bytes(content)
        except MrDedupError as error:
            raise FormatError(name, f"byte {offset}", str(error)) from error
        if any(padding):
            raise FormatError(name, f"byte {offset}", "its padding is not zeros")
        count += 1
        yield table
    if _number(file, name) != count:
        raise FormatError(
            name, f"byte {file.tell()}", "has another number of tables than it states"
        )


def _number(file: pa.NativeFile, name: str) -> int:
    content = file.read(_SIZE.size)
    if len(content) != _SIZE.size:
        raise FormatError(name, f"byte {file.tell()}", "ends before its last table")
    (number,) = _SIZE.unpack(content)
    return int(number)


class ShardList(msgspec.Struct, frozen=True):
    """What a file with the ending SHARDS_SUFFIX contains.

    Attributes:
        folders: Directories of shards, paths or URIs.
        shards: The shards, as the index of their directory and their key.
    """

    folders: tuple[str, ...]
    shards: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, path: Path) -> ShardList:
        """Return what ``write`` wrote."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def write(self, path: Path) -> None:
        """Write the file; replace one of this name."""
        with whole_file(path, overwrite=True) as file:
            file.write(msgspec.json.encode(self))

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the tables of all shards, each with the key of its shard."""
        for folder, key in self.shards:
            for table in read_shard(self.folders[folder], key):
                yield key, table
