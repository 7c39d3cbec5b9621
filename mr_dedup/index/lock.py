"""The lock of an index: one process writes at a time."""

from __future__ import annotations

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.folder_lock import FolderLock
from mr_dedup.formats.folders import Folder

NAME = "LOCK"


class IndexInUseError(MrDedupError):
    """Another process writes to the index, or another opening in this one."""


def locked(folder: Folder) -> FolderLock:
    """Take the lock; IndexInUseError if it is taken, MrDedupError if it cannot be."""
    return FolderLock(folder, NAME, IndexInUseError)
