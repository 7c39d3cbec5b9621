"""What the user calls the files that a command has copied, for its messages and outputs."""

from __future__ import annotations

import bisect
import os
from collections.abc import Mapping

_names: dict[str, str] = {}
_paths: list[str] = []
"""The keys of ``_names``, sorted. None begins with another."""


def name_copies(names: Mapping[str, str]) -> None:
    """Have ``as_named`` replace paths of copies by what the user calls the files.

    Args:
        names: Names by path, of files or directories. No path may begin with another.
    """
    _names.update(names)
    _paths[:] = sorted(_names)


def forget_copies() -> None:
    """Forget the names of all copies, as those of an earlier command of this process."""
    _names.clear()
    _paths.clear()


def as_named(text: str) -> str:
    """Return ``text`` with what the user calls the files in place of paths of copies.

    Takes time linear in the text, and logarithmic in the number of copies.
    """
    # of characters, not of whole components
    start = os.path.commonprefix([_paths[0], _paths[-1]]) if _paths else ""  # noqa: RUF071
    found = text.find(start) if start else -1
    parts, done = [], 0
    while found >= 0:
        # as no path begins with another, only the last one that sorts before the text can begin it
        longest = text[found : found + _MAX_PATH_CHARACTERS]
        path = _paths[max(0, bisect.bisect(_paths, longest) - 1)]
        after = found + 1
        if longest.startswith(path):
            parts += [text[done:found], _names[path]]
            done = after = found + len(path)
        found = text.find(start, after)
    return "".join(parts) + text[done:]


_MAX_PATH_CHARACTERS = 4096
