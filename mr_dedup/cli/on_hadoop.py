"""What running on a Hadoop cluster adds to a command: arguments, and files that are in HDFS."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.arguments import byte_size, positive

if TYPE_CHECKING:
    from mr_dedup.formats.chunks import Chunk
    from mr_dedup.runners import HadoopSettings, Input

_COPIED_AT_ONCE = 1 << 20
"""Fingerprints that are in memory of a chunk that is written to a file."""


def add_hadoop_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that only ``-r hadoop`` has a use for, as a group of their own."""
    group = parser.add_argument_group(
        "Hadoop", "with -r hadoop; CORPUS and FILE may then be addresses, as hdfs:///crawl/*.longs"
    )
    add = group.add_argument
    add("--output-dir", metavar="URI", help="leave the result there, in files of one reducer each")
    add("--reducers", type=positive, metavar="N", help="reduce tasks (default: the cluster's)")
    add("--task-memory", type=byte_size, metavar="SIZE", help="of a task (default: the cluster's)")
    add("-D", dest="properties", action="append", type=_property, metavar="NAME=VALUE",
        help="a property of the job, such as mapreduce.job.queuename=crawl")  # fmt: skip
    add("--archive", metavar="FILE",
        help="a packed environment for the tasks, .tar.gz, .tgz, .tar or .zip, here or an address; "
        "it becomes the folder 'environment' of each task, and is on its PYTHONPATH")  # fmt: skip
    add("--python-bin", metavar="COMMAND", help="the tasks' Python (default python3)")
    add("--hadoop-bin", metavar="COMMAND", help="(default: found by HADOOP_HOME or PATH)")
    add("-c", "--conf-path", type=Path, metavar="FILE", help="an mrjob.conf with more settings")
    parser.set_defaults(hadoop_arguments={action.dest: action for action in group._group_actions})


def hadoop_settings(arguments: argparse.Namespace) -> HadoopSettings:
    """Return what the arguments say of the cluster; raises MrDedupError if they disagree."""
    from mr_dedup.errors import MrDedupError
    from mr_dedup.runners import HadoopSettings

    if arguments.output_dir is not None:
        if not is_address(arguments.output_dir):
            raise MrDedupError(
                f"--output-dir {arguments.output_dir}: expected an address such as hdfs:///found"
            )
        if arguments.out:
            raise MrDedupError("--output-dir, -o: a result goes to one of them, not to both")
    if arguments.cores is not None:
        raise MrDedupError("--cores: means nothing to a cluster; see --reducers and -D")
    return HadoopSettings(
        output_dir=arguments.output_dir,
        overwrite=arguments.overwrite,
        reducers=arguments.reducers,
        task_memory_bytes=arguments.task_memory,
        properties=tuple(arguments.properties or ()),
        archive=arguments.archive,
        python_bin=arguments.python_bin,
        hadoop_bin=arguments.hadoop_bin,
        conf=arguments.conf_path,
    )


def refuse_hadoop_arguments(arguments: argparse.Namespace) -> None:
    """Raise MrDedupError for an argument, or an address, that needs ``-r hadoop``."""
    from mr_dedup.errors import MrDedupError

    for name, action in arguments.hadoop_arguments.items():
        if getattr(arguments, name) is not None:
            raise MrDedupError(f"{action.option_strings[-1]}: needs -r hadoop")
    for text in (*arguments.corpus, arguments.queries):
        if is_address(text):
            raise MrDedupError(f"{text}: is on a cluster; give -r hadoop")


def is_address(text: str) -> bool:
    """Return whether ``text`` is an address on a cluster, ``hdfs://…`` and its like."""
    return re.match(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def fetched(name: str, staging: Path, arguments: argparse.Namespace) -> str:
    """Return a copy here of the file ``name`` if it is on the cluster, or ``name``."""
    if not is_address(name):
        return name
    from mr_dedup.runners.hadoop import fetch

    folder = staging / "fetched"
    folder.mkdir()
    path = folder / name.rpartition("/")[2]
    fetch(name, path, arguments.hadoop_bin)
    return str(path)


def remote_inputs(names: Sequence[str], arguments: argparse.Namespace) -> tuple[list[Input], int]:
    """Return the files that addresses stand for, and how many fingerprints the largest may have.

    A task each, whatever their size. Raises MrDedupError for an address that stands for no file,
    UnknownFormatError for a file whose format nobody says.
    """
    from mr_dedup.formats.fingerprint_files import format_by_ending
    from mr_dedup.runners import Input
    from mr_dedup.runners.hadoop import list_files

    files = list_files(names, arguments.hadoop_bin)
    if arguments.corpus_format is None:
        for uri, _ in files:
            format_by_ending(uri)
    largest = max((size_bytes // 8 for _, size_bytes in files), default=0)
    return [Input(uri, uri) for uri, _ in files], largest


def staged_files(
    chunks: Sequence[Chunk], staging: Path, arguments: argparse.Namespace
) -> list[Input]:
    """Return files of this machine, one for each chunk: what it is, or a copy of its parts."""
    from mr_dedup.formats.fingerprint_files import create
    from mr_dedup.runners import Input

    inputs = []
    for number, chunk in enumerate(chunks):
        part = chunk.parts[0]
        if len(chunk.parts) == 1 and part.start == 0 and part.stop is None:
            inputs.append(Input(str(part.file.path), chunk.name))
            continue
        path = staging / f"{number:06}.longs"
        # the job takes all its files to be in the format that it is told, if any
        with create(
            path, format=arguments.corpus_format or "longs", byte_order=arguments.byte_order
        ) as file:
            for batch in chunk.batches(_COPIED_AT_ONCE):
                file.write(batch)
        inputs.append(Input(str(path), chunk.name))
    return inputs


def _property(text: str) -> str:
    if not re.fullmatch(r"[^=\s]+=.*", text, re.S):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    return text
