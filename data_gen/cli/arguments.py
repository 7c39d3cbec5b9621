"""Argument types and errors that the commands share."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator

_SIZES = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


class UsageError(Exception):
    """Invalid options; the message is one line for the user."""


@contextlib.contextmanager
def as_usage_errors() -> Iterator[None]:
    """Convert a ValueError, which names a parameter and its value, to a UsageError."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def size(text: str) -> int:
    """Return the number of bytes of a size such as ``64MB``."""
    match = re.fullmatch(r"([0-9]+)([KMG]B)?", text.upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 4096, 64MB or 1GB, not {text!r}")
    return int(match[1]) * _SIZES[match[2] or ""]
