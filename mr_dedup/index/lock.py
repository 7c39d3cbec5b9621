"""The lock of an index: one process writes at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from mr_dedup.errors import MrDedupError

NAME = "LOCK"


class IndexInUseError(MrDedupError):
    """Another process writes to the index, or another opening in this one."""


class FolderLock:
    """The right to write to an index, until it is released or the process ends, however it does."""

    def __init__(self, folder: Path) -> None:
        """Take the lock; IndexInUseError if it is taken, MrDedupError if it cannot be."""
        try:
            self._handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise MrDedupError(f"{folder}: cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._handle, 20).decode(errors="replace").strip()
            os.close(self._handle)
            who = f"process {holder}" if holder else "another process"
            raise IndexInUseError(
                f"{folder}: {who} has it open for writing; one writes at a time, any number read"
            ) from None
        self._sign()

    def _sign(self) -> None:
        """Say who holds the lock; on a full disk nobody is told."""
        try:
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, b"%d\n" % os.getpid(), 0)
        except OSError:
            pass

    def release(self) -> None:
        """Let others write."""
        os.close(self._handle)
