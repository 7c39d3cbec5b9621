"""Temporary directories that end with the process; those of killed processes are removed."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.files.file_lock import LockTakenError, is_at, release, take
from mr_dedup.files.io_errors import reason_of
from mr_dedup.interrupts import removed_at_forced_end

PREFIX = "mr_dedup-tmp-"
"""How names of temporary directories begin; each is locked while its process runs."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Where Linux has a random id of this boot."""

_BOOT_ID_LETTERS = 12


@contextlib.contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[Path]:
    """Yield a new directory in ``parent``, by default TMPDIR, which is removed with the block.

    First removes those that killed processes left there, see ``remove_left_over``. Where the file
    system has no locks, they stay. Raises MrDedupError if the directory cannot be created.
    """
    try:
        directory = parent or tempfile.gettempdir()
    except OSError as error:
        raise _cannot_be_made(error) from error
    remove_left_over(Path(directory))
    folder, descriptor = _new_folder(directory)
    try:
        with removed_at_forced_end(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            release(descriptor)


def removable_folder() -> tuple[Path, Callable[[], None]]:
    """Return a new directory in TMPDIR, as ``temporary_folder``, and a function that removes it.

    For one that is used beyond a block; the caller has it removed at the end of the process.
    """
    opened = contextlib.ExitStack()
    return opened.enter_context(temporary_folder()), opened.close


def remove_left_over(parent: Path) -> None:
    """Remove the temporary directories in ``parent`` that killed processes of this user left.

    They are not locked, and their names have the id of this boot: on NFS and FUSE, locks of
    directories are local to a host, and one that seems unlocked may be in use on another. Where
    there is no such id, as on macOS, nothing is removed.
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
    """Return the part of a temporary directory's name that identifies this boot.

    It is empty where there is no id.
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


def _new_folder(parent: str) -> tuple[Path, int | None]:
    """Return a new directory, and the file descriptor that locks it, or None without locks."""
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{_kernel()}", dir=parent))
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            if not Path(parent).is_dir():
                raise _cannot_be_made(error) from error
            continue  # another process took it for an abandoned one and removed it
        except OSError as error:
            raise _cannot_be_made(error) from error
        try:
            take(descriptor)
        except LockTakenError:
            os.close(descriptor)
            continue  # it is being removed
        except OSError:
            os.close(descriptor)
            return folder, None  # without locks no process removes it
        if is_at(descriptor, folder):
            return folder, descriptor
        release(descriptor)


def _cannot_be_made(error: OSError) -> MrDedupError:
    return MrDedupError(f"no temporary directory: {reason_of(error)}")
