"""mr-dedup dedup on a real Hadoop: the same result as in one process, also against earlier ones."""

import random
import sys

import pyarrow.parquet as pq
import pytest

from mr_dedup.cli import dedup_jobs
from mr_dedup.cli.main import main
from mr_dedup.engines.streaming import described
from mr_dedup.pipeline.sharded import stages
from mr_dedup.storage.listing import list_files
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.result_tables import tables_of

pytestmark = pytest.mark.hadoop

SPLIT = "mapreduce.input.fileinputformat.split.maxsize"


def test_a_file_has_another_identity_once_it_is_written_anew(client, in_this_process, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}")
    client.put(path)
    uri = f"{client.folder}/a.jsonl"
    [before] = list_files([uri])
    assert list_files([uri]) == [before]
    client.hadoop("fs", "-touch", "-m", "-t", "20260102:030405", uri)
    [now] = list_files([uri])
    assert (now.uri, now.size_bytes) == (uri, before.size_bytes)
    assert now.identity != before.identity


METHODS = [[], ["--method", "simhash:k=5", "--method", "exact", "--share-by", "site"]]


@pytest.mark.parametrize("words", METHODS, ids=["minhash", "several"])
@pytest.mark.parametrize("in_process", [True, False], ids=["process", "cluster"])
def test_dedup_against_an_earlier_result_equals_one_process(
    client, in_this_process, monkeypatch, tmp_path, capfd, words, in_process
):
    rng = random.Random(5)
    weeks = [], []
    for seed in range(30):
        for document in made_up_documents(seed):
            rng.choice(weeks).append({**document, "id": f"{seed}-{document['id']}"})
    old = write_jsonl(tmp_path / "old.jsonl", weeks[0])
    kept = tmp_path / "kept"
    assert main(["dedup", str(old), "-o", str(kept), *words]) == 0
    folder = tmp_path / "new pages"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", weeks[1][:300])
    # of several parts, and of several tasks
    filler = [{"id": f"long-{n}", "text": f"only{n} " * 2_000} for n in range(1_700)]
    large = write_jsonl(folder / "b.jsonl", [*filler, *weeks[1][300:]])
    assert large.stat().st_size > 16 << 20
    arguments = [str(folder), "--against", str(kept), *words]
    expected = tmp_path / "expected"
    assert main(["dedup", *arguments, "-o", str(expected)]) == 0
    monkeypatch.setattr(described, "TASK_BYTES", 8 << 20)
    if not in_process:
        # shards are read by tasks as well, however few
        monkeypatch.setitem(dedup_jobs.SMALL_BYTES, "hadoop", 0)
    out = tmp_path / "out"
    options = ["-r", "hadoop", "--python-bin", sys.executable, "-D", f"{SPLIT}={4 << 20}"]
    capfd.readouterr()
    assert main(["dedup", *arguments, "-o", str(out), *options]) == 0
    said = capfd.readouterr()
    assert said.out == ""
    assert "earlier documents" in said.err
    assert tables_of(out) == tables_of(expected)
    assert (out / "report.html").is_file()
    # nothing is left of what tasks had written
    assert client.of_runs() == set()


def test_a_run_that_was_ended_goes_on(client, in_this_process, monkeypatch, tmp_path, capfd):
    pages = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(3, 200))
    client.put(pages)
    arguments = ["dedup", f"{client.folder}/pages.jsonl"]
    expected = tmp_path / "expected"
    assert main(["dedup", str(pages), "-o", str(expected)]) == 0
    out = f"{client.folder}/kept"
    options = ["-o", out, "-r", "hadoop", "--python-bin", sys.executable]

    def ended(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stages, "resolve", ended)
        assert main([*arguments, *options]) == 130
    jobs = len(client.cluster.past_jobs())
    capfd.readouterr()
    assert main([*arguments, *options, "--resume"]) == 0
    # resolve and keep
    client.last_job()
    assert len(client.cluster.past_jobs()) == jobs + 2
    copy = tmp_path / "copy"
    client.hadoop("fs", "-get", out, copy.absolute().as_uri())
    assert decisions_of(copy) == decisions_of(expected)


def decisions_of(folder) -> list:
    """Return the decisions without the names of files, which differ."""
    table = pq.read_table(folder / "decisions")
    return table.select(["id", "kept_id", "reason", "similarity", "cluster"]).to_pylist()
