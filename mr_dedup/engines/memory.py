"""Run a job on the threads of this process; tables go from step to step as objects.

Kernels, Arrow and decompressors release the interpreter's lock, so threads use all cores. Tables
between steps that exceed a memory budget are in a temporary file.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mr_dedup.engines.engine import Dataset, JobOutput
from mr_dedup.engines.inputs import Input
from mr_dedup.engines.reporting import Progress, expected_reason
from mr_dedup.engines.table_store import TableStore
from mr_dedup.errors import MrDedupError
from mr_dedup.jobs.contract import Counters, Job, Keyed, Reduce, TaskInput
from mr_dedup.jobs.part_cache import PartCache

_Task = Callable[[Counters], Iterator[Keyed]]
_Result = tuple[list[Keyed], Counters]

DEFAULT_MEMORY_BYTES = 1 << 30
"""Bytes of tables between two steps that are in memory."""

_MAX_WAITING = 2
"""Tasks for each thread that may be done before the first of them is taken."""


class _Run(NamedTuple):
    """What the steps of one job share; without a pool tasks run in this thread."""

    pool: ThreadPoolExecutor | None
    stopped: threading.Event
    progress: Progress
    counters: Counters


class MemoryEngine:
    """An engine of this process.

    Args:
        threads: Tasks at a time; by default as many as this process may use cores.
        memory_bytes: Bytes of tables between two steps that are in memory. Tasks have besides
            what each of them needs.
        folder: Where tables beyond that go; by default TMPDIR.
        cache: What the jobs that are run one after the other keep of their inputs, which must
            then be the same.
    """

    def __init__(
        self,
        threads: int | None = None,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        folder: Path | None = None,
        cache: PartCache | None = None,
    ) -> None:
        self._threads = threads or len(os.sched_getaffinity(0))
        self._memory_bytes = memory_bytes
        self._folder = folder
        self._cache = cache

    @property
    def tasks(self) -> int:
        """See Engine.tasks."""
        return self._threads

    @contextlib.contextmanager
    def stored(self, tables: JobOutput | Iterable[Keyed]) -> Iterator[Dataset]:
        """Store tables; see Engine.stored."""
        with TableStore(self._memory_bytes, self._folder) as store:
            for key, table in tables:
                store.add(key, table)
            yield store

    @contextlib.contextmanager
    def run(self, job: Job, inputs: Sequence[Input] | Dataset) -> Iterator[JobOutput]:
        """Run ``job``; see Engine.run. The tasks of the last step run while tables are read."""
        with contextlib.ExitStack() as stack:
            progress = stack.enter_context(Progress())
            pool, stopped = None, threading.Event()
            if self._threads > 1:
                pool = ThreadPoolExecutor(self._threads)
                stack.callback(pool.shutdown, cancel_futures=True)
                stack.callback(stopped.set)
            run = _Run(pool, stopped, progress, Counters())
            tables = self._maps(job, inputs, run)
            for reduce in job.reduces():
                store = stack.enter_context(TableStore(self._memory_bytes, self._folder))
                tables = self._reduced(reduce, tables, store, run)
            yield JobOutput(_ending(tables, progress), run.counters)

    def _maps(self, job: Job, inputs: Sequence[Input] | Dataset, run: _Run) -> Iterator[Keyed]:
        tasks = [
            (f"map task {part.number} on {part.name}", partial(job.map, part))
            for part in self._task_inputs(inputs)
        ]
        return self._in_order("map", tasks, run)

    def _task_inputs(self, inputs: Sequence[Input] | Dataset) -> Iterator[TaskInput]:
        if isinstance(inputs, Sequence):
            for number, item in enumerate(inputs):
                yield TaskInput(Path(item.location), item.name, number, cache=self._cache)
            return
        assert isinstance(inputs, TableStore)
        for number, key in enumerate(inputs.sorted_keys()):
            tables = partial(inputs.read, key)
            yield TaskInput(Path(), f"tables of key {key}", number, tables=tables)

    def _reduced(
        self, reduce: Reduce, tables: Iterable[Keyed], store: TableStore, run: _Run
    ) -> Iterator[Keyed]:
        for key, table in tables:
            store.add(key, table)
        tasks = [
            (f"reduce task {number}", partial(_of_group, reduce, store, key))
            for number, key in enumerate(store.sorted_keys())
        ]
        yield from self._in_order("reduce", tasks, run)

    def _in_order(
        self, phase: str, tasks: Sequence[tuple[str, _Task]], run: _Run
    ) -> Iterator[Keyed]:
        """Yield the tables of named tasks in the order of these; a few tasks run ahead."""
        run.progress.start(phase, len(tasks))
        calls = [partial(_completed, name, task, run.stopped) for name, task in tasks]
        for tables, counted in _results(calls, run.pool, _MAX_WAITING * self._threads):
            run.counters.update(counted)
            run.progress.step()
            tables.reverse()
            while tables:
                yield tables.pop()


def _ending(tables: Iterator[Keyed], progress: Progress) -> Iterator[Keyed]:
    """Yield tables; after the last one take the bar away, so that a command may print."""
    yield from tables
    progress.__exit__()


def _results(
    tasks: Sequence[Callable[[], _Result]], pool: ThreadPoolExecutor | None, waiting: int
) -> Iterator[_Result]:
    """Yield what tasks return, in their order."""
    if pool is None:
        for task in tasks:
            yield task()
        return
    running: deque[Future[_Result]] = deque()
    for task in tasks:
        running.append(pool.submit(task))
        if len(running) > waiting:
            yield running.popleft().result()
    while running:
        yield running.popleft().result()


def _completed(name: str, task: _Task, stopped: threading.Event) -> _Result:
    """Run a task to its end, or until no one needs its tables.

    Raises MrDedupError that names it for what is not a bug.
    """
    counters, tables = Counters(), []
    try:
        for keyed in task(counters):
            if stopped.is_set():
                break
            tables.append(keyed)
        return tables, counters
    except MrDedupError:
        raise
    except (OSError, MemoryError) as error:
        raise MrDedupError(f"{name}: {expected_reason(error)}") from error


def _of_group(reduce: Reduce, store: TableStore, key: int, counters: Counters) -> Iterator[Keyed]:
    return reduce(iter([(key, store.take(key))]), counters)
