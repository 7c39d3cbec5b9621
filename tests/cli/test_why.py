"""mr-dedup why: the sentences of decisions, and documents that there are not."""

import json
from itertools import groupby

import pytest

import mr_dedup
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.running import Command

why = Command("why")


@pytest.fixture
def result(tmp_path):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(1))
    return mr_dedup.dedup(path, tmp_path / "out")


def test_sentences_are_those_of_the_library(result, capfd):
    ids = result.decisions["id"].to_pylist()[:5]
    out, err = why.done(capfd, result.folder, *ids)
    assert err == ""
    lines = set(out.splitlines())
    for id in ids:
        decision = result.why(id)
        assert len(lines & {str(decision), decision.located()}) == 1


def test_ids_are_in_the_order_given(result, capfd):
    first, second = result.decisions["id"].to_pylist()[:2]
    out, _ = why.done(capfd, result.folder, second, first, second)
    found = [line.partition(":")[0].partition(" (")[0] for line in out.splitlines()]
    assert [id for id, _ in groupby(found)] == [second, first, second]


def test_what_there_is_not_is_one_line(result, tmp_path, capfd):
    known = result.decisions["id"][0].as_py()
    message = why.mistake(capfd, result.folder, known, "unknown")
    assert message == f"mr-dedup: error: {result.folder}: has no document unknown\n"
    assert "no such" in why.mistake(capfd, tmp_path / "nothing", known)
    (tmp_path / "empty").mkdir()
    assert str(tmp_path / "empty") in why.mistake(capfd, tmp_path / "empty", known)


def test_a_line_stays_one_line(tmp_path, capfd):
    path = tmp_path / "docs.jsonl"
    path.write_text(json.dumps({"id": "a\nb", "text": "one"}) + "\n")
    mr_dedup.dedup(path, tmp_path / "out")
    out, _ = why.done(capfd, tmp_path / "out", "a\nb")
    assert out == "a\\nb: kept, no other document is a candidate\n"


def test_each_document_with_an_id_is_explained(tmp_path, capfd):
    path = tmp_path / "pages.jsonl"
    ids = ["x", "x", "y", *["z"] * 150]
    path.write_text("".join(json.dumps({"id": id, "text": f"only {id}"}) + "\n" for id in ids))
    Command("dedup").done(capfd, path, "-o", tmp_path / "out")
    out, err = why.done(capfd, tmp_path / "out", "x", "y")
    second = path.read_bytes().index(b"\n") + 1
    assert out.splitlines() == [
        f"x ({path}, 0): kept, the first document of its cluster; 2 documents in its cluster",
        f"x ({path}, {second}): dropped, an exact duplicate of x; 2 documents in its cluster",
        "y: kept, no other document is a candidate",
    ]
    assert err == ""
    out, err = why.done(capfd, tmp_path / "out", "z")
    assert len(out.splitlines()) == 100
    assert "z: the first 100 documents with this id" in err
