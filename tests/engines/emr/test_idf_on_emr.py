"""mr-dedup idf on EMR, and fingerprints by what it counted: the same as in one process."""

import json

import pyarrow.parquet as pq
import pytest

from mr_dedup.cli.main import main
from tests.engines.documents import json_lines, rejects_of

pytestmark = pytest.mark.emr


def run(client, *arguments):
    """Run a command in this process; return what it says."""
    code = main([str(argument) for argument in arguments])
    said = client.capfd.readouterr()
    assert (code, said.out) == (0, ""), said.err
    return said.err


@pytest.fixture
def folder(tmp_path):
    """Three files of documents, each with a bad line."""
    folder = tmp_path / "odd #1"
    folder.mkdir()
    for number in range(3):
        content = b"".join([*json_lines(40, number), b"bad\n"])
        (folder / f"{number}.jsonl").write_bytes(content)
    return folder


def test_frequencies_equal_inline(client, folder, tmp_path):
    there = client.put(*sorted(folder.iterdir())[:2])
    here, found = tmp_path / "here.parquet", tmp_path / "found.parquet"
    run(client, "idf", folder, "-o", here, "--min-documents", 3)
    said = run(
        client, "idf", there, folder / "2.jsonl", "-o", found, "--min-documents", 3,
        "-r", "emr", "--reducers", 3, "-c", client.conf(),
    )  # fmt: skip
    assert found.read_bytes() == here.read_bytes()
    assert "documents: 120, " in said
    assert "rejected: 3\n" in said
    # what is here is read first
    rejects = [json.loads(line) for line in rejects_of(found).read_text().splitlines()]
    names = [reject["file"].rpartition("/")[2] for reject in rejects]
    assert names == ["2.jsonl", "0.jsonl", "1.jsonl"]
    assert client.left() == []


def test_frequencies_go_with_the_job_that_weighs_by_them(client, folder, tmp_path):
    table, outs = tmp_path / "odd #2.parquet", [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    run(client, "idf", folder, "-o", table)
    asked = ["--weights", "log-tf-idf", "--idf", table]
    run(client, "fingerprint", folder, "-o", outs[0], *asked)
    there = client.put(*folder.iterdir())
    run(client, "fingerprint", there, "-o", outs[1], *asked, "-r", "emr", "-c", client.conf())
    one, other = (pq.read_table(out) for out in outs)
    assert other["fingerprint"].to_pylist() == one["fingerprint"].to_pylist()
    assert other.schema.metadata == one.schema.metadata
    assert client.left() == []
