"""What runs on Spark's executors: map and reduce tasks over rows of encoded tables.

A row is ``((key, order, number), bytes)``: a table under a key. ``order`` is the input or the key
from which a task made it, ``number`` counts its tables, so that rows sorted within a partition are
in the order that jobs expect, however often a task is run again. Counters are rows of the key
``COUNTERS``, for accumulators would count the tasks that were run again twice.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import itertools
import json
import os
import shutil
import sys
import zipimport
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec

from mr_dedup.engines.inputs import Input
from mr_dedup.engines.reporting import expected_reason
from mr_dedup.errors import FormatError, MrDedupError, errors_naming
from mr_dedup.files.temporary import temporary_folder
from mr_dedup.formats.chunks import DESCRIPTION_SUFFIX
from mr_dedup.formats.shards import SHARDS_SUFFIX
from mr_dedup.formats.table_bytes import from_bytes, sliced, to_bytes
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, TaskInput
from mr_dedup.jobs.part_folder import PartFolder
from mr_dedup.storage.scratch import ScratchSettings

_ERRORS_OF_NODE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)

COUNTERS = -1
"""The key of rows with counters, as JSON; keys of tables begin at 0."""


class NodeError(Exception):
    """An error of a task that is its node's, such as a full disk."""


RowKey = tuple[int, int, int]
Row = tuple[RowKey, bytes]


@dataclass(frozen=True)
class SentJob:
    """A job on its way to tasks.

    Attributes:
        name: ``MODULE:CLASS``.
        options: Its options as JSON.
        shipped: The side files that executors fetch through Spark, by field; others are paths.
        scratch: Where copies of remote files go.
        mistakes: An accumulator of errors that are not bugs, which end the job at once.
        cache: What the directory is called in which tasks of several jobs keep what they made of
            their inputs, on the disk of each executor; None to keep nothing.
    """

    name: str
    options: bytes
    shipped: tuple[tuple[str, str], ...]
    scratch: ScratchSettings
    mistakes: Any
    cache: str | None = None

    @classmethod
    def of(
        cls,
        job: Job,
        shipped: tuple[tuple[str, str], ...],
        scratch: ScratchSettings,
        mistakes: Any,
        cache: str | None = None,
    ) -> SentJob:
        """Return a job with what its tasks need."""
        kind = type(job)
        name = f"{kind.__module__}:{kind.__qualname__}"
        return cls(name, msgspec.json.encode(job), shipped, scratch, mistakes, cache)

    @property
    def job(self) -> Job:
        """The job, with the local names of its files; one for all tasks of a process."""
        return _job_of(self.name, self.options, self.shipped)


@lru_cache(maxsize=2)
def _job_of(name: str, options: bytes, shipped: tuple[tuple[str, str], ...]) -> Job:
    module, _, kind = name.partition(":")
    job_class = getattr(importlib.import_module(module), kind)
    if not (isinstance(job_class, type) and issubclass(job_class, Job)):
        raise TypeError(f"{name}: not a job")
    job = msgspec.json.decode(options, type=job_class)
    if shipped:
        from pyspark import SparkFiles

        files = {field: SparkFiles.get(file) for field, file in shipped}
        job = msgspec.structs.replace(job, **files)
    found: Job = job
    return found


@dataclass(frozen=True)
class SentInput:
    """The input of a map task.

    Attributes:
        number: Its index among the inputs of the job.
        name: What the user calls it.
        path: Where it is; of one with ``content`` the name alone matters, for its endings.
        content: The file itself, if it is sent along.
    """

    number: int
    name: str
    path: str = ""
    content: bytes | None = None


def map_inputs(sent: SentJob, inputs: Iterable[SentInput]) -> Iterator[Row]:
    """Run a map task for each input; yield the rows of tables and counters."""
    for item in inputs:
        run = partial(_mapped_input, sent, item)
        yield from _reported(sent, item.number, f"map task {item.number} on {item.name}", run)


def reduce_rows(sent: SentJob, step: int, number: int, rows: Iterable[Row]) -> Iterator[Row]:
    """Run a reduce task over sorted rows; counters of tasks before it are passed on."""
    rows = iter(rows)
    for row in rows:
        if row[0][0] != COUNTERS:
            rows = itertools.chain([row], rows)
            break
        yield row
    else:
        return
    reduce = sent.job.reduce_tasks()[step]
    current = [0]
    groups = _groups(rows, current)
    yield from _reported(
        sent, number, f"reduce task {number}", lambda counters: reduce(groups, counters), current
    )


_PARTS = "mr-dedup-parts-"
"""How the names of directories begin that executors keep parts in."""


def partition_of(partitions: int, key: RowKey) -> int:
    """Return the partition of a row."""
    return key[0] % partitions


def _mapped_input(sent: SentJob, item: SentInput, counters: Counters) -> Iterator[Keyed]:
    with sent.scratch.opened() as scratch, contextlib.ExitStack() as stack:
        path = Path(item.path)
        if item.content is not None:
            path = stack.enter_context(temporary_folder()) / path.name
            path.write_bytes(item.content)
        stack.enter_context(errors_naming(item.name, path))
        cache = None if sent.cache is None else stack.enter_context(_part_folder(sent.cache))
        part = TaskInput(path, item.name, item.number, cache=cache, scratch=scratch)
        yield from sent.job.map_task(part, counters)


def _part_folder(name: str) -> PartFolder:
    """Return the directory of a run on an executor; remove those of runs before.

    It is in the executor's ``spark.local.dir``, of which Spark removes all when the session ends.
    """
    root = Path(os.environ["SPARK_LOCAL_DIRS"].partition(",")[0])
    folder = root / f"{_PARTS}{name}"
    if not folder.exists():
        for left in root.glob(f"{_PARTS}*"):
            shutil.rmtree(left, ignore_errors=True)
    return PartFolder(folder)


def _groups(rows: Iterable[Row], current: list[int]) -> Iterator[Group]:
    """Yield the groups of sorted rows; ``current`` is the key of the last one."""
    for key, of_key in itertools.groupby(rows, key=lambda row: row[0][0]):
        current[0] = key
        yield key, (from_bytes(raw) for _, raw in of_key)


def _reported(
    sent: SentJob,
    number: int,
    name: str,
    task: Callable[[Counters], Iterator[Keyed]],
    order: list[int] | None = None,
) -> Iterator[Row]:
    """Yield the rows of a task, then its counters; report its error if that is not a bug.

    Such a task ends without an exception: Spark would run it again, four times. Raises NodeError
    for an error that another node may not have.
    """
    counters = Counters()
    numbers = itertools.count()
    try:
        for key, table in task(counters):
            for part in sliced(table):
                origin = number if order is None else order[0]
                yield (key, origin, next(numbers)), to_bytes(part)
    except (MrDedupError, OSError, MemoryError) as error:
        if _is_of_node(error):
            # another node may be able to do it: Spark runs the task again
            raise NodeError(f"{name}: {expected_reason(error)}") from None
        names_file = isinstance(error, FormatError)
        reason = expected_reason(error)
        message = reason if names_file else f"{name}: {reason}"
        sent.mistakes.add([(number, message, isinstance(error, MemoryError))])
        return
    yield (COUNTERS, number, 0), json.dumps(counters).encode()
    _spare_next_task()


def _is_of_node(error: BaseException | None) -> bool:
    """Return whether an error, or one that caused it, is a full or failing disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _ERRORS_OF_NODE:
            return True
        error = error.__cause__
    return False


_modules: list[int] = [0]
"""How many modules there were when objects were frozen."""


def _spare_next_task() -> None:
    """Have Spark's worker do less between tasks, which took more CPU time than all of ours.

    After each task it collects garbage, through the objects of all modules; before each it forgets
    what importers have found, upon which those of zips, as Spark's own package is, read all names
    of their zip again.
    """
    if len(sys.modules) != _modules[0]:
        # what these modules have stays; garbage does not
        gc.collect()
        gc.freeze()
        _modules[0] = len(sys.modules)
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            # made again when a module is imported that is not there yet
            del sys.path_importer_cache[path]


def sent_input(number: int, item: Input) -> SentInput:
    """Return an input for a task: of the description of a chunk the content, else the path."""
    if item.location.endswith((DESCRIPTION_SUFFIX, SHARDS_SUFFIX)):
        path = Path(item.location)
        return SentInput(number, item.name, path.name, content=path.read_bytes())
    return SentInput(number, item.name, str(Path(item.location).absolute()))
