"""Run a job on a Hadoop cluster: mrjob's hadoop runner, made quicker to start and plain to read.

The client stages what is local in one go, ships this package, follows the job, fetches its output
and removes its files from the cluster. A failing task writes the reason to a file on the cluster,
which works whether or not the client may read the nodes' logs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mrjob.fs.composite import CompositeFilesystem
from mrjob.fs.local import LocalFilesystem
from mrjob.hadoop import HadoopJobRunner
from mrjob.job import MRJob
from mrjob.logs.step import _interpret_hadoop_jar_command_stderr

from mr_dedup.engines.inputs import ClusterSettings, Input, JobResult
from mr_dedup.engines.streaming.client_log import ClientLog
from mr_dedup.engines.streaming.counters import total_counters
from mr_dedup.engines.streaming.failures import Explanation, explain, read_failures
from mr_dedup.engines.streaming.hdfs import (
    ClusterFilesystem,
    HadoopCommandError,
    no_command,
    utf8_locale,
)
from mr_dedup.engines.streaming.shipping import ShippingRunner, engine_for
from mr_dedup.errors import MrDedupError
from mr_dedup.storage.uris import is_uri


@contextlib.contextmanager
def run_on(
    job_class: type[MRJob],
    options: Sequence[str],
    inputs: Sequence[Input],
    staging: Path,
    settings: ClusterSettings,
) -> Iterator[JobResult]:
    """Run a job on a cluster; see mr_dedup.engines.streaming.run."""
    if settings.hadoop_bin:
        options = ["--hadoop-bin", settings.hadoop_bin, *options]
    engine = engine_for(HadoopRunner, job_class, options, inputs, staging, settings)
    try:
        with engine.result(staging / "output", settings.overwrite) as result:
            yield result
    except HadoopCommandError as error:
        raise MrDedupError(engine.in_users_words(str(error))) from error


class HadoopRunner(ShippingRunner, HadoopJobRunner):  # type: ignore[misc]
    """mrjob's runner, with few calls of the hadoop command, our scripts, bar and errors."""

    # tasks have their URIs in one variable, which may have 128 KB
    max_split = 500

    def __init__(self, **options: Any) -> None:
        self._both: CompositeFilesystem = None
        super().__init__(**options)
        self.log = ClientLog(self.progress)

    @classmethod
    def _default_opts(cls) -> dict[str, Any]:
        # inputs were listed already; mrjob is part of what nodes need
        return {
            **super()._default_opts(),
            "bootstrap_mrjob": False,
            "check_input_paths": False,
            "read_logs": False,
        }

    @property
    def fs(self) -> CompositeFilesystem:
        """The cluster's files and this machine's."""
        if self._both is None:
            self._both = CompositeFilesystem()
            self._both.add_fs("hadoop", ClusterFilesystem(self._opts["hadoop_bin"] or None))
            self._both.add_fs("local", LocalFilesystem())
        return self._both

    @property
    def _cluster(self) -> ClusterFilesystem:
        files: ClusterFilesystem = self.fs.hadoop
        return files

    # what goes to the cluster

    @property
    def _failures(self) -> str:
        return f"{self._hadoop_tmp_dir}/files/failures"

    def _task_hadoop(self) -> list[str]:
        command: list[str] = self.get_hadoop_bin()
        return command

    def _upload_local_files(self) -> None:
        """Copy everything at once: mrjob starts a Java for each file."""
        job = Path(self._get_local_tmp_dir()) / "job"
        folder = job / "files"
        (folder / "wd").mkdir(parents=True)
        (folder / "failures").mkdir()
        for kind in ("file", "archive_file"):
            for name, path in self._working_dir_mgr.name_to_path(kind).items():
                if not is_uri(path):
                    (folder / "wd" / name).symlink_to(Path(path).absolute())
        for path, uri in self._upload_mgr.path_to_uri().items():
            (folder / uri.rpartition("/")[2]).symlink_to(Path(path).absolute())
        self.progress.start("staging", 100)
        self._cluster.put_new(job, self._hadoop_tmp_dir)

    # the job

    def _run_hadoop(
        self, hadoop_args: Sequence[str], env: Mapping[str, str], record_callback: object
    ) -> tuple[int, dict[str, Any]]:
        """Run the streaming command and follow it; return its exit code and output.

        A job continues without its client, so an interrupt ends the job first.
        """
        try:
            # a session of its own: a Ctrl-C at the terminal is for us to pass on, in order
            client = subprocess.Popen(
                hadoop_args,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**env, **utf8_locale(env)},
                start_new_session=True,
            )
        except OSError as error:
            raise no_command(hadoop_args[0], error) from error
        self.log = ClientLog(self.progress)
        assert client.stdout is not None
        try:
            said: dict[str, Any] = _interpret_hadoop_jar_command_stderr(
                client.stdout, record_callback=self.log.see
            )
            return client.wait(), said
        finally:
            if client.poll() is None:
                os.killpg(client.pid, signal.SIGKILL)
                client.wait()
                self._end_job()
            client.stdout.close()

    def _end_job(self) -> None:
        """End the job on the cluster, as far as it is known of."""
        if self.log.job_id:
            with contextlib.suppress(MrDedupError):
                self._cluster.invoke_hadoop(["job", "-kill", self.log.job_id])

    def totals(self) -> dict[str, int]:
        """Return the job's own counters by name, without Hadoop's."""
        return total_counters(self.counters())

    def explanation(self) -> Explanation:
        """Return why the job failed."""
        reports = ""
        with contextlib.suppress(HadoopCommandError):
            reports = self._cluster.read_all(f"{self._failures}/*")
        return explain(self.log, read_failures(reports))

    # its output

    def check_output(self, overwrite: bool) -> None:
        """Raise MrDedupError if the output may not be written where it is to be."""
        if self.output is None:
            return
        self.output = self.output.rstrip("/")
        if self._cluster.exists(self.output):
            if not overwrite:
                raise MrDedupError(f"{self.output}: exists; give --overwrite to replace it")
            self._cluster.require_output(self.output, self.output)
        # beside it, hidden from Hadoop: renamed when it is whole
        folder, _, name = self.output.rpartition("/")
        self._output_dir = f"{folder}/_{name}.{self._job_key}"

    def deliver(self, folder: Path, overwrite: bool) -> tuple[Path, ...]:
        """Put the output where it is to be: at its URI, or into ``folder``; return its files."""
        self.progress.start("fetching" if self.output is None else "finishing", 100)
        if self.output is None:
            self._cluster.get(self._output_dir, folder)
            return tuple(sorted(folder.glob("part-*")))
        if not self._cluster.exists(self.output):
            self._cluster.rename(self._output_dir, self.output)
        elif overwrite:
            self._cluster.replace(self._output_dir, self.output)
        else:
            raise MrDedupError(
                f"{self.output}: was created by another program meanwhile; nothing was written"
            )
        return ()

    def _cleanup_hadoop_tmp(self) -> None:
        """Take away what is left on the cluster."""
        left = [self._hadoop_tmp_dir]
        if self.output is not None and not self._output_dir.startswith(self._hadoop_tmp_dir):
            left.append(self._output_dir)
        with contextlib.suppress(MrDedupError):
            self._cluster.remove(left)
