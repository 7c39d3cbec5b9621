"""What the jobs of one process keep of a part of their input, so as not to read it again."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Protocol

import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.features.text_hashes import SeenTexts
from mr_dedup.formats.table_store import TableStore

_DISK_SHARE = 2
"""Of the free bytes of a disk, one in so many may be used."""


class Cache(Protocol):
    """What keeps tables of parts for later jobs."""

    keeps_copies: bool
    keeps_sets: bool
    texts: SeenTexts | None
    """Texts of which tables were put, of whatever part; None if that is not known."""

    def put(self, kind: str, number: int, table: pa.Table) -> None:
        """Add a table of some kind to those of part ``number``."""

    def take(self, kind: str, number: int, *, stays: bool = False) -> Iterator[pa.Table] | None:
        """Return the tables of a part, None if they are not kept.

        They are not kept any longer, unless they are to stay.
        """


class PartCache:
    """Tables of parts: in memory, beyond a number of bytes in a temporary file; a context manager.

    Of a part there are all tables that were put or none: none if they would not fit the disk. Each
    kind of tables of a part is put by one thread; threads may share a cache.

    Args:
        memory_bytes: Bytes of tables in memory.
        folder: Where the temporary file is made; by default TMPDIR.

    Example:
        >>> with PartCache(1 << 20) as cache:
        ...     cache.put("lengths", 0, pa.table({"length": [1, 2]}))
        ...     cache.put("lengths", 0, pa.table({"length": [3]}))
        ...     [table["length"].to_pylist() for table in cache.take("lengths", 0)]
        ...     cache.take("lengths", 0) is None
        [[1, 2], [3]]
        True
    """

    keeps_copies = True
    """Whether copies of remote files are kept as well."""

    keeps_sets = True
    """Whether sets of shingles are kept, so that texts are not needed again."""

    def __init__(self, memory_bytes: int, folder: Path | None = None) -> None:
        self.name = secrets.token_hex(8)
        """Distinguishes it, for tasks that keep tables themselves."""
        self.texts: SeenTexts | None = SeenTexts()
        self._memory_bytes = memory_bytes
        self._folder = Path(folder or tempfile.gettempdir())
        self._store = TableStore(memory_bytes, self._folder)
        self._disk_bytes: int | None = None
        self._keys: dict[tuple[str, int], int] = {}
        self._dropped: set[int] = set()
        self._lock = Lock()

    def __enter__(self) -> PartCache:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Where tasks of other processes of this machine may keep tables."""
        return self._folder / f"parts-{self.name}"

    def close(self) -> None:
        """Drop all tables."""
        self._store.close()

    def put(self, kind: str, number: int, table: pa.Table) -> None:
        """Add a table of some kind to those of part ``number``, if there is room for all of them.

        Costs no more than memory, or writing the table once.
        """
        with self._lock:
            key = self._keys.setdefault((kind, number), len(self._keys))
            if key in self._dropped:
                return
            if self._has_room(table.nbytes):
                try:
                    self._store.add(key, table)
                    return
                except MrDedupError:
                    # the disk is full, by whatever: what was put before is still there
                    self._disk_bytes = 0
            self._store.discard(key)
            self._dropped.add(key)

    def take(self, kind: str, number: int, *, stays: bool = False) -> Iterator[pa.Table] | None:
        """Return the tables of a part in the order of ``put``, None if there are none.

        They are not kept any longer, unless they are to stay.
        """
        with self._lock:
            key = self._keys.get((kind, number))
            if key is None or key in self._dropped:
                return None
            if stays:
                return self._store.read(key)
            del self._keys[kind, number]
            return self._store.take(key)

    def _has_room(self, size_bytes: int) -> bool:
        if self._store.bytes_in_memory + size_bytes <= self._memory_bytes:
            return True
        if self._disk_bytes is None:
            self._disk_bytes = shutil.disk_usage(self._folder).free // _DISK_SHARE
        store = self._store
        return store.spilled_bytes + store.bytes_in_memory + size_bytes <= self._disk_bytes
