"""Run a job on the threads of this process; tables go from step to step as objects.

Kernels, Arrow and decompressors release the interpreter's lock, so threads use all cores, and HTML
is parsed in as many processes. Tables between steps that exceed a memory budget are in a temporary
file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mr_dedup.engines.engine import JobOutput
from mr_dedup.engines.inputs import Input
from mr_dedup.engines.ordered_tasks import OrderedTasks, Task
from mr_dedup.engines.reporting import Progress
from mr_dedup.engines.resources import core_count
from mr_dedup.formats.documents.extraction import Extraction
from mr_dedup.formats.table_store import TableStore
from mr_dedup.jobs.contract import Counters, Job, Keyed, Reduce, TaskInput
from mr_dedup.jobs.part_cache import PartCache
from mr_dedup.storage.scratch import OpenScratch

DEFAULT_MEMORY_BYTES = 1 << 30
"""Bytes of tables between two steps that are in memory."""

_WAITING_SHARE = 4
"""Of these bytes one part in so many is for tables that tasks have yielded, and that wait."""


class _Run(NamedTuple):
    """What the steps of one job share."""

    tasks: OrderedTasks
    progress: Progress
    counters: Counters
    extraction: Extraction


class MemoryEngine:
    """An engine of this process.

    Args:
        threads: Tasks at a time; by default as many as this process may use cores.
        memory_bytes: Bytes of tables between two steps that are in memory, with those that tasks
            have yielded and that wait to be read. Tasks need memory of their own.
        folder: Where tables beyond that go; by default TMPDIR.
        cache: What the jobs that are run one after the other keep of their inputs, which must
            then be the same.
        scratch: Where copies of remote files go; needed if inputs have some.
    """

    def __init__(
        self,
        threads: int | None = None,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        folder: Path | None = None,
        cache: PartCache | None = None,
        scratch: OpenScratch | None = None,
    ) -> None:
        self._threads = core_count(threads)
        self._waiting_bytes = memory_bytes // _WAITING_SHARE
        self._memory_bytes = memory_bytes - self._waiting_bytes
        self._folder = folder
        self._cache = cache
        self._scratch = scratch

    @property
    def tasks(self) -> int:
        """See Engine.tasks."""
        return self._threads

    @contextlib.contextmanager
    def run(self, job: Job, inputs: Sequence[Input]) -> Iterator[JobOutput]:
        """Run ``job``; see Engine.run. The tasks of the last step run while tables are read."""
        with contextlib.ExitStack() as stack:
            progress = stack.enter_context(Progress())
            tasks = stack.enter_context(OrderedTasks(self._threads, self._waiting_bytes))
            # ends before the tasks, which may wait for it
            extraction = stack.enter_context(Extraction(self._threads))
            run = _Run(tasks, progress, Counters(), extraction)
            left = self._maps(job, inputs, run)
            for reduce in job.reduce_tasks():
                store = stack.enter_context(TableStore(self._memory_bytes, self._folder))
                left = self._reduced(reduce, left, store, run)
            yield JobOutput(_ending(left, progress), run.counters)

    def _maps(self, job: Job, inputs: Sequence[Input], run: _Run) -> Iterator[Keyed]:
        tasks = [
            (f"map task {part.number} on {part.name}", partial(job.map_task, part))
            for part in self._task_inputs(inputs, run.extraction)
        ]
        return self._in_order("map", tasks, run)

    def _task_inputs(self, inputs: Sequence[Input], extraction: Extraction) -> Iterator[TaskInput]:
        paths = [Path(item.location) for item in inputs]
        for number, item in enumerate(inputs):
            # other threads read those between
            following = paths[number + self._threads : number + self._threads + 1]
            yield TaskInput(
                paths[number],
                item.name,
                number,
                cache=self._cache,
                scratch=self._scratch,
                next_path=following[0] if following else None,
                extraction=extraction,
            )

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
        self, phase: str, tasks: Sequence[tuple[str, Task]], run: _Run
    ) -> Iterator[Keyed]:
        """Yield the tables of named tasks in the order of these."""

        def completed(counted: Counters) -> None:
            run.counters.update(counted)
            run.progress.step()

        run.progress.start(phase, len(tasks))
        yield from run.tasks.run(tasks, completed)


def _ending(tables: Iterator[Keyed], progress: Progress) -> Iterator[Keyed]:
    """Yield tables; after the last one take the bar away, so that a command may print."""
    yield from tables
    progress.__exit__()


def _of_group(reduce: Reduce, store: TableStore, key: int, counters: Counters) -> Iterator[Keyed]:
    return reduce(iter([(key, store.take(key))]), counters)
