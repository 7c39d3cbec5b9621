"""The errors a user can cause, as opposed to bugs and to misuse of the library."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mr_dedup.redaction import redacted

MAX_MESSAGE = 2000
"""Characters that an error's message has at most, wherever it is shown or sent."""


def shortened(message: str, max_characters: int = MAX_MESSAGE) -> str:
    """Return a message without its middle if it is longer than ``max_characters``.

    What is wrong stands at its beginning (which file) and at its end (the reason).

    >>> shortened("0123456789", 7)
    '01 … 89'
    """
    if len(message) <= max_characters:
        return message
    kept = (max_characters - 3) // 2
    return f"{message[:kept]} … {message[-kept:]}"


def escaped(text: str) -> str:
    """Return ``text`` with what cannot be printed escaped, as line ends and surrogates.

    >>> print(escaped("a\\tb"))
    a\\tb
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def newer(version: int, known: int) -> str:
    """Return the reason why what a newer version of this package has written cannot be read.

    >>> newer(4, 3)
    'version 4 is newer than this mr_dedup reads (3); upgrade mr_dedup'
    """
    return f"version {version} is newer than this mr_dedup reads ({known}); upgrade mr_dedup"


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return the end of a message that names the most similar one, if there is one.

    >>> suggestion("newst", ["oldest", "newest"]), suggestion("x", ["oldest", "newest"])
    ('; did you mean newest?', '')
    """
    # 10 ms, of commands that fail
    import difflib

    similar = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {similar[0]}?" if similar else ""


def not_one_of(name: str, names: Sequence[str]) -> str:
    """Return the end of a message on a value that is not one of the known ones.

    >>> not_one_of("wrds", ["words", "characters"])
    "one of words, characters, not 'wrds'; did you mean words?"
    """
    return f"one of {', '.join(names)}, not {name!r}{suggestion(name, names)}"


class MrDedupError(Exception):
    """An expected failure; its message is one line fit to be shown to a user.

    It has no secrets, see ``redacted``, and at most ``MAX_MESSAGE`` characters: a longer one is
    without its middle.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shortened(redacted(message)))


class NothingReadError(MrDedupError):
    """Records of which none could be read; ``text_field`` may be the field that has their texts."""

    def __init__(self, message: str, text_field: str | None = None) -> None:
        self.text_field = text_field
        super().__init__(message)


class TooManyRejectedError(MrDedupError):
    """More records were rejected than allowed; the result of the other records is kept."""


class UnreadableError(MrDedupError):
    """A file that cannot be opened or read, ``name``, and the ``reason``: not its content's fault.

    A reader of many files rejects it, and reads the others.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name}: {reason}")


class OutOfMemoryError(MrDedupError):
    """A task did not get the memory it asked for."""


class FormatError(MrDedupError):
    """Data that is not what its file claims to be: names the file, the position and the reason.

    ``offset`` is a phrase that fits the format: ``"byte 4096"``, ``"line 17"``, ``"block 3"``;
    None where the file as a whole is wrong.
    """

    def __init__(self, path: str | os.PathLike[str], offset: str | None, reason: str) -> None:
        self.path = os.fspath(path)
        self.offset = offset
        self.reason = reason
        where = self.path if offset is None else f"{self.path}, {offset}"
        super().__init__(f"{where}: {reason}")


@contextlib.contextmanager
def errors_naming(name: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise the FormatErrors of the file ``path`` as errors of ``name``, what it is a copy of."""
    try:
        yield
    except FormatError as error:
        if Path(error.path) != Path(path):
            raise
        raise FormatError(name, error.offset, error.reason) from error


@contextlib.contextmanager
def usage_errors(name: str | None = None) -> Iterator[None]:
    """Raise MrDedupError, after ``name`` if there is one, for a ValueError of the block."""
    try:
        yield
    except ValueError as error:
        raise MrDedupError(f"{name}: {error}" if name else str(error)) from error
