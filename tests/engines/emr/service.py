"""Amazon's S3 and EMR on this machine: moto serves them, and steps really run.

moto accepts clusters and steps, and runs none. Here a thread for each cluster does what EMR's
nodes do: it runs bootstrap actions and streaming steps as processes of this machine, reads and
writes S3 by HTTP, sets the states that clients see, and copies logs to S3 when a cluster ends.

``python -m tests.engines.emr.service FOLDER`` serves until interrupted, and says how to use it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import gzip
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
from botocore.exceptions import ClientError
from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.emr import models
from moto.emr.responses import ElasticMapReduceResponse
from moto.server import ThreadedMotoServer

from tests.engines.emr.nodes import Nodes
from tests.engines.emr.streaming import Arguments, Job, StepError

REGION = "eu-central-1"

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST", "AWS_SECRET_ACCESS_KEY": "s3cr3t/Xyz"}

_ENDED = ("TERMINATED", "TERMINATED_WITH_ERRORS")


class Files:
    """S3 as nodes see it, and HDFS: a memory."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._hdfs: dict[str, bytes] = {}

    def get(self, uri: str) -> bytes:
        if uri.startswith("hdfs:"):
            return self._hdfs[uri]
        bucket, key = _split(uri)
        content: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def put(self, content: bytes, uri: str) -> None:
        if uri.startswith("hdfs:"):
            self._hdfs[uri] = content
            return
        bucket, key = _split(uri)
        self._client.put_object(Bucket=bucket, Key=key, Body=content)

    def below(self, uri: str) -> list[str]:
        """Return the addresses that begin like this one."""
        if uri.startswith("hdfs:"):
            return sorted(name for name in self._hdfs if name.startswith(uri))
        bucket, key = _split(uri)
        lister = self._client.get_paginator("list_objects_v2")
        try:
            pages = list(lister.paginate(Bucket=bucket, Prefix=key))
        except ClientError:
            return []
        return [
            f"s3://{bucket}/{item['Key']}" for page in pages for item in page.get("Contents", [])
        ]

    def inputs(self, uri: str) -> list[str]:
        """Return the files that an address stands for: itself, a glob's, or what is in a folder."""
        if "*" in uri:
            return fnmatch.filter(self.below(uri.partition("*")[0]), uri)
        inside = [found for found in self.below(uri) if found.startswith(f"{uri.rstrip('/')}/")]
        shown = [found for found in inside if not found.rpartition("/")[2].startswith(("_", "."))]
        return [uri] if uri in self.below(uri) else shown

    def exists(self, uri: str) -> bool:
        return bool(self.inputs(uri))


class Service:
    """The endpoint, a folder for the nodes of its clusters, and one for compiled kernels."""

    def __init__(self, folder: Path, kernels: Path | None = None) -> None:
        self.folder = folder
        self.kernels = kernels or folder / "kernels"
        self.clusters: list[RunningCluster] = []
        self.read_only_nodes = False
        self.url = ""

    @contextlib.contextmanager
    def served(self) -> Iterator[Service]:
        """Serve until the block ends; end what runs then."""
        service = self

        class Cluster(RunningCluster):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                self.service = service
                super().__init__(*arguments, **options)

        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        self.url = "http://{}:{}".format(*server.get_host_and_port())
        self.files = Files(self.client("s3"))
        try:
            with (
                mock.patch.object(models, "Cluster", Cluster),
                mock.patch.object(
                    ElasticMapReduceResponse, "cancel_steps", _cancel_steps, create=True
                ),
            ):
                yield self
        finally:
            for cluster in self.clusters:
                cluster.terminate()
                cluster.thread.join()
            server.stop()

    @contextlib.contextmanager
    def checking_credentials(self) -> Iterator[None]:
        """Have moto know of no user until the block ends: it otherwise takes anyone."""
        self._post("/moto-api/reset-auth", b"0")
        try:
            yield
        finally:
            self._post("/moto-api/reset-auth", b"inf")

    def _post(self, path: str, content: bytes) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{self.url}{path}", content, headers)
        urllib.request.urlopen(request).close()

    def client(self, name: str) -> Any:
        """Return a client of a service."""
        return boto3.client(
            name,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )


class RunningCluster(models.Cluster):
    """moto's cluster, and a thread that does what it is asked for."""

    service: Service

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.changed = threading.Condition()
        self.ending: tuple[str, str] | None = None
        super().__init__(*arguments, **options)

    # what moto calls

    def run_bootstrap_actions(self) -> None:
        """Begin the life of the cluster; moto would end it here for want of steps."""
        self.folder = self.service.folder / self.id
        self.logs = self.folder / "logs"
        self.nodes = Nodes(self.folder / "node", self.service.url, self.service.kernels)
        self.jobs = 0
        self.service.clusters.append(self)
        self.thread = threading.Thread(target=self._live_or_fail, daemon=True)
        self.thread.start()

    def add_steps(self, steps: list[dict[str, Any]]) -> list[models.Step]:
        """Take in steps; moto would have the first run at once."""
        added = [models.Step(state="PENDING", **step) for step in steps]
        with self.changed:
            self.steps += added
            self.changed.notify_all()
        return added

    def terminate(self) -> None:
        """Begin to end."""
        self._end("USER_REQUEST", "Terminated by user request")

    @property
    def status(self) -> dict[str, Any]:
        """What clients receive; moto knows no code."""
        status: dict[str, Any] = super().status
        code, message = self.ending or (None, None)
        status["StateChangeReason"] = {"Code": code, "Message": message} if code else {}
        return status

    # what the thread does

    def _end(self, code: str, message: str) -> None:
        with self.changed:
            if self.ending is None:
                self.ending = code, message
                self.state = "TERMINATING"
                self.changed.notify_all()
        self.nodes.stop()

    def _live_or_fail(self) -> None:
        """Live; where this executor fails, end the cluster, so that no client waits for ever."""
        try:
            self._live()
        except BaseException as error:
            self.ending = ("INTERNAL_ERROR", f"the executor failed: {error!r}")
            self.state = "TERMINATED_WITH_ERRORS"
            raise

    def _live(self) -> None:
        self.state = "BOOTSTRAPPING"
        self._bootstrap()
        while self.ending is None:
            with self.changed:
                waiting = [step for step in self.steps if step.state == "PENDING"]
                if not waiting:
                    self.state = "WAITING"
                    self.changed.wait()
                    continue
                self.state = "RUNNING"
            self._run(waiting[0])
        for step in self.steps:
            if step.state in ("PENDING", "RUNNING"):
                step.state = "CANCELLED"
        time.sleep(0.2)  # a cluster takes its time to end
        self._copy_logs()
        assert self.ending is not None
        good = self.ending[0] in ("USER_REQUEST", "ALL_STEPS_COMPLETED")
        self.end_datetime = utcnow()
        self.state = "TERMINATED" if good else "TERMINATED_WITH_ERRORS"

    def _bootstrap(self) -> None:
        # the request that makes the cluster adds its nodes last
        while self.ending is None and not self.ec2_instances:
            time.sleep(0.01)
        node = self.ec2_instances[0].ec2_instance_id
        for number, action in enumerate(self.bootstrap_actions, 1):
            logs = self.logs / "node" / node / "bootstrap-actions" / str(number)
            logs.mkdir(parents=True)
            script = logs / "controller"
            script.write_bytes(self.service.files.get(action.script_path))
            script.chmod(0o755)
            home = self.folder / "bootstrap"
            home.mkdir(exist_ok=True)
            ended = self.nodes.run(
                [str(script), *action.args], home, stdout=logs / "stdout", stderr=logs / "stderr"
            )
            if ended.code != 0:
                self._end(
                    "BOOTSTRAP_FAILURE",
                    f"On the master instance ({node}), bootstrap action {number} returned a "
                    "non-zero return code",
                )
                return

    def _run(self, step: models.Step) -> None:
        step.state = "RUNNING"
        step.start()
        self.jobs += 1
        logs = self.logs / "steps" / step.id
        logs.mkdir(parents=True)
        command, *words = step.args
        assert (step.jar, command) == ("command-runner.jar", "hadoop-streaming")
        # what EMR takes
        assert len(" ".join(step.args)) <= 10_280
        state = "COMPLETED"
        syslog = ""
        try:
            job = Job(
                self.jobs, Arguments.parse(words), self.nodes, self.service.files,
                self.folder / step.id, self.logs,
            )  # fmt: skip
            if self.service.read_only_nodes:
                job._arguments.environment["MR_DEDUP_TEST_READ_ONLY"] = "1"
            try:
                job.run()
            finally:
                syslog = job.syslog
        except StepError as error:
            syslog = syslog or f"{error}\n"
            state = "FAILED"
        (logs / "syslog").write_text(syslog)
        step.end_date_time = utcnow()
        if self.ending is not None:
            step.state = "CANCELLED"
        elif step.state == "RUNNING":
            self._after(state, step)
            step.state = state

    def _after(self, state: str, step: models.Step) -> None:
        """End the cluster if it is to go with its steps."""
        left = any(other.state == "PENDING" for other in self.steps)
        if state == "FAILED" and step.action_on_failure == "TERMINATE_CLUSTER":
            self._end("STEP_FAILURE", "Shut down as step failed")
        elif not left and self.auto_terminate:
            self._end("ALL_STEPS_COMPLETED", "Steps completed")
        elif not self.auto_terminate:
            # every five minutes
            threading.Timer(0.3, self._copy_logs).start()

    def _copy_logs(self) -> None:
        for path in sorted(self.logs.rglob("*")):
            if path.is_file():
                uri = f"{self.log_uri}{self.id}/{path.relative_to(self.logs)}.gz"
                self.service.files.put(gzip.compress(path.read_bytes()), uri)


def _cancel_steps(response: ElasticMapReduceResponse) -> ActionResult:
    """What moto's EMR lacks: end steps, in place of the cluster."""
    cluster = response.backend.describe_cluster(response._get_param("ClusterId"))
    infos = []
    for step in cluster.steps:
        if step.id in response._get_param("StepIds") and step.state in ("PENDING", "RUNNING"):
            step.state = "CANCELLED"
            infos.append({"StepId": step.id, "Status": "SUBMITTED", "Reason": ""})
    cluster.nodes.cancel()
    return ActionResult({"CancelStepsInfoList": infos})


def _split(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.partition("://")[2].partition("/")
    return bucket, key


def main() -> None:
    """Serve until interrupted."""
    with Service(Path(sys.argv[1]).resolve()).served() as service:
        print(f"export AWS_ENDPOINT_URL={service.url} AWS_DEFAULT_REGION={REGION}")
        for name, value in CREDENTIALS.items():
            print(f"export {name}={value}")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
