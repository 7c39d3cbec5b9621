"""A directory for the inputs and temporary files of a run, under a path that mrjob can read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.files.temporary import temporary_folder

_PLAIN = re.compile(r"[\w./@%+=:, ()~-]*")
"""Paths mrjob takes as they are: of others it globs some characters, splits at # and newlines."""

_PLAIN_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")


@contextlib.contextmanager
def staging_folder() -> Iterator[Path]:
    """Yield a new directory for inputs and temporary files, which is removed with all in it.

    It is in TMPDIR, if need be behind a link from a path that mrjob's syntax cannot misread. What
    killed runs left there is removed first, see ``temporary_folder``. Raises MrDedupError if there
    is no such path.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        if not _PLAIN.fullmatch(str(folder)):
            folder = stack.enter_context(_link_to(folder))
        yield folder


@contextlib.contextmanager
def _link_to(folder: Path) -> Iterator[Path]:
    for parent in _PLAIN_FOLDERS:
        with contextlib.ExitStack() as stack:
            try:
                link = stack.enter_context(temporary_folder(parent)) / "files"
                link.symlink_to(folder)
            except (MrDedupError, OSError):
                continue
            yield link
            return
    raise MrDedupError(
        f"temporary directory {str(folder.parent)!r}: its name has characters that cannot be used; "
        "set TMPDIR to another directory"
    )
