"""The list of the files of a directory that a command has made: only what it names is replaced.

It is a hidden file, ``.files.json``, which readers skip: names and sizes, with a checksum.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import xxhash

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import reading, writing

FILE_LIST = ".files.json"

_OF_ANY_SIZE = "report.html"
"""What names inputs and times: lists of equal results are equal."""

Sizes = Mapping[str, "int | None"]
"""Sizes in bytes by relative name; None for what is not a regular file, such as a link."""


def encoded_list(sizes: Sizes) -> bytes:
    """Return the content of the list of some files.

    >>> decoded_list(encoded_list({"documents/a.jsonl": 9}))
    {'documents/a.jsonl': 9}
    """
    files = {name: sizes[name] for name in sorted(sizes) if name != FILE_LIST}
    files |= dict.fromkeys(files.keys() & {_OF_ANY_SIZE})
    return json.dumps({"files": files, "checksum": _checksum(files)}, indent=1).encode() + b"\n"


def decoded_list(content: bytes) -> dict[str, int | None] | None:
    """Return the sizes that a list has; None for what is none."""
    try:
        found = json.loads(content)
        files = dict(found["files"])
        return files if found["checksum"] == _checksum(files) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _checksum(files: Sizes) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(files).encode())


def require_own(name: str, there: Sizes, *lists: bytes | None) -> None:
    """Raise MrDedupError if a directory has anything that its lists do not name.

    Args:
        name: What messages call the directory.
        there: All that it contains; nothing is fine.
        lists: Contents of lists of files, None for one that does not exist.
    """
    known = [files for content in lists if content is not None and (files := decoded_list(content))]
    if there and not known:
        raise MrDedupError(f"{name}: not a result of mr-dedup, and is not replaced")
    for file, size in sorted(there.items()):
        if file == FILE_LIST and size is not None:
            continue
        if not any(file in files for files in known):
            raise MrDedupError(
                f"{name}: contains {file!r}, which is not of its result, and is not replaced"
            )
        if size is None or all(files.get(file, -1) not in (size, None) for files in known):
            raise MrDedupError(
                f"{name}: its file {file!r} was changed since it was made, and is not replaced"
            )


def sizes_in(folder: Path) -> dict[str, int | None]:
    """Return all that is in a directory, hidden files too; links are not followed.

    An empty subdirectory is ``NAME/``, of no bytes. Raises MrDedupError if it cannot be read.
    """
    with reading(folder):
        return dict(_entries(str(folder), ""))


def _entries(folder: str, prefix: str) -> Iterator[tuple[str, int | None]]:
    is_empty = True
    with os.scandir(folder) as entries:
        for entry in entries:
            is_empty = False
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path, f"{name}/")
            elif entry.is_file(follow_symlinks=False):
                yield name, entry.stat(follow_symlinks=False).st_size
            else:
                yield name, None
    if is_empty and prefix:
        yield prefix, 0


def refuse_links(folder: Path) -> None:
    """Raise MrDedupError if a directory, if it is one, has links in it, or other special files."""
    if not folder.is_dir():
        return
    for name, size in sizes_in(folder).items():
        if size is None:
            raise MrDedupError(f"{folder}: its {name!r} is not a regular file")


def write_list(folder: Path) -> None:
    """Write the list of all files in a directory, which is complete, to it."""
    content = encoded_list(sizes_in(folder))
    with writing(folder):
        (folder / FILE_LIST).unlink(missing_ok=True)
        (folder / FILE_LIST).write_bytes(content)


def require_replaceable(folder: Path, name: str | None = None) -> None:
    """Raise MrDedupError if a path is anything but a directory of a command's files, or empty.

    Messages call it ``name``, by default the path.
    """
    name = name or str(folder)
    if folder.is_symlink():
        raise MrDedupError(f"{name}: is a link, and is not replaced; name what it leads to")
    if not folder.is_dir():
        raise MrDedupError(f"{name}: not a directory")
    path = folder / FILE_LIST
    content = None
    if path.is_file() and not path.is_symlink():
        with reading(path):
            content = path.read_bytes()
    require_own(name, sizes_in(folder), content)
