"""What all jobs share: options checked, mistakes in one line, damage named after the input."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from mrjob.job import MRJob

from mr_dedup.errors import FormatError, MrDedupError

COUNTERS = "mr_dedup"
"""The group of the jobs' counters."""

_HADOOP_GROUPS = re.compile(r"Counters$|^Map-Reduce Framework$|^Shuffle Errors$")


class Job(MRJob):  # type: ignore[misc]
    """An MRJob with the manners of this package, whether it is run by a command or alone."""

    is_called = False
    """Whether this process calls its functions: then it has none of the options of runners."""

    def configure_args(self) -> None:
        """Declare mrjob's options, which are 220, and take 8 ms."""
        if not self.is_called:
            super().configure_args()
            return
        self.arg_parser.add_argument(dest="args", nargs="*")
        self.arg_parser.set_defaults(
            runner="inline", help=False,
            run_mapper=False, run_combiner=False, run_reducer=False, run_spark=False,
        )  # fmt: skip

    def load_args(self, args: list[str]) -> None:
        """Check the options, as far as they can be without reading what they name.

        A mistake ends the process with exit code 2 and one line, argparse's way; it raises
        ValueError where the job was made by a program.
        """
        super().load_args(args)
        if self.options.runner == "spark":
            self.arg_parser.error(
                "-r spark hands mappers lines, and this job's read whole files; use -r hadoop"
            )
        try:
            self.check_options()
        except (ValueError, MrDedupError) as error:
            self.arg_parser.error(str(error))
        # mrjob's local runner would send itself to every task, and leave lock files in /tmp of that
        if self.options.runner == "local" and self.options.bootstrap_mrjob is None:
            self.options.bootstrap_mrjob = False

    def check_options(self) -> None:
        """Raise ValueError or MrDedupError for options that cannot be."""

    def check_inputs(self) -> None:
        """Raise MrDedupError for inputs that cannot be; only where the job is run alone."""

    @staticmethod
    def warm_up() -> None:
        """Load what tasks need, compiled: once, before they are forked."""

    @classmethod
    def run(cls) -> None:
        """Run the job, or one of its tasks, from the command line.

        A mistake that comes out in this process is one line and exit code 2, a reader that left
        early none at all. A task in a process of its own fails with a traceback: by that mrjob
        finds the reason in the logs of a cluster.
        """
        job = cls()
        try:
            if not job.is_task():
                job.check_inputs()
            job.execute()
        except (MrDedupError, OSError, ImportError) as error:
            if job.is_task():
                raise
            _end_with(error)

    def count(self, **amounts: int) -> None:
        """Add to counters, called by their names with blanks for underscores.

        Once a task: a counter costs a flush.
        """
        for name, amount in amounts.items():
            self.increment_counter(COUNTERS, name.replace("_", " "), amount)


def total_counters(steps: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, int]:
    """Return the sums of the counters of a job by name, over its steps and their groups.

    Args:
        steps: for each step its counters, by group and name, as mrjob's runners return them.

    Returns:
        The sums, without the groups that Hadoop adds of its own.
    """
    totals: Counter[str] = Counter()
    for step in steps:
        for group, amounts in step.items():
            if not _HADOOP_GROUPS.search(group):
                totals.update(amounts)
    return dict(totals)


@contextlib.contextmanager
def errors_naming(name: str, path: str) -> Iterator[None]:
    """Name damage in the local copy ``path`` of an input after what it is a copy of."""
    try:
        yield
    except FormatError as error:
        if Path(error.path) != Path(path):
            raise
        raise FormatError(name, error.offset, error.reason) from error


def _end_with(error: MrDedupError | OSError | ImportError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        # to flush stdout at exit would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    print(f"{Path(sys.argv[0]).name}: error: {error}", file=sys.stderr)
    sys.exit(2)
