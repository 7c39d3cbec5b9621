"""The arguments that say where a command's jobs run."""

from __future__ import annotations

import argparse
from functools import partial

from mr_dedup.cli.arguments import positive
from mr_dedup.cli.on_cluster import add_cluster_arguments

RUNNERS = ("auto", "inline", "local", "hadoop", "emr")


def add_runner_arguments(
    parser: argparse.ArgumentParser,
    command: str,
    small: str,
    *,
    reduces: bool = True,
    leaves: bool = True,
) -> None:
    """Add where the jobs of ``command`` run; locally unless what it reads is ``small``.

    Jobs that only map have no use for some arguments, nor has a command that puts its result
    together here for an address to leave it at.
    """
    parser.add_argument(
        "-r",
        "--runner",
        type=partial(_runner_name, command),
        default="auto",
        metavar="{" + ",".join(RUNNERS) + "}",
        help=f"inline: one process; local: all cores (default: local unless {small} small); "
        "hadoop: a cluster; emr: one that Amazon starts",
    )
    parser.add_argument(
        "--cores", type=positive, metavar="N", help="tasks at a time, of local (default: all cores)"
    )
    add_cluster_arguments(parser, reduces=reduces, leaves=leaves)


def _runner_name(command: str, text: str) -> str:
    if text in ("dataproc", "spark"):
        raise argparse.ArgumentTypeError(
            f"mr-dedup {command} does not run on {text}; of mrjob's runners it knows "
            f"{', '.join(RUNNERS[1:])}"
        )
    if text not in RUNNERS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(RUNNERS)}")
    return text
