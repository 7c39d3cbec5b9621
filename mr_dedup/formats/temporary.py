"""Folders for temporary files that go with the process, and those that killed processes left."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.file_lock import LockTakenError, is_at, release, take
from mr_dedup.interrupts import removed_at_forced_end

PREFIX = "mr_dedup-tmp-"
"""What the names of temporary folders begin with; each is locked as long as its process lives."""


@contextlib.contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[Path]:
    """Yield a new folder in ``parent``, by default TMPDIR, which is removed when the block ends.

    First removes there what processes of this user left that were killed: folders of this kind that
    no process has locked. Where the file system has no locks, nothing is left behind but by a kill,
    and nothing is removed. Raises MrDedupError if the folder cannot be made.
    """
    try:
        place = parent or tempfile.gettempdir()
    except OSError as error:
        raise _cannot_be_made(error) from error
    remove_left_over(Path(place))
    folder, descriptor = _new_folder(place)
    try:
        with removed_at_forced_end(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        release(descriptor)


def remove_left_over(parent: Path) -> None:
    """Remove the temporary folders of this user in ``parent`` that no process has locked."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        _remove_unlocked(Path(entry.path))


def _remove_unlocked(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        take(descriptor)
    except (LockTakenError, OSError):
        os.close(descriptor)
        return
    shutil.rmtree(folder, ignore_errors=True)
    release(descriptor)


def _new_folder(place: str) -> tuple[Path, int]:
    """Return a new folder and a file descriptor by which it is locked."""
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            if not Path(place).is_dir():
                raise _cannot_be_made(error) from error
            continue  # taken for one that was left, and removed
        except OSError as error:
            raise _cannot_be_made(error) from error
        try:
            take(descriptor)
        except LockTakenError:
            os.close(descriptor)
            continue  # it is being removed
        except OSError:
            os.close(descriptor)
            return folder, descriptor  # no locks there: no process takes one to remove it
        if is_at(descriptor, folder):
            return folder, descriptor
        release(descriptor)


def _cannot_be_made(error: OSError) -> MrDedupError:
    return MrDedupError(f"no temporary folder: {error.strerror or error}")
