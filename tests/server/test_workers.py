"""Work that is cancelled before it begins is forgotten, though its turn comes later."""

import asyncio
import contextlib
import gc
import threading
import weakref

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.server.workers import THREADS, TooLongError, Workers


class Body(bytearray):
    """A body of a call, to which there can be weak references."""


def closing(group):
    """Workers that are closed also when a test fails: their threads would outlive it."""
    return contextlib.closing(Workers(group))


@pytest.mark.parametrize("changes", [True, False])
def test_cancelled_work_is_not_referenced(changes):
    """All threads are busy, as with a disk that does not answer."""
    asyncio.run(cancel_work(changes))


async def cancel_work(changes):
    with closing(contextlib.nullcontext) as workers:
        await cancel_waiting(workers, changes)


async def cancel_waiting(workers, changes):
    allowed, begun = threading.Event(), threading.Semaphore(0)
    made = []

    def wait():
        begun.release()
        assert allowed.wait(60)

    async def cancelled():
        body = Body(100)
        with pytest.raises(TooLongError) as refused:
            await workers.done(lambda: made.append(len(body)), 0, changes=changes)
        assert not refused.value.begun
        return weakref.ref(body)

    busy = 1 if changes else THREADS
    waiting = [asyncio.create_task(workers.done(wait, 60, changes=changes)) for _ in range(busy)]
    await asyncio.sleep(0)
    for _ in range(busy):
        assert begun.acquire(timeout=60)
    try:
        bodies = await asyncio.gather(*(cancelled() for _ in range(20)))
        gc.collect()
        assert [body() for body in bodies] == [None] * 20
        assert workers.unheard() == 0
    finally:
        allowed.set()
    await asyncio.gather(*waiting)
    assert await workers.done(lambda: 7, 60, changes=changes) == 7
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
                await workers.done(change, 60, changes=True)
