"""The bearer token of a server and its clients: from a file or the environment, never printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import cannot_be_read

VARIABLE = "MR_DEDUP_TOKEN"
"""The environment variable of the token, if no file is given."""

MIN_CHARACTERS = 16

# RFC 6750, 2.1
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_MAX_BYTES = 4096


def read_token(path: Path | None) -> str | None:
    """Return the token in a file, by default in the environment; None if there is none.

    Raises MrDedupError if the file cannot be read, or the token is short or not valid in a header.
    """
    if path is None:
        source, text = VARIABLE, os.environ.get(VARIABLE)
        if text is None:
            return None
    else:
        source = str(path)
        try:
            with path.open("rb") as file:
                text = file.read(_MAX_BYTES + 1).decode("ascii", errors="replace")
        except OSError as error:
            raise cannot_be_read(path, error) from error
    if len(text) > _MAX_BYTES:
        raise MrDedupError(f"{source}: not a token; expected at most {_MAX_BYTES:,} bytes")
    token = text.strip()
    if len(token) < MIN_CHARACTERS or not _TOKEN.fullmatch(token):
        raise MrDedupError(
            f"{source}: not a token; expected {MIN_CHARACTERS} or more letters, digits and any of "
            "-._~+/"
        )
    return token
