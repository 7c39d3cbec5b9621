"""JSON lines as other programs write them, through the commands that write records."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from mr_dedup.cli.main import main
from tests.cli.running import Command

WORDS = [f"word{number}" for number in range(500)]

MARK = b"\xef\xbb\xbf"


def text(seed):
    return " ".join(random.Random(seed).choices(WORDS, k=60))


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """Twelve lines of which two are near-duplicates, with what JSON lacks in members not read."""
    monkeypatch.chdir(tmp_path)
    odd = [b"NaN", b"[Infinity, -Infinity]", b'"\\ud83d"', b"1e400", b"%d" % 2**70, b'"\\ude00"']
    found = []
    for number in range(12):
        known = json.dumps({"id": number, "text": f"{text(99)} {text(number // 2 * 2)}"}).encode()
        found.append(b'%b, "odd": %b}\n' % (known[:-1], odd[number % 6]))
    marked = [line if number % 3 else MARK + line for number, line in enumerate(found)]
    Path("docs.jsonl").write_bytes(b"".join(marked))
    return found


def written(name):
    return Path(name, "documents/docs.jsonl").read_bytes()


def test_records_pass_unchanged(capfd, lines):
    Command("dedup").done(capfd, "docs.jsonl", "-o", "out")
    assert written("out") == b"".join(lines[::2])
    Command("dedup").done(capfd, "docs.jsonl", "-o", "counted", "--add-counts")
    counts = b',"duplicates":1,"duplicates_total":1}\n'
    assert written("counted") == b"".join(line[:-2] + counts for line in lines[::2])
    Path("q.jsonl").write_text(json.dumps({"question": text(4)}) + "\n")
    options = ("--evals", "q.jsonl", "--action", "drop", "-o", "clean")
    Command("decontaminate").done(capfd, "docs.jsonl", *options)
    assert written("clean") == b"".join(lines[:4] + lines[6:])


def test_cut_records_are_restored(capfd, lines):
    Command("passages").done(capfd, "docs.jsonl", "-o", "cut", "--cut", "all-but-first")
    cut = written("cut").splitlines(keepends=True)
    assert cut[0] == lines[0]
    for before, after in zip(lines[1:], cut[1:], strict=True):
        assert len(after) < len(before)
        assert after.partition(b'", "odd"')[1:] == before.partition(b'", "odd"')[1:]
    Command("restore").done(capfd, "cut", "-o", "restored")
    assert Path("restored/docs.jsonl").read_bytes() == b"".join(lines)


@pytest.mark.parametrize("blank", ['""', '" \\n"', "null"])
def test_texts_of_html_are_cut_and_restored(capfd, tmp_path, monkeypatch, blank):
    monkeypatch.chdir(tmp_path)
    line = '{{"id": {0}, "text": {1}, "html": "<p>{2} {3}"}}\n'
    found = "".join(line.format(number, blank, text(99), text(number)) for number in range(4))
    Path("docs.jsonl").write_text(found)
    Command("passages").done(capfd, "docs.jsonl", "-o", "cut", "--cut", "all")
    texts = [json.loads(each)["text"].strip() for each in written("cut").splitlines()]
    assert texts == [text(number) for number in range(4)]
    Command("restore").done(capfd, "cut", "-o", "restored")
    assert Path("restored/docs.jsonl").read_text() == found


def test_what_has_no_text_is_counted_and_fails_no_run(capfd, tmp_path, monkeypatch):
    """By every command, in its lines, its warning and the rejects."""
    monkeypatch.chdir(tmp_path)
    records = [{"id": number, "text": text(number)} for number in range(5)]
    records += [{"id": 6, "text": None, "body": "b"}, {"id": 7, "text": None}]
    records.append({"id": 8, "text": " "})
    Path("docs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    Path("q.jsonl").write_text(json.dumps({"question": text(4)}) + "\n")
    warning = (
        "mr-dedup: warning: 2 of 8 records have no text and 1 of 6 documents have an empty text, "
        "by which they are duplicates; if another field such as body has it, name that with "
        "--text-field or --html-field\n"
    )
    for number, (command, *options) in enumerate(
        [
            ("dedup", "-o", "0"),
            ("passages", "-o", "1"),
            ("decontaminate", "--evals", "q.jsonl", "-o", "2"),
            ("fingerprint", "-o", "3.parquet"),
            ("pairs", "--method", "minhash", "-o", "4", "--verify", "0.8"),
            ("idf", "-o", "5.parquet"),
        ]
    ):
        _, err = Command(command).done(capfd, "docs.jsonl", *options)
        assert "rejected: 0, without text: 2" in err, command
        assert warning in err, command
        if number < 3:
            summary = json.loads(Path(str(number), "summary.json").read_text())
            counts = ("documents_read", "documents_without_text", "documents_empty")
            assert [summary[name] for name in counts] == [6, 2, 1]
            assert summary["rejected_records"] == 0
            assert list(Path(str(number), "rejects").iterdir())
            report = Path(str(number), "report.html")
            assert number == 1 or "whose text is null" in report.read_text()
    first, second = map(json.loads, Path("3.parquet.rejects.jsonl").read_text().splitlines())
    at = sum(len(json.dumps(record)) + 1 for record in records[:5])
    assert first == {
        "file": "docs.jsonl",
        "position": f"line 6 (byte {at})",
        "reason": "its 'text' is null",
        "text_field": "body",
        "without_text": True,
    }
    assert second["without_text"]


@pytest.mark.parametrize(
    "member", ["NaN", "-Infinity", '"\\ud800"', "1e400", "9" * 5000, "[NaN]", '{"a": "\\udc00"}']
)
def test_items_with_members_that_are_not_read(capfd, tmp_path, monkeypatch, member):
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text(json.dumps({"text": text(1)}) + "\n")
    Path("q.jsonl").write_text(f'{{"question": "{text(1)}", "x": {member}, "answer": {member}}}\n')
    Command("decontaminate").done(capfd, "docs.jsonl", "--evals", "q.jsonl", "-o", "out")
    summary = json.loads(Path("out/summary.json").read_text())
    assert (summary["items_found"], summary["rejected_records"]) == (1, 0)


@pytest.mark.parametrize("line", ["{", '["question"]', '"question"', "NaN", "1", '{"question": }'])
def test_lines_that_are_no_items(capfd, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text(json.dumps({"text": text(1)}) + "\n")
    Path("q.jsonl").write_text(f"{line}\n")
    words = ("docs.jsonl", "--evals", "q.jsonl", "-o", "out")
    assert main(["decontaminate", *words]) == 2
    said = capfd.readouterr().err
    assert "q.jsonl, line 1" in said
    assert "is not JSON" in said or "is not a JSON object" in said


NOT_UTF8 = os.fsdecode(b"out\xff")


@pytest.mark.parametrize("command", ["dedup", "passages"])
def test_results_by_names_that_are_not_utf8(capfd, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text(json.dumps({"text": text(1)}) + "\n")
    Command("dedup").done(capfd, "docs.jsonl", "-o", "result")
    shutil.copytree("result", NOT_UTF8)
    for words in (
        [command, "docs.jsonl", "-o", os.fsdecode(b"new\xff")],
        ["dedup", "docs.jsonl", "-o", "next", "--against", NOT_UTF8],
        ["counts", NOT_UTF8, "-o", "counts.parquet"],
        ["why", NOT_UTF8, "docs.jsonl:0"],
    ):
        assert main(words) == 2
        assert "has a name that is not UTF-8" in capfd.readouterr().err
    assert main(["why", "result", os.fsdecode(b"\xff")]) == 2
    assert "result: has no document" in capfd.readouterr().err
    assert sorted(path.name for path in Path().glob("[!.]*")) == sorted(
        ["docs.jsonl", "result", NOT_UTF8]
    )
