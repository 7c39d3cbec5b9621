"""The end of a command that is interrupted: within two seconds, whatever its main thread is doing.

Python's signal handlers run in the main thread, between bytecodes: not while it is in a kernel, or
waits for a thread that is in one. So a thread waits for signals as well, by the file descriptor
that Python's own C handler writes to, and ends the process if the main thread has not done so in
time. Kernels run without Python's lock, so this thread is not stopped by them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that interrupt a command."""

GRACE_SECONDS = 1.2
"""How long the main thread has to end in order."""

CLEANUP_SECONDS = 0.5
"""How long messages and the removal of temporary files may take after that."""

_STOP = b"\0"

Entry = TypeVar("Entry")

_numbers = itertools.count()
_messages: dict[int, Callable[[], None]] = {}
_temporary: dict[int, tuple[Path, Callable[[Path], None]]] = {}
_unforced: set[int] = set()


@contextlib.contextmanager
def at_forced_end(report: Callable[[], None]) -> Iterator[None]:
    """Call ``report`` in another thread if the process is ended by force in the block."""
    with _listed(_messages, report):
        yield


@contextlib.contextmanager
def removed_at_forced_end(
    path: Path, remove: Callable[[Path], None] | None = None
) -> Iterator[None]:
    """Have a temporary file or directory removed if the process is ended by force in the block.

    ``remove`` is called with its path then, by default a function that removes whatever is there.
    """
    with _listed(_temporary, (path, remove or _remove)):
        yield


@contextlib.contextmanager
def no_forced_end() -> Iterator[None]:
    """Do not force the process to end during the block, which handles interrupts itself.

    That is a job on a cluster, which would go on there and cost money, and the server.
    """
    number = next(_numbers)
    _unforced.add(number)
    try:
        yield
    finally:
        watcher = Watcher.current
        if watcher is not None:
            watcher.restart_grace_period()
        _unforced.discard(number)


@contextlib.contextmanager
def _listed(entries: dict[int, Entry], entry: Entry) -> Iterator[None]:
    number = next(_numbers)
    entries[number] = entry
    try:
        yield
    finally:
        entries.pop(number, None)


class Watcher:
    """The thread that ends the process with an exit code after an interrupt; a context manager.

    One at a time. Signals that the process ignores do not count.
    """

    current: Watcher | None = None

    def __init__(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self._deadline: float | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Lock()

    def __enter__(self) -> Watcher:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._previous = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        Watcher.current = self
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        Watcher.current = None
        signal.set_wakeup_fd(self._previous)
        os.close(self._read)
        os.close(self._write)

    def start(self) -> None:
        """Begin to wait for signals, those that came meanwhile included."""
        self._thread = threading.Thread(target=self._watch, daemon=True, name="interrupts")
        # the main thread is to be woken by signals, not this one
        usual = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)

    def stop(self) -> None:
        """End the thread."""
        if self._thread is not None:
            os.write(self._write, _STOP)
            self._thread.join()
            self._thread = None

    def restart_grace_period(self) -> None:
        """Give the main thread all its time to end once more, if there was an interrupt."""
        if self._deadline is not None:
            self._deadline = time.monotonic() + GRACE_SECONDS

    def claim_end(self) -> None:
        """Have the calling thread end the process; it does not return if the other one does."""
        if not self._ending.acquire(blocking=False):
            threading.Event().wait()

    def _watch(self) -> None:
        while True:
            left = None if self._deadline is None else self._deadline - time.monotonic()
            if left is not None and left <= 0:
                if not _unforced:
                    self._end_by_force()
                left = CLEANUP_SECONDS
            if not select.select([self._read], [], [], left)[0]:
                continue
            received = os.read(self._read, 1024)
            if self._deadline is None and not set(INTERRUPTS).isdisjoint(received):
                self._deadline = time.monotonic() + GRACE_SECONDS
            if _STOP in received:
                return

    def _end_by_force(self) -> None:
        if not self._ending.acquire(blocking=False):
            # the main thread ends it, and is about to report it
            time.sleep(CLEANUP_SECONDS)
            os._exit(self._exit_code)
        cleaning = threading.Thread(target=_clean_up, daemon=True)
        cleaning.start()
        cleaning.join(CLEANUP_SECONDS)
        os._exit(self._exit_code)


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """Have no thread wait for signals in the block, in which processes are forked.

    The main thread is to wait where signals reach it: it then ends in order.
    """
    watcher = Watcher.current
    if watcher is None:
        yield
        return
    watcher.stop()
    try:
        yield
    finally:
        watcher.start()


def claim_end() -> None:
    """Let the calling thread report the interrupt, unless the process is ended by force."""
    if Watcher.current is not None:
        Watcher.current.claim_end()


def _clean_up() -> None:
    """Call the reports, the innermost first, and remove temporary files."""
    for report in reversed(list(_messages.values())):
        with contextlib.suppress(Exception):
            report()
    for path, remove in reversed(list(_temporary.values())):
        with contextlib.suppress(Exception):
            remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
