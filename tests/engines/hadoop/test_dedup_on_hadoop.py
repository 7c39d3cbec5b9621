"""mr-dedup dedup on a real Hadoop: the same result as in one process, also against earlier ones."""

import contextlib
import os
import random
import signal
import sys
import threading

import pyarrow.parquet as pq
import pytest

from mr_dedup.cli import dedup_jobs
from mr_dedup.cli.main import main
from mr_dedup.engines.streaming import described
from mr_dedup.pipeline import dedup_stages
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
        patch.setattr(dedup_stages, "resolve", ended)
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


@pytest.fixture(scope="module")
def several_tasks(tmp_path_factory):
    """Documents of several tasks, and the result of one process."""
    folder = tmp_path_factory.mktemp("pages")
    for seed in range(3):
        pages = [
            {**document, "id": f"{seed}-{number}-{document['id']}"}
            for number in range(10)
            for document in made_up_documents(10 * seed + number)
        ]
        filler = [{"id": f"{seed}-long-{n}", "text": f"only{seed}{n} " * 900} for n in range(500)]
        write_jsonl(folder / f"{seed}.jsonl", [*pages, *filler])
    expected = folder.parent / "expected"
    assert main(["dedup", str(folder), "-o", str(expected)]) == 0
    return folder, tables_of(expected)


@pytest.mark.parametrize("seed", range(4))
def test_tasks_that_are_killed_run_again(
    client, in_this_process, several_tasks, monkeypatch, tmp_path, capfd, seed
):
    """The Java of tasks, or their Python, at any moment of a job; nothing is there twice."""
    pages, expected = several_tasks
    rng = random.Random(seed)
    killed = []

    def kill_some(ended):
        while not ended.wait(rng.uniform(1, 12)):
            tasks = [work for work in client.cluster.work() if is_of_task(work)]
            if tasks and len(killed) < 3:
                killed.append(rng.choice(tasks).pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    with while_running(kill_some):
        run_by_tasks(pages, tmp_path / "out", monkeypatch)
    assert killed
    assert tables_of(tmp_path / "out") == expected
    assert client.of_runs() == set()


def test_a_node_that_is_lost_is_done_without(
    client, in_this_process, several_tasks, monkeypatch, tmp_path, capfd
):
    """Both what ran on it, and what its disks have of HDFS."""
    pages, expected = several_tasks
    lost = []

    def kill_node(ended):
        while not ended.wait(0.2) and not lost:
            works = client.cluster.work()
            masters = {work.node for work in works if is_master(work)}
            nodes = {work.node for work in works if is_of_task(work)} - masters
            if nodes and masters:
                lost.append(nodes.pop())
                client.cluster.kill(lost[0])

    try:
        with while_running(kill_node):
            run_by_tasks(pages, tmp_path / "out", monkeypatch)
    finally:
        for node in lost:
            client.cluster.restore(node)
    assert lost
    assert tables_of(tmp_path / "out") == expected


def is_master(work):
    return any(word.endswith("MRAppMaster") for word in work.arguments)


def is_of_task(work):
    return work.is_task("m") or work.is_task("r") or "--step-num" in " ".join(work.arguments)


def run_by_tasks(pages, out, monkeypatch):
    monkeypatch.setattr(described, "TASK_BYTES", 4 << 20)
    options = ["-r", "hadoop", "--python-bin", sys.executable, "-D", f"{SPLIT}={2 << 20}"]
    assert main(["dedup", str(pages), "-o", str(out), *options]) == 0


@contextlib.contextmanager
def while_running(function):
    """Run a function beside a block, with an event that the end of the block sets."""
    ended = threading.Event()
    thread = threading.Thread(target=function, args=(ended,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def decisions_of(folder) -> list:
    """Return the decisions without the names of files, which differ."""
    table = pq.read_table(folder / "decisions")
    return table.select(["id", "kept_id", "reason", "similarity", "cluster"]).to_pylist()
