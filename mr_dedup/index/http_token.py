"""The bearer token of a server: from a file or the environment, at both ends, shown to nobody."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mr_dedup.errors import MrDedupError

VARIABLE = "MR_DEDUP_TOKEN"
"""The environment variable that has the token, if no file is named."""

LEAST_CHARACTERS = 16

# RFC 6750, 2.1
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_MOST_BYTES = 4096


def read_token(path: Path | None) -> str | None:
    """Return the token in a file, or else of the environment; None if there is neither.

    Raises MrDedupError if the file cannot be read, and for what is short or no header can hold.
    """
    if path is None:
        place, text = VARIABLE, os.environ.get(VARIABLE)
        if text is None:
            return None
    else:
        place = str(path)
        try:
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES).decode("ascii", errors="replace")
        except OSError as error:
            raise MrDedupError(f"{path}: cannot be read: {error.strerror}") from error
    token = text.strip()
    if len(token) < LEAST_CHARACTERS or not _TOKEN.fullmatch(token):
        raise MrDedupError(
            f"{place}: holds no token, which is {LEAST_CHARACTERS} or more letters, digits and "
            "any of -._~+/"
        )
    return token
