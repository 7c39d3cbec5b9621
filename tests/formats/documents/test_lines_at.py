"""Lines of files by the places where they begin, against what Python cuts out."""

import gzip
import random

import numpy as np
import pytest

from mr_dedup.errors import FormatError
from mr_dedup.formats.documents.files import DocumentFile, DocumentPart
from mr_dedup.formats.documents.lines_at import lines_at

LIMIT = 1 << 24


def lines_of(part, places, limit=LIMIT):
    found = lines_at(part, np.array(places, np.int64), limit)
    return [line for lines in found for line in lines.to_pylist()]


def content_of(rng, count):
    """Lines of every size, also of more than a block, the last without an end."""
    sizes = [rng.choice([0, 1, 5, 300, 5000, 300_000]) for _ in range(count)]
    letters = bytes(b"abc\r\x00\xff"[byte % 6] for byte in range(256))
    lines = [rng.randbytes(size).translate(letters) + b"\n" for size in sizes]
    return [*lines, b"the end"]


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_lines_are_found_by_their_places(tmp_path, ending, share):
    rng = random.Random(share)
    lines = content_of(rng, 200)
    path = tmp_path / f"lines.jsonl{ending}"
    content = b"".join(lines)
    path.write_bytes(gzip.compress(content) if ending else content)
    part = DocumentFile.detect(path).whole()
    starts = np.cumsum([0, *map(len, lines[:-1])]).tolist()
    chosen = [n for n in range(len(lines)) if rng.random() < share]
    assert lines_of(part, [starts[n] for n in chosen]) == [
        lines[n] if lines[n].endswith(b"\n") else lines[n] + b"\n" for n in chosen
    ]
    if not ending:
        middle = len(content) // 2
        parts = [DocumentPart(part.file, 0, middle), DocumentPart(part.file, middle, None)]
        cut = [[starts[n] for n in chosen if starts[n] < middle]]
        cut.append([starts[n] for n in chosen if starts[n] >= middle])
        found = [line for each, places in zip(parts, cut, strict=True)
                 for line in lines_of(each, places)]  # fmt: skip
        assert found == [lines[n] if lines[n].endswith(b"\n") else lines[n] + b"\n" for n in chosen]


@pytest.mark.parametrize(("places", "at"), [([0, 3], 3), ([2], 2), ([0, 4, 100], 100)])
def test_a_place_where_no_line_begins_is_named(tmp_path, places, at):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"abc\nde\nf\n")
    with pytest.raises(FormatError, match=f"lines.jsonl, byte {at}: has other documents than"):
        lines_of(DocumentFile.detect(path).whole(), places)


def test_a_line_that_is_too_long_by_now_has_no_places(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"x" * 1_000_000 + b"\nend\n")
    whole = DocumentFile.detect(path).whole()
    for part in (whole, DocumentPart(whole.file, 100, None)):
        with pytest.raises(FormatError, match=r"lines.jsonl, byte 500: has other documents than"):
            lines_of(part, [500, 1_000_001], 2000)
    assert lines_of(whole, [1_000_001], 2000) == [b"end\n"]
