"""Descriptions of remote files, for tasks of other machines that fetch them by themselves."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from mr_dedup.errors import FormatError
from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.listing import RemoteFile
from mr_dedup.storage.uris import file_name

REMOTE_SUFFIX = ".remote.json"
"""What the names of descriptions end with."""


def describe(file: RemoteFile, path: Path) -> None:
    """Write the description of a file to ``path``."""
    path.write_text(json.dumps(asdict(file)))


def fetch_described(path: Path, folder: Path) -> Path:
    """Copy the file that ``path`` describes into a directory; return the copy.

    Of its name the copy has the endings, which state the format.

    Raises:
        MrDedupError: As ``fetch``, also if the file is not the one that was described.
        FormatError: If the description is damaged.
    """
    try:
        file = RemoteFile(**json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise FormatError(path, None, f"not the description of a file: {error}") from error
    _, dot, endings = file_name(file.uri).partition(".")
    copy = folder / f"input{dot}{endings}"
    fetch(file, copy)
    return copy
