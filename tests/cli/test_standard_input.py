"""Documents by standard input for what reads them several times: as if from a file."""

import contextlib
import gzip
import io
import json
import os
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from mr_dedup.cli.main import main
from mr_dedup.engines.streaming import RUNNERS
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.standard_input import spool_standard_input
from mr_dedup.pipeline import dedup_stages
from tests.cli.documents import files_of, made_up_documents
from tests.cli.running import by_turns
from tests.formats.documents.test_document_warc import page

BOTH = pytest.mark.parametrize("runner", RUNNERS)


@contextlib.contextmanager
def standard_input(content):
    usual = os.dup(0)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with contextlib.suppress(OSError), os.fdopen(writing, "wb") as out:
            out.write(content)
        os._exit(0)
    os.close(writing)
    os.dup2(reading, 0)
    os.close(reading)
    try:
        yield
    finally:
        os.dup2(usual, 0)
        os.close(usual)
        os.waitpid(child, 0)


def as_lines(documents):
    return "".join(json.dumps(document) + "\n" for document in documents).encode()


def as_parquet(documents):
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(documents), out)
    return out.getvalue()


def as_warc(documents):
    return b"".join(page(n, b"<p>" + d["text"].encode()) for n, d in enumerate(documents))


FORMS = {
    "stdin.jsonl": as_lines,
    "stdin.jsonl.gz": lambda documents: gzip.compress(as_lines(documents)),
    "stdin.jsonl.zst": lambda documents: zstandard.compress(as_lines(documents)),
    "stdin.parquet": as_parquet,
    "stdin.warc": as_warc,
    "stdin.warc.gz": lambda documents: gzip.compress(as_warc(documents)),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    yield tmp_path
    assert list((tmp_path / "tmp").iterdir()) == []


@by_turns(("name",), FORMS)
def test_dedup_reads_it_as_a_file(folder, capfd, runner, name):
    content = FORMS[name]([each for each in made_up_documents(1) if each["text"]])
    (folder / name).write_bytes(content)
    assert main(["dedup", name, "-o", "of-file", "-r", runner]) == 0
    with standard_input(content):
        assert main(["dedup", "-", "-o", "out", "-r", runner]) == 0
    files = [files_of(folder / each) for each in ("of-file", "out")]
    for each in files:
        # says what was named
        del each["report.html"]
    assert files[0] == files[1]
    assert f"documents/{name}" in files[1]
    # and is a result for others
    assert main(["dedup", name, "-o", "later", "--against", "out"]) == 0
    assert "dropped 51 (100.0 %)" in capfd.readouterr().err


@BOTH
def test_pairs_read_it_as_a_file(folder, capfd, runner):
    content = as_lines(made_up_documents(1))
    (folder / "stdin.jsonl").write_bytes(content)
    assert main(["pairs", "stdin.jsonl", "--method", "minhash", "-r", runner]) == 0
    expected = capfd.readouterr().out
    with standard_input(content):
        assert main(["pairs", "-", "--method", "minhash", "-r", runner]) == 0
    assert capfd.readouterr().out == expected != ""


def test_it_comes_with_files_and_in_a_format(folder, capfd):
    (folder / "a.txt").write_text("a text of its own")
    with standard_input(b"a text of its own"):
        assert main(["dedup", "a.txt", "-", "--format", "text", "-o", "out"]) == 0
    rows = pq.read_table("out/decisions").to_pylist()
    assert [(row["id"], row["file"], row["kept_file"]) for row in rows] == [
        ("a.txt", "a.txt", "a.txt"), ("stdin.txt", "stdin.txt", "a.txt"),
    ]  # fmt: skip


def test_it_has_another_name_than_each_file(folder, capfd):
    for name in ("stdin.jsonl", "stdin-2.jsonl"):
        (folder / name).write_bytes(as_lines([{"id": name, "text": f"the text of {name}"}]))
    with standard_input(as_lines([{"id": "-", "text": "a text of its own"}])):
        assert main(["dedup", "stdin.jsonl", "-", "stdin-2.jsonl", "-o", "out"]) == 0
    rows = pq.read_table("out/decisions").to_pylist()
    assert [(row["file"], row["id"]) for row in rows] == [
        ("stdin.jsonl", "stdin.jsonl"), ("stdin-3.jsonl", "-"), ("stdin-2.jsonl", "stdin-2.jsonl"),
    ]  # fmt: skip
    names = sorted(path.name for path in (folder / "out" / "documents").iterdir())
    assert names == ["stdin-2.jsonl", "stdin-3.jsonl", "stdin.jsonl"]


@pytest.mark.parametrize("first", range(0x50, 0x60))
def test_zstd_data_may_begin_with_a_frame_that_is_skipped(folder, capfd, first):
    lines = as_lines([{"id": str(n), "text": f"text {n}"} for n in range(5)])
    frame = bytes([first]) + b"\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"skipped"
    with standard_input(frame + zstandard.compress(lines)):
        assert main(["pairs", "-", "--method", "exact"]) == 0
    assert "documents: 5, rejected: 0" in capfd.readouterr().err


@pytest.mark.parametrize("command", [["dedup", "-", "-o", "out"], ["pairs", "-", "--method=exact"]])
def test_what_cannot_be_read_is_not_blamed_on_the_copy(folder, capfd, command):
    usual, number = os.dup(0), os.open(folder, os.O_RDONLY)
    os.dup2(number, 0)
    try:
        assert main(command) == 2
    finally:
        os.dup2(usual, 0)
        os.close(usual)
        os.close(number)
    said = "mr-dedup: error: standard input: cannot be read: Is a directory\n"
    assert capfd.readouterr().err.endswith(said)


def test_a_copy_that_cannot_be_written(folder):
    with standard_input(b"x" * 10), pytest.raises(MrDedupError, match=r"copied to .*No such file"):
        spool_standard_input(folder / "none")


def test_fingerprints_do_not_come_by_it(folder, capfd, corpus):
    for words in (["-"], [*corpus.split(1), "--with", "-"]):
        assert main(["pairs", *words]) == 2
        said = "error: -: only documents are read from standard input; give --method"
        assert said in capfd.readouterr().err


def test_nothing_and_what_is_none(folder, capfd):
    with standard_input(b""):
        assert main(["dedup", "-", "-o", "empty"]) == 0
    capfd.readouterr()
    for content, said in (
        (b"no JSON\n", "no document was read: stdin.jsonl, line 1 (byte 0): is not JSON"),
        (b"\x1f\x8bno gzip", "no document was read: stdin.jsonl.gz"),
        (b"PAR1", "no document was read: stdin.parquet: the Parquet data is damaged"),
    ):
        with standard_input(content):
            assert main(["dedup", "-", "-o", "out"]) == 2
        assert said in capfd.readouterr().err
        assert not (folder / "out").exists()
    for words in (["-", "-", "-o", "out"], ["-", "-o", "out", "--dry-run"]):
        assert main(["dedup", *words]) == 2
        assert "standard input" in capfd.readouterr().err


def test_it_is_given_again_to_resume(folder, capfd, monkeypatch):
    content = as_lines(made_up_documents(1))

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, standard_input(content):
        patch.setattr(dedup_stages, "resolve", interrupted)
        assert main(["dedup", "-", "-o", "out"]) == 130
    with standard_input(content + b"\n"):
        assert main(["dedup", "-", "-o", "out", "--resume"]) == 2
    assert "--resume: standard input was " in capfd.readouterr().err
    with standard_input(content):
        assert main(["dedup", "-", "-o", "out", "--resume"]) == 0
    assert (folder / "out" / "summary.json").exists()
