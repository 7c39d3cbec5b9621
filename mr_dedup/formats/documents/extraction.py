"""Pages of HTML to text, in processes beside this one.

The parser holds the interpreter's lock, so threads would extract one page at a time; a few pages
take it minutes, in native code that nothing in its process can end; and such code may crash. So
pages go to processes (``html_process``), in groups over pipes, and their texts come back in order.
A page that takes too long, or ends its process twice, has a reason in place of a text.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

import msgspec

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.encoding import encoding_of
from mr_dedup.formats.documents.html_process import (
    LENGTH_BYTES,
    READY,
    RETIRED,
    Extracted,
    Page,
    Pages,
    ScannedPage,
)
from mr_dedup.formats.documents.html_scan import markup_of

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from mr_dedup.formats.documents.html_process import serve; serve(int(sys.argv[1]))"
)
"""With the paths of this process, which may be archives that Spark has sent."""

_AHEAD = 2
"""Groups of pages for each process that are submitted before the first of them is done."""

_PATIENCE = 10
_MIN_PATIENCE_SECONDS = 60
"""A process without an answer for so many times the processor time of a page, and at least so long,
is stopped or starved."""

_START_SECONDS = 60

_PIPE_BYTES = 1 << 20
"""So a group of pages is written at once, not 64 KB at a time."""

_MAX_ANSWER_FACTOR = 8
_MIN_ANSWER_BYTES = 1 << 16
"""Answers that are longer than so many times their page, and so long, are of a process whose memory
is damaged. An entity becomes as many bytes as it has at most."""


class Extraction:
    """Extracts the texts of pages, in several processes at a time; a context manager.

    Threads may share one. Processes are started when they are needed; at the end of the block those
    that are idle are left to the next one, and end after some seconds.

    Args:
        processes: How many pages are extracted at a time.
        patience_seconds: After so long without an answer a process is replaced; by default ten
            times the processor time that a page may take, and at least a minute.

    Example:
        >>> with Extraction() as extraction:
        ...     found = extraction.submit([Page(b"<p>One", "page")], seconds_per_mb=2)
        ...     found.result()[0].text
        'One'
    """

    def __init__(self, processes: int = 1, *, patience_seconds: float | None = None) -> None:
        self.processes = processes
        self._patience_seconds = patience_seconds
        self._threads: ThreadPoolExecutor | None = None
        self._running: set[_Process] = set()
        self._unfinished = 0
        self._is_closed = False
        self._lock = Lock()

    def __enter__(self) -> Extraction:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes that are extracting."""
        with self._lock:
            self._is_closed = True
            threads, running = self._threads, list(self._running)
        for process in running:
            process.stop()
        if threads is not None:
            threads.shutdown(cancel_futures=True)

    @property
    def is_busy(self) -> bool:
        """Whether there is as much to do as is worth submitting in advance."""
        return self._unfinished >= _AHEAD * self.processes

    def submit(self, pages: Sequence[Page], seconds_per_mb: float) -> Future[list[Extracted]]:
        """Return the texts of pages, in their order, each within its bound of processor time.

        The result is a MrDedupError if no process can be started.
        """
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.processes, "html")
            self._unfinished += 1
            return self._threads.submit(self._finished, pages, seconds_per_mb)

    def _finished(self, pages: Sequence[Page], seconds_per_mb: float) -> list[Extracted]:
        try:
            return self._texts([_scanned(page) for page in pages], seconds_per_mb)
        finally:
            with self._lock:
                self._unfinished -= 1

    def _texts(self, pages: list[ScannedPage], seconds_per_mb: float) -> list[Extracted]:
        longest = max((page.max_seconds(seconds_per_mb) for page in pages), default=0.0)
        patience = self._patience_seconds or max(_MIN_PATIENCE_SECONDS, _PATIENCE * longest)
        found: list[Extracted] = []
        suspect = -1
        while len(found) < len(pages):
            with self._lock:
                if self._is_closed:
                    raise MrDedupError("the extraction of HTML was closed")
                process = _taken()
                self._running.add(process)
            try:
                for text in process.texts(Pages(pages[len(found) :], seconds_per_mb), patience):
                    found.append(text)
                _idle.append(process)
            except _EndedError as ended:
                process.end()
                page = len(found)
                if ended.code == -signal.SIGPROF:
                    seconds = pages[page].max_seconds(seconds_per_mb)
                    reason = f"its HTML takes more than {seconds:.2g} s to parse"
                    found.append(Extracted(None, reason))
                elif page == suspect:
                    found.append(Extracted(None, f"its HTML ends the parser ({ended})"))
                elif ended.code != RETIRED:
                    # perhaps damaged by an earlier page, or ended by somebody else
                    suspect = page
            finally:
                with self._lock:
                    self._running.discard(process)
        return found


def _scanned(page: Page) -> ScannedPage:
    encoding = page.encoding or encoding_of(page.data)
    data = page.data
    if encoding != "utf-8":
        data = data.decode(encoding, "replace").encode("utf-8", "replace")
    return ScannedPage(data, page.extent, markup_of(data))


class _EndedError(Exception):
    """A process ended before it answered; ``code`` is its exit code, None if it was waited for."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        if code is None:
            super().__init__("no answer")
        elif code < 0:
            super().__init__(signal.Signals(-code).name)
        else:
            super().__init__(f"exit code {code}")


class _Process:
    """A process that extracts texts; for one thread at a time, but for ``stop``."""

    def __init__(self) -> None:
        life, self._life = os.pipe()
        try:
            # spawned, not forked: this process may have threads and gigabytes
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(life), *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                pass_fds=[life],
            )
        except OSError as error:
            os.close(self._life)
            raise MrDedupError(f"cannot start a process that parses HTML: {error}") from error
        finally:
            os.close(life)
        _started.add(self)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._decoder = msgspec.msgpack.Decoder(Extracted)
        os.set_blocking(self._requests.fileno(), False)
        for stream in (self._requests, self._answers):
            # users have a limit for the pages of all their pipes
            with contextlib.suppress(OSError):
                fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        try:
            answer = self._read_frame(_START_SECONDS)
        except _EndedError as error:
            self.end()
            raise MrDedupError(f"cannot start a process that parses HTML: {error}") from error
        if answer != READY:
            self.end()
            reason = msgspec.msgpack.decode(answer, type=str)
            raise MrDedupError(f"cannot start a process that parses HTML: {reason}")

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def texts(self, pages: Pages, patience_seconds: float) -> Iterator[Extracted]:
        """Yield the texts of pages; raises _EndedError."""
        content = msgspec.msgpack.encode(pages)
        self._write(len(content).to_bytes(LENGTH_BYTES, "little") + content, patience_seconds)
        for page in pages.pages:
            max_bytes = _MIN_ANSWER_BYTES + _MAX_ANSWER_FACTOR * len(page.data)
            answer = self._read_frame(patience_seconds, max_bytes)
            try:
                text = self._decoder.decode(answer)
            except ValueError as error:
                raise _EndedError(None) from error
            yield text

    def stop(self) -> None:
        """Have it end, so that whatever reads its answers fails; other threads may use it."""
        self._process.kill()

    def end(self) -> int:
        """End it if it has not ended; return its exit code."""
        self._process.kill()
        code = self._process.wait()
        self._forget()
        return code

    def disown(self) -> None:
        """Leave it to the process that started it, of which this one is a fork."""
        self._process.returncode = RETIRED
        self._forget()

    def _forget(self) -> None:
        self._requests.close()
        self._answers.close()
        os.close(self._life)
        _started.discard(self)

    def _read_frame(self, patience_seconds: float, max_bytes: int = _MIN_ANSWER_BYTES) -> bytearray:
        """Return the content of an answer; raises _EndedError."""
        length = int.from_bytes(self._read(LENGTH_BYTES, patience_seconds), "little")
        if length > max_bytes:
            raise _EndedError(None)
        return self._read(length, patience_seconds)

    def _read(self, size: int, patience_seconds: float) -> bytearray:
        content = bytearray(size)
        view = memoryview(content)
        while view:
            self._wait(self._answers.fileno(), select.POLLIN, patience_seconds)
            count = os.readv(self._answers.fileno(), [view])
            if not count:
                raise _EndedError(self._process.wait())
            view = view[count:]
        return content

    def _write(self, content: bytes, patience_seconds: float) -> None:
        view = memoryview(content)
        while view:
            self._wait(self._requests.fileno(), select.POLLOUT, patience_seconds)
            try:
                view = view[os.write(self._requests.fileno(), view) :]
            except BrokenPipeError as error:
                raise _EndedError(self._process.wait()) from error

    def _wait(self, descriptor: int, events: int, patience_seconds: float) -> None:
        poll = select.poll()
        poll.register(descriptor, events)
        if not poll.poll(1000 * patience_seconds):
            raise _EndedError(None)


_idle: list[_Process] = []
"""Processes that wait for pages."""

_started: set[_Process] = set()
"""Those that have not ended, as far as is known."""


def _taken() -> _Process:
    """Return an idle process, else a new one."""
    while _idle:
        process = _idle.pop()
        if process.is_alive:
            return process
        process.end()
    _register()
    return _Process()


@functools.cache
def _register() -> None:
    """Have processes end with this one, and be unknown in its forks."""
    atexit.register(_end_all)
    os.register_at_fork(after_in_child=_disown_all)


def _end_all() -> None:
    _idle.clear()
    for process in [*_started]:
        # waited for, so that the time it took counts as that of a child of this process
        process.end()


def _disown_all() -> None:
    _idle.clear()
    for process in [*_started]:
        process.disown()
