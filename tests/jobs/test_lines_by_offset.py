"""Lines whose offsets are known: which ones each part of a chunk has, and their texts."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.files import DocumentFile, DocumentPart
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.lines_by_offset import parts_with_offsets, text_of_line


def documents(*runs):
    """The files and places of documents, a batch each run."""
    return [
        (pa.array(names, pa.string()).dictionary_encode(), np.array(places, np.int64))
        for names, places in runs
    ]


def test_documents_are_told_part_by_part():
    one, two, three = (DocumentFile(Path(n), n, "jsonl") for n in ("one", "two", "three"))
    parts = [one.whole(), two.whole(), two.whole(), three.whole()]
    given = documents((["one", "one", "two"], [0, 9, 0]), (["two", "two"], [4, 0]), ([], []))
    found = [(part.file.name, places.tolist()) for part, places in divided_in(parts, given)]
    assert found == [("one", [0, 9]), ("two", [0, 4]), ("two", [0]), ("three", [])]
    cut = [DocumentPart(one, 0, 10), DocumentPart(one, 10, 20), DocumentPart(one, 20, None)]
    given = documents((["one"] * 3, [0, 9, 20]), (["one"], [25]))
    found = [places.tolist() for _, places in divided_in(cut, given)]
    assert found == [[0, 9], [], [20, 25]]
    assert [places.tolist() for _, places in divided_in(cut, [])] == [[], [], []]


def divided_in(parts, given):
    return list(parts_with_offsets(DocumentChunk(0, tuple(parts)), given))


@pytest.mark.parametrize(
    ("line", "text"),
    [(json.dumps({"id": 1, "text": "one\ntwo ü"}), "one\ntwo ü"), ('{"id": 1}', None), ("[]", None),
     ("no JSON", None)],
)  # fmt: skip
def test_the_text_of_a_line(line, text):
    found = text_of_line(pa.scalar(line.encode(), pa.large_binary()), ReadOptions())
    assert (None if found is None else found.to_pylist()) == (None if text is None else [text])
