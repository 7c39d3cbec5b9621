"""Directories that commands write: locked meanwhile, and replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from mr_dedup.errors import MrDedupError
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


def aside_for(out: Path) -> Path:
    """Return the name to which an existing ``out`` is renamed while it is replaced."""
    return out.parent / f".{out.name}.old"


def put_in_place(made: Path, out: Path, replaced: Path) -> None:
    """Rename ``made`` to ``out``, and an existing ``out`` to ``replaced``.

    On failure the old one is renamed back, else the caller removes it. If the process is killed,
    both still exist.
    """
    try:
        if out.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            os.rename(out, replaced)  # noqa: PTH104 (a directory onto nothing)
        os.rename(made, out)  # noqa: PTH104
    except BaseException:
        if replaced.exists() and not out.exists():
            os.rename(replaced, out)  # noqa: PTH104
        raise


def is_empty(folder: Path) -> bool:
    """Return whether ``folder`` is an empty directory."""
    return folder.is_dir() and not any(folder.iterdir())
