"""De-duplication by shards in stores: tasks write the result there, whole or not at all."""

import pytest

from mr_dedup.cli import dedup as command
from mr_dedup.cli.main import main
from mr_dedup.formats.documents import chunks
from mr_dedup.pipeline.sharded import stages
from mr_dedup.storage.listing import files_below
from mr_dedup.storage.uris import name_below
from mr_dedup.storage.writing import read_small
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.result_tables import tables_of


@pytest.fixture(autouse=True)
def sharded(monkeypatch):
    monkeypatch.setattr(command, "is_sharded", lambda runner: True)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 3000)
    monkeypatch.setattr(chunks, "_MIN_BYTES", 3000)


def downloaded(uri, folder):
    for file in files_below(uri):
        path = folder / name_below(file.uri, uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(read_small(file.uri))
    return folder


def test_a_result_in_a_store(writable, tmp_path, capfd, monkeypatch):
    documents = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(1, 150))
    writable.write("pages/pages.jsonl", documents.read_bytes())
    pages = writable.of("pages")
    assert main(["dedup", pages, "-o", str(tmp_path / "here")]) == 0

    def ended(*_):
        raise KeyboardInterrupt

    out = writable.of("kept")
    with monkeypatch.context() as patch:
        patch.setattr(stages, "resolve", ended)
        assert main(["dedup", pages, "-o", out]) == 130
    capfd.readouterr()
    # what the first stages left is used
    monkeypatch.setattr(stages, "fingerprint", ended)
    assert main(["dedup", pages, "-o", out, "--resume"]) == 0, capfd.readouterr().err
    found = downloaded(out, tmp_path / "there")
    assert tables_of(found) == tables_of(tmp_path / "here")
    assert not files_below(writable.of(".kept.unfinished"))
    # for later runs
    monkeypatch.undo()
    again = ["dedup", pages, "-o", str(tmp_path / "again"), "--against", out]
    assert main(again) == 0, capfd.readouterr().err
    assert not any((tmp_path / "again" / "documents").iterdir())
