"""Run a job by Spark's data frames, for sessions that have no RDDs: Spark Connect.

Tables are rows of bytes under key, order and number, as those of RDDs are; ``mapInArrow`` passes
them to tasks. Counters and errors that are not bugs are rows too.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from mr_dedup.engines.engine import JobOutput
from mr_dedup.engines.inputs import Input
from mr_dedup.engines.reporting import Progress
from mr_dedup.engines.spark import sent_function
from mr_dedup.engines.spark.sessions import (
    PACKAGE,
    SparkSettings,
    open_session,
    package_archive,
    spark_errors,
)
from mr_dedup.engines.spark.tasks import (
    COUNTERS,
    Row,
    SentInput,
    SentJob,
    map_inputs,
    reduce_rows,
    sent_input,
)
from mr_dedup.errors import MrDedupError, OutOfMemoryError
from mr_dedup.formats.table_bytes import from_bytes
from mr_dedup.formats.table_store import TableStore
from mr_dedup.jobs.contract import Counters, Job
from mr_dedup.storage.scratch import ScratchSettings

MISTAKES = -2
"""The key of rows with errors, as JSON: the task, the message, and whether memory was short."""

_SCHEMA = "key long, origin long, number long, content binary"
_ROWS = pa.schema(
    [
        pa.field("key", pa.int64()),
        pa.field("origin", pa.int64()),
        pa.field("number", pa.int64()),
        pa.field("content", pa.binary()),
    ]
)

_BATCH_ROWS = 8
"""Rows of a batch: each has up to 4 MB."""

_MEMORY_BYTES = 256 << 20
"""Tables of a result that are in the client's memory; beyond, they are in a temporary file."""

_TASKS = 8
"""Tasks that a cluster is taken to run at a time if the number of its partitions is not given."""

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class ConnectEngine:
    """An engine of a session of Spark Connect.

    What a job leaves passes the client, also on its way to the next one: of a de-duplication these
    are rows about shards, of other commands all tables.

    Attributes:
        settings: How to run.
        staging: A directory of the client for temporary files.
        scratch: Where tasks copy remote files.
    """

    settings: SparkSettings
    staging: Path
    scratch: ScratchSettings = field(default_factory=ScratchSettings)

    @property
    def tasks(self) -> int:
        """See Engine.tasks."""
        return self.settings.partitions or _TASKS

    @contextlib.contextmanager
    def run(self, job: Job, inputs: Sequence[Input]) -> Iterator[JobOutput]:
        """Run ``job``; see Engine.run. It has ended when its output is yielded."""
        items = [sent_input(number, item) for number, item in enumerate(inputs)]
        if not items:
            yield JobOutput(())
            return
        session = open_session(self.settings)
        _send_package(session)
        sent = SentJob.of(job, self._shipped(job, session), self.scratch, None)
        counters: Counters = Counters()
        with TableStore(_MEMORY_BYTES, self.staging) as store, spark_errors(), Progress() as bar:
            bar.start(type(job).__module__.rpartition(".")[2], 1)
            rows = self._rows(session, sent, items, job.max_keys())
            with _interruptible(session), _few_rows_a_batch(session):
                for row in rows.toLocalIterator():
                    _take(row, store, counters)
            bar.step()
            yield JobOutput(store.tables(), counters)

    def _rows(
        self,
        session: Any,
        sent: SentJob,
        items: Sequence[SentInput],
        max_keys: Sequence[int | None],
    ) -> Any:
        """Return the data frame of the rows that the last step leaves."""
        count = len(items)
        rows = session.range(0, count, 1, count).mapInArrow(
            _sent(partial(_map, sent, items)), _SCHEMA
        )
        partitions = self.settings.partitions or max(count, _TASKS)
        for step, keys in enumerate(max_keys):
            tasks = partitions if keys is None else max(1, min(partitions, keys))
            rows = (
                rows.withColumn("bucket", rows.key % tasks)
                .repartition(tasks, "bucket")
                .drop("bucket")
                .sortWithinPartitions("key", "origin", "number")
                .mapInArrow(_sent(partial(_reduce, sent, step)), _SCHEMA)
            )
        return rows

    def _shipped(self, job: Job, session: Any) -> tuple[tuple[str, str], ...]:
        """Return the side files of a job, sent to executors as artifacts."""
        shipped = []
        for name in job.side_files:
            if getattr(job, name) is not None:
                path = self.staging / f"{uuid.uuid4().hex}-{Path(getattr(job, name)).name}"
                path.write_bytes(Path(getattr(job, name)).read_bytes())
                session.addArtifact(str(path), file=True)
                shipped.append((name, path.name))
        return tuple(shipped)


def _sent(function: Callable[[Batches], Iterator[pa.RecordBatch]]) -> Any:
    """Return a function that calls ``function`` where this package is not installed."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sent_function)
    return partial(sent_function.call, PACKAGE, cloudpickle.dumps(function))


_sent_to: list[str] = []
"""The sessions that have this package."""


def _send_package(session: Any) -> None:
    """Send this package to the executors of a session, once."""
    if session.session_id not in _sent_to:
        session.addArtifact(f"{package_archive()}#{PACKAGE}", archive=True)
        _sent_to.append(session.session_id)


@contextlib.contextmanager
def _few_rows_a_batch(session: Any) -> Iterator[None]:
    """Have Spark pass batches of few rows to Python in the block.

    Of binary values of 4 MB its default, 10,000 rows, is 40 GB.
    """
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = session.conf.get(name)
    session.conf.set(name, str(_BATCH_ROWS))
    try:
        yield
    finally:
        session.conf.set(name, before)


@contextlib.contextmanager
def _interruptible(session: Any) -> Iterator[None]:
    """Have Spark end what is begun in the block if that ends with an error."""
    tag = f"mr-dedup-{uuid.uuid4().hex}"
    session.addTag(tag)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            session.interruptTag(tag)
        raise
    finally:
        with contextlib.suppress(Exception):
            session.removeTag(tag)


def _take(row: Any, store: TableStore, counters: Counters) -> None:
    """Take a row of the last step."""
    content = bytes(row.content)
    if row.key == MISTAKES:
        _, message, is_of_memory = json.loads(content)
        raise (OutOfMemoryError if is_of_memory else MrDedupError)(message)
    if row.key == COUNTERS:
        counters.update(json.loads(content))
    else:
        store.add(row.key, from_bytes(content))


class _Mistakes(list[list[Any]]):
    """The errors of a task."""

    def add(self, found: list[Any]) -> None:
        """Add errors."""
        self.extend(found)


def _map(sent: SentJob, items: Sequence[SentInput], batches: Batches) -> Iterator[pa.RecordBatch]:
    """Run the map tasks of the inputs whose numbers are in ``batches``."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            item = items[number]
            yield from _as_batches(sent, partial(map_inputs, inputs=[item]))


def _reduce(sent: SentJob, step: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Run a reduce task over sorted rows; errors of tasks before it are passed on."""
    rows = _rows_of(batches)
    first = next(rows, None)
    if first is None:
        return
    if first[0][0] == MISTAKES:
        # one is enough to end the job
        yield _batch([first])
        return
    rows = itertools.chain([first], rows)
    yield from _as_batches(sent, partial(reduce_rows, step=step, number=0, rows=rows))


def _rows_of(batches: Batches) -> Iterator[Row]:
    for batch in batches:
        for row in batch.to_pylist():
            yield (row["key"], row["origin"], row["number"]), row["content"]


def _as_batches(
    sent: SentJob, task: Callable[[SentJob], Iterator[Row]]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task as batches, its error among them."""
    mistakes = _Mistakes()
    rows = task(replace(sent, mistakes=mistakes))
    while batch := list(itertools.islice(rows, _BATCH_ROWS)):
        yield _batch(batch)
    for mistake in mistakes:
        yield _batch([((MISTAKES, 0, 0), json.dumps(mistake).encode())])


def _batch(rows: Sequence[Row]) -> pa.RecordBatch:
    keys, contents = zip(*rows, strict=True)
    columns = [pa.array(column, pa.int64()) for column in zip(*keys, strict=True)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(contents, pa.binary())], schema=_ROWS)
