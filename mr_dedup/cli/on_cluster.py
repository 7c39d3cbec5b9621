"""What running on a cluster adds to a command: arguments, and files that are there already."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mr_dedup.cli.arguments import byte_size, positive
from mr_dedup.errors import MrDedupError

if TYPE_CHECKING:
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
        "with -r hadoop or -r emr; inputs may then be URIs, such as hdfs:///crawl/*.longs "
        "or s3://crawl/*.longs",
    )
    add = group.add_argument
    if reduces and leaves:
        add("--output-dir", metavar="URI",
            help="leave the result there, in files of one reducer each")  # fmt: skip
    if reduces:
        add("--reducers", type=positive, metavar="N", help="reduce tasks (default: the cluster's)")
    add("--task-memory", type=byte_size, metavar="SIZE",
        help="memory of each map or reduce task, such as 2GB (default: the cluster's setting)"
        )  # fmt: skip
    add("-D", dest="properties", action="append", type=_property, metavar="NAME=VALUE",
        help="a property of the job, such as mapreduce.job.queuename=crawl")  # fmt: skip
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


def settings_for(arguments: argparse.Namespace, names: Iterable[str]) -> ClusterSettings | None:
    """Return the settings of the runner's cluster, None if it is on this machine.

    Raises MrDedupError if arguments conflict, and, without a cluster, for an argument or a URI in
    ``names`` that needs one.
    """
    from mr_dedup.engines import streaming

    if arguments.runner not in ("auto", "memory") and getattr(arguments, "memory", None):
        raise MrDedupError(f"--memory: not used by -r {arguments.runner}")
    if arguments.runner in streaming.CLUSTER_RUNNERS:
        return _cluster_settings(arguments)
    _refuse_cluster_arguments(arguments, names)
    return None


def _cluster_settings(arguments: argparse.Namespace) -> ClusterSettings:
    """Return the settings of the cluster.

    ``output_dir`` is not among the settings: it is of one job of a command, see ``with_output``.
    """
    from mr_dedup.engines.streaming import ClusterSettings

    if arguments.runner == "emr" and arguments.hadoop_bin is not None:
        raise MrDedupError("--hadoop-bin: not used by EMR")
    if arguments.output_dir is not None:
        if not is_uri(arguments.output_dir):
            raise MrDedupError(
                f"--output-dir {arguments.output_dir}: expected a URI such as "
                f"{_EXAMPLES[arguments.runner]}"
            )
        _check_output(arguments.output_dir.rstrip("/"), MrDedupError)
        if arguments.out:
            raise MrDedupError("--output-dir, -o: a result goes to one of them, not to both")
    if arguments.cores is not None:
        raise MrDedupError("--cores: not used by a cluster; see --reducers and -D")
    return ClusterSettings(
        overwrite=arguments.overwrite,
        reducers=arguments.reducers,
        task_memory_bytes=arguments.task_memory,
        properties=tuple(arguments.properties or ()),
        archive=arguments.archive,
        python_bin=arguments.python_bin,
        hadoop_bin=arguments.hadoop_bin,
        conf=arguments.conf_path,
    )


def with_output(settings: ClusterSettings, arguments: argparse.Namespace) -> ClusterSettings:
    """Return the settings of the job whose output is the result of the command."""
    return dataclasses.replace(settings, output_dir=arguments.output_dir)


def refuse_existing_output(arguments: argparse.Namespace, settings: ClusterSettings) -> None:
    """Raise MrDedupError if there is an ``--output-dir`` that may not be replaced.

    The job that writes it checks too; this is for commands that run other jobs first.
    """
    if arguments.output_dir:
        _refuse_existing(arguments.output_dir.rstrip("/"), arguments, settings)


def _refuse_existing(uri: str, arguments: argparse.Namespace, settings: ClusterSettings) -> None:
    from mr_dedup.engines import streaming

    if not settings.overwrite and streaming.exists(uri, arguments.runner, settings):
        raise MrDedupError(f"{uri}: exists; give --overwrite to replace it")


def _refuse_cluster_arguments(arguments: argparse.Namespace, names: Iterable[str]) -> None:

    for name, action in arguments.cluster_arguments.items():
        if getattr(arguments, name) is not None:
            needed = "-r hadoop" if name == "hadoop_bin" else "-r hadoop or -r emr"
            raise MrDedupError(f"{action.option_strings[-1]}: needs {needed}")
    for text in names:
        if is_uri(text):
            raise MrDedupError(f"{text}: is on a cluster; give -r hadoop or -r emr")


def is_uri(text: str) -> bool:
    """Return whether ``text`` is a URI such as ``hdfs://…`` or ``s3://…``."""
    from mr_dedup.engines import inputs

    return inputs.is_uri(text)


def output_name(text: str) -> Path | str:
    """Return the name of an output as a path, or unchanged if it is a URI."""
    if not is_uri(text):
        return Path(text)
    _check_output(text, argparse.ArgumentTypeError)
    return text


@contextlib.contextmanager
def output_path(
    destination: Path | str,
    arguments: argparse.Namespace,
    staging: Path,
    settings: ClusterSettings | None,
) -> Iterator[Path]:
    """Yield the path to write an output to, which is copied to ``destination`` if that is a URI.

    It appears there whole when the block ends without an error. If nothing was written, an existing
    file is removed. Raises MrDedupError before the block if one exists and must not be replaced.
    """
    from mr_dedup.engines import streaming
    from mr_dedup.files.outputs import refuse_existing

    if isinstance(destination, Path):
        refuse_existing(destination, arguments.overwrite)
        yield destination
        return
    assert settings is not None
    _refuse_existing(destination, arguments, settings)
    path = Path(tempfile.mkdtemp(dir=staging)) / destination.rpartition("/")[2]
    yield path
    if path.exists():
        streaming.put(path, destination, arguments.runner, settings)
    elif settings.overwrite:
        streaming.remove_file(destination, arguments.runner, settings)


def _check_output(uri: str, error: Callable[[str], Exception]) -> None:
    """Raise an error for an output that Hadoop's commands would take for several files or none."""
    if re.search(r"[*?\[\]{}\\\t\n]", uri) or not uri.rpartition("/")[2]:
        raise error(f"{uri}: not a plain name of a file")


def fetched(name: str, staging: Path, runner: str, settings: ClusterSettings) -> str:
    """Return a copy here of the file ``name`` if it is on the cluster, or ``name``."""
    if not is_uri(name):
        return name
    from mr_dedup.engines.streaming import fetch

    folder = staging / "fetched"
    folder.mkdir()
    path = folder / name.rpartition("/")[2]
    fetch(name, path, runner, settings)
    return str(path)


def remote_inputs(
    names: Sequence[str], arguments: argparse.Namespace, settings: ClusterSettings
) -> tuple[list[Input], list[int]]:
    """Return the files that URIs stand for, and how many fingerprints each may have.

    A task each, whatever their size. Raises MrDedupError for a URI that stands for no file,
    UnknownFormatError for a file of unknown format.
    """
    from mr_dedup.engines.streaming import Input, list_files
    from mr_dedup.formats.fingerprint_files import format_by_ending

    files = list_files(names, arguments.runner, settings)
    if arguments.corpus_format is None:
        for file in files:
            format_by_ending(file.uri)
    inputs = [Input(file.uri, file.uri) for file in files]
    return inputs, [file.size_bytes // 8 for file in files]


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
