"""Messages to the user, and standard streams that are usable in any state."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

if TYPE_CHECKING:
    from tqdm import tqdm


def log(message: str) -> None:
    """Print one line to stderr, with unprintable characters escaped."""
    line = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in message
    )
    print(f"data-gen: {line}", file=sys.stderr)


@contextlib.contextmanager
def usable_streams() -> Iterator[None]:
    """Make stdin, stdout and stderr usable within the block, even if they were closed.

    A closed stream is opened on the null device: otherwise the next opened file would get its
    descriptor, and the output with it. Failed writes to stderr are ignored, for the data set
    matters more than the message; stdout raises an OSError, at the latest when it is flushed.
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


def discard(stream: TextIO) -> None:
    """Redirect ``stream`` to the null device, so that Python does not fail when it flushes it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


class _Lossy:
    """A text stream that discards all output after a failure."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._discarding_failures():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._discarding_failures():
            self._stream.flush()

    @contextlib.contextmanager
    def _discarding_failures(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            discard(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def progress_bar(total: int, unit: str, *, quiet: bool) -> tqdm[NoReturn]:
    """Return a bar on standard error, if that is a terminal and the bar is wanted.

    The variable TQDM_DISABLE hides it too, as it hides bars that say nothing about this.
    """
    from tqdm import tqdm

    is_hidden = quiet or "TQDM_DISABLE" in os.environ
    return tqdm(total=total, unit=unit, unit_scale=True, disable=is_hidden or None)
