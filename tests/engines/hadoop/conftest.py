"""A real cluster, and commands run against it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.engines.hadoop.cluster import Cluster


@dataclass(frozen=True)
class Client:
    """Runs commands as a user of the cluster, with a folder in HDFS and one for temporary files."""

    cluster: Cluster
    folder: str
    temporary: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.cluster.environment, "TMPDIR": str(self.temporary)}

    def hadoop(self, *words) -> str:
        """Run the hadoop command; return what it prints."""
        done = subprocess.run(
            [self.cluster.home / "bin" / "hadoop", *map(str, words)],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def of_jobs(self) -> set[str]:
        """Return what is in HDFS where mrjob keeps what it needs for a job."""
        listed = self.hadoop("fs", "-ls", "-R", "-C", "/user").splitlines()
        return {path for path in listed if "/tmp/mrjob/" in path}

    def of_runs(self) -> set[str]:
        """Return what is in HDFS of runs whose results come to this machine."""
        listed = self.hadoop("fs", "-ls", "-R", "-C", "/user").splitlines()
        return {path for path in listed if "/tmp/mr_dedup/" in path}

    def put(self, *paths, name="") -> str:
        """Copy files into the folder in HDFS; return its address."""
        uris = [Path(path).absolute().as_uri() for path in paths]
        self.hadoop("fs", "-put", *uris, f"{self.folder}/{name}")
        return self.folder

    def start(self, *arguments, name="query", python=sys.executable, **options) -> subprocess.Popen:
        """Start a command of mr-dedup on the cluster."""
        command = [sys.executable, "-m", "mr_dedup", name, *map(str, arguments), "-r", "hadoop"]
        return subprocess.Popen(
            [*command, "--python-bin", python],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def query(self, *arguments, **options) -> str:
        """Run mr-dedup query on the cluster; return what it prints."""
        running = self.start(*arguments, **options)
        out, err = running.communicate()
        assert running.returncode == 0, err
        return out

    def fingerprint(self, *arguments, **options) -> str:
        """Run mr-dedup fingerprint on the cluster; return what it says."""
        running = self.start(*arguments, name="fingerprint", **options)
        out, err = running.communicate()
        assert (running.returncode, out) == (0, ""), err
        return err

    def mistake(self, *arguments, **options) -> str:
        """Run a command that must fail for a reason the user can do something about; return it."""
        running = self.start(*arguments, **options)
        out, err = running.communicate()
        assert (running.returncode, out) == (2, ""), err
        assert err.startswith("mr-dedup: error: ")
        assert err.count("\n") == 1
        return err

    def await_work(self, fits, seconds=120):
        """Return the first process of a job on the nodes that fits."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for work in self.cluster.work():
                if fits(work):
                    return work
            time.sleep(0.02)
        raise AssertionError(f"no such process in {seconds} s")

    def last_job(self) -> dict:
        """Return the job that was started last, as the history server has it."""
        deadline = time.monotonic() + 30
        while self.cluster.running_jobs() and time.monotonic() < deadline:
            time.sleep(0.2)
        return self.cluster.past_jobs()[0]


@pytest.fixture
def client(cluster, tmp_path, request) -> Iterator[Client]:
    """A client; afterwards nothing is left of its jobs, here or on the cluster."""
    temporary = tmp_path / "temporary files"
    temporary.mkdir()
    folder = f"hdfs:///tests/{request.node.name.partition('[')[0]}-{os.getpid()}"
    client = Client(cluster, folder, temporary)
    client.hadoop("fs", "-mkdir", "-p", client.folder)
    before = client.of_jobs()
    yield client
    assert list(temporary.iterdir()) == []
    assert cluster.running_jobs() == []
    assert client.of_jobs() <= before
    client.hadoop("fs", "-rm", "-R", "-skipTrash", client.folder)


@pytest.fixture
def in_this_process(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what is called here find the cluster."""
    for name, value in client.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def values(corpus) -> list[np.ndarray]:
    """The corpus in four arrays."""
    return np.array_split(np.array(corpus.corpus, dtype=np.uint64), 4)
