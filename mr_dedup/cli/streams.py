"""The standard streams, in whatever state a command finds them, and what is printed to them."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from mr_dedup.cli.copy_names import as_named
from mr_dedup.errors import escaped
from mr_dedup.progress_bars import hidden_bars
from mr_dedup.redaction import redacted

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


STANDARD_OUTPUT = "standard output"


@contextlib.contextmanager
def dependable_streams() -> Iterator[None]:
    """Make the standard streams fit for use until the block ends.

    What was closed from the start is opened on the null device: stdin is empty, what is printed
    to stderr is dropped, and what is printed to stdout fails with an OSError that names it, for a
    result is not to be lost in silence. stdout escapes what its encoding lacks. stderr never
    fails: nothing but messages is lost with it. What anyone prints to it, warnings and tracebacks
    too, is without secrets, see ``redacted``.
    """
    open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    unfailing: Any = _Unfailing(sys.stderr)
    with contextlib.redirect_stdout(_named(sys.stdout)), contextlib.redirect_stderr(unfailing):
        yield


def _named(stdout: TextIO) -> TextIO:
    """Return a stream to the same file, with the same buffering, whose errors name it."""
    try:
        raw: Any = _StandardOutput(stdout.fileno(), "w", closefd=False)
    except io.UnsupportedOperation:  # in memory
        return stdout
    at_once = isinstance(stdout, io.TextIOWrapper) and stdout.write_through
    return io.TextIOWrapper(
        raw if at_once else io.BufferedWriter(raw),
        stdout.encoding,
        stdout.errors,
        line_buffering=bool(stdout.line_buffering),
        write_through=at_once,
    )


def open_closed_streams() -> None:
    """Open the standard streams that were closed from the start on the null device.

    To be called before anything else is opened: the next file or pipe takes the lowest free
    descriptor, and what is printed lands in it, or standard input is read from it for ever.
    """
    # stdout is opened for reading, so that writing to it fails
    for name, flags, mode in (
        ("stdin", os.O_RDONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, flags)
            os.set_inheritable(number, True)
            errors = "backslashreplace"
            setattr(sys, name, open(number, mode, errors=errors, closefd=False))  # noqa: SIM115


def abandon(stream: TextIO) -> None:
    """Discard what ``stream`` has buffered and will get: its file becomes the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


@contextlib.contextmanager
def output(arguments: argparse.Namespace) -> Iterator[BinaryIO]:
    """Yield where the result is written: the file ``out``, which appears whole, or stdout."""
    from mr_dedup.files.outputs import whole_file

    if not arguments.out:
        yield sys.stdout.buffer
        return
    with whole_file(arguments.out, arguments.overwrite) as out:
        yield out


def printable(text: str) -> str:
    """Return ``text`` on one line, what cannot be printed escaped, such as a byte not UTF-8.

    Without secrets, see ``redacted``. Paths of copies of remote files are replaced by URIs.
    """
    return escaped(redacted(as_named(text)))


def print_message(*lines: str) -> None:
    """Print lines for the user to standard error, each as ``printable`` has it.

    While ``messages_as_json`` is in effect, each as an object with ``time``, ``level`` (``info``,
    ``warning``, ``error``) and ``message``; while
    ``messages_to_log`` is, to the logger ``mr_dedup``; while ``quiet_messages`` is, only errors and
    warnings.
    """
    for line in lines:
        if _quiet.is_set() and not line.startswith(("error: ", _WARNING)):
            continue
        if _to_log.is_set():
            level, text = _levelled(line)
            number: int = getattr(logging, level.upper())
            logging.getLogger("mr_dedup").log(number, "%s", printable(text))
        elif _as_json.is_set():
            level, text = _levelled(line)
            print_event({"level": level, "message": printable(text)})
        else:
            print(f"mr-dedup: {coloured(printable(line))}", file=sys.stderr, flush=True)


def _levelled(line: str) -> tuple[str, str]:
    """Return the level of a line, and the line without it."""
    level, colon, text = line.partition(": ")
    return (level, text) if colon and level in ("error", "warning") else ("info", line)


_COLOURS = {"error:": "1;31", "warning:": "1;33"}
"""Red and yellow, in bold, as terminals call them."""


def coloured(line: str) -> str:
    """Return a line with ``error:`` or ``warning:`` at its start in colour, if stderr shows it.

    That is a terminal, but for one that is dumb, or if the user has set NO_COLOR.
    """
    start, space, rest = line.partition(" ")
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    if start not in _COLOURS or is_plain or not sys.stderr.isatty():
        return line
    return f"\x1b[{_COLOURS[start]}m{start}\x1b[0m{space}{rest}"


def print_traceback() -> None:
    """Print the traceback of the exception that is handled; in JSON as ``traceback``."""
    text = traceback.format_exc()
    if _as_json.is_set():
        print_event({"level": "error", "traceback": redacted(as_named(text))})
    else:
        print(as_named(text), end="", file=sys.stderr, flush=True)


def print_warning(line: str) -> None:
    """Print a warning, as ``print_message`` prints a line."""
    print_message(f"{_WARNING}{line}")


_WARNING = "warning: "
_as_json = threading.Event()
_to_log = threading.Event()
_quiet = threading.Event()


@contextlib.contextmanager
def quiet_messages(wanted: bool) -> Iterator[None]:
    """Print errors and warnings only, no other messages, events or progress, within the block."""
    if not wanted:
        yield
        return
    _quiet.set()
    try:
        with hidden_bars():
            yield
    finally:
        _quiet.clear()


@contextlib.contextmanager
def messages_to_log() -> Iterator[None]:
    """Have messages go to the logger ``mr_dedup`` until the block ends."""
    _to_log.set()
    try:
        yield
    finally:
        _to_log.clear()


def print_event(fields: Mapping[str, object]) -> None:
    """Print a line of JSON, with the time in UTC, to standard error."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    line = json.dumps({"time": now, **fields}, ensure_ascii=True, default=str)
    print(line, file=sys.stderr, flush=True)


class _EventHandler(logging.Handler):
    """Prints events as lines of JSON."""

    def emit(self, record: logging.LogRecord) -> None:
        if not _quiet.is_set():
            print_event(
                {"level": "info", "event": record.getMessage(), **getattr(record, "fields", {})}
            )


@contextlib.contextmanager
def messages_as_json(wanted: bool) -> Iterator[None]:
    """Print messages, and events of engines, as lines of JSON until the block ends, if wanted."""
    if not wanted:
        yield
        return
    logger, handler = logging.getLogger("mr_dedup.events"), _EventHandler()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    _as_json.set()
    try:
        yield
    finally:
        _as_json.clear()
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


def are_messages_json() -> bool:
    """Return whether messages are printed as lines of JSON."""
    return _as_json.is_set()


def counted(count: int, noun: str) -> str:
    """Return a number of things with their name: ``1 file``, ``2,000 files``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class _StandardOutput(io.FileIO):
    """Standard output, whose errors have its name."""

    def write(self, content: ReadableBuffer, /) -> int:
        """Write to the descriptor. Raises OSError whose ``filename`` is STANDARD_OUTPUT."""
        try:
            return super().write(content)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


class _Unfailing:
    """A text stream without secrets, whose errors are ignored: after the first it is abandoned."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            self._stream.write(redacted(text))
            return len(text)
        except OSError:
            abandon(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            abandon(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
