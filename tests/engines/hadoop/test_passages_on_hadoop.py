"""Passages, items of test sets and counts on a real Hadoop: the same as in one process."""

import json
import sys

import pytest

from mr_dedup.cli.main import main
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.result_tables import read_parts
from tests.cli.test_dedup_counts import one_before_followed, run_weeks, weekly_crawls

pytestmark = pytest.mark.hadoop


@pytest.fixture
def pages(tmp_path):
    """A directory of documents, many of which have passages in common."""
    folder = tmp_path / "pages"
    folder.mkdir()
    for seed in range(4):
        documents = [
            {**each, "id": f"{seed}-{n}"} for n, each in enumerate(made_up_documents(seed, 60))
        ]
        write_jsonl(folder / f"{seed}.jsonl", documents)
    return folder


def run(client, name, *words):
    running = client.start(*words, name=name)
    said, err = running.communicate()
    assert (running.returncode, said) == (0, ""), err


def rows_of(out, name):
    return read_parts(out / name).to_pylist()


def lines_below(folder):
    paths = sorted(path for path in folder.rglob("[!.]*") if path.is_file())
    return b"".join(path.read_bytes() for path in paths).splitlines()


def test_passages_are_cut_and_restored(client, pages, tmp_path):
    words = ["--unit", "tokens:12", "--cut", "all-but-first"]
    expected, found, again = (tmp_path / name for name in ("memory", "hadoop", "again"))
    assert main(["passages", str(pages), "-o", str(expected), "-r", "memory", *words]) == 0
    run(client, "passages", pages, "-o", found, *words, "--reducers", 2)
    for name in ("passages", "occurrences"):
        assert rows_of(found, name) == rows_of(expected, name)
    assert rows_of(expected, "cuts")
    assert lines_below(found / "documents") == lines_below(expected / "documents")
    assert main(["restore", str(found), "-o", str(again)]) == 0
    assert lines_below(again) == lines_below(pages)
    assert client.of_runs() == set()


@pytest.mark.parametrize("action", ["report", "drop", "cut"])
def test_items_are_found(client, pages, tmp_path, action):
    lines = (pages / "2.jsonl").read_text().splitlines()
    words = [json.loads(line)["text"].split() for line in lines]
    items = [{"question": " ".join(each[3:30])} for each in words if len(each) > 20][:6]
    exam = tmp_path / "exam.jsonl"
    exam.write_text("".join(json.dumps(each) + "\n" for each in items))
    words = ["--evals", exam, "--action", action]
    expected, found = tmp_path / "memory", tmp_path / "hadoop"
    here = ["decontaminate", pages, "-o", expected, "-r", "memory", *words]
    assert main(list(map(str, here))) == 0
    run(client, "decontaminate", pages, "-o", found, *words)
    for name in {"report": [], "drop": ["dropped"], "cut": ["cuts"]}[action] + ["matches", "items"]:
        assert rows_of(found, name) == rows_of(expected, name)
    if action != "report":
        assert lines_below(found / "documents") == lines_below(expected / "documents")
    assert json.loads((found / "summary.json").read_text())["documents_contaminated"] >= len(items)


def test_counts_of_weekly_crawls(client, in_this_process, tmp_path, capfd):
    weeks = weekly_crawls(1)[:2]
    here, there = tmp_path / "memory", tmp_path / "hadoop"
    on_hadoop = ["-r", "hadoop", "--python-bin", sys.executable]
    for folder, words in ((here, ["-r", "memory"]), (there, on_hadoop)):
        folder.mkdir()
        run_weeks(capfd, folder, weeks, one_before_followed, *words)
    for name in ("kept0", "kept1"):
        one, other = here / name, there / name
        assert rows_of(one, "counts") == rows_of(other, "counts")
        totals = [
            [row["duplicates_total"] for row in rows_of(each, "decisions")] for each in (one, other)
        ]
        assert totals[0] == totals[1]
        assert any(totals[0])
