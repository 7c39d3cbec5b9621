"""De-duplication of pages of HTML: each is extracted once, within a bound of time."""

import contextlib
import json
import signal
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.formats.documents import extraction
from mr_dedup.formats.documents.extraction import Extraction
from mr_dedup.jobs.part_cache import PartCache
from tests.cli.documents import files_of
from tests.cli.running import Command, by_turns
from tests.cli.test_dedup import done, mistake, rejects_in
from tests.formats.documents.test_document_extraction import SLOW, TOO_SLOW, are_running
from tests.formats.documents.test_document_warc import page as warc_page

COUNT = 40


def html(n):
    """A page; each fourth is a near-duplicate of the one before."""
    words = " ".join(f"w{n - (n % 4 == 3)}x{i}" for i in range(60))
    return f"<title>{n}</title><p>{words} end{n}"


@pytest.fixture
def pages(tmp_path):
    """A directory of pages in every format that has them, and other documents between."""
    folder = tmp_path / "pages"
    folder.mkdir()
    numbers = iter(range(10 * COUNT))
    for n in range(COUNT):
        (folder / f"a{n:02}.html").write_text(html(next(numbers)))
    for name in "b", "c":
        records = [warc_page(n, html(next(numbers)).encode()) for n in range(COUNT)]
        (folder / f"{name}.warc").write_bytes(b"".join(records))
    (folder / "d.txt").write_text("a text of its own")
    lines = [{"id": f"d{n}", "html": html(next(numbers))} for n in range(COUNT)]
    lines.insert(7, {"id": "plain", "text": "one text"})
    (folder / "e.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = {
        "url": [f"e{n}" for n in range(COUNT)],
        "html": [html(next(numbers)) for _ in lines[1:]],
    }
    pq.write_table(pa.table(rows), folder / "f.parquet")
    return folder


@pytest.fixture
def submitted(monkeypatch):
    """How often each page was extracted."""
    counts = Counter()
    submit = Extraction.submit

    def counting(self, pages, max_seconds):
        counts.update(page.data for page in pages)
        return submit(self, pages, max_seconds)

    monkeypatch.setattr(Extraction, "submit", counting)
    return counts


@pytest.mark.parametrize("kind", ["same", "jsonl"])
@pytest.mark.parametrize("runner", ["memory", "inline"])
def test_pages_are_extracted_once(tmp_path, capfd, pages, submitted, runner, kind):
    words = ["--documents", kind, "-r", runner, "--cores", 2]
    done(capfd, pages, "-o", tmp_path / "out", *words)
    # pairs that the report shows, of all files
    dropped = 5 * COUNT // 4
    shown = 2 * dropped if kind == "same" and runner == "memory" else 0
    assert len(submitted) == 5 * COUNT
    in_parquet = Counter({data: n for data, n in submitted.items() if n > 1})
    assert in_parquet.total() - len(in_parquet) <= shown
    assert max(submitted.values()) <= 2


@by_turns(("kind", "verify"),
          [("same", "0.8"), ("jsonl", "0.8"), ("same", "off"), ("parquet", "0.8")],
          ("memory", "inline", "memory", "local"))  # fmt: skip
def test_results_are_the_same_whatever_is_cached(
    tmp_path, capfd, monkeypatch, pages, kind, verify, runner
):
    if kind == "parquet":
        (pages / "e.jsonl").unlink()
        (pages / "f.parquet").unlink()
    words = ["--documents", kind, "--verify", verify, "-r", runner]
    done(capfd, pages, "-o", tmp_path / "1", *words)
    # as if there were no room for anything
    monkeypatch.setattr(PartCache, "put", lambda *_: None)
    done(capfd, pages, "-o", tmp_path / "2", "--documents", kind, "--verify", verify, "--cores", 1)
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2")


@by_turns(("name",), ["a.html", "a.warc", "a.jsonl"], ("memory", "local", "inline"))
def test_a_slow_page_is_a_reject(tmp_path, capfd, name, runner):
    folder = tmp_path / "in"
    folder.mkdir()
    pages = [html(0), SLOW, html(1), html(2), html(3)]
    if name == "a.html":
        for n, text in enumerate(pages):
            (folder / f"{n}.html").write_text(text)
    elif name == "a.warc":
        records = [warc_page(n, text.encode()) for n, text in enumerate(pages)]
        (folder / name).write_bytes(b"".join(records))
    else:
        lines = [json.dumps({"id": str(n), "html": text}) for n, text in enumerate(pages)]
        (folder / name).write_text("\n".join(lines))
    words = ["--max-page-seconds", 0.3, "-r", runner, "--max-rejected", 0.5]
    said = done(capfd, folder, "-o", tmp_path / "out", *words)
    assert "documents: 4, rejected: 1" in said
    (reject,) = rejects_in(tmp_path / "out")
    assert json.loads(reject)["reason"].endswith(TOO_SLOW)
    assert "kept 3, dropped 1" in said


def test_the_bound_is_checked_and_part_of_a_run(tmp_path, capfd):
    path = tmp_path / "a.html"
    path.write_text("<p>a")
    said = mistake(capfd, path, "-o", tmp_path / "out", "--max-page-seconds", 0)
    assert "--max-page-seconds: expected 0.1 to 86,400, got 0" in said
    done(capfd, path, "-o", tmp_path / "out", "--max-page-seconds", 7)
    summary = json.loads((tmp_path / "out" / "summary.json").read_bytes())
    assert summary["reading"]["max_page_seconds"] == 7


def children_of(parent):
    """The processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_command_leaves_no_process(tmp_path, number):
    folder = tmp_path / "in"
    folder.mkdir()
    for n in range(4):
        (folder / f"{n}.html").write_text(SLOW * 5)
    process = Command().start("dedup", folder, "-o", tmp_path / "out", "--cores", 2)
    try:
        deadline = time.monotonic() + 60
        while len(pids := children_of(process.pid)) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    time.sleep(0.5)
    start = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=30)
    assert time.monotonic() - start < 10
    assert process.returncode == (130 if number != signal.SIGKILL else -number)
    deadline = time.monotonic() + 5
    while are_running(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert are_running(pids) == []


@pytest.mark.parametrize("command", ["fingerprint", "index", "distance"])
def test_other_commands_have_the_bound(tmp_path, capfd, command):
    slow, quick = tmp_path / "slow.html", tmp_path / "quick.html"
    slow.write_text(SLOW)
    quick.write_text("<p>some words")
    bound = ["--max-page-seconds", 0.3]
    if command == "fingerprint":
        words = ["fingerprint", slow, quick, "-o", tmp_path / "out.parquet", *bound]
    elif command == "distance":
        words = ["distance", slow, quick, *bound]
    else:
        Command("index", "create").done(capfd, tmp_path / "index", "--features", "words:1")
        words = ["index", "add", tmp_path / "index", slow, quick, *bound]
    start = time.monotonic()
    code, _, said = Command()(capfd, *words)
    assert (TOO_SLOW if command != "fingerprint" else "rejected: 1\n") in said
    assert code == (2 if command == "distance" else 0), said
    assert time.monotonic() - start < 60


def test_no_process_is_started_without_pages(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(extraction, "_taken", None)
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "text": "a"}\n')
    done(capfd, path, "-o", tmp_path / "out")


def test_pages_of_a_gallery_are_kept(tmp_path, capfd):
    """Four pages show other images, by their titles, and a fifth is a copy of one."""
    names = ["the sea", "the hills", "a town by night", "a street of the town"]
    for number, name in enumerate([*names, names[0]]):
        head = f"<title>Photos: {name}</title>"
        (tmp_path / f"{number}.html").write_text(
            f"<html><head>{head}</head><body><img src={number}.jpg><a href=x>Next</a></body></html>"
        )
    for number in range(4):
        (tmp_path / f"untitled{number}.html").write_text(f"<body><img src=img/{number}.jpg></body>")
    done(capfd, *sorted(tmp_path.glob("*.html")), "-o", tmp_path / "out")
    decisions = pq.read_table(tmp_path / "out" / "decisions").to_pylist()
    dropped = {Path(row["id"]).name for row in decisions if row["kept_id"] != row["id"]}
    assert len(decisions) == 9
    assert dropped == {"4.html"}
