"""The query job as a program of its own, whose options are arguments beside mrjob's."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from mrjob.job import MRJob

from mr_dedup.engines.streaming.table_job import TableJob
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.fingerprint_files import (
    BYTE_ORDERS,
    FORMATS,
    FingerprintFile,
    format_by_ending,
)
from mr_dedup.hamming.planner import DEFAULT_MEMORY_BYTES, SIDES
from mr_dedup.jobs.query import QueryJob


class QueryProgram(TableJob):
    """The MRJob of ``python -m mr_dedup.jobs.query``."""

    def configure_args(self) -> None:
        """Declare the options of the job beside mrjob's own."""
        MRJob.configure_args(self)
        add = self.add_passthru_arg
        self.add_file_arg("--queries", help="the file of query fingerprints (required)")
        add("-k", dest="k", type=int, default=3, help="largest Hamming distance (3)")
        add("--index", choices=["auto", *SIDES], default="auto", help="the side to index")
        add("--design", default="auto", help="the table design, as mr-dedup plan names it")
        add("--with-distance", action="store_true", help="print near-duplicate:distance")
        add("--corpus-format", choices=FORMATS, help="if names do not show it")
        add("--queries-format", choices=FORMATS, help="if its name does not show it")
        add("--byte-order", choices=BYTE_ORDERS, default="big", help="of longs (big)")
        add(
            "--table-bytes",
            type=int,
            default=DEFAULT_MEMORY_BYTES,
            help="memory for a task's tables; queries that need more are probed in slices",
        )

    def load_args(self, args: list[str]) -> None:
        """Check the arguments; a usage error is one line and exit code 2, argparse's way."""
        super().load_args(args)
        self.options.as_lines = True
        if self.options.runner == "spark":
            self.arg_parser.error(
                "-r spark passes lines to mappers, and those of this job need files; use -r hadoop"
            )
        if not self.options.queries:
            self.arg_parser.error("--queries is required")
        try:
            _ = self.job
        except (ValueError, MrDedupError) as error:
            self.arg_parser.error(str(error))
        # mrjob's local runner would send itself to every task, and leave lock files in /tmp of that
        if self.options.runner == "local" and self.options.bootstrap_mrjob is None:
            self.options.bootstrap_mrjob = False

    @cached_property
    def job(self) -> QueryJob:
        """The job with the options that were given; raises ValueError."""
        given = {name: getattr(self.options, name) for name in _OPTIONS}
        return QueryJob(**given)

    def check_inputs(self) -> None:
        """Raise MrDedupError for a corpus or queries that tasks could not read."""
        options = self.options
        if (not options.args or "-" in options.args) and options.corpus_format != "text":
            # mrjob adds a line end to standard input
            raise MrDedupError(
                "no corpus files; standard input is read with --corpus-format text only"
            )
        if "://" not in options.queries:
            FingerprintFile.detect(
                Path(options.queries), format=options.queries_format, byte_order=options.byte_order
            )
        elif not options.queries_format:
            format_by_ending(options.queries)

    @classmethod
    def mr_job_script(cls) -> str | None:
        """Return the path of the program, which tasks run again."""
        return sys.modules["__main__"].__file__


_OPTIONS = (
    "queries", "k", "index", "design", "with_distance", "corpus_format", "queries_format",
    "byte_order", "table_bytes",
)  # fmt: skip
"""The fields of QueryJob that are options of the program."""


def main() -> None:
    """Run the program: for the user, or for mrjob one of its tasks.

    A usage error is one line and exit code 2; a closed pipe at standard output is no error.
    A task fails with a traceback, by which mrjob finds the reason in the logs of a cluster.
    """
    program = QueryProgram()
    try:
        if not program.is_task():
            program.check_inputs()
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
