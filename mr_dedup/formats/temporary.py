"""Folders for temporary files that go with the process, and those that killed processes left."""

from __future__ import annotations

import contextlib
import functools
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

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Where Linux has a random id of this start of the kernel."""

_BOOT_ID_LETTERS = 12


@contextlib.contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[Path]:
    """Yield a new folder in ``parent``, by default TMPDIR, which is removed when the block ends.

    First removes there what killed processes left, see ``remove_left_over``. Where the file system
    has no locks, what a killed process left stays. Raises MrDedupError if the folder cannot be
    made.
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
        if descriptor is not None:
            release(descriptor)


def remove_left_over(parent: Path) -> None:
    """Remove the temporary folders in ``parent`` that processes of this user left when killed.

    These are folders that no process has locked and that were made since this kernel started, which
    is in their names: locks of folders on NFS and FUSE are of one kernel only, and what seems
    unlocked may be in use on another host. Where the kernel has no such id, as on macOS, nothing is
    removed.
    """
    kernel = _kernel()
    if not kernel:
        return
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(f"{PREFIX}{kernel}") and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        _remove_unlocked(Path(entry.path))


@functools.cache
def _kernel() -> str:
    """Return the part of a temporary folder's name that says which start of which kernel made it.

    It is empty where that is not known.
    """
    try:
        boot_id = BOOT_ID.read_text("ascii")
    except (OSError, ValueError):
        return ""
    letters = "".join(filter(str.isalnum, boot_id))[:_BOOT_ID_LETTERS]
    return f"{letters}-" if letters else ""


def _remove_unlocked(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        take(descriptor)
    except (LockTakenError, OSError):
        os.close(descriptor)
        return
    shutil.rmtree(folder, ignore_errors=True)
    release(descriptor)


def _new_folder(place: str) -> tuple[Path, int | None]:
    """Return a new folder, and a file descriptor by which it is locked, or None without locks."""
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{_kernel()}", dir=place))
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
            return folder, None  # no locks there: no process takes one to remove it
        if is_at(descriptor, folder):
            return folder, descriptor
        release(descriptor)


def _cannot_be_made(error: OSError) -> MrDedupError:
    return MrDedupError(f"no temporary folder: {error.strerror or error}")
