"""Directories that commands write: locked meanwhile, and replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.files.file_lists import require_replaceable, write_list
from mr_dedup.files.file_lock import FileLock


@contextlib.contextmanager
def locked(out: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Keep other commands from making the directory ``out`` in the block, by a file beside it.

    Where the file system has no locks, calls ``warn`` with a message, once. Raises MrDedupError if
    another command does, if its directory does not exist, and if the lock cannot be taken.
    """
    require_parent(out)
    with FileLock(out.parent / f".{out.name}.lock", str(out), warn):
        yield


def require_parent(out: Path) -> None:
    """Raise MrDedupError if the directory that ``out`` is to be in does not exist."""
    if not out.parent.is_dir():
        raise MrDedupError(f"{out}: its directory {out.parent} does not exist")


def refuse_existing_folder(out: Path, overwrite: bool) -> None:
    """Raise MrDedupError if the directory ``out`` may not be made, or not be replaced."""
    require_parent(out)
    if not os.path.lexists(out):
        return
    if not overwrite:
        raise MrDedupError(f"{out}: exists; give --overwrite to replace it")
    require_replaceable(out)


def put_in_place(made: Path, out: Path, *, keeps_old: bool = False) -> None:
    """Rename ``made``, which is complete, to ``out``, in place of an earlier one.

    That has another name meanwhile; if ``keeps_old``, ``remove_replaced`` removes it. On failure it
    is renamed back. If the process is killed, both still exist. Raises MrDedupError if it contains
    files that no command has made.
    """
    write_list(made)
    replaced = _aside_for(out)
    is_replaced = os.path.lexists(out)
    try:
        if is_replaced:
            remove_replaced(out)
            os.rename(out, replaced)  # noqa: PTH104 (a directory onto nothing)
            # by this name nobody adds files
            require_replaceable(replaced, str(out))
        os.rename(made, out)  # noqa: PTH104
    except BaseException:
        if os.path.lexists(replaced) and not os.path.lexists(out):
            os.rename(replaced, out)  # noqa: PTH104
        raise
    if is_replaced and not keeps_old:
        remove_replaced(out)


def remove_replaced(out: Path) -> None:
    """Remove what ``out`` has replaced; raises MrDedupError if it contains others' files."""
    replaced = _aside_for(out)
    if os.path.lexists(replaced):
        require_replaceable(replaced)
        shutil.rmtree(replaced, ignore_errors=True)


def _aside_for(out: Path) -> Path:
    """Return the name to which an existing ``out`` is renamed while it is replaced."""
    return out.parent / f".{out.name}.old"


def is_empty(folder: Path) -> bool:
    """Return whether ``folder`` is an empty directory."""
    return folder.is_dir() and not any(folder.iterdir())
