"""The threads that requests run in: queries in a pool, changes one after another in one thread.

A thread cannot be stopped. Work that exceeds its time continues, keeps its thread and its turn, and
counts as a request in progress, until it ends: otherwise clients that retry could start any amount
of work.
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
"""Threads for queries."""

_GROUP_SECONDS = 0.05
"""A group of changes is committed after this time: its first change waits for the last."""


class WorkTimeoutError(Exception):
    """Work exceeded its time; if it has ``started``, it continues."""

    def __init__(self, started: bool) -> None:
        super().__init__(started)
        self.started = started


class _Task(Protocol):
    """Work submitted to a thread, such as a ``concurrent.futures.Future``."""

    def cancel(self) -> bool:
        """Cancel it unless it has started; return whether it has not."""

    def done(self) -> bool:
        """Return whether it has ended or was cancelled."""


class _Once(Generic[_Result]):
    """A callable that can be called once or dropped, and releases the function with that.

    Queues keep a cancelled task until a thread reaches it, and a request body may be megabytes.
    """

    def __init__(self, work: Callable[[], _Result]) -> None:
        self._work: Callable[[], _Result] | None = work

    def __call__(self) -> _Result:
        work, self._work = self._work, None
        assert work is not None, "was called or dropped before"
        return work()

    def drop(self) -> None:
        self._work = None


class Workers:
    """Threads that run the work of one event loop.

    Changes run one at a time, in the order of their submission. Those that are waiting when the
    thread is free form a group, which is written to disk with a single sync (group commit).
    """

    def __init__(self, group: Callable[[], AbstractContextManager[None]]) -> None:
        """Start threads on demand; ``group`` is a context manager that commits its changes."""
        self._pool = ThreadPoolExecutor(THREADS, "request")
        self._changes = _Changes(group)
        self._abandoned: list[_Task] = []

    async def run(
        self, work: Callable[[], _Result], seconds: float, *, is_change: bool = False
    ) -> _Result:
        """Run ``work`` in a thread.

        Args:
            work: the function to call.
            seconds: how long to wait for it.
            is_change: whether it changes the index.

        Returns:
            What ``work`` returns.

        Raises:
            WorkTimeoutError: if it takes longer. Work that has not started by then never does.
        """
        task: _Task
        once = _Once(work)
        if is_change:
            task, result = self._changes.submit(once)
        else:
            task = future = self._pool.submit(once)
            result = asyncio.wrap_future(future)
        try:
            return await asyncio.wait_for(result, seconds)
        except asyncio.TimeoutError as error:
            raise WorkTimeoutError(started=not task.cancel()) from error
        finally:
            if task.cancel():
                once.drop()
            elif not task.done():
                self._abandoned.append(task)

    def abandoned_count(self) -> int:
        """Return how many tasks are still running after the response was sent."""
        self._abandoned = [task for task in self._abandoned if not task.done()]
        return len(self._abandoned)

    def close(self) -> None:
        """Wait for the tasks that have started; cancel the others."""
        self._pool.shutdown(cancel_futures=True)
        self._changes.close()


class _Change:
    """A change that is waiting, running or done."""

    def __init__(self, work: Callable[[], Any], result: asyncio.Future[Any]) -> None:
        self._work, self.result = work, result
        self._started = self._done = False
        self._lock = threading.Lock()
        self.value: Any = None
        self.error: BaseException | None = None

    def cancel(self) -> bool:
        with self._lock:
            if not self._started:
                self._done = True
            return not self._started

    def done(self) -> bool:
        return self._done

    def start(self) -> bool:
        """Return whether it is to run: it was not cancelled, and cannot be from now on."""
        with self._lock:
            self._started = not self._done
            return self._started

    def run(self) -> None:
        """Make the change; keep its result until its group is committed."""
        try:
            self.value = self._work()
        except BaseException as error:
            self.error = error

    def finish(self, failure: BaseException | None) -> None:
        """Mark it as done; ``failure`` is that of its group.

        A failed group is the error of each of its changes: the reason why one of them was refused
        may be an earlier change of the group, which is lost.
        """
        if failure is not None:
            self.error = failure
        self._done = True

    def deliver(self) -> None:
        """Set the result that its request awaits, if any does; in the thread of the event loop."""
        if self.result.done():
            return
        if self.error is None:
            self.result.set_result(self.value)
        else:
            self.result.set_exception(self.error)


class _Changes:
    """The thread that makes changes, in groups of all that are waiting when it is free."""

    def __init__(self, group: Callable[[], AbstractContextManager[None]]) -> None:
        self._group = group
        self._waiting: queue.SimpleQueue[_Change | None] = queue.SimpleQueue()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], _Result]) -> tuple[_Change, asyncio.Future[_Result]]:
        """Enqueue a change; to be called in the thread of the event loop."""
        loop = asyncio.get_running_loop()
        change = _Change(work, loop.create_future())
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(loop,), name="change")
            self._thread.start()
        self._waiting.put(change)
        return change, change.result

    def close(self) -> None:
        """Wait for the group that is running; the other changes are not made."""
        self._closed = True
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._closed:
            change = self._waiting.get()
            if change is not None:
                try:
                    loop.call_soon_threadsafe(_deliver, self._run_group(change))
                except RuntimeError:
                    return  # the loop is closed: no request awaits the results

    def _run_group(self, change: _Change | None) -> list[_Change]:
        """Make a change and those waiting behind it; return them once they are committed."""
        finished: list[_Change] = []
        failure: BaseException | None = None
        deadline = time.monotonic() + _GROUP_SECONDS
        try:
            with self._group():
                while change is not None:
                    if change.start():
                        finished.append(change)
                        change.run()
                    change = self._next(deadline)
        except BaseException as error:
            failure = error
            if change is not None and change.start():
                finished.append(change)
        for each in finished:
            each.finish(failure)
        return finished

    def _next(self, deadline: float) -> _Change | None:
        """Return the next waiting change; None if there is none or the deadline has passed."""
        if self._closed or time.monotonic() > deadline:
            return None
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            return None


def _deliver(changes: list[_Change]) -> None:
    for change in changes:
        change.deliver()
