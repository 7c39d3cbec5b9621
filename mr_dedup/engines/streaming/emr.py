"""Run a job on Amazon EMR: mrjob's emr runner, with plain progress and early reasons of failures.

The client puts what is local into S3, starts a cluster (or uses the one that mrjob.conf names),
follows the job, fetches its output and removes its files. A failing task writes the reason to a
file in S3 at once; other reasons are in the logs, which EMR copies to S3 when a cluster ends.

Importing this needs boto3: see mr_dedup.engines.streaming.amazon.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from mrjob.emr import EMRJobRunner
from mrjob.fs.composite import CompositeFilesystem
from mrjob.fs.local import LocalFilesystem
from mrjob.job import MRJob
from mrjob.parse import is_s3_uri
from mrjob.step import StepFailedException

from mr_dedup.engines.inputs import ClusterSettings, Input, JobResult
from mr_dedup.engines.streaming.client_log import ClientLog
from mr_dedup.engines.streaming.counters import total_counters
from mr_dedup.engines.streaming.emr_logs import EmrLogs, read_text, uris_below
from mr_dedup.engines.streaming.failures import Explanation, Failure, explain, read_failures
from mr_dedup.engines.streaming.hdfs import refuse_others
from mr_dedup.engines.streaming.s3 import S3Files, aws_errors, default_region
from mr_dedup.engines.streaming.shipping import ShippingRunner, engine_for
from mr_dedup.errors import MrDedupError
from mr_dedup.files.file_lists import Sizes
from mr_dedup.storage.fetching import fetch
from mr_dedup.storage.listing import exists, files_below
from mr_dedup.storage.uris import file_name
from mr_dedup.storage.writing import (
    move_directory,
    refuse_existing,
    remove,
    sizes_at,
)

PYTHON = "python3.11"
"""The Python of tasks: EMR 7 has it as a package; its own python3 is too old for us."""

_DEFAULTS = {
    "image_version": "7.5.0",
    "applications": ["Hadoop"],
    # made once an account, by aws emr create-default-roles; mrjob would make roles of its own
    "iam_instance_profile": "EMR_EC2_DefaultRole",
    "iam_service_role": "EMR_DefaultRole",
    # a cluster ends with the last step that was added
    "add_steps_in_batch": True,
    # S3 shows at once what was written to it
    "cloud_fs_sync_secs": 0,
    # inputs were listed already, logs are read by us, and mrjob is part of what nodes need
    "check_input_paths": False,
    "read_logs": True,
    "bootstrap_mrjob": False,
}

_TRANSFERS = 8
"""Files that are fetched from S3 at a time."""

_ENDED = ("TERMINATED", "TERMINATED_WITH_ERRORS")
_ENDING = ("TERMINATING", *_ENDED)

# the reasons for a cluster's end that are its steps
_OF_STEPS = ("STEP_FAILURE", "ALL_STEPS_COMPLETED")

_LOG_SECONDS = 900
"""How long logs may take to be in S3: EMR copies them every five minutes, and at the end."""


@contextlib.contextmanager
def run_on(
    job_class: type[MRJob],
    options: Sequence[str],
    inputs: Sequence[Input],
    staging: Path,
    settings: ClusterSettings,
) -> Iterator[JobResult]:
    """Run a job on EMR; see mr_dedup.engines.streaming.run."""
    # without a directory in mrjob.conf starting lists the buckets of S3
    with aws_errors("Amazon EMR"):
        engine = engine_for(EmrRunner, job_class, options, inputs, staging, settings)
        with engine.result(staging / "output", settings.overwrite) as result:
            yield result


class EmrRunner(ShippingRunner, EMRJobRunner):  # type: ignore[misc]
    """mrjob's runner, with our scripts, bar and errors, and few calls of the services."""

    # they are arguments of a step, which may have 10,280 characters together
    max_split = 35

    _fs: Any

    def __init__(self, **options: Any) -> None:
        self._clients: dict[str, Any] = {}
        self._undelivered: str | None = None
        super().__init__(**options)

    # options

    @classmethod
    def _default_opts(cls) -> dict[str, Any]:
        region = default_region()
        return {**super()._default_opts(), **_DEFAULTS, **({"region": region} if region else {})}

    def _combine_opts(self, opt_list: Sequence[dict[str, Any]]) -> dict[str, Any]:
        opts: dict[str, Any] = super()._combine_opts(opt_list)
        uses_own = opts["bootstrap"] or opts["bootstrap_actions"] or opts["cluster_id"]
        if not (uses_own or opts["image_id"] or opts["python_bin"] or opts["task_python_bin"]):
            opts["bootstrap"] = default_bootstrap()
        return opts

    def _default_python_bin(self, local: bool = False) -> list[str]:
        return [PYTHON]

    def _sh_pre_commands(self) -> list[str]:
        return ["set -e"]

    def _fix_s3_tmp_and_log_uri_opts(self) -> None:
        for name in ("cloud_tmp_dir", "cloud_log_dir"):
            folder = self._opts[name]
            if folder and not is_s3_uri(folder):
                # mrjob reports the value, not the option
                raise ValueError(
                    f"{name}: expected a directory in S3 such as s3://bucket/folder/, not {folder}"
                )
        super()._fix_s3_tmp_and_log_uri_opts()

    def get_hadoop_version(self) -> str:
        """Return the Hadoop of the cluster; of one that is still to be started, of any EMR 7.

        mrjob needs it for the names of properties, and it is unknown before the start.
        """
        return super().get_hadoop_version() or "3"

    # the services

    @property
    def fs(self) -> CompositeFilesystem:
        """The files in S3 and this machine's."""
        if self._fs is None:
            names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
            files = S3Files(
                s3_endpoint=self._opts["s3_endpoint"],
                s3_region=self._opts["region"],
                **{name: self._opts[name] for name in names},
            )
            self._fs = CompositeFilesystem()
            self._fs.add_fs("s3", files)
            self._fs.add_fs("local", LocalFilesystem())
        return self._fs

    def make_emr_client(self) -> Any:
        """Return the client of EMR, one for all calls."""
        if "emr" not in self._clients:
            self._clients["emr"] = super().make_emr_client()
        return self._clients["emr"]

    # what goes to S3

    @property
    def _failures(self) -> str:
        return f"{self._cloud_tmp_dir}failures"

    def _check_output_not_exists(self) -> None:
        """Do nothing: it is in the job's own directory, whose bucket may still have to be made."""

    def _upload_local_files(self) -> None:
        self.progress.start("staging", 100)
        super()._upload_local_files()

    # the job

    def _add_tags(self, tags: Mapping[str, str], cluster_id: str) -> None:
        """Tag a new cluster, but first record it, so that it is ended in any case."""
        self._cluster_id, self._created_cluster = cluster_id, True
        super()._add_tags(tags, cluster_id)

    def _wait_for_steps_to_complete(self) -> None:
        """Follow the steps one by one; raises StepFailedException for one that did not complete."""
        for number, step in enumerate(self._steps_to_submit()):
            if len(self._step_ids) <= number:
                self._add_steps_to_cluster([step])
            if not self._completes(self._step_ids[number]):
                raise StepFailedException(step_num=number, num_steps=self._num_steps())

    def _completes(self, step_id: str) -> bool:
        """Wait for the end of a step; return whether it completed."""
        while True:
            state = self._step_state(step_id)
            cluster = self._describe_cluster()["Status"]["State"]
            if state not in ("PENDING", "RUNNING", "CANCEL_PENDING"):
                return state == "COMPLETED"
            if cluster in _ENDED:
                return False
            self._show(f"cluster {cluster.lower()}" if state == "PENDING" else "step running")
            time.sleep(self._opts["check_cluster_every"])

    def _step_state(self, step_id: str) -> str:
        client = self.make_emr_client()
        step = client.describe_step(ClusterId=self._cluster_id, StepId=step_id)["Step"]
        state: str = step["Status"]["State"]
        return state

    def _show(self, phase: str) -> None:
        self.progress.start(phase, 100)

    def totals(self) -> dict[str, int]:
        """Return the job's own counters by name, or none if logs are not read.

        They are in the logs, for which this waits: ends the cluster, if it is the job's alone.
        """
        if not self._read_logs():
            return {}
        counters = []
        for step_id in self._step_ids:
            self._await_logs(step_id)
            _, found = self._logs.client_log(step_id, self.progress)
            counters.append(found.get("counters") or {})
        return total_counters(counters)

    # why it failed

    @property
    def _logs(self) -> EmrLogs:
        return EmrLogs(self._s3_log_dir())

    def explanation(self) -> Explanation:
        """Return why the job failed."""
        failures = read_failures(self._reports())
        log = ClientLog(self.progress)
        log.job_failure = self._given_up(failures)
        if log.job_failure is None:
            if reason := self._cluster_failure():
                return Explanation(reason)
            if self._read_logs():
                self._await_logs(self._step_ids[-1])
                log, said = self._logs.client_log(self._step_ids[-1], self.progress)
                failures += self._logs.failures(said.get("application_id"))
        return explain(log, failures)

    def _given_up(self, failures: Sequence[Failure]) -> str | None:
        """Return a task whose last attempt failed, by its reports."""
        for failure in failures:
            kind, number = failure.attempt.split("_")[-3::2]
            name = f"mapreduce.{'map' if kind == 'm' else 'reduce'}.maxattempts"
            if int(number) + 1 >= int(self._opts["jobconf"].get(name, 4)):
                return failure.attempt.replace("attempt_", "task_").rpartition("_")[0]
        return None

    def _reports(self) -> str:
        """Return the reports of failed tasks."""
        return "".join(read_text(uri) for uri in uris_below(self._failures))

    def _cluster_failure(self) -> str | None:
        """Return why the cluster ended, if that is not for its steps."""
        status = self._describe_cluster()["Status"]
        change = status["StateChangeReason"]
        if status["State"] not in _ENDING or change.get("Code") in _OF_STEPS:
            return None
        reason = change.get("Message") or status["State"]
        if change.get("Code") == "BOOTSTRAP_FAILURE" and self._read_logs():
            self._await_logs(self._step_ids[-1])
            return self._logs.bootstrap_failure(reason)
        return f"the cluster {self._cluster_id} ended: {reason}"

    def _await_logs(self, step_id: str) -> None:
        """Wait until the logs of a step are in S3, or have been waited for long enough."""
        if self._is_ours:
            self._end_work()
        deadline = time.monotonic() + _LOG_SECONDS
        while time.monotonic() < deadline:
            if self._is_ours:
                state = self._describe_cluster()["Status"]["State"]
                if state in _ENDED:
                    return
                self._show(f"cluster {state.lower()}")
            else:
                if self._logs.has_step(step_id):
                    return
                self._show("waiting for logs")
            time.sleep(self._opts["check_cluster_every"])

    # its output

    def check_output(self, overwrite: bool) -> None:
        """Raise MrDedupError if the output may not be written where it is to be."""
        if self.output is not None:
            self.output = self.output.rstrip("/")
            refuse_existing(self.output, overwrite)
            self._require_output(self.output, self.output)

    def _require_output(self, uri: str, name: str) -> Sizes:
        """Return the files at a URI; raise MrDedupError if others than a job's are there."""
        there = sizes_at(uri)
        refuse_others(name, there)
        return there

    def deliver(self, folder: Path, overwrite: bool) -> tuple[Path, ...]:
        """Put the output where it is to be: at its URI, or into ``folder``; return its files."""
        if self.output is None:
            self._show("fetching")
            folder.mkdir()
            parts = {
                folder / file_name(file.uri): file
                for file in files_below(self._output_dir)
                if file_name(file.uri).startswith("part-")
            }
            with ThreadPoolExecutor(_TRANSFERS) as pool:
                list(pool.map(fetch, parts.values(), parts))
            return tuple(parts)
        self._show("finishing")
        if not overwrite and exists(self.output):
            raise MrDedupError(f"{self.output}: came into being while the job ran")
        try:
            made = self._output_dir.rstrip("/")
            move_directory(made, self.output, "_SUCCESS", self._require_output)
        except MrDedupError as error:
            self._undelivered = self._output_dir
            raise MrDedupError(f"{error}; the new result is in {self._output_dir}") from error
        return ()

    # the end

    @property
    def _is_ours(self) -> bool:
        """Whether the cluster is there for this job alone."""
        return bool(self._created_cluster and not self._opts["pool_clusters"])

    def _end_work(self) -> None:
        """End the cluster if it is ours, else what it still has to do for us."""
        client = self.make_emr_client()
        if self._is_ours:
            client.terminate_job_flows(JobFlowIds=[self._cluster_id])
        elif self._cluster_id and not self._ran_job and self._step_ids:
            client.cancel_steps(
                ClusterId=self._cluster_id,
                StepIds=self._step_ids,
                StepCancellationOption="TERMINATE_PROCESS",
            )

    def cleanup(self, mode: Any = None) -> None:
        """End what runs, and take away what was put into S3.

        The logs of a failed job stay, and those in a directory that mrjob.conf names; so does a
        result that could not be copied to its URI, with all that is beside it.
        """
        with contextlib.suppress(MrDedupError), aws_errors("Amazon EMR"):
            self._end_work()
        with contextlib.suppress(MrDedupError):
            if self._undelivered is None:
                remove(self._cloud_tmp_dir)
            if self._ran_job and self._is_ours and self._log_dir_is_temporary():
                remove(self._s3_log_dir())
        self._cleanup_local_tmp()
        self._kill_ssh_tunnel()

    def _log_dir_is_temporary(self) -> bool:
        return bool(self._opts["cloud_log_dir"] == f"{self._opts['cloud_tmp_dir']}logs/")


def default_bootstrap() -> list[str]:
    """Return the commands that make a node of EMR 7 fit for our tasks."""
    needed = [text for text in metadata.requires("mr-dedup") or () if "extra ==" not in text]
    return [
        f"sudo dnf install -y {PYTHON} {PYTHON}-pip",
        f"sudo {PYTHON} -m pip install {shlex.join(needed)}",
    ]
