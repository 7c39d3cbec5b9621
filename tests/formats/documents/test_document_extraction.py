"""Pages are extracted in processes: in order, within bounds, whatever becomes of a process."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents import extraction
from mr_dedup.formats.documents.encoding import decode
from mr_dedup.formats.documents.extraction import Extraction
from mr_dedup.formats.documents.html_process import Page
from mr_dedup.formats.documents.html_text import text_of_html
from mr_dedup.formats.documents.options import ReadOptions
from tests.formats.documents.reading import read
from tests.formats.documents.test_document_warc import page as warc_page

SLOW = "<p>x" + "<div></bdo>x" * 40_000
"""Takes several seconds: unmatched end tags are looked for among all open elements."""

TOO_SLOW = "its HTML takes more than 0.18 s to parse"

DEADLY = """
import os, sys
sys.path[:] = sys.argv[2:]
from mr_dedup.formats.documents import html_process
whole = html_process.text_of_html
def text_of_html(html, *more):
    if html.startswith("first time") and not os.path.exists(html.split()[2]):
        open(html.split()[2], "w").close()
        html = "deadly"
    if html.startswith("deadly"):
        {deed}
    return whole(html, *more)
html_process.text_of_html = text_of_html
html_process.serve(int(sys.argv[1]))
"""
DEEDS = {
    "crash": ("os.kill(os.getpid(), 11)", "its HTML ends the parser (SIGSEGV)"),
    "killed": ("os.kill(os.getpid(), 9)", "its HTML ends the parser (SIGKILL)"),
    "exit": ("os._exit(3)", "its HTML ends the parser (exit code 3)"),
    "stopped": ("os.kill(os.getpid(), 19)", "its HTML ends the parser (no answer)"),
    "other bytes": (
        "os.write(1, b'\\1' + bytes(7) + b'x')", "its HTML ends the parser (no answer)",
    ),
    "too long an answer": ("os.write(1, b'x' * 8)", "its HTML ends the parser (no answer)"),
    "out of memory": ("bytearray(1 << 42)", "its HTML takes too much memory"),
    "error": ("raise ValueError('no such page')", "no such page"),
}  # fmt: skip


@pytest.fixture
def no_idle_processes():
    """Have processes of other tests, and then of this one, out of the way."""

    def end():
        while extraction._idle:
            extraction._idle.pop().end()

    end()
    yield
    end()


@pytest.fixture
def deadly(monkeypatch, no_idle_processes):
    """Return a function that has processes do a deed for pages that begin with ``deadly``."""

    def install(deed):
        monkeypatch.setattr(extraction, "_PROGRAM", DEADLY.format(deed=deed))

    return install


def texts(pages, processes=1, max_seconds=60.0, **options):
    with Extraction(processes, **options) as extracting:
        futures = [extracting.submit(group, max_seconds) for group in pages]
        found = [text for future in futures for text in future.result()]
        return [(text.text, text.reason) for text in found]


@pytest.mark.parametrize("processes", [1, 3])
def test_texts_are_those_of_the_parser_in_order(processes):
    random.seed(7)
    words = "ein Überblick <b>über</b> 文書 & <i>mehr"
    pages = [
        Page(f"<p>{n} {words * random.randrange(200)}".encode("utf-16" if n % 5 == 0 else "utf-8"),
             random.choice(("main", "page")))
        for n in range(300)
    ]  # fmt: skip
    groups = [pages[:1], [], pages[1:140], pages[140:141], pages[141:]]
    expected = [(text_of_html(decode(page.data), page.extent).text, "") for page in pages]
    assert texts(groups, processes) == expected


def test_a_process_that_lacks_a_module_is_one_error(monkeypatch, no_idle_processes):
    """Not a reject of each page."""
    blocked = "import sys; sys.modules['resiliparse.extract.html2text'] = None; "
    monkeypatch.setattr(extraction, "_PROGRAM", blocked + extraction._PROGRAM)
    with pytest.raises(MrDedupError, match=r"cannot start a process .*resiliparse") as raised:
        texts([[Page(b"<p>a", "page")]])
    assert "\n" not in str(raised.value)


def test_pages_of_a_known_encoding():
    cyrillic = "<p>привет мир, это страница".encode("cp1251")
    declared = b"<meta charset=latin-1><p>\xc3\xa9"
    assert texts([[Page(cyrillic, "page", "windows-1251")]]) == [("привет мир, это страница", "")]
    assert texts([[Page(declared, "page", "utf-8")]]) == [("é", "")]


def test_a_slow_page_is_ended_and_others_go_on():
    pages = [Page(html.encode(), "main") for html in ("<p>a", SLOW, "<p>b", SLOW, "<p>c")]
    start = time.monotonic()
    expected = [("a", ""), (None, TOO_SLOW), ("b", ""), (None, TOO_SLOW), ("c", "")]
    assert texts([pages], max_seconds=0.3) == expected
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("processes", [1, 2])
def test_a_page_that_ends_its_process_has_a_reason(deadly, deed, processes):
    act, reason = DEEDS[deed]
    deadly(act)
    group = [Page(html, "page") for html in (b"<p>a", b"deadly", b"<p>b", b"deadly too", b"<p>c")]
    found = texts([group, group[:1]], processes, patience_seconds=1.0)
    assert found == [("a", ""), (None, reason), ("b", ""), (None, reason), ("c", ""), ("a", "")]


@pytest.mark.parametrize("deed", ["crash", "killed", "exit", "stopped"])
def test_a_page_is_not_blamed_for_one_end_of_a_process(deadly, deed, tmp_path):
    deadly(DEEDS[deed][0])
    once = f"first time {tmp_path / 'there'}".encode()
    group = [Page(html, "page") for html in (b"<p>a", once, b"<p>b")]
    assert texts([group], patience_seconds=1.0) == [("a", ""), (once.decode(), ""), ("b", "")]


def test_a_process_that_cannot_be_started_is_an_error(monkeypatch, no_idle_processes):
    monkeypatch.setattr(extraction, "_PROGRAM", "raise SystemExit(4)")
    with pytest.raises(MrDedupError, match=r"cannot start a process that parses HTML: exit code 4"):
        texts([[Page(b"<p>a", "page")]])
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(MrDedupError, match=r"cannot start a process that parses HTML: .*nowhere"):
        texts([[Page(b"<p>a", "page")]])


def test_processes_are_used_again(no_idle_processes):
    texts([[Page(b"<p>a", "page")]])
    (process,) = extraction._idle
    texts([[Page(b"<p>b", "page")]])
    assert extraction._idle == [process]
    # as after some seconds without pages
    process._requests.close()
    process._process.wait(10)
    assert process._process.returncode == 0
    assert not process.is_alive
    process._requests = Path(os.devnull).open("wb", 0)  # noqa: SIM115
    assert texts([[Page(b"<p>c", "page")]]) == [("c", "")]


LARGE = """
from mr_dedup.formats.documents import extraction
from mr_dedup.formats.documents.html_process import Page
memory = bytearray(b"x") * (600 << 20)
seen = set()
with extraction.Extraction() as extracting:
    for _ in range(5):
        assert extracting.submit([Page(b"<p>a", "page")] * 2, 2).result()[1].text == "a"
        seen |= {process._process.pid for process in extraction._started}
assert len(seen) == 1, seen
"""


def test_a_process_is_used_again_however_large_its_parent_is():
    """The system counts memory of a process from that of the one that started it."""
    subprocess.run([sys.executable, "-c", LARGE], check=True, timeout=60)


def test_closing_ends_what_is_extracted(no_idle_processes):
    with Extraction(2) as extracting:
        futures = [extracting.submit([Page(SLOW.encode(), "main")], 600) for _ in range(3)]
        deadline = time.monotonic() + 30
        while len(extracting._running) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        running = [each._process for each in extracting._running]
        start = time.monotonic()
    assert time.monotonic() - start < 5
    assert len(running) == 2
    assert all(each.poll() == -signal.SIGKILL for each in running)
    assert all(future.cancelled() or future.exception() for future in futures)


# what reads pages


def write_html(folder, pages):
    for number, html in enumerate(pages):
        (folder / f"{number}.html").write_text(html)
    return sorted(folder.glob("*.html"))


def write_warc(folder, pages):
    path = folder / "a.warc"
    path.write_bytes(b"".join(warc_page(n, html.encode()) for n, html in enumerate(pages)))
    return [path]


def write_lines(folder, pages):
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps({"html": html}) + "\n" for html in pages))
    return [path]


def write_parquet(folder, pages):
    pq.write_table(pa.table({"html": pages}), folder / "a.parquet")
    return [folder / "a.parquet"]


WRITERS = pytest.mark.parametrize("write", [write_html, write_warc, write_lines, write_parquet])


@WRITERS
def test_rejects_and_documents_are_in_order(tmp_path, write):
    too_many = "<p>" * 500_001
    paths = write(tmp_path, ["<p>a", SLOW, "<p>b", too_many, "<p>c", SLOW, "<p>d"])
    found = read(*paths, max_page_seconds=0.3)
    assert found.texts == ["a", "b", "c", "d"]
    reasons = [reason.removeprefix("its page cannot be read: ") for _, reason in found.reasons]
    assert reasons == [TOO_SLOW, "its HTML has more than 500000 tags", TOO_SLOW]
    with pytest.raises(FormatError, match=TOO_SLOW):
        read(*paths, max_page_seconds=0.3, strict=True)


@pytest.mark.parametrize("limit", [5_000, 1 << 26])
def test_other_rejects_and_documents_stay_between_pages(tmp_path, limit):
    # groups of half a megabyte, other documents and faults among them
    for n in range(120):
        kind = n % 6
        name = tmp_path / f"{n:03}"
        if kind == 1:
            name.with_suffix(".txt").write_text(f"text {n}")
        elif kind == 2:
            name.with_suffix(".parquet").write_bytes(b"no Parquet")
        elif kind == 3:
            name.with_suffix(".jsonl").write_text(f'{{"text": "line {n}"}}\nno JSON\n')
        else:
            name.with_suffix(".html").write_text(f"<p>page {n}" + " word" * 4000 * (n % 5))
    paths = sorted(tmp_path.iterdir())
    found = read(*paths, max_record_bytes=limit)
    numbers = [int(Path(file).stem) for file in found.files]
    assert numbers == sorted(numbers)
    rejected = [Path(reject.file).stem for reject in found.rejects.listed]
    assert rejected == sorted(rejected)
    assert all(str(n) in text for n, text in zip(numbers, found.texts, strict=True))
    assert len(numbers) + len(rejected) == 140
    assert found.rejects.counts.documents == len(numbers)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 0.001, 0.09, 1e9])
def test_bounds_of_the_bound(seconds):
    with pytest.raises(ValueError, match=r"max_page_seconds: expected 0.1 to 86,400, got "):
        ReadOptions(max_page_seconds=seconds)


# the end of the process that reads

PARENT = """
from mr_dedup.formats.documents import extraction
from mr_dedup.formats.documents.html_process import Page
import os, signal, sys, threading, time
slow = Page(("<p>x" + "<div></bdo>x" * 200_000).encode(), "main")
def started():
    with extraction.Extraction(2) as extracting:
        extracting.submit([Page(b"<p>a", "main")], 600).result()
        future = extracting.submit([slow], 600)
        print(*(each._process.pid for each in extraction._started), flush=True)
        time.sleep(0.3)
        {end}
"""


def are_running(pids):
    def state(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "gone"

    return [pid for pid in pids if state(pid) not in ("gone", "Z")]


@pytest.mark.parametrize(
    "end",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os._exit(0)",
        "sys.exit(0)",
        "raise KeyboardInterrupt",
        "os.kill(0, signal.SIGINT); time.sleep(60)",
    ],
)
def test_no_process_outlives_the_one_that_reads(end):
    code = textwrap.dedent(PARENT).replace("{end}", end) + "\nstarted()\n"
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert pids
        parent.communicate(timeout=30)
        deadline = time.monotonic() + 5
        while are_running(pids) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert are_running(pids) == []
    finally:
        parent.kill()


def test_a_thread_that_ends_leaves_its_process_to_others():
    # unlike PR_SET_PDEATHSIG, which is of threads
    code = """
    from mr_dedup.formats.documents import extraction
    from mr_dedup.formats.documents.html_process import Page
    import time
    for n in range(2):
        with extraction.Extraction() as extracting:
            print(extracting.submit([Page(b"<p>a", "main")], 60).result()[0].text)
        time.sleep(0.3)
    assert [each.is_alive for each in extraction._started] == [True]
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a\na\n", b"")


def test_forks_have_processes_of_their_own():
    code = """
    import os
    from mr_dedup.formats.documents import extraction
    from mr_dedup.formats.documents.html_process import Page
    def text(html):
        with extraction.Extraction() as extracting:
            return extracting.submit([Page(html, "main")], 60).result()[0].text
    assert text(b"<p>a") == "a"
    (mine,) = extraction._idle
    for _ in range(2):
        if not (pid := os.fork()):
            assert not extraction._idle
            assert text(b"<p>b") == "b"
            os._exit(text(b"<p>c") != "c")
        assert os.waitpid(pid, 0)[1] == 0
    assert extraction._idle == [mine]
    assert text(b"<p>d") == "d"
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
