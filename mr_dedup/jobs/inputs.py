"""What a task on a cluster is told of its input, besides the address: in its environment."""

from __future__ import annotations

import os
from urllib.parse import quote, unquote

NUMBER_VARIABLE = "MR_DEDUP_INPUT_NUMBER"
NAME_VARIABLE = "MR_DEDUP_INPUT_NAME"


def quoted_name(name: str) -> str:
    """Return the user's name for an input as ASCII without blanks, for :func:`input_name`."""
    return quote(name, safe="/:", errors="surrogateescape")


def input_name(uri: str) -> str:
    """Return what the user calls the input of this task; its address if nobody said."""
    name = os.environ.get(NAME_VARIABLE)
    return unquote(name, errors="surrogateescape") if name else uri


def input_number() -> int:
    """Return which of the job's inputs this task's is, from 0; 0 if nobody said."""
    return int(os.environ.get(NUMBER_VARIABLE) or 0)
