"""Small inputs of every kind, the same for every version: pages as of data-gen, and odd ones."""

from __future__ import annotations

import gzip
import io
import json
import shutil
from pathlib import Path

import pyarrow.json as pa_json
import pyarrow.parquet as pq
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from data_gen.__main__ import main as generate

_PAGES = "--duplicates-per-document 3 --near-misses 1 --documents"
_MADE = {
    "docs": f"documents {_PAGES} 120",
    "with-html": f"documents {_PAGES} 60 --html 1",
    "mixed": f"documents {_PAGES} 60 --language mixed",
    "html": f"documents {_PAGES} 60 --format html",
    "longs": "fingerprints --queries 200 --corpus 4000 --duplicates-per-query 2 -k 3",
    "urls": "urls --pages 500 --visits 3000",
}

_ODD = [
    {"id": 7, "text": ""},
    {"id": 8, "text": None},
    {"id": "a b\tc", "text": "-----"},
    {"id": "e", "text": "😀"},
    {"id": "e", "text": "😀"},
    {"id": None, "text": "one two three"},
    {"text": "One, two; THREE!", "url": "http://a.example/x"},
    {"id": 2**60, "text": "C++ or C#"},
    {"id": 1.5, "text": "نص عربي قصير", "nested": {"a": [1, None]}},
    {"id": "z", "text": "x" * 9000},
]

_FAULTY = [
    b'{"id": 1, "text": "whole"}\n',
    b'{"id": 2, "text": \n',
    b"\xff\xfe\n",
    b"[]\n",
    b'{"id": 3}\n',
    b'{"id": 4, "text": "end',
]


def make_inputs(made: Path) -> None:
    """Write the inputs to the directory ``inputs`` in ``made``, with what they are made from."""
    folder = made / "inputs"
    folder.mkdir()
    for name, words in _MADE.items():
        generate([*words.split(), "--seed", "5", "--out", str(made / name), "-q"])
    for name in ("with-html", "mixed"):
        shutil.copy(made / name / "documents-00000.jsonl", folder / f"{name}.jsonl")
    shutil.copytree(made / "html", folder / "html", ignore=shutil.ignore_patterns("*.jsonl"))
    for name in ("docs/truth.tsv", "longs/queries.longs"):
        shutil.copy(made / name, folder)
    shutil.copy(made / "longs/corpus-00000.longs", folder / "corpus.longs")
    shutil.copy(made / "urls/visits-00000.txt", folder / "visits.txt")
    lines = (made / "docs/documents-00000.jsonl").read_bytes().splitlines(keepends=True)
    first = b"".join(lines[:400])
    (folder / "docs.jsonl").write_bytes(first)
    (folder / "docs.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[400:]), mtime=0))
    (folder / "new.jsonl").write_bytes(b"".join(lines[300:]))
    pq.write_table(pa_json.read_json(io.BytesIO(first)), folder / "docs.parquet", row_group_size=64)
    (folder / "odd.jsonl").write_text("".join(json.dumps(line) + "\n" for line in _ODD))
    (folder / "faulty.jsonl").write_bytes(b"".join(_FAULTY))
    texts = [json.loads(line)["text"].split() for line in lines[:200:20]]
    items = [
        {"id": f"q{n}", "question": " ".join(words[20:38]) + "?", "answer": " ".join(words[40:44])}
        for n, words in enumerate(texts)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    _write_warc(folder / "pages.warc.gz", folder / "with-html.jsonl")


def _write_warc(path: Path, pages: Path) -> None:
    """Write pages as responses of a crawl."""
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for number, line in enumerate(pages.read_bytes().splitlines()):
            page = json.loads(line)
            record = writer.create_warc_record(
                page["url"],
                "response",
                payload=io.BytesIO(page["html"].encode()),
                http_headers=StatusAndHeaders(
                    "200 OK", [("Content-Type", "text/html; charset=utf-8")], "HTTP/1.1"
                ),
                warc_headers_dict={
                    "WARC-Date": "2026-01-02T03:04:05Z",
                    "WARC-Record-ID": f"<urn:uuid:00000000-0000-0000-0000-{number:012}>",
                },
            )
            writer.write_record(record)
