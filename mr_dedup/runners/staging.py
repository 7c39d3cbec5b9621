"""A folder for the inputs and temporary files of a run, under a path that mrjob can read."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mr_dedup.errors import MrDedupError

_PLAIN = re.compile(r"[\w./@%+=:, ()~-]*")
"""Paths mrjob takes as they are: of others it globs some characters, splits at # and newlines."""

_PLAIN_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")


@contextlib.contextmanager
def staging_folder() -> Iterator[Path]:
    """Yield a new folder for inputs and temporary files; it goes with all it holds.

    It is where the system's temporary files go (TMPDIR), if need be behind a link from a place
    that mrjob's syntax cannot misread. Raises MrDedupError if there is no such place.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_temporary_folder(None))
        if not _PLAIN.fullmatch(str(folder)):
            folder = stack.enter_context(_link_to(folder))
        yield folder


@contextlib.contextmanager
def _temporary_folder(parent: str | None) -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix="mr_dedup-", dir=parent))
    except OSError as error:
        raise MrDedupError(f"no temporary folder: {error.strerror}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _link_to(folder: Path) -> Iterator[Path]:
    for place in _PLAIN_FOLDERS:
        with contextlib.ExitStack() as stack:
            try:
                link = stack.enter_context(_temporary_folder(place)) / "files"
                link.symlink_to(folder)
            except (MrDedupError, OSError):
                continue
            yield link
            return
    raise MrDedupError(
        f"temporary folder {str(folder.parent)!r}: its name has characters that cannot be used; "
        "set TMPDIR to another folder"
    )
