"""Input files: those that file names, globs, directories and file:// URIs stand for."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NoReturn
from urllib.parse import unquote

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import cannot_be_read

Kind = Literal["file", "directory", "pipe", "socket", "device"]

_SCHEME = "file://"


def kind_of(path: str | os.PathLike[str]) -> Kind:
    """Return what ``path`` is, links followed: only regular files are read twice, or replaced.

    Raises OSError if there is nothing, or access is denied.
    """
    mode = Path(path).stat().st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def expand(names: Iterable[str]) -> list[Path]:
    """Return the files that ``names`` stand for, in the order given, those of a glob sorted.

    A name that exists is a path, even with ``*`` in it. A directory, named or matched by a glob,
    stands for the files in it and its subdirectories, links followed, in the order of their paths.
    Files and directories in it whose names start with ``.`` or ``_`` are skipped, as Hadoop skips
    ``_SUCCESS``; a directory that is reached by several links, or from within itself, is entered
    once. Pipes and devices are returned too, for the reader to refuse. Raises MrDedupError for a
    name that stands for no file, and for a directory that cannot be read.
    """
    files: list[Path] = []
    for name in names:
        if not name:
            raise MrDedupError("the name of an input is empty: is a variable not set?")
        try:
            path = local_path(name)
            found = _found(path)
            if not found:
                reason = "contains no files" if path.is_dir() else "no such file"
                raise MrDedupError(f"{name}: {reason}")
        except OSError as error:
            raise cannot_be_read(error.filename or name, error) from error
        files += found
    return files


def local_path(name: str) -> Path:
    """Return the path that a file name or file:// URI stands for; MrDedupError for other hosts."""
    if not name.startswith(_SCHEME):
        return Path(name)
    # not urlsplit: it splits off what follows a # or ?
    host, slash, path = name.removeprefix(_SCHEME).partition("/")
    if host not in ("", "localhost"):
        raise MrDedupError(f"{name}: is on another host, {host}")
    path = unquote(slash + path, errors="surrogateescape")
    if "\0" in path:
        raise MrDedupError(f"{name}: a path cannot contain a zero byte")
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
    # ** matches a directory and also what is in it
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
    """Report what os.walk would ignore."""
    raise error


def is_at_or_below(path: Path, folder: Path) -> bool:
    """Return whether a path is that of a directory or file, or of something in the directory.

    By the paths that links lead to.
    """
    # not Path.resolve, which raises for links that lead in a circle
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
