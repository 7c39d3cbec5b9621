"""mr-dedup idf on a real Hadoop, and fingerprints by what it counted: as in one process."""

import json

import pytest

from mr_dedup.cli.main import main
from tests.engines.documents import json_lines, rejects_of

pytestmark = pytest.mark.hadoop


def run(client, name, *arguments):
    """Run a command on the cluster; return what it says."""
    running = client.start(*arguments, name=name)
    out, err = running.communicate()
    assert (running.returncode, out) == (0, ""), err
    return err


def test_frequencies_and_fingerprints_by_them_equal_inline(client, tmp_path):
    folder = tmp_path / "odd #1"
    folder.mkdir()
    for number in range(3):
        content = b"".join([*json_lines(300, number), b"bad\n"])
        (folder / f"{number}.jsonl").write_bytes(content)
    here, found = tmp_path / "here #2.parquet", tmp_path / "found.parquet"
    assert main(["idf", str(folder), "-o", str(here), "--min-documents", "3"]) == 0
    there = client.put(*sorted(folder.iterdir())[:2])
    said = run(
        client, "idf", there, folder / "2.jsonl", "-o", found, "--min-documents", 3,
        "--reducers", 2, "-D", "mapreduce.input.fileinputformat.split.maxsize=50000",
    )  # fmt: skip
    assert found.read_bytes() == here.read_bytes()
    assert "documents: 900, " in said
    rejects = [json.loads(line) for line in rejects_of(found).read_text().splitlines()]
    names = [reject["file"].rpartition("/")[2] for reject in rejects]
    assert names == ["2.jsonl", "0.jsonl", "1.jsonl"]
    job = client.last_job()
    assert (job["state"], job["reducesTotal"]) == ("SUCCEEDED", 2)
    assert job["mapsTotal"] > 3
    asked = ["--weights", "log-tf-idf", "--idf", here]
    outs = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert main(["fingerprint", str(folder), "-o", str(outs[0]), *map(str, asked)]) == 0
    run(client, "fingerprint", folder, "-o", outs[1], *asked)
    assert outs[1].read_bytes() == outs[0].read_bytes()
