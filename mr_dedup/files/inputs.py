"""Input files: those that file names, globs, directories and file:// URIs stand for."""

from __future__ import annotations

import fnmatch
import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
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


def _raise(error: OSError) -> NoReturn:
    raise error


def expand(names: Iterable[str], on_error: Callable[[OSError], object] = _raise) -> list[Path]:
    """Return the files that ``names`` stand for, in the order given, those of a glob sorted.

    A name that exists is a path, even with ``*`` in it. A directory, named or matched by a glob,
    stands for the files in it and its subdirectories, links followed, in the order of their paths.
    Files and directories in it whose names start with ``.`` or ``_`` are skipped, as Hadoop skips
    ``_SUCCESS``; a directory that is reached by several links, or from within itself, is entered
    once. Pipes and devices are returned too, for the reader to refuse. Raises MrDedupError for a
    name that stands for no file.

    A directory below a named one, or that a glob leads to, which cannot be read is passed to
    ``on_error``, as the OSError that names it; by default it is raised, as MrDedupError.
    """
    files: list[Path] = []
    for name in names:
        if not name:
            raise MrDedupError("the name of an input is empty: is a variable not set?")
        try:
            path = local_path(name)
            errors: list[OSError] = []
            found = _found(path, errors.append)
            for error in errors:
                if error.filename is None or Path(error.filename) == path:
                    raise error
                on_error(error)
            if not found and not errors:
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


OnError = Callable[[OSError], object]


def _found(path: Path, on_error: OnError) -> list[Path]:
    if path.is_dir():
        return _files_below(path, on_error)
    if os.path.lexists(path):
        return [path]
    if not glob.has_magic(str(path)):
        return []
    start = Path(path.anchor)
    matches = sorted(set(_matches(start, path.parts[bool(path.anchor) :], on_error)))
    files = [
        file
        for match in matches
        for file in (_files_below(match, on_error) if os.path.isdir(match) else [match])  # noqa: PTH112
    ]
    # ** matches a directory and also what is in it
    return list(dict.fromkeys(files))


def _matches(folder: Path, levels: Sequence[str], on_error: OnError) -> Iterator[Path]:
    """Yield what a pattern of names matches, as ``glob.glob``; that ignores errors."""
    level, rest = levels[0], levels[1:]
    if level == "**":
        for parent, names in _walked(folder, lambda name: name[0] != ".", on_error):
            if rest:
                yield from _matches(parent, rest, on_error)
            else:
                yield parent
                yield from (parent / name for name in names)
        return
    if glob.has_magic(level):
        names = fnmatch.filter(_names_in(folder, on_error), level)
        found = [folder / name for name in names if name[0] != "." or level[0] == "."]
    else:
        found = [folder / level]
        if level != "..":
            try:
                found[0].lstat()
            except (FileNotFoundError, NotADirectoryError):
                return
            except OSError as error:
                on_error(error)
                return
    for path in found:
        if not rest:
            yield path
        elif os.path.isdir(path):  # noqa: PTH112 (for what is out of reach the next level reports)
            yield from _matches(path, rest, on_error)


def _names_in(folder: Path, on_error: OnError) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError as error:
        on_error(error)
        return []


def _walked(
    folder: Path, is_shown: Callable[[str], bool], on_error: OnError
) -> Iterator[tuple[Path, list[str]]]:
    """Yield a directory and those below it, links followed, each once, and the files in each."""
    entered = set()
    for parent, subfolders, names in os.walk(folder, followlinks=True, onerror=on_error):
        try:
            status = os.stat(parent)  # noqa: PTH116 (os.walk gives strings)
        except OSError as error:
            on_error(error)
            subfolders.clear()
            continue
        if (status.st_dev, status.st_ino) in entered:
            subfolders.clear()
            continue
        entered.add((status.st_dev, status.st_ino))
        subfolders[:] = sorted(filter(is_shown, subfolders))
        yield Path(parent), list(filter(is_shown, names))


def _files_below(folder: Path, on_error: OnError) -> list[Path]:
    return sorted(
        parent / name for parent, names in _walked(folder, _is_shown, on_error) for name in names
    )


def _is_shown(name: str) -> bool:
    return name[0] not in "._"


def require_utf8(path: Path) -> None:
    """Raise MrDedupError for a path that Arrow cannot open: a name that is not UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise MrDedupError(f"{path}: has a name that is not UTF-8; choose another one") from error


def require_not_read(out: Path | None, read: Iterable[Path], within: Iterable[Path] = ()) -> None:
    """Raise MrDedupError if writing ``out`` would replace what is read.

    ``read`` are files and directories that are at ``out`` or in it, ``within`` directories of which
    a file at ``out`` is one. Without ``out`` nothing is written.
    """
    if out is None or not out.exists():
        return
    # by another spelling of its name too, where file systems know no case
    if any(is_at_or_below(path, out) or _is_same_file(path, out) for path in read) or any(
        is_at_or_below(out, folder) for folder in within
    ):
        raise MrDedupError(f"{out}: is read as well; choose another name for the result")


def _is_same_file(path: Path, other: Path) -> bool:
    return path.exists() and path.samefile(other)


def is_at_or_below(path: Path, folder: Path) -> bool:
    """Return whether a path is that of a directory or file, or of something in the directory.

    By the paths that links lead to.
    """
    # not Path.resolve, which raises for links that lead in a circle
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
