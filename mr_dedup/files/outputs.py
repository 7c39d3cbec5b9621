"""Write files atomically: to a temporary file, forced to the disk, then renamed."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mr_dedup.errors import MrDedupError
from mr_dedup.files.inputs import kind_of
from mr_dedup.files.io_errors import cannot_be_written, writing
from mr_dedup.files.temporary import file_beside
from mr_dedup.interrupts import removed_at_forced_end

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_BUFFER_BYTES = 1 << 16


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Raise MrDedupError if ``path`` may not be written, or not be replaced.

    It may not if it exists and not ``overwrite``; if it is a directory, a pipe, a socket or a
    device, or a link to one or to nothing; and if its directory is missing or not accessible.
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

    The bytes are written to a temporary file in the same directory, which is then renamed. If
    ``path`` is a link, its target is replaced and the link stays; permissions of a replaced file
    are kept. Raises MrDedupError as ``refuse_existing`` does, before the block and again after it,
    and for every OSError of writing this file (disk full, no permission), naming ``path``. Other
    errors of the block are raised unchanged.
    """
    refuse_existing(path, overwrite)
    target = Path(os.path.realpath(path))
    try:
        temporary, handle = file_beside(target)
    except OSError as error:
        raise cannot_be_written(path, error) from error
    try:
        with (
            removed_at_forced_end(temporary),
            io.BufferedWriter(_NamedFile(handle, path), _BUFFER_BYTES) as file,
        ):
            yield file
            file.flush()
            with writing(path):
                os.fsync(file.fileno())
        # again: the file may have been created meanwhile
        refuse_existing(path, overwrite)
        with writing(path):
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def unnamed_file_beside(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file without a name in the directory of ``path``, to write and to read.

    Raises MrDedupError, naming ``path``, for every OSError of writing it.
    """
    with writing(path), tempfile.TemporaryFile(dir=path.parent) as opened:
        handle = os.dup(opened.fileno())
    with io.BufferedRandom(_NamedFile(handle, path), _BUFFER_BYTES) as file:
        yield file


def write_fully(file: io.RawIOBase | BinaryIO, content: ReadableBuffer) -> None:
    """Write all bytes of ``content`` to an unbuffered file, which may take some of them at a time.

    Raises OSError as the file does.
    """
    rest = memoryview(content).cast("B")
    while rest:
        rest = rest[file.write(rest) or 0 :]


class _NamedFile(io.FileIO):
    """A temporary file; errors of writing name ``path`` instead."""

    def __init__(self, handle: int, path: Path) -> None:
        super().__init__(handle, "w+")
        self._path = path

    def write(self, data: ReadableBuffer) -> int:
        with writing(self._path):
            return super().write(data)


def _obstacle(path: Path, overwrite: bool) -> str | None:
    """Return why ``path`` may not be written, or None."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        if path.parent.is_dir():
            return None
        fault = "is not a directory" if path.parent.exists() else "does not exist"
        return f"the directory {path.parent} {fault}"
    if not path.exists():
        return "is a link to a file that does not exist; remove it first"
    kind = kind_of(path)
    if kind != "file":
        return f"is a {kind}, expected the name of a file to write"
    return None if overwrite else "exists; give --overwrite to replace it"
