"""Messages that reach the user if they can, and that no state of the standard streams can break."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


def say(message: str) -> None:
    """Print one line to stderr, escaping what does not print: line ends, bytes not UTF-8."""
    line = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in message
    )
    print(f"data-gen: {line}", file=sys.stderr)


@contextlib.contextmanager
def sound_streams() -> Iterator[None]:
    """Give the block a stdout and a stderr to print to, whatever the command was started with.

    A closed one is opened on the null device: else the next file that is opened would get its
    number, and with it what is printed. What cannot be written to stderr is lost without an
    error, for the data set matters more than the message; stdout fails with an OSError, at the
    latest when it is flushed.
    """
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, flags)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")
    lossy: Any = _Lossy(sys.stderr)
    with contextlib.redirect_stderr(lossy):
        yield


def give_up(stream: TextIO) -> None:
    """Lead ``stream`` to the null device: Python, at its end, must not fail on what is left."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


class _Lossy:
    """A text stream that goes on after a failure, writing to nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._to_nowhere_on_failure():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._to_nowhere_on_failure():
            self._stream.flush()

    @contextlib.contextmanager
    def _to_nowhere_on_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            give_up(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
