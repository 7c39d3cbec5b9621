"""The errors a user can cause, as opposed to bugs and to misuse of the library."""

from __future__ import annotations

import os


class MrDedupError(Exception):
    """An expected failure; its message is one line fit to be shown to a user."""


class FormatError(MrDedupError):
    """Data that is not what its file claims to be: names the file, the place and the reason.

    ``offset`` is a phrase that fits the format: ``"byte 4096"``, ``"line 17"``, ``"block 3"``;
    None where the file as a whole is wrong.
    """

    def __init__(self, path: str | os.PathLike[str], offset: str | None, reason: str) -> None:
        self.path = os.fspath(path)
        self.offset = offset
        self.reason = reason
        place = self.path if offset is None else f"{self.path}, {offset}"
        super().__init__(f"{place}: {reason}")
