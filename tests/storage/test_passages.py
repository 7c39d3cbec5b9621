"""Passages of documents in stores: the result is written there, and restored from there."""

import pytest

from mr_dedup.cli.main import main
from mr_dedup.formats.documents import chunks
from mr_dedup.formats.parts import read_parts
from mr_dedup.pipeline import passages as pipeline
from mr_dedup.storage.listing import files_below
from tests.cli.documents import write_jsonl
from tests.cli.test_passages import made_up
from tests.storage.test_dedup import downloaded

WORDS = ["--unit", "tokens:8", "--cut", "all"]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16_000)
    monkeypatch.setattr(chunks, "_MIN_BYTES", 16_000)


def test_a_result_in_a_store(writable, tasks, tmp_path, capfd, monkeypatch):
    documents = write_jsonl(tmp_path / "pages.jsonl", made_up(1))
    writable.write("pages/pages.jsonl", documents.read_bytes())
    pages, out = writable.of("pages"), writable.of("found")
    assert main(["passages", pages, "-o", str(tmp_path / "here"), *WORDS]) == 0

    def ended(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "_keep", ended)
        assert main(["passages", pages, "-o", out, *WORDS]) == 130
    capfd.readouterr()
    assert main(["passages", pages, "-o", out, *WORDS, "--resume"]) == 0, capfd.readouterr().err
    assert not files_below(writable.of(".found.unfinished"))
    found = downloaded(out, tmp_path / "there")
    for name in ("passages", "occurrences", "cuts"):
        one, other = (read_parts(tmp_path / where / name) for where in ("here", "there"))
        assert other.equals(one)
    assert (found / "summary.json").read_bytes() == (
        tmp_path / "here" / "summary.json"
    ).read_bytes()
    assert main(["restore", out, "-o", str(tmp_path / "again")]) == 0, capfd.readouterr().err
    lines = b"".join(path.read_bytes() for path in sorted((tmp_path / "again").rglob("*.jsonl")))
    assert lines == documents.read_bytes()
