"""Run a job on Spark: a map task for each input, and a shuffle before each reduce step.

Tables are bytes in Spark's own shuffle, sorted by key and by the order in which tasks yielded them.
What a job leaves stays with Spark until the client reads it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mr_dedup.engines.engine import Engine, JobOutput
from mr_dedup.engines.inputs import Input
from mr_dedup.engines.reporting import Progress
from mr_dedup.engines.spark.sessions import (
    SparkSettings,
    is_of_connect,
    open_session,
    spark_errors,
)
from mr_dedup.engines.spark.tasks import (
    COUNTERS,
    Row,
    SentInput,
    SentJob,
    map_inputs,
    partition_of,
    reduce_rows,
    sent_input,
)
from mr_dedup.errors import MrDedupError, OutOfMemoryError
from mr_dedup.formats.table_bytes import from_bytes
from mr_dedup.formats.table_store import TableStore
from mr_dedup.jobs.contract import Counters, Job, Keyed
from mr_dedup.storage.scratch import ScratchSettings

_POLL_SECONDS = 0.1

_END_SECONDS = 60
"""How long a job that was cancelled may take to end."""

_MEMORY_BYTES = 256 << 20
"""Tables of a result that are in the client's memory; beyond, they are in a temporary file."""

_SMALL_BYTES, _SMALL_RESULT_BYTES = 64 << 10, 64 << 20
"""Bytes of tables of a partition, and of all, that are returned with the counters: to fetch them
by themselves is a job of Spark for each partition."""

T = TypeVar("T")


@dataclass(frozen=True)
class SparkEngine:
    """An engine of a Spark session.

    Attributes:
        settings: How to run.
        staging: A directory of the client for temporary files.
        scratch: Where tasks copy remote files.
        cache: Distinguishes what executors keep for several jobs over the same inputs; None to keep
            nothing.
    """

    settings: SparkSettings
    staging: Path
    scratch: ScratchSettings = field(default_factory=ScratchSettings)
    cache: str | None = None

    @property
    def _context(self) -> Any:
        return open_session(self.settings).sparkContext

    @property
    def tasks(self) -> int:
        """See Engine.tasks."""
        if self.settings.partitions:
            return self.settings.partitions
        with spark_errors():
            return int(self._context.defaultParallelism)

    @contextlib.contextmanager
    def run(self, job: Job, inputs: Sequence[Input]) -> Iterator[JobOutput]:
        """Run ``job``; see Engine.run. It has ended when its output is yielded."""
        with spark_errors(), self._run(job, inputs) as output:
            yield output

    @contextlib.contextmanager
    def _run(self, job: Job, inputs: Sequence[Input]) -> Iterator[JobOutput]:
        session = open_session(self.settings)
        context = session.sparkContext
        run = _Run(context, type(job).__module__.rpartition(".")[2])
        with self._shipped(job, context) as shipped:
            sent = SentJob.of(job, shipped, self.scratch, run.mistakes, self.cache)
            rows, parts = self._mapped(sent, inputs, context)
            if rows is None:
                yield JobOutput(())
                return
            partitions = self.settings.partitions or max(context.defaultParallelism, parts)
            for step, keys in enumerate(job.max_keys()):
                tasks = partitions if keys is None else max(1, min(partitions, keys))
                rows = rows.repartitionAndSortWithinPartitions(
                    tasks, partial(partition_of, tasks)
                ).mapPartitionsWithIndex(partial(_reduced, sent, step))
            from pyspark import StorageLevel

            rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
            try:
                limit = min(_SMALL_BYTES, _SMALL_RESULT_BYTES // rows.getNumPartitions())
                measured = rows.mapPartitions(partial(_measured, limit))
                found = run.wait_for(measured.collect)
                counters: Counters = sum((each.counters for each in found), Counters())
                if all(each.rows is not None for each in found):
                    small = sorted(row for each in found for row in each.rows)
                    tables: Iterable[Keyed] = [(key[0], from_bytes(raw)) for key, raw in small]
                else:
                    tables = _Lazily(partial(self._fetched, rows))
                yield JobOutput(tables, counters)
            finally:
                with contextlib.suppress(Exception):
                    rows.unpersist()

    def _mapped(self, sent: SentJob, inputs: Sequence[Input], context: Any) -> tuple[Any, int]:
        """Return the rows of map tasks, and how many tasks these are; None if there are none."""
        if not inputs:
            return None, 0
        items = [sent_input(number, item) for number, item in enumerate(inputs)]
        rows = _distributed(items, context, self.cache)
        return rows.mapPartitions(partial(map_inputs, sent)), len(items)

    @contextlib.contextmanager
    def _shipped(self, job: Job, context: Any) -> Iterator[tuple[tuple[str, str], ...]]:
        """Yield the side files of a job that executors fetch: those of other machines."""
        given = [name for name in job.side_files if getattr(job, name) is not None]
        if not given or str(context.master).startswith("local"):
            yield ()
            return
        shipped = []
        for name in given:
            # the names of files are distinct in a session
            path = self.staging / f"{uuid.uuid4().hex}-{Path(getattr(job, name)).name}"
            shutil.copyfile(getattr(job, name), path)
            context.addFile(str(path))
            shipped.append((name, path.name))
        yield tuple(shipped)

    def _fetched(self, rows: Any) -> Iterator[Keyed]:
        """Yield the tables of rows, ascending by key; a partition at a time passes the driver."""
        with TableStore(_MEMORY_BYTES, self.staging) as store:
            with spark_errors():
                for (key, _, _), raw in rows.filter(_is_table).toLocalIterator():
                    store.add(key, from_bytes(raw))
            yield from store.tables()


_INPUTS: dict[tuple[str, str, tuple[SentInput, ...]], Any] = {}
"""Inputs of the last run by application, cache and content, as RDDs that executors have."""


def _distributed(items: Sequence[SentInput], context: Any, cache: str | None) -> Any:
    """Return inputs as an RDD; of a run with a cache the same one for the same inputs.

    Spark runs tasks over it, if it can, on the executors that have its partitions: those of the job
    before, and what they have kept.
    """
    if cache is None:
        return context.parallelize(items, len(items))
    key = (context.applicationId, cache, tuple(items))
    if key not in _INPUTS:
        for other in [each for each in _INPUTS if each[:2] != key[:2]]:
            with contextlib.suppress(Exception):
                _INPUTS[other].unpersist()
            del _INPUTS[other]
        _INPUTS[key] = context.parallelize(items, len(items)).persist()
    return _INPUTS[key]


def spark_engine(
    settings: SparkSettings,
    staging: Path,
    scratch: ScratchSettings | None = None,
    cache: str | None = None,
) -> Engine:
    """Return an engine of the session of this process, or of one that is started; see both kinds.

    Raises:
        MrDedupError: As ``open_session``.
    """
    from mr_dedup.engines.spark.connect import ConnectEngine

    scratch = scratch or ScratchSettings()
    if is_of_connect(open_session(settings)):
        return ConnectEngine(settings, staging, scratch)
    return SparkEngine(settings, staging, scratch, cache)


class _Lazily:
    """An iterable over what a function returns when it is iterated."""

    def __init__(self, tables: Callable[[], Iterator[Keyed]]) -> None:
        self._tables = tables

    def __iter__(self) -> Iterator[Keyed]:
        return self._tables()


class _Run:
    """A run of a job: its errors, progress, and end."""

    def __init__(self, context: Any, name: str) -> None:
        self.mistakes = context.accumulator([], _Joined())
        self._context = context
        self._name = name
        self._group = f"mr-dedup-{uuid.uuid4().hex}"

    def wait_for(self, action: Callable[[], T]) -> T:
        """Return what an action of Spark returns; end its tasks at the first error, or if stopped.

        Raises:
            MrDedupError: If a task fails for a reason that is not a bug, or Spark does.
        """

        def act() -> T:
            self._context.setJobGroup(self._group, f"mr-dedup {self._name}", True)
            return action()

        pool = ThreadPoolExecutor(1)
        future = pool.submit(act)
        # it ends when the job does
        pool.shutdown(wait=False)
        try:
            with spark_errors(), Progress() as progress:
                self._watch(future, progress)
                found = future.result(_END_SECONDS)
        except BaseException:
            with contextlib.suppress(Exception):
                self._context.cancelJobGroup(self._group)
            self._raise_mistake()
            raise
        self._raise_mistake()
        return found

    def _watch(self, future: Future[T], progress: Progress) -> None:
        tracker, known = self._context.statusTracker(), None
        while not future.done() and not self.mistakes.value:
            wait([future], _POLL_SECONDS)
            if not progress.is_watched:
                continue
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is None:
                    continue
                if stage != known:
                    progress.start(self._name, info.numTasks)
                    known = stage
                progress.reach(info.numCompletedTasks)
        if not future.done():
            self._context.cancelJobGroup(self._group)

    def _raise_mistake(self) -> None:
        if self.mistakes.value:
            _, message, is_of_memory = min(self.mistakes.value)
            raise (OutOfMemoryError if is_of_memory else MrDedupError)(message)


class _Joined:
    """Adds up lists, for an accumulator."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, one: list[Any], other: list[Any]) -> list[Any]:
        one += other
        return one


def _reduced(sent: SentJob, step: int, number: int, rows: Iterable[Row]) -> Iterator[Row]:
    return reduce_rows(sent, step, number, rows)


class _Measured(NamedTuple):
    """The counters of a partition, and its rows if they are small."""

    counters: Counters
    rows: list[Row] | None


def _measured(limit: int, rows: Iterable[Row]) -> Iterator[_Measured]:
    size, counters = 0, Counters()
    small: list[Row] = []
    for row in rows:
        (key, _, _), raw = row
        if key == COUNTERS:
            counters.update(json.loads(raw))
            continue
        size += len(raw)
        if size <= limit:
            small.append(row)
    yield _Measured(counters, small if size <= limit else None)


def _is_table(row: Row) -> bool:
    return row[0][0] != COUNTERS
