"""What running on a cluster adds to a command: arguments, and files that are there already."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import getpass
import os
import re
import secrets
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from mr_dedup.cli.arguments import byte_size, positive
from mr_dedup.errors import MrDedupError
from mr_dedup.storage.listing import list_files
from mr_dedup.storage.stores import store_of
from mr_dedup.storage.uris import file_name, is_uri, joined, parent_of, without_secrets
from mr_dedup.storage.writing import refuse_existing

if TYPE_CHECKING:
    from mr_dedup.engines.spark.sessions import SparkSettings
    from mr_dedup.engines.streaming import ClusterSettings, Input
    from mr_dedup.formats.fingerprint_chunks import FingerprintChunk

_EXAMPLES = {"hadoop": "hdfs:///found", "emr": "s3://bucket/found"}
"""An example of a URI for each runner of clusters."""

_COPIED_AT_ONCE = 1 << 20
"""Fingerprints that are in memory of a chunk that is written to a file."""


def add_cluster_arguments(
    parser: argparse.ArgumentParser, *, reduces: bool = True, leaves: bool = True
) -> None:
    """Add the arguments that only runners of clusters use, as a group.

    With ``reduces`` those of reducers, with ``leaves`` a URI to leave the output at.
    """
    parser.set_defaults(output_dir=None, reducers=None)
    group = parser.add_argument_group(
        "clusters",
        "with -r hadoop, -r emr or -r spark; tasks read URIs where they are, such as "
        "hdfs:///crawl/*.longs or s3://crawl/*.longs",
    )
    add = group.add_argument
    if reduces and leaves:
        add("--output-dir", metavar="URI",
            help="leave the result there, in files of one reducer each")  # fmt: skip
    if reduces:
        add("--reducers", type=positive, metavar="N",
            help="reduce tasks (default: the cluster's; with dedup -r hadoop one for each GB "
            "of documents)")  # fmt: skip
    add("--task-memory", type=byte_size, metavar="SIZE",
        help="memory of each map or reduce task, such as 2GB (default: the cluster's setting)"
        )  # fmt: skip
    add("--master", metavar="URL",
        help="with -r spark: the cluster, such as spark://host:7077, yarn or local[4] (default: "
        "that of Spark's configuration, or this machine)")  # fmt: skip
    add("-D", dest="properties", action="append", type=_property, metavar="NAME=VALUE",
        help="a property of the job, such as mapreduce.job.queuename=crawl or "
        "spark.executor.memory=4g")  # fmt: skip
    add("--archive", metavar="FILE",
        help="a packed environment for the tasks, .tar.gz, .tgz, .tar or .zip, here or a URI; "
        "it becomes the directory 'environment' of each task, on its PYTHONPATH")  # fmt: skip
    add("--python-bin", metavar="COMMAND",
        help="the tasks' Python (default python3; on EMR python3.11)")  # fmt: skip
    add("--hadoop-bin", metavar="COMMAND",
        help="with -r hadoop: the hadoop command of this machine (default: found through "
        "HADOOP_HOME or PATH)")  # fmt: skip
    add("-c", "--conf-path", type=Path, metavar="FILE", help="an mrjob.conf with more settings")
    parser.set_defaults(cluster_arguments={action.dest: action for action in group._group_actions})


def settings_for(arguments: argparse.Namespace) -> ClusterSettings | None:
    """Return the settings of the runner's cluster, None if it is on this machine.

    Raises MrDedupError if arguments conflict, and, without a cluster, for one that needs it.
    """
    from mr_dedup.engines import streaming

    if arguments.runner not in ("auto", "memory") and getattr(arguments, "memory", None):
        raise MrDedupError(f"--memory: not used by -r {arguments.runner}")
    if arguments.runner in streaming.CLUSTER_RUNNERS:
        _refuse_cluster_arguments(arguments, {"master"})
        return _cluster_settings(arguments)
    taken = set(_TAKEN_BY_SPARK) if arguments.runner == "spark" else set()
    _refuse_cluster_arguments(arguments, set(arguments.cluster_arguments) - taken)
    if arguments.runner == "spark":
        _check_spark(arguments)
    return None


def _check_spark(arguments: argparse.Namespace) -> None:
    from mr_dedup.engines.spark.sessions import require_pyspark

    if arguments.cores is not None:
        raise MrDedupError("--cores: not used by -r spark; see --master, as in --master 'local[4]'")
    # before a command has made anything
    require_pyspark()


_TAKEN_BY_SPARK = ("master", "reducers", "properties", "archive", "python_bin")


def spark_settings(arguments: argparse.Namespace) -> SparkSettings:
    """Return the settings of ``-r spark``."""
    from mr_dedup.engines.spark.sessions import SparkSettings

    return SparkSettings(
        master=arguments.master,
        partitions=arguments.reducers,
        properties=tuple(arguments.properties or ()),
        archive=arguments.archive,
        python_bin=arguments.python_bin,
    )


def _cluster_settings(arguments: argparse.Namespace) -> ClusterSettings:
    """Return the settings of the cluster.

    ``output_dir`` is not among the settings: it is of one job of a command, see ``with_output``.
    """
    from mr_dedup.engines import streaming
    from mr_dedup.engines.streaming import ClusterSettings

    if arguments.runner == "emr" and arguments.hadoop_bin is not None:
        raise MrDedupError("--hadoop-bin: not used by EMR")
    if arguments.output_dir is not None:
        is_in_s3 = is_uri(arguments.output_dir) and store_of(arguments.output_dir).protocol == "s3"
        if not (is_in_s3 if arguments.runner == "emr" else is_uri(arguments.output_dir)):
            raise MrDedupError(
                f"--output-dir {arguments.output_dir}: expected a URI such as "
                f"{_EXAMPLES[arguments.runner]}"
            )
        if re.search(r"[*?\[\]{}\\\t\n]", arguments.output_dir):
            raise MrDedupError(f"{arguments.output_dir}: not a plain name of a file")
        if arguments.out:
            raise MrDedupError("--output-dir, -o: a result goes to one of them, not to both")
    if arguments.cores is not None:
        raise MrDedupError("--cores: not used by a cluster; see --reducers and -D")
    settings = ClusterSettings(
        overwrite=arguments.overwrite,
        reducers=arguments.reducers,
        task_memory_bytes=arguments.task_memory,
        properties=tuple(arguments.properties or ()),
        archive=arguments.archive,
        python_bin=arguments.python_bin,
        hadoop_bin=arguments.hadoop_bin,
        conf=arguments.conf_path,
    )
    streaming.check_settings(arguments.runner, settings)
    return settings


@contextlib.contextmanager
def stores_of_runner(arguments: argparse.Namespace) -> Iterator[None]:
    """Have URIs read and written with the settings of the runner's cluster, in the block.

    Raises MrDedupError for an mrjob.conf that is none.
    """
    from mr_dedup.engines import streaming

    if getattr(arguments, "runner", None) not in streaming.CLUSTER_RUNNERS:
        yield
        return
    settings = streaming.ClusterSettings(conf=arguments.conf_path, hadoop_bin=arguments.hadoop_bin)
    with streaming.stores_of(arguments.runner, settings):
        yield


def temporary_uri(name: str) -> str:
    """Return the URI of a new directory in HDFS that the user may write, for what is not to stay.

    It is below the user's directory, as what mrjob leaves there until a job ends.
    """
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    return f"hdfs:///user/{user}/tmp/mr_dedup/{quote(name, safe='')}.{secrets.token_hex(8)}"


def with_output(settings: ClusterSettings, arguments: argparse.Namespace) -> ClusterSettings:
    """Return the settings of the job whose output is the result of the command."""
    return dataclasses.replace(settings, output_dir=arguments.output_dir)


def refuse_existing_output(arguments: argparse.Namespace, settings: ClusterSettings) -> None:
    """Raise MrDedupError if there is an ``--output-dir`` that may not be replaced.

    The job that writes it checks too; this is for commands that run other jobs first. Of what only
    Hadoop writes, such as s3a:// with its own configuration, nothing is known here.
    """
    from mr_dedup.engines.streaming import is_read_by_nodes

    output_dir = arguments.output_dir
    if output_dir and is_read_by_nodes(output_dir, arguments.runner):
        refuse_existing(output_dir.rstrip("/"), settings.overwrite)


def _refuse_cluster_arguments(arguments: argparse.Namespace, refused: Collection[str]) -> None:
    for name, action in arguments.cluster_arguments.items():
        if name in refused and getattr(arguments, name) is not None:
            needed = _NEEDED.get(name, "-r hadoop or -r emr")
            if name in _TAKEN_BY_SPARK and name not in _NEEDED:
                needed = "-r hadoop, -r emr or -r spark"
            raise MrDedupError(f"{action.option_strings[-1]}: needs {needed}")


_NEEDED = {"hadoop_bin": "-r hadoop", "master": "-r spark"}


def refuse_other_clusters(names: Sequence[str], runner: str) -> None:
    """Raise MrDedupError for a URI of files that this machine reads and tasks do not."""
    for name in names:
        if runner == "emr" and is_uri(name) and store_of(name).protocol == "hdfs":
            raise MrDedupError(
                f"{name}: the nodes of EMR have an HDFS of their own; copy it to S3 first"
            )


def remote_inputs(
    names: Sequence[str], arguments: argparse.Namespace, staging: Path
) -> tuple[list[Input], list[int]]:
    """Return the files that URIs stand for, and how many fingerprints each may have.

    A task each, whatever their size; those of stores that the Hadoop of nodes does not read are
    described in ``staging``. Raises MrDedupError for a URI that stands for no file,
    UnknownFormatError for a file of unknown format.
    """
    from mr_dedup.engines.streaming import Input, is_read_by_nodes
    from mr_dedup.formats.fingerprint_files import format_by_ending
    from mr_dedup.storage.descriptions import REMOTE_SUFFIX, describe

    refuse_other_clusters(names, arguments.runner)
    files = list_files(names)
    inputs = []
    for number, file in enumerate(files):
        if arguments.corpus_format is None:
            # without the query of a web address
            format_by_ending(joined(parent_of(without_secrets(file.uri)), file_name(file.uri)))
        if is_read_by_nodes(file.uri, arguments.runner):
            inputs.append(Input(file.uri, file.uri))
            continue
        path = staging / f"{number:06}{REMOTE_SUFFIX}"
        describe(file, path)
        inputs.append(Input(str(path), without_secrets(file.uri)))
    return inputs, [(file.size_bytes or 0) // 8 for file in files]


def staged_files(
    chunks: Sequence[FingerprintChunk], staging: Path, arguments: argparse.Namespace
) -> list[Input]:
    """Return files of this machine, one for each chunk: what it is, or a copy of its parts."""
    from mr_dedup.engines.streaming import Input
    from mr_dedup.formats.fingerprint_writer import create

    inputs = []
    for number, chunk in enumerate(chunks):
        part = chunk.parts[0]
        if len(chunk.parts) == 1 and part.start == 0 and part.stop is None:
            inputs.append(Input(str(part.file.path), chunk.name))
            continue
        path = staging / f"{number:06}.longs"
        # the job reads all its files in the format that is given, if any
        with create(
            path, format=arguments.corpus_format or "longs", byte_order=arguments.byte_order
        ) as file:
            for batch in chunk.batches(_COPIED_AT_ONCE):
                file.write(batch)
        inputs.append(Input(str(path), chunk.name))
    return inputs


def _property(text: str) -> str:
    if not re.fullmatch(r"[^=\s]+=.*", text, re.S):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return text
