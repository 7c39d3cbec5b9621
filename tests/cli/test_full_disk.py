"""Files that cannot grow, as on a full disk: one line that names a file, and no result."""

import json
import random
import re
import resource

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


@pytest.mark.parametrize("size", [3_000, 15_000])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_written_is_named(tmp_path, capfd, pages, command, size):
    out = tmp_path / "out.parquet"
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    try:
        run = Command(command.partition(" ")[0])
        code, _, said = run(capfd, pages, "-o", out, "-q", *COMMANDS[command])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert code == 2
    *_, message = said.splitlines()
    assert NAMED.search(message), message
    assert "File too large" in message
    assert not out.exists()
