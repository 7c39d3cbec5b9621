"""Folders of output that appear whole or not at all: written aside, flushed, then renamed."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path


class OutputError(Exception):
    """An output that cannot be written; the message is one line fit to be shown to a user."""


@contextlib.contextmanager
def whole_folder(
    folder: Path, own_files: re.Pattern[str], *, overwrite: bool = False, least_bytes: int = 0
) -> Iterator[Path]:
    """Yield a new folder that becomes ``folder`` if, and only if, the block ends without an error.

    The new folder lies beside ``folder`` (same file system, so that the rename is atomic) under
    a hidden name ending in ``.part``, and goes when the block ends with an error or an interrupt.

    ``folder`` may be missing or empty. With ``overwrite`` it may also hold files, if the names
    of all of them fully match ``own_files``: only such files are ever removed, and only once the
    new folder is in place. Raises OutputError where this is not so, where the disk has fewer
    than ``least_bytes`` free, and for every OSError of the block and of the writing itself.
    """
    target = Path(os.path.realpath(folder))  # through links: they stay, their target is replaced
    name = f".data-gen-{secrets.token_hex(8)}"
    aside, retired = target.parent / f"{name}.part", target.parent / f"{name}.old"
    try:
        replaces = _check_target(folder, target, own_files, overwrite)
        _check_space(folder, target.parent, least_bytes)
        aside.mkdir()
        yield aside
        _flush(aside)
        if replaces:
            target.rename(retired)
            _refuse_foreign(folder, retired, own_files)  # one may have come in the meantime
        aside.rename(target)
        _flush_one(target.parent)
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
            _remove_own(retired, own_files)  # again: an interrupt may have cut the first short


def _check_target(folder: Path, target: Path, own_files: re.Pattern[str], overwrite: bool) -> bool:
    """Return whether ``target`` holds files to replace; raise OutputError if it may not be."""
    if not target.exists():
        if not target.parent.is_dir():
            raise OutputError(f"{folder}: its folder {target.parent} does not exist")
        return False
    if not target.is_dir():
        raise OutputError(f"{folder}: is a file, expected the name of a folder to write")
    if target == Path.cwd() or target.is_mount():
        kind = "the current folder" if target == Path.cwd() else "a mount point"
        raise OutputError(f"{folder}: is {kind}, which cannot be replaced; name a folder in it")
    is_empty = not any(target.iterdir())
    if not is_empty and not overwrite:
        raise OutputError(f"{folder}: is not empty; give --overwrite to replace it")
    _refuse_foreign(folder, target, own_files)
    return not is_empty


def _refuse_foreign(folder: Path, present: Path, own_files: re.Pattern[str]) -> None:
    for entry in sorted(present.iterdir()):
        if not _is_own(entry, own_files):
            raise OutputError(
                f"{folder}: holds {entry.name}, which is not data-gen's; name another folder"
            )


def _check_space(folder: Path, parent: Path, least_bytes: int) -> None:
    free = shutil.disk_usage(parent).free
    if free < least_bytes:
        raise OutputError(f"{folder}: needs {least_bytes:,} bytes, and its disk has {free:,} free")


def _is_own(entry: Path, own_files: re.Pattern[str]) -> bool:
    is_file = entry.is_file() and not entry.is_symlink()
    return is_file and own_files.fullmatch(entry.name) is not None


def _remove_own(folder: Path, own_files: re.Pattern[str]) -> None:
    """Remove the files that match, then the folder, if there is one."""
    if not folder.exists():
        return
    for entry in list(folder.iterdir()):
        if _is_own(entry, own_files):
            entry.unlink()
    folder.rmdir()


def _flush(folder: Path) -> None:
    """Put the folder and its files on the disk: a rename must not outlive what it names."""
    for entry in folder.iterdir():
        _flush_one(entry)
    _flush_one(folder)


def _flush_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
