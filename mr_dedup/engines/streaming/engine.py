"""Run a job by mrjob: inline, on the cores of this machine, on a Hadoop cluster, on EMR."""

from __future__ import annotations

import contextlib
import json
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from mr_dedup.engines.engine import JobOutput
from mr_dedup.engines.inputs import ClusterSettings, Input
from mr_dedup.engines.resources import core_count
from mr_dedup.engines.streaming import CLUSTER_RUNNERS, RUNNERS, run
from mr_dedup.engines.streaming.counters import without_counts
from mr_dedup.engines.streaming.described import TASK_BYTES
from mr_dedup.engines.streaming.table_job import TableJob
from mr_dedup.engines.streaming.table_lines import read_tables
from mr_dedup.errors import MrDedupError
from mr_dedup.jobs.contract import Counters, Job
from mr_dedup.kernels.library import load_kernels
from mr_dedup.storage.scratch import ScratchSettings
from mr_dedup.storage.uris import endings_of, joined
from mr_dedup.storage.writing import remove

_CLUSTER_TASKS = 16
"""Tasks that a cluster is taken to run at a time if the number of its reducers is not given."""


@dataclass(frozen=True)
class StreamingEngine:
    """An engine of one of mrjob's runners.

    Attributes:
        runner: ``inline``, ``local``, ``hadoop`` or ``emr``.
        staging: A directory for temporary files, of a path that mrjob can read.
        cores: Tasks at a time of ``local``; by default all that this process may use.
        cluster: How to run on a cluster. With an ``output_dir`` the result stays there, as lines.
        scratch: Where tasks of this machine copy remote files.
        parts: The directory in which they keep texts of pages for later jobs.
    """

    runner: str
    staging: Path
    cores: int | None = None
    cluster: ClusterSettings | None = None
    scratch: ScratchSettings = field(default_factory=ScratchSettings)
    parts: Path | None = None

    @property
    def tasks(self) -> int:
        """See Engine.tasks."""
        if self.runner == "inline":
            return 1
        if self.runner in CLUSTER_RUNNERS:
            return (self.cluster and self.cluster.reducers) or _CLUSTER_TASKS
        return core_count(self.cores)

    @contextlib.contextmanager
    def run(self, job: Job, inputs: Sequence[Input]) -> Iterator[JobOutput]:
        """Run ``job``; see Engine.run. It has ended when its output is yielded."""
        stays = self.cluster is not None and self.cluster.output_dir is not None
        if self.runner == "local":
            load_kernels()  # once, before tasks are forked
        with tempfile.TemporaryDirectory(prefix="job-", dir=self.staging) as name:
            folder = Path(name)
            options = [*self._options(job, folder), *(["--as-lines"] if stays else [])]
            if not inputs:
                # mrjob would read standard input
                yield JobOutput(())
                return
            cluster = self.cluster and _with_reducers(self.cluster, job, inputs)
            if self.runner in RUNNERS:
                inputs = _linked(inputs, folder)
                options += ["--input-names", str(_written_names(inputs, folder))]
                options += self._scratch_options()
                options += ["--parts", str(self.parts)] if self.parts else []
            with (
                _tables_at(cluster) as arguments,
                run(
                    TableJob, [*options, *arguments], inputs, folder,
                    runner=self.runner, cores=self.cores, cluster=cluster,
                ) as result,
            ):  # fmt: skip
                parts = [part for part in result.parts if part.stat().st_size]
                counters = Counters(result.counters)
                yield JobOutput(
                    without_counts(read_tables(parts), counters), counters, tuple(parts)
                )

    def _scratch_options(self) -> list[str]:
        options = ["--scratch-parent", self.scratch.parent] if self.scratch.parent else []
        if self.scratch.max_bytes:
            # each task has a directory of its own
            options += ["--scratch-bytes", str(max(1, self.scratch.max_bytes // self.tasks))]
        return options

    def _options(self, job: Job, folder: Path) -> list[str]:
        """Return the arguments that describe a job to its tasks; write what they name."""
        path = folder / "job.json"
        path.write_bytes(msgspec.json.encode(job))
        job_class = type(job)
        options = ["--job", f"{job_class.__module__}:{job_class.__qualname__}"]
        options += ["--job-options", str(path)]
        # the name of the job on a cluster begins with it
        options += ["--label", job_class.__module__.rpartition(".")[2]]
        for number, name in enumerate(job.side_files):
            file = getattr(job, name)
            if file is not None:
                options += ["--side-file", str(_link(folder / f"side-{number}", file))]
        return options


def _with_reducers(settings: ClusterSettings, job: Job, inputs: Sequence[Input]) -> ClusterSettings:
    """Return settings with as many reducers as the inputs of a job need, if that is known.

    Hadoop's own default is one reducer.
    """
    costs = [item.cost_bytes for item in inputs]
    if settings.reducers is not None or not all(costs) or not job.reduces():
        return settings
    needed = -(-sum(costs) // TASK_BYTES)
    keys = max((each for each in job.max_keys() if each is not None), default=needed)
    return replace(settings, default_reducers=max(1, min(needed, keys)))


@contextlib.contextmanager
def _tables_at(settings: ClusterSettings | None) -> Iterator[list[str]]:
    """Yield the arguments that state where a job has its tables; remove what it leaves there."""
    if settings is None or settings.tables_at is None:
        yield []
        return
    uri = joined(settings.tables_at, secrets.token_hex(8))
    try:
        yield ["--tables-at", uri]
    finally:
        # what cannot be removed is in the directory of the run; an error of the job matters more
        with contextlib.suppress(MrDedupError):
            remove(uri)


def _linked(inputs: Sequence[Input], folder: Path) -> list[Input]:
    """Return inputs as links in ``folder``, one each: a file that is given twice is two."""
    (folder / "links").mkdir()
    return [
        replace(item, location=str(_link(folder / "links" / f"{number:06}", item.location)))
        for number, item in enumerate(inputs)
    ]


def _written_names(inputs: Sequence[Input], folder: Path) -> Path:
    """Write what the user calls each input, by its path, in their order; return where."""
    path = folder / "names.json"
    path.write_text(json.dumps({item.location: item.name for item in inputs}))
    return path


def _link(path: Path, target: str) -> Path:
    """Make ``path``, with the endings of the target's name, a link to ``target``; return it.

    mrjob could misread the rest of the name; the endings may state the format.
    """
    link = path.with_name(path.name + endings_of(Path(target).name))
    link.symlink_to(Path(target).absolute())
    return link
