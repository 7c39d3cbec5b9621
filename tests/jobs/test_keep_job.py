"""Kept documents by the places of their lines: as if the documents had been decoded again."""

import gzip
import json
import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.cli.main import main
from mr_dedup.formats import lines as lines_module
from mr_dedup.formats.documents import chunks
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.files import DocumentFile, DocumentPart
from mr_dedup.jobs import keep as module
from mr_dedup.jobs.keep import _divided


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
    found = [(part.file.name, places.tolist()) for part, places in _divided_in(parts, given)]
    assert found == [("one", [0, 9]), ("two", [0, 4]), ("two", [0]), ("three", [])]
    cut = [DocumentPart(one, 0, 10), DocumentPart(one, 10, 20), DocumentPart(one, 20, None)]
    given = documents((["one"] * 3, [0, 9, 20]), (["one"], [25]))
    found = [places.tolist() for _, places in _divided_in(cut, given)]
    assert found == [[0, 9], [], [20, 25]]
    assert [places.tolist() for _, places in _divided_in(cut, [])] == [[], [], []]


def _divided_in(parts, given):
    return list(_divided(DocumentChunk(0, tuple(parts)), given))


@pytest.mark.parametrize(("chunk_bytes", "same_print"), [(3000, True), (1 << 21, False)])
def test_what_is_kept_is_the_same_whether_lines_are_decoded_or_not(
    tmp_path, monkeypatch, chunk_bytes, same_print
):
    """Files with all that lines may be: blank, rejected, long, with a mark before or no end."""
    monkeypatch.setattr(chunks, "_MIN_BYTES", chunk_bytes)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 1)
    monkeypatch.setattr(lines_module, "_READ_BYTES", 1000)
    rng = random.Random(3)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(6):
        lines = []
        for n in range(150):
            words = " ".join(f"w{rng.randrange(60)}" for _ in range(rng.choice([3, 30, 300])))
            document = {"id": f"{number}-{n}", "text": words, "more": [number, n]}
            line = json.dumps(document).encode()
            lines += [line] * rng.choice([1, 1, 2])
            lines.append(rng.choice([b"", b"  ", b"no json", b'{"id": 1}', b"[]", b"\xff"]))
        rng.shuffle(lines)
        content = rng.choice([b"\n", b"\r\n"]).join(lines)
        content = (b"\xef\xbb\xbf" if number % 2 else b"") + content
        name = f"{number}.jsonl" + (".gz" if number == 3 else "")
        (folder / name).write_bytes(gzip.compress(content) if number == 3 else content)
    # two names that would be printed the same way
    line = json.dumps({"id": "last", "text": "of two names like one"}).encode()
    for name, content in (
        (os.fsdecode(b"a\xff.jsonl"), line),
        ("a\\xff.jsonl", b"\n" * 2000 + line.replace(b"two", b"2")),
    ):
        if same_print:
            (folder / name).write_bytes(content)
    used = []
    by_offsets = module.KeepJob._by_offsets
    monkeypatch.setattr(
        module.KeepJob, "_by_offsets",
        lambda job, *arguments: used.append(1) or by_offsets(job, *arguments),
    )  # fmt: skip
    outs = {}
    for runner in ("memory", "inline", "local"):
        out = tmp_path / runner
        words = ["dedup", str(folder), "-o", str(out), "-r", runner, "--max-rejected", "1"]
        assert main(words) == 0
        outs[runner] = {
            path.relative_to(out).as_posix(): path.read_bytes()
            for name in ("documents/*", "decisions/*", "report.html")
            for path in out.glob(name)
        }
    assert len(outs["memory"]) == 8 + 2 * same_print
    assert used
    assert outs["memory"] == outs["inline"] == outs["local"]
