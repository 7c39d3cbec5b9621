"""The directory of an index: its lock, the names of its files, and files that are being written."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.files.folder_lock import FolderLock
from mr_dedup.files.folders import Folder, FolderFile

MANIFEST_NAME, LOCK_NAME = "MANIFEST", "LOCK"

_INDEX_FILE = re.compile(r"(segment|log|dead)-\d{8}|\.(MANIFEST|dead-\d{8})\.\w+\.part")


class IndexInUseError(MrDedupError):
    """Another process writes to the index, or another writer in this process."""


def locked(folder: Folder) -> FolderLock:
    """Take the lock; IndexInUseError if it is taken, MrDedupError if it cannot be taken."""
    return FolderLock(folder, LOCK_NAME, IndexInUseError)


def name_of(kind: str, number: int) -> str:
    """Return the name of a segment, log or file of dead documents.

    >>> name_of("segment", 12)
    'segment-00000012'
    """
    return f"{kind}-{number:08}"


def is_index_file(name: str) -> bool:
    """Return whether a file has the name of one that a manifest may name.

    >>> is_index_file("log-00000001"), is_index_file("MANIFEST"), is_index_file("notes.txt")
    (True, False, False)
    """
    return _INDEX_FILE.fullmatch(name) is not None


def make_folder(folder: Path) -> None:
    """Make the directory of a new index.

    Raises:
        MrDedupError: it cannot be made, or contains anything but leftovers of an index.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in folder.iterdir()}
    except FileExistsError as error:
        raise MrDedupError(f"{folder}: not a directory") from error
    except OSError as error:
        raise MrDedupError(f"{folder}: cannot be made: {error.strerror}") from error
    if MANIFEST_NAME in names:
        raise MrDedupError(f"{folder}: contains an index already")
    if any(name != LOCK_NAME and not is_index_file(name) for name in names):
        raise MrDedupError(f"{folder}: contains other files; name another directory")


class NewFiles:
    """Files that are written before a manifest names them; removed if it never does.

    Args:
        folder: the directory of the index.
        number: the last number that a file was named by.
    """

    def __init__(self, folder: Folder, number: int) -> None:
        self._folder = folder
        self.number = number
        self.committed = False
        self._files: list[FolderFile] = []
        self.on_failure = contextlib.ExitStack()
        """Callbacks that ``discard`` makes before it removes the files."""

    def next(self, kind: str) -> FolderFile:
        """Return the next file of a kind, to be written."""
        self.number += 1
        self._files.append(self._folder / name_of(kind, self.number))
        return self._files[-1]

    def adopt(self, file: FolderFile) -> None:
        """Count a file that was written already among the new ones."""
        self._files.append(file)

    def discard(self) -> None:
        """Remove the files, unless they are committed."""
        if self.committed:
            return
        self.on_failure.close()
        for file in self._files:
            # files that cannot be removed now are removed at the next opening
            with contextlib.suppress(OSError):
                file.remove()
