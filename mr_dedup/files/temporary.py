"""Temporary files and directories that end with the process; those of killed ones are removed."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.files.file_lock import LockTakenError, is_at, lock, release, take
from mr_dedup.files.io_errors import reason_of
from mr_dedup.interrupts import removed_at_forced_end

PREFIX = "mr_dedup-tmp-"
"""How names of temporary directories begin; each is locked while its process runs."""

_PART = ".part"
"""How names of temporary files and directories beside an output end; these are hidden."""

_PREFIX_CHARACTERS = 40
"""How much of a name a temporary name repeats: names have at most 255 bytes."""

_CLEANED_SECONDS = 60
"""A directory of many outputs is not gone through for each."""

_cleaned: dict[Path, float] = {}
"""When directories of outputs were gone through last."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Where Linux has a random id of this boot."""

_BOOT_ID_LETTERS = 12


@contextlib.contextmanager
def temporary_folder(
    parent: str | None = None, prefix: str = PREFIX, suffix: str = ""
) -> Iterator[Path]:
    """Yield a new directory in ``parent``, by default TMPDIR, which is removed with the block.

    First removes those that killed processes left there, see ``remove_left_over``. Where the file
    system has no locks, they stay. Raises MrDedupError if the directory cannot be created.
    """
    try:
        directory = parent or tempfile.gettempdir()
    except OSError as error:
        raise _cannot_be_made(error) from error
    remove_left_over(Path(directory))
    folder, descriptor = _new_folder(directory, prefix, suffix)
    try:
        with removed_at_forced_end(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            release(descriptor)


@contextlib.contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Yield a new hidden directory beside ``path``; as ``temporary_folder``."""
    with temporary_folder(str(path.parent), hidden_prefix(path), _PART) as folder:
        yield folder


def file_beside(path: Path) -> tuple[Path, int]:
    """Create a hidden file beside ``path``; return its path and descriptor, which locks it.

    First removes those that killed processes left there. Raises OSError.
    """
    now = time.monotonic()
    if now - _cleaned.get(path.parent, -_CLEANED_SECONDS) >= _CLEANED_SECONDS:
        _cleaned[path.parent] = now
        remove_left_over(path.parent)
    while True:
        name = f"{hidden_prefix(path)}{_kernel()}{secrets.token_hex(8)}{_PART}"
        temporary = path.parent / name
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            lock(handle)
        except LockTakenError:
            pass  # it is being removed
        except OSError:
            return temporary, handle  # without locks no process removes it
        else:
            if is_at(handle, temporary):
                return temporary, handle
        os.close(handle)


def hidden_prefix(path: Path) -> str:
    """Return how names of temporary files beside ``path`` begin; inputs skip such names."""
    return f".{path.name[:_PREFIX_CHARACTERS]}."


def removable_folder() -> tuple[Path, Callable[[], None]]:
    """Return a new directory in TMPDIR, as ``temporary_folder``, and a function that removes it.

    For one that is used beyond a block; the caller has it removed at the end of the process.
    """
    opened = contextlib.ExitStack()
    return opened.enter_context(temporary_folder()), opened.close


def remove_left_over(parent: Path) -> None:
    """Remove temporary files and directories in ``parent`` that killed processes of the user left.

    They are not locked, and their names have the id of this boot: on NFS and FUSE, locks of
    directories are local to a host, and one that seems unlocked may be in use on another. Where
    there is no such id, as on macOS, nothing is removed.
    """
    kernel = _kernel()
    if not kernel:
        return
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            name = entry.name
            is_beside = name.startswith(".") and name.endswith(_PART) and f".{kernel}" in name
            is_folder = name.startswith(f"{PREFIX}{kernel}") and entry.is_dir(follow_symlinks=False)
            if is_beside or is_folder:
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


def _remove_unlocked(path: Path) -> None:
    """Remove a file or directory that no process has locked."""
    # not blocking, as a pipe would
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lock(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            shutil.rmtree(path, ignore_errors=True)
        elif stat.S_ISREG(os.fstat(descriptor).st_mode) and is_at(descriptor, path):
            path.unlink()
    except (LockTakenError, OSError):
        return
    finally:
        os.close(descriptor)


def _new_folder(parent: str, prefix: str, suffix: str) -> tuple[Path, int | None]:
    """Return a new directory, and the file descriptor that locks it, or None without locks."""
    while True:
        try:
            folder = Path(tempfile.mkdtemp(suffix, prefix + _kernel(), dir=parent))
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
