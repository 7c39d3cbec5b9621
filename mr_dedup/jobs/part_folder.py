"""What tasks of one machine keep of a part of their input in a directory, for a later job there."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from mr_dedup.features.text_hashes import SeenTexts

_DISK_SHARE = 2
"""Of the free bytes of a disk, one in so many may be used."""

_CHECKED_BYTES = 64 << 20
"""Bytes that are written until the free space is looked at again."""


class PartFolder:
    """Tables of parts in files of a directory, which processes share; a context manager of a task.

    What a task puts appears when its block ends without an error; of a part all tables or none.
    If the disk has no room nothing is kept. Nothing is compressed or checked: it is a copy of what
    can be read again.

    Args:
        folder: The directory, which is made.
        keeps_sets: Whether sets of shingles are worth to be kept, in place of texts.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     with PartFolder(Path(name)) as cache:
        ...         cache.put("lengths", 0, pa.table({"length": [1, 2]}))
        ...     with PartFolder(Path(name)) as cache:
        ...         [table["length"].to_pylist() for table in cache.take("lengths", 0)]
        ...         cache.take("lengths", 0) is None
        [[1, 2]]
        True
    """

    keeps_copies = False
    """Whether copies of remote files are kept as well: they end with a task."""

    texts: SeenTexts | None = None
    """What other processes put is not known here."""

    def __init__(self, folder: Path, *, keeps_sets: bool = True) -> None:
        self._folder = folder
        self.keeps_sets = keeps_sets
        self._open: dict[Path, tuple[Path, pa.OSFile, pa.ipc.RecordBatchStreamWriter]] = {}
        self._is_full = False
        self._unchecked = _CHECKED_BYTES
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> PartFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for target, (path, file, writer) in self._open.items():
            with contextlib.suppress(OSError, pa.ArrowException):
                writer.close()
                file.close()
                if kind is None and not self._is_full:
                    path.replace(target)
            path.unlink(missing_ok=True)
        self._open.clear()

    def put(self, kind: str, number: int, table: pa.Table) -> None:
        """Add a table of some kind to those of part ``number``, if there is room."""
        if self._is_full or not self._has_room(table.nbytes):
            self._is_full = True
            return
        try:
            target = self._file_of(kind, number)
            if target not in self._open:
                path = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
                file = pa.OSFile(str(path), "wb")
                self._open[target] = path, file, pa.ipc.new_stream(file, table.schema)
            self._open[target][2].write_table(table)
        except (OSError, pa.ArrowException):
            self._is_full = True

    def take(self, kind: str, number: int, *, stays: bool = False) -> Iterator[pa.Table] | None:
        """Return the tables of a part in the order of ``put``, None if there are none.

        They are not kept any longer, unless they are to stay. In memory: a batch.
        """
        path = self._file_of(kind, number)
        try:
            # mapped: what a task looks at is read, and without a copy
            file = pa.memory_map(str(path))
            reader = pa.ipc.open_stream(file)
        except (OSError, pa.ArrowException):
            return None
        if not stays:
            with contextlib.suppress(OSError):
                path.unlink()
        return (pa.Table.from_batches([batch], reader.schema) for batch in reader)

    def _file_of(self, kind: str, number: int) -> Path:
        return self._folder / f"{kind.replace(' ', '-')}-{number:06}"

    def _has_room(self, size_bytes: int) -> bool:
        self._unchecked += size_bytes
        if self._unchecked < _CHECKED_BYTES:
            return True
        self._unchecked = 0
        try:
            free = shutil.disk_usage(self._folder).free
            paths = list(self._folder.iterdir())
        except OSError:
            return False
        used = sum(map(_size_of, paths))
        return used < (used + free) // _DISK_SHARE


def _size_of(path: Path) -> int:
    """Return the size of a file, 0 if another process has renamed or removed it meanwhile."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
