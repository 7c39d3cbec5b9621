"""Turn the system's errors into errors of one line that name the file."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator

from mr_dedup.errors import MrDedupError, UnreadableError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@contextlib.contextmanager
def reading(name: str | os.PathLike[str]) -> Iterator[None]:
    """Raise UnreadableError, ``NAME: cannot be read: REASON``, for an OSError of the block.

    Not FormatError, which is for damaged content.

    >>> from pathlib import Path
    >>> with reading("pages.jsonl"):
    ...     Path("/nowhere/pages.jsonl").read_bytes()
    Traceback (most recent call last):
    mr_dedup.errors.UnreadableError: pages.jsonl: cannot be read: No such file or directory
    """
    try:
        yield
    except OSError as error:
        raise cannot_be_read(name, error) from error


@contextlib.contextmanager
def writing(name: str | os.PathLike[str]) -> Iterator[None]:
    """Raise MrDedupError, ``NAME: cannot be written: REASON``, for an OSError of the block."""
    try:
        yield
    except OSError as error:
        raise cannot_be_written(name, error) from error


@contextlib.contextmanager
def filling(name: str | os.PathLike[str]) -> Iterator[None]:
    """Raise MrDedupError as ``writing``, but only for full disks and quotas.

    For blocks that also read: of their errors, those without a filename are of the open file that
    they write, and the others are left as they are.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in _NO_ROOM:
            raise
        raise cannot_be_written(name, error) from error


def cannot_be_read(name: str | os.PathLike[str], error: OSError) -> UnreadableError:
    """Return the error for a file that the system does not read."""
    return UnreadableError(os.fspath(name), f"cannot be read: {reason_of(error)}")


def cannot_be_written(name: str | os.PathLike[str], error: OSError) -> MrDedupError:
    """Return the error for a file that the system does not write."""
    return MrDedupError(f"{os.fspath(name)}: cannot be written: {reason_of(error)}")


def located_reason(error: OSError) -> str:
    """Return the message of an error after the path; of what cannot be written, a likely one.

    Files without a name are temporary ones; of a copy it is the copy that has no room.
    """
    name = error.filename
    if error.filename2 is not None and error.errno in _NO_ROOM:
        name = error.filename2
    elif name is None and error.errno in _NO_ROOM:
        name = f"a temporary file in {tempfile.gettempdir()}"
    return reason_of(error) if name is None else f"{os.fsdecode(name)}: {reason_of(error)}"


def reason_of(error: OSError) -> str:
    """Return the message of an error, without the path."""
    return error.strerror or str(error)
