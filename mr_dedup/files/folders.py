"""Directories that stay open, so that all files are read, written and removed in the same one.

A path may lead to another directory later, if the first was moved. Files are read and removed by
the descriptor of their directory, wherever it was moved. New files are created by its path, and
refused if that leads to another directory: they would not be expected elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import cannot_be_read, cannot_be_written


class Folder:
    """An open directory; ``folder / name`` is a file in it.

    Args:
        path: its path now, which messages name.
        absolute: the same as an absolute path, if known.

    Raises:
        MrDedupError: it is not a directory, or cannot be read.

    >>> import tempfile
    >>> base = tempfile.TemporaryDirectory()
    >>> path = Path(base.name, "made")
    >>> path.mkdir()
    >>> folder = Folder(path)
    >>> with (folder / "numbers").written() as file:
    ...     _ = file.write(b"1 2 3")
    >>> _ = path.rename(path.with_name("moved"))
    >>> (folder / "numbers").read()
    b'1 2 3'
    >>> folder.is_at_path()
    False
    >>> folder.close()
    >>> base.cleanup()
    """

    def __init__(self, path: Path, absolute: Path | None = None) -> None:
        self.path = path
        # the process may change its working directory later
        self.absolute = absolute or Path(os.path.abspath(path))  # noqa: PTH100 (there is no Path's)
        try:
            self._handle = os.open(self.absolute, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MrDedupError(f"{path}: not a directory") from error
        except OSError as error:
            raise cannot_be_read(path, error) from error
        self._open = True
        self._marks: tuple[str, int] = str(self.absolute), self._handle

    def __truediv__(self, name: str) -> FolderFile:
        return FolderFile(self, name)

    @property
    def handle(self) -> int:
        """The file descriptor; ValueError if the directory is closed."""
        if not self._open:
            raise ValueError(f"{self.path}: is closed")
        return self._handle

    def reopened(self) -> Folder:
        """Open the directory that the path leads to now."""
        return Folder(self.path, self.absolute)

    def is_at_path(self) -> bool:
        """Return whether the path still leads to this directory, and to the marked file in it.

        Raises OSError if it cannot be looked up. Two system calls, 3 µs.
        """
        path, handle = self._marks
        try:
            there = os.stat(path)  # noqa: PTH116 (a third of what Path's takes)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return os.path.samestat(there, os.fstat(handle))

    def mark(self, name: str, handle: int) -> None:
        """Let ``is_at_path`` check that ``name`` is still the file that ``handle`` has open.

        So it also notices if all files of the directory were moved.
        """
        self._marks = str(self.absolute / name), handle

    def unmark(self) -> None:
        """Let ``is_at_path`` check the directory only."""
        self._marks = str(self.absolute), self._handle

    def fixed_path(self) -> Path:
        """Return a path that leads to this directory until it is closed, wherever it is moved.

        For libraries that open files by path. Only Linux has one; elsewhere it is the current path.
        """
        by_handle = Path(f"/proc/self/fd/{self.handle}")
        return by_handle if by_handle.is_dir() else self.absolute

    def names(self) -> list[str]:
        """Return the names of its files, in no order."""
        return os.listdir(self.handle)  # noqa: PTH208 (Path takes no descriptor)

    def force(self) -> None:
        """Force the directory to the disk; raise MrDedupError if that fails."""
        try:
            os.fsync(self.handle)
        except OSError as error:
            raise cannot_be_written(self.path, error) from error

    def close(self) -> None:
        """Close it; a second call does nothing."""
        if self._open:
            self._open = False
            os.close(self._handle)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()


@dataclass(frozen=True)
class FolderFile:
    """A file of an open directory, which may or may not exist."""

    folder: Folder
    name: str

    @property
    def path(self) -> Path:
        """Its path when the directory was opened, for messages."""
        return self.folder.path / self.name

    def create(self) -> int:
        """Create the file; return a descriptor to read and write it.

        Raises MrDedupError if it exists, the directory was moved, or it cannot be created.
        """
        path = self.folder.absolute / self.name
        try:
            if not self.folder.is_at_path():
                raise moved(self.folder.path)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise cannot_be_written(self.path, error) from error
        # the directory may have been moved meanwhile
        status = self.stat()
        if status is None or not os.path.samestat(status, os.fstat(handle)):
            os.close(handle)
            path.unlink(missing_ok=True)
            raise moved(self.folder.path)
        return handle

    def open(self, flags: int) -> int:
        """Return a descriptor, as ``os.open``; OSError with the path of the file.

        Links are not followed, and pipes not waited for: an index may come from others.
        """
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(self.name, flags, 0o666, dir_fd=self.folder.handle)
        except OSError as error:
            error.filename = str(self.path)
            raise

    def read(self) -> bytes:
        """Return its bytes; OSError with the path of the file."""
        with os.fdopen(self.open(os.O_RDONLY), "rb") as file:
            return file.read()

    def stat(self) -> os.stat_result | None:
        """Return its status, None if it does not exist."""
        try:
            return os.stat(self.name, dir_fd=self.folder.handle)
        except FileNotFoundError:
            return None

    def remove(self) -> None:
        """Remove it, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.folder.handle)

    @contextlib.contextmanager
    def written(self) -> Iterator[BinaryIO]:
        """Yield a binary file that replaces this one if, and only if, the block ends normally.

        Its content is then on the disk; ``Folder.force`` forces the name. Permissions of a
        replaced file are kept. Raises MrDedupError if it cannot be written, as on a full disk.
        """
        aside = FolderFile(self.folder, f".{self.name}.{secrets.token_hex(8)}.part")
        handle = aside.create()
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                _finish(file, self.stat())
            aside._become(self)
        except BaseException as error:
            aside.remove()
            # an error with a name is of another file
            if isinstance(error, OSError) and error.filename is None:
                raise cannot_be_written(self.path, error) from error
            raise

    def _become(self, other: FolderFile) -> None:
        """Replace another file of the directory."""
        folder = self.folder.absolute
        try:
            # another directory at this path has no file of this random name
            (folder / self.name).replace(folder / other.name)
        except FileNotFoundError as error:
            raise moved(self.folder.path) from error
        except OSError as error:
            raise cannot_be_written(other.path, error) from error


def _finish(file: BinaryIO, replaced: os.stat_result | None) -> None:
    """Force the file to the disk, with the permissions of the file that it replaces."""
    if replaced is not None:
        os.fchmod(file.fileno(), stat.S_IMODE(replaced.st_mode))
    file.flush()
    os.fsync(file.fileno())


def moved(path: Path) -> MrDedupError:
    """Return the error for a directory that its path no longer leads to."""
    return MrDedupError(
        f"{path}: was moved, removed or replaced while it was open; open it again to change it"
    )
