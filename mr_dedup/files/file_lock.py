"""Exclusive locks of files and directories by flock, which end with the process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import cannot_be_written, reason_of
from mr_dedup.interrupts import removed_at_forced_end

_PID_BYTES = 20
_LEFT = re.compile(rb"(\d{1,18}\n)?")
"""What a lock file contains."""

_NO_LOCKS = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK})
"""Errors of a file system that has no locks."""

_taken: set[int] = set()
"""File descriptors of the locks of this process."""


class LockTakenError(Exception):
    """Another process has the lock, or this one by another descriptor; the message names it."""


def open_lock(path: Path, subject: str, directory: int | None = None) -> int:
    """Open a lock file, which is created if it does not exist; return its descriptor.

    Others may have made what is there by that name: links are not followed, pipes not waited for,
    and only a file that a lock leaves, empty or with the id of a process, is written to.

    Args:
        path: The file.
        subject: What is locked, for messages.
        directory: The descriptor of its directory, if that is open.

    Raises:
        MrDedupError: It is something else, or cannot be written.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        name = path if directory is None else path.name
        descriptor = os.open(name, flags, 0o666, dir_fd=directory)
        status = os.fstat(descriptor)
        is_ours = stat.S_ISREG(status.st_mode) and status.st_nlink <= 1
        if not is_ours or not _LEFT.fullmatch(os.pread(descriptor, _PID_BYTES + 1, 0)):
            os.close(descriptor)
            raise MrDedupError(f"{path}: {_NOT_A_LOCK}")
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise MrDedupError(f"{path}: {_NOT_A_LOCK}") from error
        raise cannot_be_written(subject, error) from error
    return descriptor


_NOT_A_LOCK = "not a lock file of mr-dedup, whose name it has; move it away"


def take(descriptor: int) -> None:
    """Lock an open file and write the id of this process to it, or lock an open directory.

    Forked processes do not inherit the lock: a task that outlives a killed command would keep it.
    Raises LockTakenError at once if it is taken, and OSError if the file system has no locks.
    """
    lock(descriptor)
    _close_in_children()
    _taken.add(descriptor)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except OSError:
            pass  # on a full disk the file stays empty


def lock(descriptor: int) -> None:
    """Lock an open file or directory, which forked processes inherit, until it is closed.

    Raises LockTakenError at once if it is taken, and OSError if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockTakenError(_owner(descriptor)) from None


def release(descriptor: int) -> None:
    """Close a locked file or directory, which ends the lock; a forked process has closed it."""
    if descriptor in _taken:
        _taken.discard(descriptor)
        os.close(descriptor)


class FileLock:
    """A lock file that is created, locked during the block, and removed; a context manager.

    If its directory is moved or replaced meanwhile, the file then at ``path`` stays: it is of
    another process. On a file system without locks the block runs without one.

    Args:
        path: the file; one that a killed process left is reused.
        subject: what is locked, for messages.
        warn: receives a message if the file system has no locks.

    Raises:
        MrDedupError: another process has the lock, or the file cannot be written.
    """

    def __init__(self, path: Path, subject: str, warn: Callable[[str], None]) -> None:
        self._path = path
        self._subject = subject
        self._warn = warn
        self._descriptor: int | None = None

    def __enter__(self) -> FileLock:
        while not self._taken():
            pass
        self._stack = contextlib.ExitStack()
        if self._descriptor is not None:
            self._stack.enter_context(removed_at_forced_end(self._path, self._remove))
        return self

    def __exit__(self, *exception: object) -> None:
        if self._descriptor is None:
            return
        self._remove(self._path)
        self._stack.close()
        release(self._descriptor)

    def _remove(self, path: Path) -> None:
        """Remove the locked file, if it is still at ``path``, and not in a forked process."""
        if self._descriptor in _taken and is_at(self._descriptor, path):
            path.unlink(missing_ok=True)

    def _taken(self) -> bool:
        """Take the lock, or warn that there are none.

        Returns False if the file was removed by its owner between opening and locking.
        """
        descriptor = open_lock(self._path, self._subject)
        try:
            take(descriptor)
        except LockTakenError as error:
            os.close(descriptor)
            raise MrDedupError(f"{self._subject}: {error} is writing it") from None
        except OSError as error:
            # a file with a process id may be locked by that process
            if os.fstat(descriptor).st_size == 0 and is_at(descriptor, self._path):
                self._path.unlink(missing_ok=True)
            os.close(descriptor)
            reason = reason_of(error)
            if error.errno not in _NO_LOCKS:
                raise MrDedupError(f"{self._subject}: cannot be locked: {reason}") from error
            self._warn(
                f"{self._subject} cannot be locked here ({reason}): do not write it twice at once"
            )
            return True
        if is_at(descriptor, self._path):
            self._descriptor = descriptor
            return True
        release(descriptor)
        return False


def is_at(descriptor: int, path: Path) -> bool:
    """Return whether ``path`` leads to the open file or directory."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _owner(descriptor: int) -> str:
    """Return which process has the lock of an open file, if the file states it."""
    try:
        number = os.pread(descriptor, _PID_BYTES, 0).decode(errors="replace").strip()
    except OSError:  # a directory
        number = ""
    return f"process {number}" if number.isdecimal() else "another process"


@functools.cache
def _close_in_children() -> None:
    """Let forked processes close the locks of this one."""
    os.register_at_fork(after_in_child=_close_all)


def _close_all() -> None:
    for descriptor in _taken:
        os.close(descriptor)
    _taken.clear()
