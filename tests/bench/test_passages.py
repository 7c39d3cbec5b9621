"""The pages of the benchmark of passages, and what it says tools left of planted ones."""

import json
import re
import sys
import time

import pytest

from bench import planted_passages
from bench.passage_rivals import Substring
from bench.passages import Rivals, cost
from bench.planted_passages import Left, Parts, removed_share, texts, write_pages
from bench.processes import Usage, measure


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "pages.jsonl"
    return path, write_pages(path, 1_000_000)


def test_planted_passages_are_in_their_pages_and_in_one_before(written):
    path, found = written
    pages = dict(texts([path]))
    assert len(pages) == found.pages
    assert path.stat().st_size == found.size_bytes >= 1_000_000
    whole = [" ".join(text.split()) for text in pages.values()]
    numbers = [int(id.split("-")[1]) for id in found.planted]
    for number, (id, passage) in zip(numbers, found.planted.items(), strict=True):
        assert passage in pages[id]
        assert any(passage in text for text in whole[: min(numbers)])
        assert number > planted_passages.PASSAGES
    assert numbers == list(range(min(numbers), len(pages), planted_passages.SHARE))


def test_no_other_page_has_the_edge_of_a_planted_passage(written):
    """Else the first occurrence of a window would keep a part of the passage."""
    path, found = written
    pages = {id: re.findall(r"[^\W_]+", text) for id, text in texts([path])}
    windows = {}
    for id, words in pages.items():
        for start in range(len(words) - 49):
            windows.setdefault(tuple(words[start : start + 50]), set()).add(id)
    for id, passage in found.planted.items():
        size = len(re.findall(r"[^\W_]+", passage))
        repeated = [
            len(windows[tuple(pages[id][start : start + 50])]) > 1
            for start in range(len(pages[id]) - 49)
        ]
        # the words beside it may be those beside another one by chance
        assert size - 49 <= sum(repeated) <= size - 49 + 6


def test_parts_have_pages_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(planted_passages, "_PART_BYTES", 100_000)
    parts = Parts(tmp_path / "parts")
    one = parts.write(tmp_path / "one", 100_000)
    found = parts.write(tmp_path / "two", 200_000)
    pages = list(texts((tmp_path / "two").iterdir()))
    assert len({text for _, text in pages}) == len(pages) == found.pages
    assert {id.split("-")[0] for id, _ in pages} == {"1", "2"}
    assert set(found.planted) < {id for id, _ in pages}
    # the first part is the same file
    assert pages[: one.pages] == list(texts((tmp_path / "one").iterdir()))
    assert sum(1 for _ in (tmp_path / "parts").iterdir()) == 2


WORDS = [f"w{number}" for number in range(100)]


@pytest.mark.parametrize(
    ("left", "share"),
    [
        (WORDS, 0),
        (WORDS[:50], 0.5),
        ([*WORDS[:20], "x", *WORDS[70:]], 0.5),
        ([], 1),
        (WORDS[:4], 1),
        (WORDS[:5], 0.95),
        (WORDS[::-1], 1),
        ([word.upper() for word in WORDS], 0),
    ],
)
def test_the_share_of_a_passage_that_is_gone(left, share):
    text = " — ".join(["before", *left, "after"])
    assert removed_share(" ".join(WORDS), text) == pytest.approx(share)


def test_pages_are_counted():
    passage = " ".join(WORDS)
    left = Left({"a": passage, "b": passage})
    left.add("a", f"one é {passage} two", "one é  two".encode())
    left.add("b", f"one {passage} two", f"one {' '.join(WORDS[50:])} two".encode())
    left.add("c", "whole words", b"whole wor")
    left.add("d", "é", b"\xc3")
    left.add("e", "as it was", b"as it was")
    assert (left.pages, left.removed, left.with_new_words, left.not_utf8) == (5, 1, 1, 1)
    assert left.removed_share == pytest.approx(1.5)
    assert "50.00% of 2 planted passages are gone, 75.00% of their words" in str(left)


def test_mr_dedup_removes_all_that_is_planted(tmp_path, capsys):
    cost(tmp_path, Parts(tmp_path / "parts"), 500_000, "1GB", Rivals(None, None, 60))
    said = capsys.readouterr().out
    # but for those that are the first with a word beside them that others have too
    assert re.search(
        r"--cut all .*\n.*100\.00% of \d+ planted passages are gone, 100\.00% of", said
    )
    assert "words divided or joined in 0 pages, 0 pages no longer UTF-8" in said
    assert "the same bytes as the pages: yes" in said


SCRIPT = """
import sys
file = sys.argv[sys.argv.index("--data-file") + 1]
content = open(file, "rb").read()
if sys.argv[1] == "collect":
    print("some lines")
    print("out")
    for word in (b"cut", b"last"):
        print(content.index(word), content.index(word) + len(word))
"""


def test_ranges_of_bytes_are_cut_from_pages(tmp_path):
    """A program with the arguments and the output of dedup_dataset."""
    source = tmp_path / "source"
    source.mkdir()
    pages = [("a", "é cut é"), ("b", ""), ("c", "whole"), ("d", "the last")]
    lines = [json.dumps({"id": id, "text": text}) + "\n" for id, text in pages]
    (source / "pages.jsonl").write_text("".join(lines))
    program = tmp_path / "checkout" / "target" / "release" / "dedup_dataset"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\n{SCRIPT}")
    program.chmod(0o755)
    scripts = tmp_path / "checkout" / "scripts"
    scripts.mkdir()
    (scripts / "make_suffix_array.py").write_text("open('tmp/array', 'w')")
    substring = Substring(program, source, tmp_path / "work")
    run = substring.run(60)
    assert (run.usage.is_complete, run.step) == (True, "collect")
    assert list(substring.pages()) == [
        ("a", "é  é".encode()), ("b", b""), ("c", b"whole"), ("d", b"the "),
    ]  # fmt: skip


def test_a_program_is_ended_with_its_descendants(tmp_path):
    mark = tmp_path / "mark"
    child = f"import time, pathlib; time.sleep(5); pathlib.Path({str(mark)!r}).touch()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    usage = measure([sys.executable, "-c", parent], limit_seconds=1.0)
    assert not usage.is_complete
    time.sleep(5)
    assert not mark.exists()


def test_disk_space_counts_files_without_a_name(tmp_path):
    program = f"""
import tempfile, time
folder = {str(tmp_path)!r}
with tempfile.TemporaryFile(dir=folder) as file, open(f"{{folder}}/named", "wb") as named:
    file.write(bytes(3_000_000)); file.flush()
    named.write(bytes(2_000_000)); named.flush()
    time.sleep(1)
"""
    usage = measure([sys.executable, "-c", program], folder=tmp_path)
    assert 5_000_000 <= usage.disk_bytes < 6_000_000


def test_usages_of_steps_add_up():
    both = Usage(1, 2, 30, 40).followed_by(Usage(10, 20, 3, 400, False))
    assert both == Usage(11, 22, 30, 400, False)
