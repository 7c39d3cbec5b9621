"""Work that is cancelled before it starts is released, though its turn comes later."""

import asyncio
import contextlib
import gc
import threading
import weakref

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.server.workers import THREADS, Workers, WorkTimeoutError


class Body(bytearray):
    """A request body that supports weak references."""


def closing(group):
    """Workers that are closed also when a test fails: their threads would outlive it."""
    return contextlib.closing(Workers(group))


@pytest.mark.parametrize("is_change", [True, False])
def test_cancelled_work_is_not_referenced(is_change):
    """All threads are busy, as with a disk that does not answer."""
    asyncio.run(cancel_work(is_change))


async def cancel_work(is_change):
    with closing(contextlib.nullcontext) as workers:
        await cancel_waiting(workers, is_change)


async def cancel_waiting(workers, is_change):
    allowed, started = threading.Event(), threading.Semaphore(0)
    made = []

    def wait():
        started.release()
        assert allowed.wait(60)

    async def cancelled():
        body = Body(100)
        with pytest.raises(WorkTimeoutError) as refused:
            await workers.run(lambda: made.append(len(body)), 0, is_change=is_change)
        assert not refused.value.started
        return weakref.ref(body)

    busy = 1 if is_change else THREADS
    waiting = [asyncio.create_task(workers.run(wait, 60, is_change=is_change)) for _ in range(busy)]
    await asyncio.sleep(0)
    for _ in range(busy):
        assert started.acquire(timeout=60)
    try:
        bodies = await asyncio.gather(*(cancelled() for _ in range(20)))
        gc.collect()
        assert [body() for body in bodies] == [None] * 20
        assert workers.abandoned_count() == 0
    finally:
        allowed.set()
    await asyncio.gather(*waiting)
    assert await workers.run(lambda: 7, 60, is_change=is_change) == 7
    assert made == []


def test_a_group_that_fails_is_the_error_of_all_its_changes():
    asyncio.run(lose_a_group())


async def lose_a_group():
    @contextlib.contextmanager
    def group():
        yield
        raise MrDedupError("the group was lost")

    def refuse():
        raise ValueError("of a state that was lost")

    with closing(group) as workers:
        for change in (lambda: 7, refuse):
            with pytest.raises(MrDedupError, match="the group was lost"):
                await workers.run(change, 60, is_change=True)
