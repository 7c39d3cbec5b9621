"""The input of a task on a cluster: environment variables beside its URI."""

from __future__ import annotations

import os
import shlex
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from mr_dedup.errors import MrDedupError

if TYPE_CHECKING:
    from mr_dedup.formats.documents.hadoop_lines import HadoopSplit

NUMBER_VARIABLE = "MR_DEDUP_INPUT_NUMBER"
NAME_VARIABLE = "MR_DEDUP_INPUT_NAME"

BYTES_VARIABLE = "MR_DEDUP_INPUT_BYTES"
"""The size of an input that is split."""

HADOOP_VARIABLE = "MR_DEDUP_HADOOP"
"""The hadoop command on the nodes, for a shell."""

START_VARIABLE = "mapreduce_map_input_start"
LENGTH_VARIABLE = "mapreduce_map_input_length"
"""The range of bytes of a split, set by Hadoop."""

ATTEMPT_VARIABLE = "mapreduce_task_attempt_id"
"""What Hadoop calls this run of the task: a task may be run several times, some at a time."""

LINES = "-"
"""The path of an input whose lines come by standard input."""

DESCRIPTIONS = "descriptions.json"
"""The file, in the directory of a task, with the descriptions of its inputs."""

INPUT = "task-input"
"""The file, in the directory of a task, with the name of the input that it reads."""

LONGEST_LINE_BYTES = 64 << 20
"""Longer lines are not sent by standard input, as the JVM of a task has little memory."""


def quoted_name(name: str) -> str:
    """Return the user's name for an input as ASCII without blanks, for :func:`input_name`."""
    return quote(name, safe="/:", errors="surrogateescape")


def input_name(uri: str) -> str:
    """Return what the user calls the input of this task, by default its URI."""
    name = os.environ.get(NAME_VARIABLE)
    return unquote(name, errors="surrogateescape") if name else uri


def input_number() -> int:
    """Return the number of this task's input, from 0; by default 0."""
    return int(os.environ.get(NUMBER_VARIABLE) or 0)


def attempt() -> str:
    """Return the name of this run of a task among those of all jobs."""
    return os.environ[ATTEMPT_VARIABLE]


def lines_of_part(uri: str) -> HadoopSplit:
    """Return which lines of the input at ``uri`` a task has that reads them by standard input."""
    from mr_dedup.formats.documents.hadoop_lines import HadoopSplit

    start = int(os.environ[START_VARIABLE])
    return HadoopSplit(
        start,
        start + int(os.environ[LENGTH_VARIABLE]),
        int(os.environ[BYTES_VARIABLE]),
        LONGEST_LINE_BYTES,
        partial(fetched, uri),
    )


def fetched(uri: str) -> Path:
    """Return a copy in the task's directory of a file on the cluster; MrDedupError if there is
    none.

    Not of one whose name has characters of globs.
    """
    path = Path.cwd() / "whole-input"
    done = subprocess.run(
        [*shlex.split(os.environ[HADOOP_VARIABLE]), "fs", "-copyToLocal", uri, str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip().rpartition("\n")[2]
        raise MrDedupError(f"cannot be fetched as a whole: {said}")
    return path
