"""Outputs that appear whole or not at all: written aside, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.inputs import kind_of
from mr_dedup.formats.io_errors import cannot_be_written, writing
from mr_dedup.interrupts import removed_at_forced_end

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_BUFFER_BYTES = 1 << 16
_PREFIX_CHARACTERS = 40
"""How much of a name a temporary one repeats: one of 255 bytes leaves no room for more."""


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Raise MrDedupError if ``path`` may not be written, or not be replaced.

    It is refused if it exists and not ``overwrite``; if it is a folder, a pipe, a socket or a
    device, or a link to one or to nothing; and if its folder is missing or out of reach.
    """
    try:
        reason = _obstacle(path, overwrite)
    except OSError as error:
        raise cannot_be_written(path, error) from error
    if reason:
        raise MrDedupError(f"{path}: {reason}")


@contextlib.contextmanager
def whole_file(path: Path, overwrite: bool = False) -> Iterator[BinaryIO]:
    """Yield a binary file that becomes ``path`` if, and only if, the block ends without an error.

    The bytes go to a temporary file in the same folder (same file system, so that the rename is
    atomic). Where ``path`` is a link, the file it leads to is replaced and the link stays; a file
    that is replaced hands on its permissions. Raises MrDedupError as ``refuse_existing`` does,
    before the block and again after it, and for every OSError of writing this file (disk full, no
    permission), naming ``path``. Other errors of the block are raised as they are.
    """
    refuse_existing(path, overwrite)
    target = Path(os.path.realpath(path))
    try:
        handle, aside = tempfile.mkstemp(
            prefix=hidden_prefix(target), suffix=".part", dir=target.parent
        )
    except OSError as error:
        raise cannot_be_written(path, error) from error
    try:
        with (
            removed_at_forced_end(Path(aside)),
            io.BufferedWriter(_NamedFile(handle, path), _BUFFER_BYTES) as file,
        ):
            yield file
            file.flush()
            with writing(path):
                os.fsync(file.fileno())
        # once more: much may have appeared while it was written
        refuse_existing(path, overwrite)
        with writing(path):
            Path(aside).chmod(_permissions(target))
            Path(aside).replace(target)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


class _NamedFile(io.FileIO):
    """A file that is written; errors name ``path``, so that they are not taken for another's."""

    def __init__(self, handle: int, path: Path) -> None:
        super().__init__(handle, "w")
        self._path = path

    def write(self, data: ReadableBuffer) -> int:
        with writing(self._path):
            return super().write(data)


@contextlib.contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Yield a new hidden folder in that of ``path``, which is removed when the block ends."""
    folder = Path(tempfile.mkdtemp(prefix=hidden_prefix(path), suffix=".part", dir=path.parent))
    try:
        with removed_at_forced_end(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def hidden_prefix(path: Path) -> str:
    """Return what the names of temporary files beside ``path`` begin with: ignored in folders."""
    return f".{path.name[:_PREFIX_CHARACTERS]}."


def _obstacle(path: Path, overwrite: bool) -> str | None:
    """Return what there is against writing ``path``."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        if path.parent.is_dir():
            return None
        fault = "is no folder" if path.parent.exists() else "does not exist"
        return f"its folder {path.parent} {fault}"
    if not path.exists():
        return "is a link that leads to no file; remove it first"
    kind = kind_of(path)
    if kind != "file":
        return f"is a {kind}, expected the name of a file to write"
    return None if overwrite else "exists; give --overwrite to replace it"


def _permissions(target: Path) -> int:
    """Return those of the file that is replaced, or else those that any new file gets."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
