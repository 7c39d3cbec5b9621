"""What the commands' arguments have in common."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator

_SIZES = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


class Mistake(Exception):
    """Options that do not fit; the message is for the user."""


@contextlib.contextmanager
def told_as_mistakes() -> Iterator[None]:
    """Turn a ValueError, which names a parameter and its value, into a Mistake."""
    try:
        yield
    except ValueError as error:
        raise Mistake(str(error)) from error


def size(text: str) -> int:
    """Return the bytes that ``64MB`` and the like stand for."""
    match = re.fullmatch(r"([0-9]+)([KMG]B)?", text.upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"expected bytes, as 4096, 64MB or 1GB, not {text!r}")
    return int(match[1]) * _SIZES[match[2] or ""]
