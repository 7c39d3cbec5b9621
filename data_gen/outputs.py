"""Output directories that appear complete or not at all, and numbered files of limited size."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO


class OutputError(Exception):
    """An output that cannot be written; the message is one line for the user."""


@contextlib.contextmanager
def whole_folder(
    folder: Path, own_files: re.Pattern[str], *, overwrite: bool = False, min_bytes: int = 0
) -> Iterator[Path]:
    """Yield a new directory that is renamed to ``folder`` if the block ends without an error.

    The new directory is beside ``folder`` (on the same file system, so that the rename is atomic)
    with a hidden name ending in ``.part``, and is removed after an error or an interrupt.

    Args:
        folder: a missing or empty directory; with ``overwrite`` it may contain files whose names
            all match ``own_files``. Only such files are removed, after the new directory is in
            place.
        own_files: a pattern of file names.
        overwrite: replace the files of ``folder``.
        min_bytes: the free space that the disk must have.

    Raises:
        OutputError: if the directory cannot be replaced or the disk is too full, and for any
            OSError of the block.
    """
    target = Path(os.path.realpath(folder))  # symbolic links stay, their target is replaced
    name = f".data-gen-{secrets.token_hex(8)}"
    aside, retired = target.parent / f"{name}.part", target.parent / f"{name}.old"
    try:
        replaces = _check_target(folder, target, own_files, overwrite)
        _check_space(folder, target.parent, min_bytes)
        aside.mkdir()
        yield aside
        _sync(aside)
        if replaces:
            target.rename(retired)
            _refuse_foreign(folder, retired, own_files)  # a file may have been created meanwhile
        aside.rename(target)
        _sync_one(target.parent)
        _remove_own(retired, own_files)
    except BaseException as error:
        if retired.exists() and not target.exists():
            retired.rename(target)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise OutputError(f"{folder}: cannot be written: {reason}") from error
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        with contextlib.suppress(OSError):
            _remove_own(retired, own_files)  # again: the first may have been interrupted


def _check_target(folder: Path, target: Path, own_files: re.Pattern[str], overwrite: bool) -> bool:
    """Return whether ``target`` contains files; raise OutputError if it cannot be replaced."""
    if not target.exists():
        if not target.parent.is_dir():
            raise OutputError(f"{folder}: its directory {target.parent} does not exist")
        return False
    if not target.is_dir():
        raise OutputError(f"{folder}: not a directory")
    if target == Path.cwd() or target.is_mount():
        kind = "the current directory" if target == Path.cwd() else "a mount point"
        raise OutputError(f"{folder}: is {kind} and cannot be replaced; name a directory inside it")
    is_empty = not any(target.iterdir())
    if not is_empty and not overwrite:
        raise OutputError(f"{folder}: not empty; give --overwrite to replace it")
    _refuse_foreign(folder, target, own_files)
    return not is_empty


def _refuse_foreign(folder: Path, present: Path, own_files: re.Pattern[str]) -> None:
    for entry in sorted(present.iterdir()):
        if not _is_own(entry, own_files):
            raise OutputError(
                f"{folder}: contains {entry.name}, which is not of data-gen; name another directory"
            )


def _check_space(folder: Path, parent: Path, min_bytes: int) -> None:
    free = shutil.disk_usage(parent).free
    if free < min_bytes:
        raise OutputError(f"{folder}: needs {min_bytes:,} bytes, but its disk has {free:,} free")


def _is_own(entry: Path, own_files: re.Pattern[str]) -> bool:
    is_file = entry.is_file() and not entry.is_symlink()
    return is_file and own_files.fullmatch(entry.name) is not None


def _remove_own(folder: Path, own_files: re.Pattern[str]) -> None:
    """Remove the files that match, and the directory, if it exists."""
    if not folder.exists():
        return
    for entry in list(folder.iterdir()):
        if _is_own(entry, own_files):
            entry.unlink()
    folder.rmdir()


def _sync(folder: Path) -> None:
    """Sync the directory and its files to disk, before the rename."""
    for entry in folder.iterdir():
        _sync_one(entry)
    _sync_one(folder)


def _sync_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class NumberedFiles:
    """A context manager that writes lines to numbered files of limited size.

    A line that would make a file larger than ``max_bytes`` starts the next one. There is always a
    first file.
    """

    def __init__(
        self,
        open_file: Callable[[str, contextlib.ExitStack], IO[bytes]],
        max_bytes: int,
        max_files: int = 100_000,
    ) -> None:
        """Open the first file.

        Args:
            open_file: opens the file with a number of five digits, to be closed by the stack.
            max_bytes: the size of a file before compression, unless it has a single line.
            max_files: the most files: with five digits, names sort like numbers.
        """
        self._open_file, self._max_bytes, self._max_files = open_file, max_bytes, max_files
        self._files = self._written_bytes = 0
        self._stack = contextlib.ExitStack()
        self._file = self._next_file()

    def __enter__(self) -> NumberedFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write(self, line: bytes) -> None:
        """Write a line; raise OutputError if there are too many files."""
        if self._written_bytes and self._written_bytes + len(line) > self._max_bytes:
            self._file = self._next_file()
        self._file.write(line)
        self._written_bytes += len(line)

    def _next_file(self) -> IO[bytes]:
        self._stack.close()
        if self._files == self._max_files:
            raise OutputError(
                f"chunk_bytes must be large enough for at most {self._max_files:,} files, "
                f"not {self._max_bytes}"
            )
        file = self._open_file(f"{self._files:05}", self._stack)
        self._files += 1
        self._written_bytes = 0
        return file
