"""Run an MRJob: in this process, on this machine's cores, on a Hadoop cluster, or on Amazon EMR.

``inline`` runs every task in this process. ``local`` forks a process a task: mrjob's own local
runner starts a Python for each, which costs more than a 64 MB chunk takes to search. ``hadoop``
submits the job to a cluster, ``emr`` to one that it starts. Only this package depends on mrjob.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mr_dedup.engines.inputs import ClusterSettings, Input, JobResult
from mr_dedup.engines.resources import core_count
from mr_dedup.engines.streaming.counters import total_counters
from mr_dedup.engines.streaming.staging import staging_folder
from mr_dedup.errors import MrDedupError, not_one_of
from mr_dedup.files.io_errors import located_reason
from mr_dedup.interrupts import no_forced_end
from mr_dedup.storage.uris import scheme_of

if TYPE_CHECKING:
    # importing it takes 0.14 s, which commands in memory need not wait for
    from mrjob.job import MRJob

__all__ = [
    "CLUSTER_RUNNERS",
    "RUNNERS",
    "ClusterSettings",
    "Input",
    "JobResult",
    "check_settings",
    "is_read_by_nodes",
    "run",
    "staging_folder",
    "stores_of",
]

RUNNERS = ("inline", "local")
"""The runners of this machine."""

CLUSTER_RUNNERS = ("hadoop", "emr")
"""The runners of clusters."""


_SCHEMES_OF_NODES = {
    "hadoop": ("hdfs", "viewfs"),
    "emr": ("s3", "s3a", "s3n"),
}
"""The schemes of files that the Hadoop of nodes copies to tasks; of others, tasks read by URI."""


def is_read_by_nodes(uri: str, runner: str) -> bool:
    """Return whether the Hadoop of a cluster's nodes reads a file, with its own credentials.

    >>> is_read_by_nodes("hdfs:///a", "hadoop"), is_read_by_nodes("https://example.org/a", "hadoop")
    (True, False)
    """
    return scheme_of(uri) in _SCHEMES_OF_NODES[runner]


@contextlib.contextmanager
def run(
    job_class: type[MRJob],
    options: Sequence[str],
    inputs: Sequence[Path | Input],
    staging: Path,
    *,
    runner: str = "local",
    cores: int | None = None,
    cluster: ClusterSettings | None = None,
) -> Iterator[JobResult]:
    """Run a job over ``inputs``, a map task each; yield its result.

    The result's files live until the block ends. ``cores`` bounds the tasks at a time of a runner
    of this machine (all that this process may use); ``cluster`` are settings for the runners of
    clusters. Shows progress on a terminal. Raises MrDedupError for every failure of a task that is
    not a bug, naming the task's input, and if a cluster is not available.
    """
    known = (*RUNNERS, *CLUSTER_RUNNERS)
    if runner not in known:
        raise ValueError(f"runner must be {not_one_of(runner, known)}")
    logging.getLogger("mrjob").setLevel(logging.CRITICAL)
    named = [item if isinstance(item, Input) else Input.file(item) for item in inputs]
    if runner in CLUSTER_RUNNERS:
        run_on = _cluster_module(runner).run_on
        settings = cluster or ClusterSettings()
        # what was started there is ended and removed, which takes longer
        with (
            no_forced_end(),
            stores_of(runner, settings),
            run_on(job_class, options, named, staging, settings) as result,
        ):
            yield result
        return
    arguments = ["-r", runner, "--no-conf", "--local-tmp-dir", str(staging), *options]
    job = job_class([*arguments, *(item.location for item in named)])
    engine = _local_engine(runner, job_class, job, named, cores)
    try:
        with engine.progress:
            _run_engine(engine, staging)
        parts = sorted(Path(engine.get_output_dir()).glob("part-*"))
        yield JobResult(tuple(parts), total_counters(engine.counters()))
    finally:
        engine.cleanup(mode=["ALL"])


def check_settings(runner: str, cluster: ClusterSettings) -> None:
    """Raise MrDedupError for what a runner of clusters would refuse, or lacks; run nothing."""
    from mr_dedup.engines.streaming import shipping

    _cluster_module(runner)
    shipping.check_settings(runner, cluster)


def stores_of(runner: str, settings: ClusterSettings) -> AbstractContextManager[None]:
    """Have URIs read and written with the settings of a cluster; see store_settings.stores_of."""
    from mr_dedup.engines.streaming import store_settings

    return store_settings.stores_of(runner, settings)


def _cluster_module(runner: str) -> ModuleType:
    """Return the module of a runner of clusters, which has what is called here."""
    if runner == "hadoop":
        from mr_dedup.engines.streaming import hadoop

        return hadoop
    from mr_dedup.engines.streaming.amazon import emr_module

    return emr_module()


def _local_engine(
    runner: str, job_class: type[MRJob], job: MRJob, inputs: Sequence[Input], cores: int | None
) -> Any:
    runner_class: Any
    if runner == "inline":
        from mr_dedup.engines.streaming.inline import InlineRunner as runner_class
    else:
        from mr_dedup.engines.streaming.local import ForkingRunner as runner_class
    options = {key: value for key, value in job._runner_kwargs().items() if key != "mrjob_cls"}
    options["num_cores"] = core_count(cores)
    engine = runner_class(job_class, **options)
    engine.names = {item.location: item.name for item in inputs}
    return engine


def _run_engine(engine: Any, staging: Path) -> None:
    try:
        engine.run()
    except OSError as error:
        # between tasks mrjob writes nowhere else; but it starts processes, too
        is_written = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        if is_written or Path(os.fsdecode(error.filename or "")).is_relative_to(staging):
            raise MrDedupError(f"temporary directory {staging}: {located_reason(error)}") from error
        raise MrDedupError(located_reason(error)) from error
