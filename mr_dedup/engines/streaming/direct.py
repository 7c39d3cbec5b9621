"""Run a job in this process without lines: its functions are called, and hand on what they yield.

For a job over documents that fit into memory: to spell them as lines, write these, sort and read
them took half of the processor's time of a whole de-duplication.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

from mr_dedup.engines.inputs import Input
from mr_dedup.engines.reporting import Progress, expected_reason
from mr_dedup.errors import MrDedupError
from mr_dedup.jobs.batches import Batch, HeldPart
from mr_dedup.jobs.job import Job

_Task = Callable[[], HeldPart]

_AHEAD = 2
"""Tasks for each thread that may be done before what is first is taken."""


@dataclass(frozen=True)
class HeldResult:
    """What a job leaves: a part a task, in order, once, and then its counters by name.

    Tasks run while parts are taken.
    """

    parts: Iterable[HeldPart]
    counters: Counter[str]


@contextlib.contextmanager
def run_directly(
    job_class: type[Job],
    options: Sequence[str],
    inputs: Sequence[Input],
    cores: int | None = None,
    **attributes: object,
) -> Iterator[HeldResult]:
    """Run a job of one step, which reads whole files; yield what it leaves.

    Tasks run on ``cores`` threads, by default as many as this process may use cores. All are of one
    job, which has the ``attributes``.
    Equal keys meet in a reduce task, with their batches in the order of the inputs, as they do by
    way of lines. In memory: all that goes from map to reduce; of what is left, that of a few tasks.
    Shows progress on a terminal. Raises as ``streaming.run``, while parts are taken.
    """
    called_class: type[Job] = type(job_class.__name__, (job_class,), {"is_called": True})
    job = called_class([*options, *(item.place for item in inputs)])
    counters: Counter[str] = Counter()
    lock = Lock()

    def count(group: str, name: str, amount: int = 1) -> None:
        with lock:
            counters[name] += amount

    job.increment_counter = count
    for name, value in attributes.items():
        setattr(job, name, value)
    (step,) = job.steps()
    cores = cores or len(os.sched_getaffinity(0))
    with Progress() as progress, contextlib.ExitStack() as stack:
        pool = None
        if cores > 1:
            pool = ThreadPoolExecutor(cores)
            stack.callback(pool.shutdown, cancel_futures=True)
        yield HeldResult(_parts(step, inputs, pool, cores, progress), counters)


def _parts(
    step: Any,
    inputs: Sequence[Input],
    pool: ThreadPoolExecutor | None,
    cores: int,
    progress: Progress,
) -> Iterator[HeldPart]:
    maps = [
        partial(_called, f"map task {number} on {item.name}", step["mapper_raw"], item.place)
        for number, item in enumerate(inputs)
    ]
    progress.start("map", len(maps))
    parts = _in_order(maps, pool, cores, progress)
    # mrjob's step stands for a function that it does not have by None
    if not step["reducer"]:
        yield from parts
        return
    batches: dict[int, list[Batch]] = {}
    for part in parts:
        for key, batch in part.batches:
            batches.setdefault(key, []).append(batch)
    progress.start("reduce", len(batches))
    reduces = [
        partial(_reduced, f"reduce task {number}", step["reducer"], key, batches)
        for number, key in enumerate(sorted(batches))
    ]
    yield from _in_order(reduces, pool, cores, progress)


def _called(name: str, mapper: Callable[..., Any], place: str) -> HeldPart:
    with _failing_as(name):
        return HeldPart(list(mapper(place, place)))


def _reduced(
    name: str, reducer: Callable[..., Any], key: int, batches: dict[int, list[Batch]]
) -> HeldPart:
    with _failing_as(name):
        # what has been reduced is not held any longer
        return HeldPart(list(reducer(key, iter(batches.pop(key)))))


def _in_order(
    tasks: Sequence[_Task], pool: ThreadPoolExecutor | None, cores: int, progress: Progress
) -> Iterator[HeldPart]:
    """Yield what tasks return, in their order."""
    if pool is None:
        for task in tasks:
            yield task()
            progress.step()
        return
    running: deque[Future[HeldPart]] = deque()
    for task in tasks:
        running.append(pool.submit(task))
        if len(running) > _AHEAD * cores:
            yield running.popleft().result()
            progress.step()
    while running:
        yield running.popleft().result()
        progress.step()


@contextlib.contextmanager
def _failing_as(name: str) -> Iterator[None]:
    try:
        yield
    except MrDedupError:
        raise
    except (OSError, MemoryError) as error:
        raise MrDedupError(f"{name}: {expected_reason(error)}") from error
