"""The lock of a directory: one process writes to it at a time, and notices if it is replaced."""

from __future__ import annotations

import os

from mr_dedup.errors import MrDedupError
from mr_dedup.files.file_lock import LockTakenError, open_lock, release, take
from mr_dedup.files.folders import Folder, moved
from mr_dedup.files.io_errors import reading, reason_of


class FolderLock:
    """The exclusive right to write to a directory, until ``release`` or the end of the process.

    Args:
        folder: an open directory.
        name: the name of the lock file in it, which is created if it does not exist, and stays.
        in_use: the error if another process has the lock, or this one by another descriptor.

    Raises:
        MrDedupError: the file cannot be written; ``in_use`` as above.
    """

    def __init__(self, folder: Folder, name: str, in_use: type[MrDedupError]) -> None:
        self._folder = folder
        self._handle = open_lock(folder.path / name, str(folder.path), folder.handle)
        try:
            take(self._handle)
        except LockTakenError as error:
            os.close(self._handle)
            raise in_use(
                f"{folder.path}: {error} has it open for writing; one process writes at a time"
            ) from None
        except OSError as error:
            os.close(self._handle)
            reason = reason_of(error)
            raise MrDedupError(f"{folder.path}: cannot be locked: {reason}") from error
        folder.mark(name, self._handle)

    def require_same(self) -> None:
        """Raise MrDedupError if the path leads to another lock now, or to none.

        Then the directory or its files were moved, removed or replaced. Takes 3 µs.
        """
        path = self._folder.path
        with reading(path):
            same = self._folder.is_at_path()
        if not same:
            raise moved(path)

    def release(self) -> None:
        """Release the lock."""
        self._folder.unmark()
        release(self._handle)
