"""A real endpoint for S3 and EMR, nodes that really run their commands, and commands."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import boto3
import numpy as np
import pytest
import yaml
from s3fs import S3FileSystem

from mr_dedup.cli.main import main
from tests.engines.emr.service import CREDENTIALS, REGION, RunningCluster, Service

logging.getLogger("werkzeug").setLevel(logging.ERROR)


@pytest.fixture(scope="session")
def service(tmp_path_factory) -> Iterator[Service]:
    # the workers of one run compile kernels once
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with Service(tmp_path_factory.mktemp("emr"), shared / "emr-kernels").served() as service:
        yield service


@dataclass
class Client:
    """Runs commands as a user of the service, with two buckets of his own."""

    service: Service
    folder: Path
    bucket: str
    capfd: pytest.CaptureFixture[str]
    settings: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (self.bucket, self.scratch):
            self.service.client("s3").create_bucket(
                Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION}
            )
        self._clusters_before = len(self.service.clusters)
        self.settings = {
            "emr_endpoint": self.service.url,
            "s3_endpoint": self.service.url,
            "region": REGION,
            "cloud_tmp_dir": f"s3://{self.scratch}/tmp/",
            "check_cluster_every": 0.1,
            "jobconf": {"mapreduce.map.maxattempts": 1},
            # nodes of the tests have all they need; the default has a test of its own
            "bootstrap": ["true"],
            **self.settings,
        }

    @property
    def scratch(self) -> str:
        return f"{self.bucket}-scratch"

    @property
    def clusters(self) -> list[RunningCluster]:
        """The clusters that were started since, the latest last."""
        return self.service.clusters[self._clusters_before :]

    def conf(self, **settings: object) -> Path:
        """Write an mrjob.conf; what is set to None is left to the defaults."""
        options = {
            key: value for key, value in {**self.settings, **settings}.items() if value is not None
        }
        path = self.folder / "mrjob.conf"
        path.write_text(yaml.safe_dump({"runners": {"emr": options}}))
        return path

    def put(self, *paths: object, below: str = "corpus") -> str:
        """Copy files into S3; return the address of their folder."""
        folder = f"s3://{self.bucket}/{below}"
        for path in map(Path, map(str, paths)):
            self.service.files.put(path.read_bytes(), f"{folder}/{path.name}")
        return folder

    def keep_cluster(self) -> str:
        """Start a cluster that does not end with its steps; return its id."""
        made = self.service.client("emr").run_job_flow(
            Name="kept",
            LogUri=f"s3://{self.scratch}/tmp/logs/",
            ReleaseLabel="emr-7.5.0",
            Applications=[{"Name": "Hadoop"}],
            Instances={
                "KeepJobFlowAliveWhenNoSteps": True,
                "InstanceGroups": [
                    {"InstanceRole": "MASTER", "InstanceType": "m5.xlarge", "InstanceCount": 1}
                ],
            },
        )
        cluster_id: str = made["JobFlowId"]
        return cluster_id

    def left(self) -> list[str]:
        """Return what is left in the scratch bucket."""
        return self.service.files.below(f"s3://{self.scratch}/")

    def run(self, *arguments: object) -> tuple[int, str, str]:
        """Run mr-dedup query on EMR in this process; return exit code, output, errors."""
        return self.command("query", *arguments)

    def command(self, name: str, *arguments: object) -> tuple[int, str, str]:
        """Run a command on EMR in this process; return exit code, output, errors."""
        if "-c" not in arguments:
            arguments = (*arguments, "-c", self.conf())
        code = main([name, *map(str, arguments), "-r", "emr"])
        said = self.capfd.readouterr()
        for secret in CREDENTIALS.values():
            assert secret not in said.err
        return code, said.out, said.err

    def query(self, *arguments: object) -> str:
        """Run a query; return what it prints."""
        code, out, err = self.run(*arguments)
        assert code == 0, err
        return out

    def mistake(self, *arguments: object) -> str:
        """Run a query that must fail for a reason the user can do something about; return it."""
        code, out, err = self.run(*arguments)
        assert (code, out) == (2, ""), err
        assert err.startswith("mr-dedup: error: ")
        assert err.count("\n") == 1
        return err

    def start(self, *arguments: object, conf: dict[str, object]) -> subprocess.Popen[str]:
        """Start a query as a process of its own."""
        words = ["query", *map(str, arguments), "-r", "emr", "-c", str(self.conf(**conf))]
        return subprocess.Popen(
            [sys.executable, "-m", "mr_dedup", *words],
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def aws(monkeypatch, tmp_path) -> None:
    """An environment that has credentials for the tests, and none of this machine's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    monkeypatch.setenv("HOME", str(tmp_path))
    # it remembers the identity of an earlier test
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    # and so do open file systems
    S3FileSystem.clear_instance_cache()


@pytest.fixture
def client(service, aws, tmp_path, capfd, request) -> Iterator[Client]:
    """A client; afterwards no cluster it started runs, and no task."""
    number = len(service.client("s3").list_buckets()["Buckets"])
    client = Client(service, tmp_path, f"tests-{number}", capfd)
    yield client
    for cluster in client.clusters:
        cluster.thread.join(60)
        assert cluster.state in ("TERMINATED", "TERMINATED_WITH_ERRORS")


@pytest.fixture
def values(corpus) -> list[np.ndarray]:
    """The corpus in five arrays."""
    return np.array_split(np.array(corpus.corpus, dtype=np.uint64), 5)
