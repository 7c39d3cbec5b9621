"""Any job as an MRJob: tables become lines, and the arguments of a task what the job takes."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
from mrjob.job import MRJob
from mrjob.step import MRStep

from mr_dedup.engines.process import collect_rarely, leave_out_pandas
from mr_dedup.engines.streaming.counters import (
    COUNTS_KEY,
    GROUP,
    add_counts,
    without_buckets,
)
from mr_dedup.engines.streaming.described import DescribedGroup
from mr_dedup.engines.streaming.stored_tables import followed, stored
from mr_dedup.engines.streaming.table_lines import (
    LinesProtocol,
    TableProtocol,
)
from mr_dedup.engines.streaming.task_environment import (
    DESCRIPTIONS,
    INPUT,
    LINES,
    attempt,
    input_name,
    input_number,
    lines_of_part,
)
from mr_dedup.formats.table_bytes import sliced
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, TaskInput
from mr_dedup.jobs.part_folder import PartFolder
from mr_dedup.storage.descriptions import REMOTE_SUFFIX, fetch_described
from mr_dedup.storage.scratch import ScratchSettings

_Pairs = Iterable[tuple[int, pa.Table]]


class TableJob(MRJob):  # type: ignore[misc]
    """An MRJob that runs a job of mr_dedup, whose options are in a file of JSON."""

    INTERNAL_PROTOCOL = TableProtocol

    def configure_args(self) -> None:
        """Declare the arguments by which tasks find the job."""
        super().configure_args()
        self.add_passthru_arg("--job", help="MODULE:CLASS")
        self.add_file_arg("--job-options", help="the options of the job, as JSON")
        self.add_file_arg("--side-file", action="append", help="the files of the job, in order")
        self.add_passthru_arg("--input-names", help="the names of inputs by path, as JSON")
        self.add_passthru_arg("--scratch-parent", help="where copies of remote files go")
        self.add_passthru_arg("--scratch-bytes", type=int, help="how large they may be together")
        self.add_passthru_arg("--parts", help="where tasks keep texts of pages for later jobs")
        self.add_passthru_arg("--tables-at", help="where tables go between steps, a URI")
        self.add_passthru_arg("--as-lines", action="store_true", help="leave lines, not tables")

    @cached_property
    def job(self) -> Job:
        """The job with its options and the local names of its files."""
        module, _, name = self.options.job.partition(":")
        job_class = getattr(importlib.import_module(module), name)
        if not (isinstance(job_class, type) and issubclass(job_class, Job)):
            raise TypeError(f"--job {self.options.job}: not a job")
        job = msgspec.json.decode(Path(self.options.job_options).read_bytes(), type=job_class)
        given = [field for field in job.side_files if getattr(job, field) is not None]
        files = dict(zip(given, self.options.side_file or (), strict=True))
        found: Job = msgspec.structs.replace(job, **files)
        return found

    def output_protocol(self) -> Any:
        """Return the protocol of what the last step leaves."""
        return LinesProtocol() if self.options.as_lines else TableProtocol()

    def steps(self) -> list[MRStep]:
        """Return the steps; what they run is in ``map_pairs`` and ``reduce_pairs``."""
        if not self._reduces:
            return [MRStep(mapper_raw=_unused)]
        others = [MRStep(reducer=_unused) for _ in range(self._reduces - 1)]
        return [MRStep(mapper_raw=_unused, reducer=_unused), *others]

    @property
    def _reduces(self) -> int:
        return len(self.job.reduces())

    def map_pairs(self, pairs: _Pairs, step_num: int = 0) -> Iterator[tuple[Any, Any]]:
        """Run a map task, of the first step; later ones pass on what they get."""
        if step_num:
            yield from pairs
            return
        path, uri = self.options.args
        counters = Counters()
        described = path == DESCRIPTIONS
        parts = _described_parts(Path(path)) if described else [self._task_input(path, uri)]
        tables = itertools.chain.from_iterable(self._mapped(part, counters) for part in parts)
        yield from self._written(tables, is_last=not self._reduces)
        yield from self._counted(counters, is_last=not self._reduces)

    def _mapped(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield what the map of one input yields."""
        options = self.options
        settings = ScratchSettings(
            getattr(options, "scratch_parent", None), getattr(options, "scratch_bytes", None)
        )
        with settings.opened() as scratch, contextlib.ExitStack() as stack:
            part = replace(part, scratch=scratch)
            if parts := getattr(options, "parts", None):
                # sets of shingles would be three times as many bytes as texts, as lines
                cache = stack.enter_context(PartFolder(Path(parts), keeps_sets=False))
                part = replace(part, cache=cache)
            if part.path.name.endswith(REMOTE_SUFFIX):
                # of a store that the Hadoop of this node does not read
                part = replace(part, path=fetch_described(part.path, scratch().folder))
            yield from self.job.map_task(part, counters)

    def reduce_pairs(self, pairs: _Pairs, step_num: int = 0) -> Iterator[tuple[Any, Any]]:
        """Run a reduce task."""
        counters = Counters()
        reduce = self.job.reduce_tasks()[step_num]
        is_last = step_num == self._reduces - 1
        tables = reduce(_without_counts(_groups(pairs), counters), counters)
        yield from self._written(tables, is_last=is_last)
        yield from self._counted(counters, is_last=is_last)

    def _task_input(self, path: str, uri: str) -> TaskInput:
        """Return what a map task reads, by the arguments that mrjob gives it.

        On this machine a file has the names of all inputs. On a cluster the environment has number
        and name, and of a part of a file, whose lines come by standard input, where it begins.
        """
        if getattr(self.options, "input_names", None):
            names = json.loads(Path(self.options.input_names).read_text())
            return TaskInput(Path(path), names[path], list(names).index(path))
        lines = lines_of_part(uri) if path == LINES else None
        return TaskInput(Path(path), input_name(uri), input_number(), lines)

    def _written(self, tables: Iterable[Keyed], *, is_last: bool) -> Iterator[tuple[Any, Any]]:
        tables_at = getattr(self.options, "tables_at", None)
        if tables_at and not is_last:
            tables = stored(tables, tables_at, attempt())
        for key, table in tables:
            if is_last and self.options.as_lines:
                lines = self.job.lines(table)
                if lines:
                    yield None, lines
            else:
                for part in sliced(table):
                    yield key, part

    def _counted(self, counters: Counters, *, is_last: bool) -> Iterator[tuple[Any, Any]]:
        """Pass counters to Hadoop; yield a table of those that are too many for it."""
        counted, buckets = without_buckets(counters)
        if is_last and self.options.as_lines:
            # there are only lines
            counted, buckets = dict(counters), buckets.slice(0, 0)
        # once a task: each is a write that is flushed
        for name, amount in counted.items():
            self.increment_counter(GROUP, name, amount)
        if len(buckets):
            yield COUNTS_KEY, buckets


def _described_parts(path: Path) -> Iterator[TaskInput]:
    """Yield the inputs of a task whose descriptions are in a file."""
    for item in DescribedGroup.decode(path.read_bytes()).inputs:
        # for the report of a failure
        Path(INPUT).write_text(" ".join(item.name.split()) + "\n", "utf-8", "surrogateescape")
        described = Path(f"input{item.ending}").absolute()
        described.write_text(item.content, "utf-8")
        yield TaskInput(described, item.name, item.number)


def _groups(pairs: _Pairs) -> Iterator[Group]:
    for key, of_key in itertools.groupby(pairs, itemgetter(0)):
        yield key, followed(table for _, table in of_key)


def _without_counts(groups: Iterable[Group], counters: Counters) -> Iterator[Group]:
    """Yield the groups of other keys; add the counts that earlier steps have left."""
    for key, tables in groups:
        if key != COUNTS_KEY:
            yield key, tables
            continue
        for table in tables:
            add_counts(table, counters)


def _unused(*_: object) -> NoReturn:
    raise AssertionError("tasks are run by map_pairs and reduce_pairs")


if __name__ == "__main__":
    # the script that runs it has set the variables
    collect_rarely()
    leave_out_pandas()
    TableJob.run()
