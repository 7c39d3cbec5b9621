"""The lock of a folder: one process writes to it at a time, and notices if it is another now."""

from __future__ import annotations

import os

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.file_lock import LockTakenError, release, take
from mr_dedup.formats.folders import Folder, moved


class FolderLock:
    """The right to write to a folder, until it is released or the process ends, however it does.

    Args:
        folder: an open folder.
        name: of the lock's file in it, which is made if it is missing and then stays.
        in_use: the error if another process has the lock, or another opening in this one.

    Raises:
        MrDedupError: the file cannot be written; ``in_use`` as above.
    """

    def __init__(self, folder: Folder, name: str, in_use: type[MrDedupError]) -> None:
        self._folder = folder
        try:
            self._handle = (folder / name).open(os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise MrDedupError(f"{folder.path}: cannot be written: {error.strerror}") from error
        try:
            take(self._handle)
        except LockTakenError as error:
            os.close(self._handle)
            raise in_use(
                f"{folder.path}: {error} has it open for writing; one process writes at a time"
            ) from None
        except OSError as error:
            os.close(self._handle)
            reason = error.strerror or error
            raise MrDedupError(f"{folder.path}: cannot be locked: {reason}") from error
        folder.mark(name, self._handle)

    def require_same(self) -> None:
        """Raise MrDedupError if the folder's path leads to another lock now, or to none.

        Then the folder, or what was in it, was moved, removed or replaced. Takes 3 µs.
        """
        path = self._folder.path
        try:
            same = self._folder.is_at_path()
        except OSError as error:
            raise MrDedupError(f"{path}: cannot be read: {error.strerror}") from error
        if not same:
            raise moved(path)

    def release(self) -> None:
        """Let others write."""
        self._folder.unmark()
        release(self._handle)
