"""The threads in which calls are worked on: queries in some, changes one after another in one.

A thread cannot be stopped. Work that takes too long goes on though nobody waits for it, and keeps
its thread and its turn, and counts as a call, until it ends: else callers who try again would have
any number of calls at work.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

_Result = TypeVar("_Result")

THREADS = 40
"""Calls that are worked on at a time, besides changes."""

_GROUP_SECONDS = 0.05
"""A group of changes that takes longer is committed: the first of it waits for the last."""


class TooLongError(Exception):
    """Work that was not done in time; whether it was ``begun``, and so goes on."""

    def __init__(self, begun: bool) -> None:
        super().__init__(begun)
        self.begun = begun


class _Work(Protocol):
    """Work that was given to a thread, as ``concurrent.futures.Future``."""

    def cancel(self) -> bool:
        """Have it not begun, if it was not; return whether it was not."""

    def done(self) -> bool:
        """Return whether it ended or was cancelled."""


class _Once(Generic[_Result]):
    """Work that is done once or dropped, and not referenced after either.

    Queues keep what is cancelled until a thread comes to it, and a request's body is megabytes.
    """

    def __init__(self, work: Callable[[], _Result]) -> None:
        self._work: Callable[[], _Result] | None = work

    def __call__(self) -> _Result:
        work, self._work = self._work, None
        assert work is not None, "was done or dropped before"
        return work()

    def drop(self) -> None:
        self._work = None


class Workers:
    """Threads that work for one event loop.

    Changes are made one at a time, and in the order in which they came. Those that wait are made as
    one group, which shares one force to the disk, and their callers are woken together.
    """

    def __init__(self, group: Callable[[], AbstractContextManager[None]]) -> None:
        """Begin threads when there is work; ``group`` commits the changes of a block as it ends."""
        self._calls = ThreadPoolExecutor(THREADS, "call")
        self._changes = _Changes(group)
        self._unheard: list[_Work] = []

    async def done(
        self, work: Callable[[], _Result], seconds: float, *, changes: bool = False
    ) -> _Result:
        """Return the result of ``work``, done in a thread; TooLongError if it takes too long.

        What nobody waits for any more is not begun, if it was not.
        """
        begun: _Work
        once = _Once(work)
        if changes:
            begun, result = self._changes.submit(once)
        else:
            begun = future = self._calls.submit(once)
            result = asyncio.wrap_future(future)
        try:
            return await asyncio.wait_for(result, seconds)
        except asyncio.TimeoutError as error:
            raise TooLongError(begun=not begun.cancel()) from error
        finally:
            if begun.cancel():
                once.drop()
            elif not begun.done():
                self._unheard.append(begun)

    def unheard(self) -> int:
        """Return how many calls are worked on though their callers were answered already."""
        self._unheard = [each for each in self._unheard if not each.done()]
        return len(self._unheard)

    def close(self) -> None:
        """Wait for what is worked on; what was not begun is not."""
        self._calls.shutdown(cancel_futures=True)
        self._changes.close()


class _Change:
    """A change that waits for its turn, is made, or was."""

    def __init__(self, work: Callable[[], Any], result: asyncio.Future[Any]) -> None:
        self._work, self.result = work, result
        self._begun = self._done = False
        self._lock = threading.Lock()
        self.value: Any = None
        self.error: BaseException | None = None

    def cancel(self) -> bool:
        with self._lock:
            if not self._begun:
                self._done = True
            return not self._begun

    def done(self) -> bool:
        return self._done

    def begin(self) -> bool:
        """Return whether it is to be made: nobody can cancel it then."""
        with self._lock:
            self._begun = not self._done
            return self._begun

    def make(self) -> None:
        """Make the change, and keep what came of it until its group is committed."""
        try:
            self.value = self._work()
        except BaseException as error:
            self.error = error

    def end(self, failure: BaseException | None) -> None:
        """Say that it was made, or failed with its group.

        A group that failed is the error of all: what one of them was refused for may be a change
        before it, which is lost.
        """
        if failure is not None:
            self.error = failure
        self._done = True

    def deliver(self) -> None:
        """Wake who waits for it, if anybody does; in the thread of the event loop."""
        if self.result.done():
            return
        if self.error is None:
            self.result.set_result(self.value)
        else:
            self.result.set_exception(self.error)


class _Changes:
    """The thread that makes changes in groups: all that wait when it is free."""

    def __init__(self, group: Callable[[], AbstractContextManager[None]]) -> None:
        self._group = group
        self._waiting: queue.SimpleQueue[_Change | None] = queue.SimpleQueue()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], _Result]) -> tuple[_Change, asyncio.Future[_Result]]:
        """Have a change made when its turn comes; for the thread of the event loop."""
        loop = asyncio.get_running_loop()
        change = _Change(work, loop.create_future())
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(loop,), name="change")
            self._thread.start()
        self._waiting.put(change)
        return change, change.result

    def close(self) -> None:
        """Wait for the group that is being made; the others are not."""
        self._closed = True
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._closed:
            change = self._waiting.get()
            if change is not None:
                try:
                    loop.call_soon_threadsafe(_deliver, self._made(change))
                except RuntimeError:
                    return  # the loop is closed: nobody waits

    def _made(self, change: _Change | None) -> list[_Change]:
        """Make a change and those that wait behind it; return them when they are committed."""
        made: list[_Change] = []
        failure: BaseException | None = None
        until = time.monotonic() + _GROUP_SECONDS
        try:
            with self._group():
                while change is not None:
                    if change.begin():
                        made.append(change)
                        change.make()
                    change = self._next(until)
        except BaseException as error:
            failure = error
            if change is not None and change.begin():
                made.append(change)
        for each in made:
            each.end(failure)
        return made

    def _next(self, until: float) -> _Change | None:
        """Return the change that waits first, None if none does or the group was long enough."""
        if self._closed or time.monotonic() > until:
            return None
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            return None


def _deliver(changes: list[_Change]) -> None:
    for change in changes:
        change.deliver()
