"""Any job as an MRJob: tables become lines, and the arguments of a task what the job takes."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
from mrjob.job import MRJob
from mrjob.step import MRStep

from mr_dedup.engines.streaming.counters import GROUP, total_counters
from mr_dedup.engines.streaming.table_lines import (
    LinesProtocol,
    TableProtocol,
    read_tables,
    sliced,
)
from mr_dedup.errors import MrDedupError, errors_naming
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, TaskInput
from mr_dedup.jobs.inputs import LINES, input_name, input_number, lines_of_part

UNFINISHED_CODE = 3
"""The exit code of a job run alone whose result is not final; see Job.unfinished."""

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
        self.add_passthru_arg("--from-tables", action="store_true", help="inputs are tables")
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
        tables = self.job.map(self._task_input(path, uri), counters)
        yield from self._written(tables, is_last=not self._reduces)
        self._count(counters)

    def reduce_pairs(self, pairs: _Pairs, step_num: int = 0) -> Iterator[tuple[Any, Any]]:
        """Run a reduce task."""
        counters = Counters()
        reduce = self.job.reduces()[step_num]
        tables = reduce(_groups(pairs), counters)
        yield from self._written(tables, is_last=step_num == self._reduces - 1)
        self._count(counters)

    def _task_input(self, path: str, uri: str) -> TaskInput:
        """Return what a map task reads, by the arguments that mrjob gives it.

        On this machine a file has the names of all inputs. On a cluster the environment has number
        and name, and of a part of a file, whose lines come by standard input, where it begins.
        """
        if getattr(self.options, "input_names", None):
            names = json.loads(Path(self.options.input_names).read_text())
            part = TaskInput(Path(path), names[path], list(names).index(path))
        else:
            lines = lines_of_part(uri) if path == LINES else None
            part = TaskInput(Path(path), input_name(uri), input_number(), lines)
        if getattr(self.options, "from_tables", False):
            return replace(part, tables=partial(_tables_in, part.path, part.name))
        return part

    def _written(self, tables: Iterable[Keyed], *, is_last: bool) -> Iterator[tuple[Any, Any]]:
        for key, table in tables:
            if is_last and self.options.as_lines:
                lines = self.job.lines(table)
                if lines:
                    yield None, lines
            else:
                for part in sliced(table):
                    yield key, part

    def _count(self, counters: Counters) -> None:
        # once a task: each is a write that is flushed
        for name, amount in counters.items():
            self.increment_counter(GROUP, name, amount)


def _tables_in(path: Path, name: str) -> Iterator[pa.Table]:
    with errors_naming(name, path):
        for _, table in read_tables([path]):
            yield table


def _groups(pairs: _Pairs) -> Iterator[Group]:
    for key, of_key in itertools.groupby(pairs, itemgetter(0)):
        yield key, (table for _, table in of_key)


def _unused(*_: object) -> NoReturn:
    raise AssertionError("tasks are run by map_pairs and reduce_pairs")


class JobAlone(TableJob):
    """The MRJob of a job that a user runs as a program; its arguments are the job's options."""

    job_class: type[Job]

    def configure_args(self) -> None:
        """Declare the options of the job beside mrjob's own."""
        MRJob.configure_args(self)
        self.job_class.add_arguments(self.add_passthru_arg, self.add_file_arg)

    def load_args(self, args: list[str]) -> None:
        """Check the arguments; a usage error is one line and exit code 2, argparse's way."""
        super().load_args(args)
        self.options.as_lines = True
        if self.options.runner == "spark":
            self.arg_parser.error(
                "-r spark passes lines to mappers, and those of this job need files; use -r hadoop"
            )
        try:
            _ = self.job
        except (ValueError, MrDedupError) as error:
            self.arg_parser.error(str(error))
        # mrjob's local runner would send itself to every task, and leave lock files in /tmp of that
        if self.options.runner == "local" and self.options.bootstrap_mrjob is None:
            self.options.bootstrap_mrjob = False

    @cached_property
    def job(self) -> Job:
        """The job with the options that were given."""
        return self.job_class.from_arguments(self.options)

    def make_runner(self) -> Any:
        """Return mrjob's runner; it has the counters when the job has ended."""
        self._runner = super().make_runner()
        return self._runner

    def run_job(self) -> None:
        """Run the job and print its result; exit with UNFINISHED_CODE if that is not final."""
        super().run_job()
        reason = self.job.unfinished(total_counters(self._runner.counters()))
        if reason is not None:
            print(f"{Path(sys.argv[0]).name}: {reason}", file=sys.stderr)
            sys.exit(UNFINISHED_CODE)

    @classmethod
    def mr_job_script(cls) -> str | None:
        """Return the path of the program, which tasks run again."""
        return sys.modules["__main__"].__file__


def run_alone(job_class: type[Job]) -> None:
    """Run a job as a program: by the user, or by mrjob one of its tasks.

    A usage error is one line and exit code 2; a closed pipe at standard output is no error.
    A task fails with a traceback, by which mrjob finds the reason in the logs of a cluster.
    """
    alone: type[JobAlone] = type(job_class.__name__, (JobAlone,), {"job_class": job_class})
    program = alone()
    try:
        if not program.is_task():
            job_class.check_inputs(program.options)
        program.execute()
    except (MrDedupError, OSError, ImportError) as error:
        if program.is_task():
            raise
        _end_with(error)


def _end_with(error: MrDedupError | OSError | ImportError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        # to flush stdout at exit would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    print(f"{Path(sys.argv[0]).name}: error: {error}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    TableJob.run()
