"""Many small objects: listed page by page, in one directory and in many, and read."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mr_dedup.cli.main import main
from mr_dedup.storage.listing import list_files
from tests.storage import many_objects
from tests.storage.stores import environment, settings_of_s3


@pytest.fixture(params=[1200, pytest.param(100_000, marks=pytest.mark.slow)])
def store(request):
    """Yield how many objects a server in another process has."""
    command = [sys.executable, many_objects.__file__, str(request.param)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        uri = f"http://127.0.0.1:{int(server.stdout.readline())}"
        with environment(**settings_of_s3(uri)):
            yield request.param
        server.kill()


@contextlib.contextmanager
def reported(what, capfd):
    begun = time.monotonic()
    yield
    with capfd.disabled():
        print(f"{what}: {time.monotonic() - begun:.1f} s", file=sys.stderr)


def test_they_are_listed_and_read(store, tmp_path, capfd):
    per_folder = store // many_objects.FOLDERS
    names = {
        "flat": [f"{n:06}.jsonl" for n in range(store)],
        "deep": [f"{n // per_folder:03}/{n:06}.jsonl" for n in range(store)],
    }
    for directory, expected in names.items():
        with reported(f"{store:,} objects in {directory}/ listed", capfd):
            files = list_files([f"s3://crawl/{directory}"])
        assert [file.uri for file in files] == [f"s3://crawl/{directory}/{n}" for n in expected]
        assert files[7].size_bytes == len(many_objects.content(7))
    assert len(list_files(["s3://crawl/deep/0*"])) == store // 2
    local = tmp_path / "all.jsonl"
    local.write_bytes(b"".join(map(many_objects.content, range(store))))
    fingerprint(local, tmp_path / "local.parquet")
    with reported(f"{store:,} objects read", capfd):
        fingerprint("s3://crawl/deep", tmp_path / "remote.parquet")
    assert read(tmp_path / "remote.parquet") == read(tmp_path / "local.parquet")


def fingerprint(source, out):
    assert main(["fingerprint", str(source), "-o", str(out)]) == 0


def read(path: Path):
    return pq.read_table(path, columns=["id", "fingerprint"])
