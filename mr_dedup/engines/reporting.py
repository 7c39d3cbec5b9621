"""What engines share: a bar over the tasks of a job, and errors of a task in one line."""

from __future__ import annotations

import contextlib
import logging
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from mr_dedup.engines.events import LOGGER, ProgressEvents
from mr_dedup.errors import MrDedupError, OutOfMemoryError, shortened
from mr_dedup.files.io_errors import located_reason
from mr_dedup.progress_bars import bars_are_shown, progress_bar
from mr_dedup.storage.transfers import TRANSFERS

if TYPE_CHECKING:
    from tqdm import tqdm


_SHOWN_SECONDS = 0.2


class Progress:
    """A bar over the work of a job, if it would be seen."""

    def __init__(self, unit: str = " tasks", *, unit_scale: bool = False) -> None:
        self._bar: tqdm[NoReturn] | None = None
        self._events = ProgressEvents()
        self._done = 0
        if bars_are_shown():
            # drawn at every task, however quick
            self._bar = progress_bar(unit, unit_scale=unit_scale, min_seconds=0)

    @property
    def is_shown(self) -> bool:
        """Whether there is a bar."""
        return self._bar is not None

    @property
    def is_watched(self) -> bool:
        """Whether there is a bar, or someone gets events."""
        return self.is_shown or LOGGER.isEnabledFor(logging.INFO)

    def start(self, phase: str, total: int) -> None:
        """Begin a phase of ``total`` units."""
        self._events.start(phase, total)
        self._done = 0
        if self._bar is not None:
            self._bar.set_description(phase, refresh=False)
            self._bar.reset(total=total)

    def step(self) -> None:
        """One unit more is done."""
        self._done += 1
        self._events.reach(self._done)
        if self._bar is not None:
            self._show_transfers()
            self._bar.update()

    def _show_transfers(self) -> None:
        """Show what was copied from stores and to them, if anything was."""
        assert self._bar is not None
        if copied := TRANSFERS.described():
            self._bar.set_postfix_str(copied, refresh=False)

    def reach(self, done: int) -> None:
        """``done`` units of the phase are done."""
        self._events.reach(done)
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()


@contextlib.contextmanager
def transferring(phase: str, total_bytes: int) -> Iterator[None]:
    """Show on a terminal how many of ``total_bytes`` are copied in the block."""
    with Progress("B", unit_scale=True) as progress:
        if not progress.is_shown:
            yield
            return
        progress.start(phase, total_bytes)
        begun, ended = TRANSFERS.all_bytes, threading.Event()

        def show() -> None:
            while not ended.wait(_SHOWN_SECONDS):
                progress.reach(TRANSFERS.all_bytes - begun)

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def task_error(name: str, error: BaseException) -> MrDedupError:
    """Return what to raise for an error of a task that is not a bug."""
    kind = OutOfMemoryError if isinstance(error, MemoryError) else MrDedupError
    return kind(f"{name}: {expected_reason(error)}")


def expected_reason(error: BaseException) -> str:
    """Return the error of a task as a line or two, of at most ``MAX_MESSAGE`` characters."""
    if isinstance(error, MemoryError):
        return "out of memory"
    return shortened(located_reason(error) if isinstance(error, OSError) else _one_line(error))


def _one_line(error: BaseException) -> str:
    """Return an error as one line; of a bug, where it happened too."""
    if isinstance(error, MrDedupError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    location = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__}: {error} ({location})"
