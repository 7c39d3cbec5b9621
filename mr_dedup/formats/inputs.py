"""The files that a command's arguments name: files, globs, folders, file:// addresses."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.io_errors import cannot_be_read

_ADDRESS = "file://"


def expand(names: Iterable[str]) -> list[Path]:
    """Return the files that ``names`` stand for, in the order given, a glob's sorted.

    A name that exists is taken as it stands, even with ``*`` in it. A folder, named or matched
    by a glob, stands for the files in it and in its sub-folders, links followed, in the order of
    their paths. Files and folders in it whose names start with ``.`` or ``_`` are passed over, as
    Hadoop passes over ``_SUCCESS``; a folder that several links lead to, or one back to a folder
    it is in, is entered once. What is neither file nor folder is returned too, for the reader to
    refuse. Raises MrDedupError for a name that stands for no file, or a folder out of reach.
    """
    files: list[Path] = []
    for name in names:
        if not name:
            raise MrDedupError("an input has no name: is a variable empty?")
        try:
            path = _local_path(name)
            found = _found(path)
            if not found:
                reason = "holds no files" if path.is_dir() else "no such file"
                raise MrDedupError(f"{name}: {reason}")
        except OSError as error:
            raise cannot_be_read(error.filename or name, error) from error
        files += found
    return files


def _local_path(name: str) -> Path:
    if not name.startswith(_ADDRESS):
        return Path(name)
    # by hand: urlsplit takes what follows a # or ? for no part of the path
    machine, slash, path = name.removeprefix(_ADDRESS).partition("/")
    if machine not in ("", "localhost"):
        raise MrDedupError(f"{name}: names another machine, {machine}")
    path = unquote(slash + path, errors="surrogateescape")
    if "\0" in path:
        raise MrDedupError(f"{name}: no path holds a zero byte")
    return Path(path)


def _found(path: Path) -> list[Path]:
    if path.is_dir():
        return _files_below(path)
    if os.path.lexists(path):
        return [path]
    matches = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207 (absolute too)
    files = [
        file for match in matches for file in (_files_below(match) if match.is_dir() else [match])
    ]
    # ** matches a folder and also what is in it
    return list(dict.fromkeys(files))


def _files_below(folder: Path) -> list[Path]:
    files: list[Path] = []
    entered = set()
    for parent, subfolders, names in os.walk(folder, followlinks=True, onerror=_raise):
        status = os.stat(parent)  # noqa: PTH116 (os.walk gives strings)
        if (status.st_dev, status.st_ino) in entered:
            subfolders.clear()
            continue
        entered.add((status.st_dev, status.st_ino))
        subfolders[:] = sorted(filter(_is_shown, subfolders))
        files += [Path(parent, name) for name in filter(_is_shown, names)]
    return sorted(files)


def _is_shown(name: str) -> bool:
    return name[0] not in "._"


def _raise(error: OSError) -> NoReturn:
    """Report what os.walk would pass over in silence."""
    raise error
