"""The files that a command's arguments name: files, globs, folders, file:// addresses."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mr_dedup.errors import MrDedupError


def expand(names: Iterable[str]) -> list[Path]:
    """Return the files that ``names`` stand for, in the order given, a glob's sorted.

    A name that exists is taken as it stands, even with ``*`` in it; a folder stands for the
    files directly in it whose names start with neither ``.`` nor ``_``, as Hadoop reads folders.
    Raises MrDedupError for a name that stands for no file.
    """
    files: list[Path] = []
    for name in names:
        if not name:
            raise MrDedupError("an input has no name: is a variable empty?")
        path = _local_path(name)
        if path.is_dir():
            found = sorted(p for p in path.iterdir() if p.is_file() and p.name[0] not in "._")
        elif path.exists():
            found = [path]
        else:
            found = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207 (absolute too)
            found = [match for match in found if match.is_file()]
        if not found:
            reason = "holds no files" if path.is_dir() else "no such file"
            raise MrDedupError(f"{name}: {reason}")
        files += found
    return files


def _local_path(name: str) -> Path:
    if not name.startswith("file://"):
        return Path(name)
    address = urlsplit(name)
    if address.netloc not in ("", "localhost"):
        raise MrDedupError(f"{name}: names another machine, {address.netloc}")
    return Path(unquote(address.path))
