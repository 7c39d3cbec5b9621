"""The arguments for the runner of a command's jobs."""

from __future__ import annotations

import argparse
from functools import partial

from mr_dedup.cli.arguments import byte_size, positive
from mr_dedup.cli.on_cluster import add_cluster_arguments
from mr_dedup.cli.streams import counted
from mr_dedup.errors import suggestion

RUNNERS = ("auto", "inline", "local", "hadoop", "emr", "spark")

_CLUSTERS = ("hadoop", "emr", "spark")


def is_here(runner: str) -> bool:
    """Return whether all tasks of a runner are of this machine, and write to its directories."""
    return runner not in _CLUSTERS


MIN_MEMORY_BYTES = 64 << 20
"""Less is a size without its unit: tasks alone, each with a batch of 8 MB, take more."""


def memory_size(text: str) -> int:
    """Return the bytes of ``--memory``; ArgumentTypeError for fewer than any run takes."""
    size = byte_size(text)
    if size < MIN_MEMORY_BYTES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is {counted(size, 'byte')}, less than the {MIN_MEMORY_BYTES >> 20}MB that a "
            "run needs"
        )
    return size


def add_runner_arguments(
    parser: argparse.ArgumentParser,
    command: str,
    small: str | None = None,
    *,
    reduces: bool = True,
    leaves: bool = True,
) -> None:
    """Add where the jobs of ``command`` run.

    By default that is this process, with a thread for each core; of a command whose jobs are not
    run so, a process for each task unless what it reads is ``small``. Jobs without a reduce step
    (``reduces``) take fewer arguments. So do commands whose tasks write a directory (not
    ``leaves``), which do not run on EMR by mrjob.
    """
    if small is None:
        runners: tuple[str, ...] = (RUNNERS[0], "memory", *RUNNERS[1:])
        here = (
            "auto (the default), which is memory: this process, on all cores; local: a process for "
            "each task; inline: this process, task by task"
        )
    else:
        runners = RUNNERS
        here = f"inline: one process; local: all cores (default: local unless {small} small)"
    amazon = "; emr: one that Amazon starts" if leaves else ""
    runners = tuple(name for name in runners if leaves or name != "emr")
    parser.add_argument(
        "-r",
        "--runner",
        type=partial(_runner_name, command, runners),
        default="auto",
        metavar="{" + ",".join(runners) + "}",
        help=f"{here}; hadoop: a cluster{amazon}; spark: a cluster of Spark, or this machine",
    )
    of = "local" if small else "memory and local"
    parser.add_argument(
        "--cores", type=positive, metavar="N", help=f"tasks at a time, of {of} (default: all cores)"
    )
    if small is None:
        parser.add_argument(
            "--memory", type=memory_size, metavar="SIZE",
            help="with -r memory: memory for cached documents and intermediate tables; beyond it "
            "documents are read again and tables go to temporary files (default: half of what is "
            "free, at most 4GB)",
        )  # fmt: skip
    add_cluster_arguments(parser, reduces=reduces, leaves=leaves)


def _runner_name(command: str, runners: tuple[str, ...], text: str) -> str:
    if text == "dataproc":
        raise argparse.ArgumentTypeError(
            f"mr-dedup {command} does not run on {text}; it supports {', '.join(RUNNERS[1:])}"
        )
    if text == "emr" and text not in runners:
        raise argparse.ArgumentTypeError(
            f"mr-dedup {command} does not run on emr; on a cluster of EMR run it with -r spark"
        )
    if text not in runners:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not one of {', '.join(runners)}{suggestion(text, runners)}"
        )
    return text
