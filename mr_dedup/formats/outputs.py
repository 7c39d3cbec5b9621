"""Outputs that appear whole or not at all: written aside, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mr_dedup.errors import MrDedupError


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Raise MrDedupError if ``path`` exists and may not be replaced, or its folder is missing."""
    if path.is_dir():
        raise MrDedupError(f"{path}: is a folder, expected the name of a file to write")
    if path.exists() and not overwrite:
        raise MrDedupError(f"{path}: exists; give --overwrite to replace it")
    if not path.parent.is_dir():
        raise MrDedupError(f"{path}: its folder {path.parent} does not exist")


@contextlib.contextmanager
def whole_file(path: Path, overwrite: bool = False) -> Iterator[BinaryIO]:
    """Yield a binary file that becomes ``path`` if, and only if, the block ends without an error.

    The bytes go to a temporary file in the same folder (same file system, so that the rename is
    atomic). Raises MrDedupError if ``path`` exists and not ``overwrite``, and for every OSError
    of the writing itself (disk full, no permission), naming ``path``.
    """
    refuse_existing(path, overwrite)
    try:
        handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise MrDedupError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a result gets the permissions any new file would
        umask = os.umask(0)
        os.umask(umask)
        Path(aside).chmod(0o666 & ~umask)
        Path(aside).replace(path)
    except BaseException as error:
        Path(aside).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            raise MrDedupError(f"{path}: cannot be written: {error.strerror}") from error
        raise
