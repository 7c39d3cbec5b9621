"""Rejects and options: the count, the list, the file; what cannot be asked for."""

import io
import json

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import (
    ReadCounts,
    Reject,
    Rejects,
    Report,
    rejects_file,
)
from tests.formats.documents.reading import read
from tests.formats.documents.test_document_warc import page


def test_all_are_counted_and_the_first_listed():
    rejects = Rejects()
    for number in range(2500):
        rejects.add(Reject("a", f"byte {number}", "reason"))
    assert rejects.count == 2500
    assert rejects.listed == [Reject("a", f"byte {number}", "reason") for number in range(1000)]


def test_the_file_appears_whole_with_a_line_a_reject(tmp_path):
    docs = tmp_path / "a.jsonl"
    docs.write_bytes(b'bad\n{"id": "a", "text": "b"}\n' * 2000)
    path = tmp_path / "rejects.jsonl"
    with rejects_file(path) as rejects:
        assert sum(map(len, read_documents([DocumentFile(docs, "ü", "jsonl")], rejects))) == 2000
        assert not path.exists()
    lines = path.read_bytes().splitlines()
    assert len(lines) == rejects.count == 2000
    reason = "is not JSON: JSON is malformed: invalid character (byte 0)"
    assert json.loads(lines[1]) == {"file": "ü", "position": "line 3 (byte 29)", "reason": reason}
    with pytest.raises(MrDedupError, match="exists"), rejects_file(path):
        pass


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("is cut short", "is cut short"),
        ("two\nlines\r\n and\ttabs", "two lines and tabs"),
        ("quotes '\x1b[31mred\x00' and \u202e", r"quotes '\x1b[31mred\x00' and \u202e"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 197 + "..."),
        ("<p>" * 1_000_000, "<p>" * 65 + "<p" + "..."),
        ("\x00" * 199, (r"\x00" * 50)[:197] + "..."),
    ],
)
def test_reasons_are_one_short_line(given, reason):
    rejects = Rejects()
    Report("a", "byte", rejects, strict=False).reject(7, given)
    Report("a", "byte", rejects, strict=False).damage(FormatError("a", "byte 7", given))
    one = Reject("a", "byte 7", reason)
    assert rejects.listed == [one, msgspec.structs.replace(one, rest_of_file=True)]
    strict = Report("a", "byte", rejects, strict=True)
    damage = FormatError("a", "b", given)
    for stop in (lambda: strict.reject(7, given), lambda: strict.damage(damage)):
        with pytest.raises(FormatError) as error:
            stop()
        assert error.value.reason == reason


def test_no_reason_has_what_could_not_be_read_in_it(tmp_path):
    words = "secret words of a page " * 100
    files = {
        "a.jsonl": f'{{"text": 5, "id": "{words}"}}\n{words}\n["{words}"]\n{{"text": "{words}',
        "b.html": "<p>" * 600_000 + words,
        "c.txt": b"\xff" + words.encode(),
        "d.warc": page(1, words.encode(), status=b"OK")
        + page(2, b"\x1f\x8b" + words.encode())
        + page(3, words.encode(), headers=b"X: " + words.encode() * 20 + b"\r\n")
        + page(4, words.encode(), length=7),
        "e.warc": words,
        "f.parquet": words,
        "g.jsonl.gz": words,
        "h.jsonl.zst": words,
    }
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        reading = read(path, encoding="utf-8")
        assert reading.rejects.count >= 1, name
        for reject in reading.rejects.listed:
            assert "secret" not in reject.reason, name
            assert len(reject.reason) <= 200


def test_counts_are_the_same_from_lines():
    rejects = Rejects(io.BytesIO())
    report = Report("ä", "row", rejects, strict=False)
    report.reject(1, "one")
    report.reject_rows(2, "many", 1000)
    report.reject(3, "all", rest_of_file=True)
    report.damage(FormatError("b", None, "all"), 500)
    report.damage(FormatError("c", "byte 1", "a page"), rest_of_file=False)
    counts = ReadCounts()
    counts.add_lines(msgspec.json.Encoder().encode_lines(rejects.listed[:2]))
    counts.add_lines(msgspec.json.Encoder().encode_lines(rejects.listed[2:]))
    assert counts == rejects.counts
    assert (counts.rejects, counts.rejected, counts.incomplete_files) == (5, 1503, 2)
    assert json.loads(msgspec.json.encode(rejects.listed[1])) == {
        "file": "ä", "position": "row 2", "reason": "many", "records": 1000,
    }  # fmt: skip
    assert json.loads(msgspec.json.encode(rejects.listed[2])) == {
        "file": "ä", "position": "row 3", "reason": "all", "rest_of_file": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"id_names": "id"}, "id_names"),
        ({"id_names": ["id", "id"]}, "id_names"),
        ({"id_names": ["text"]}, "id_names, text_name, html_name"),
        ({"text_name": "html"}, "id_names, text_name, html_name"),
        ({"text_name": ""}, "id_names, text_name, html_name"),
        ({"fields": ["a", "a"]}, "fields"),
        ({"fields": ['a"']}, "fields"),
        ({"fields": ["a\n"]}, "fields"),
        ({"fields": [1]}, "fields"),
        ({"html": "all"}, "html"),
        ({"max_record_bytes": 0}, "max_record_bytes"),
        ({"batch_bytes": 2**31}, "batch_bytes"),
    ],
)
def test_options_that_cannot_be(options, parameter):
    with pytest.raises(ValueError, match=f"^{parameter}: expected"):
        ReadOptions(**options)


def test_a_batch_has_columns_of_one_length_that_may_be_slices():
    texts = pa.array(["a", "bü", "def"], pa.large_string())
    files = pa.array(["f", "f", "f"]).dictionary_encode()
    batch = DocumentBatch(texts[1:], texts[1:], files[1:], np.arange(2))
    assert batch.text_lengths.tolist() == [3, 3]
    empty = DocumentBatch(texts[:0], texts[:0], files[:0], np.arange(0))
    assert empty.text_lengths.tolist() == []
    with pytest.raises(ValueError, match="columns: expected one length"):
        DocumentBatch(texts, texts[1:], files, np.arange(3))
