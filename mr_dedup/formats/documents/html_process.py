"""The process that turns pages of HTML into text: its program, and what it reads and writes.

It is single-threaded and imports the parser alone. The system ends it if a page takes more
processor time than it may, whatever native code does with it, and if the process that started it
ends. Messages are frames of 8 bytes of length and so many of MessagePack; they can make nothing but
the types below.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import resource
import select
import signal
from typing import BinaryIO

import msgspec

from mr_dedup.formats.documents.html_text import text_of_html
from mr_dedup.formats.documents.markup import Markup
from mr_dedup.formats.documents.options import HtmlText

LENGTH_BYTES = 8
"""Of a frame, before its content: the length of this, little-endian."""

READY = b"\xc0"
"""The content of the first frame, once the process can read pages: nil; else a reason why not."""

RETIRED = 0
"""The exit code of a process that ended between two pages, and may be replaced by another."""

_IDLE_SECONDS = 10
"""Without pages for so long the process ends."""

_MAX_KEPT_BYTES = 512 << 20
"""A process that has more memory than that after a page ends."""

_MAX_ADDRESS_BYTES = 4 << 30
"""Of memory that a page may take; the largest that `text_of_html` allows take a tenth of it."""


class Page(msgspec.Struct, array_like=True, frozen=True):
    """A page of HTML.

    Attributes:
        data: The page.
        extent: How much of it is wanted.
        encoding: Its encoding; None to find it as ``encoding_of`` does.
    """

    data: bytes
    extent: HtmlText
    encoding: str | None = None


class ScannedPage(msgspec.Struct, array_like=True, frozen=True):
    """A page in UTF-8, and what is in it."""

    data: bytes
    extent: HtmlText
    markup: Markup

    def max_seconds(self, seconds_per_mb: float) -> float:
        """Return how much processor time it may take: some for each MB, and as for an eighth."""
        return seconds_per_mb * (len(self.data) / 1e6 + 1 / 8)


class Extracted(msgspec.Struct, array_like=True, frozen=True):
    """The text of a page and its ``PageText.cut_share``, or the reason why there is none."""

    text: str | None
    reason: str = ""
    cut_share: float = math.nan


class Pages(msgspec.Struct, array_like=True, frozen=True):
    """Some pages, and the processor time that each may take, as ``Page.max_seconds`` has it."""

    pages: list[ScannedPage]
    seconds_per_mb: float


def serve(life: int) -> None:
    """Answer each frame of Pages on standard input with a frame of Extracted for each of them.

    ``life`` is the reading end of a pipe of whose writing end other processes have the only copies:
    when the last of them has ended, so does this one.
    """
    _prepare(life)
    requests, responses = os.fdopen(0, "rb", 0), os.fdopen(1, "wb", 0)
    decoder = msgspec.msgpack.Decoder(Pages)
    try:
        # imports what they need
        text_of_html("<p>", "main", _NO_MARKUP)
    except Exception as error:
        write_frame(responses, msgspec.msgpack.encode(str(error)))
        os._exit(1)
    write_frame(responses, READY)
    # what a library prints before it aborts concerns one page, which is reported
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while select.select([0], [], [], _IDLE_SECONDS)[0]:
        frame = _read_frame(requests)
        if frame is None:
            break
        wanted = decoder.decode(frame)
        for page in wanted.pages:
            signal.setitimer(signal.ITIMER_PROF, page.max_seconds(wanted.seconds_per_mb))
            found = _encoded(page)
            signal.setitimer(signal.ITIMER_PROF, 0)
            write_frame(responses, found)
            if _resident_bytes() > _MAX_KEPT_BYTES:
                os._exit(RETIRED)
    os._exit(RETIRED)


def _resident_bytes() -> int:
    """Return the memory that this process has; ``ru_maxrss`` begins with that of its parent."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 (for each page)
        return int(file.read().split()[1]) * resource.getpagesize()


def _prepare(life: int) -> None:
    """Have the process end with what started it, at its limits, and not at Ctrl-C, without traces.

    Ctrl-C reaches all processes of a terminal: the one that reads documents ends this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGIO, signal.SIGPROF, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # the end of a pipe is a signal, which also ends what is in native code; PR_SET_PDEATHSIG would
    # come with the end of the thread that started this process
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        if not os.read(life, 1):
            # it ended before that
            os._exit(RETIRED)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = _MAX_ADDRESS_BYTES if most == resource.RLIM_INFINITY else min(_MAX_ADDRESS_BYTES, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


_NO_MARKUP = Markup(0, 0, 0, 0, 0, 0, False, False, False, False, [])


def _encoded(page: ScannedPage) -> bytes:
    """Return the answer to a page."""
    try:
        html = page.data.decode("utf-8", "replace")
        text, cut_share = text_of_html(html, page.extent, page.markup)
        return msgspec.msgpack.encode(Extracted(text, cut_share=cut_share))
    except MemoryError:
        return msgspec.msgpack.encode(Extracted(None, "its HTML takes too much memory"))
    except Exception as error:
        return msgspec.msgpack.encode(Extracted(None, str(error) or type(error).__name__))


def write_frame(stream: BinaryIO, content: bytes) -> None:
    """Write a frame to an unbuffered stream."""
    view = memoryview(len(content).to_bytes(LENGTH_BYTES, "little") + content)
    while view:
        view = view[stream.write(view) :]


def _read_frame(stream: BinaryIO) -> bytearray | None:
    """Return the content of the next frame, None at the end of the stream."""
    length = _read(stream, LENGTH_BYTES)
    return None if length is None else _read(stream, int.from_bytes(length, "little"))


def _read(stream: BinaryIO, size: int) -> bytearray | None:
    content = bytearray(size)
    view = memoryview(content)
    while view:
        count = stream.readinto(view)  # type: ignore[attr-defined]
        if not count:
            return None
        view = view[count:]
    return content
