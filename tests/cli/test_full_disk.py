"""Files that cannot grow, as on a full disk: one line that names a file, and no result."""

import contextlib
import gzip
import json
import random
import re
import resource
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.running import Command

COMMANDS = {
    "dedup": [],
    "dedup parquet": ["--documents", "parquet"],
    "dedup inline": ["-r", "inline"],
    "fingerprint": [],
    "passages": ["--cut", "all"],
    "idf": [],
}
NAMED = re.compile(r"error: (map task \d on \S+: )?(a temporary file in )?(temporary directory )?/")


@pytest.fixture
def pages(tmp_path):
    rng = random.Random(1)
    words = [f"word{number}" for number in range(3000)]
    texts = [" ".join(rng.choices(words, k=100)) for _ in range(3000)]
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@contextlib.contextmanager
def largest_file(size_bytes):
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


@pytest.mark.parametrize("size", [3_000, 15_000])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_written_is_named(tmp_path, capfd, pages, command, size):
    out = tmp_path / "out.parquet"
    with largest_file(size):
        run = Command(command.partition(" ")[0])
        code, _, said = run(capfd, pages, "-o", out, "-q", *COMMANDS[command])
    assert code == 2
    *_, message = said.splitlines()
    assert NAMED.search(message), message
    assert "File too large" in message
    assert not out.exists()


@pytest.mark.parametrize("size", [3_000, 30_000, 60_000, 200_000])
@pytest.mark.parametrize("runner", ["memory", "inline"])
def test_shards_and_parts_of_tasks_are_named(tmp_path, capfd, pages, runner, size):
    out = tmp_path / "out"
    with largest_file(size):
        code, _, said = Command("dedup")(capfd, pages, "-o", out, "-q", "-r", runner)
    assert code == 2
    *_, message = said.splitlines()
    if size > 3_000 or runner == "memory":
        assert f"{tmp_path}/.out.unfinished/" in message
        assert message.endswith(": cannot be written: File too large")
    else:
        # the program of the tasks, which is copied
        assert message.endswith(": File too large")
        assert re.search(rf"error: {tempfile.gettempdir()}/.*: File", message), message


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".parquet"])
@pytest.mark.parametrize("is_cut", [True, False])
def test_files_that_are_restored_are_named(tmp_path, capfd, suffix, is_cut):
    rng = random.Random(2)
    words = [f"word{number}" for number in range(3000)]
    repeated = " ".join(rng.choices(words, k=60))
    for name in "a", "b":
        # the other file is copied as it is
        begin = repeated if (name == "a") == is_cut else ""
        rows = [{"text": f"{begin} {' '.join(rng.choices(words, k=100))}"} for _ in range(300)]
        path = tmp_path / "pages" / f"{name}{suffix}"
        path.parent.mkdir(exist_ok=True)
        if suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        else:
            lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
            path.write_bytes(gzip.compress(lines) if suffix.endswith("gz") else lines)
    Command("passages").done(capfd, tmp_path / "pages", "-o", tmp_path / "cut", "--cut", "all")
    with largest_file(10_000):
        code, _, said = Command("restore")(capfd, tmp_path / "cut", "-o", tmp_path / "back", "-q")
    assert code == 2
    assert re.search(rf"/restored/[ab]{suffix}: cannot be written: File too large", said), said
    assert not (tmp_path / "back").exists()
