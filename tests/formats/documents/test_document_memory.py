"""Memory stays bounded whatever the files hold; each measured in a process of its own."""

import gzip
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.formats.documents.reading import bomb
from tests.formats.documents.test_document_warc import page

MEASURE = """
import json, sys
from mr_dedup.formats.documents import html_text, jsonl, parquet, warc
from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.formats.documents.json_strings import texts_of
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import Rejects

def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) >> 10

texts_of([])  # loads the kernel
before, rejects, count = peak(), Rejects(), 0
options = ReadOptions(max_record_bytes=int(sys.argv[2]), batch_bytes=4 << 20)
for batch in read_documents([DocumentFile.detect(sys.argv[1])], rejects, options):
    count += len(batch)
print(json.dumps([count, rejects.count, peak() - before]))
"""


def measured(path, max_record_bytes=8 << 20):
    """Return documents, rejects and the megabytes of reading, without imports and kernels."""
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), str(max_record_bytes)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    return json.loads(run.stdout)


GOOD = b'{"id": "a", "text": "good"}\n'


def test_a_line_of_a_gigabyte(tmp_path):
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(GOOD)
        file.seek(1 << 30, 1)
        file.write(b"\n" + GOOD)
    documents, rejects, megabytes = measured(path)
    assert (documents, rejects) == (2, 1)
    assert megabytes < 100


@pytest.mark.parametrize("ending", ["jsonl", "txt", "html", "warc"])
def test_a_gzip_bomb(tmp_path, ending):
    path = tmp_path / f"a.{ending}.gz"
    head, tail = (GOOD, b"\n" + GOOD) if ending == "jsonl" else (b"", b"")
    if ending == "warc":
        http = len(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        head = page(1) + page(2, b"", length=(1 << 30) + http).removesuffix(b"\r\n\r\n")
        tail = b"\r\n\r\n" + page(3)
    path.write_bytes(gzip.compress(head) + bomb(1 << 30) + gzip.compress(tail))
    documents, rejects, megabytes = measured(path)
    assert rejects == 1
    assert documents == (2 if ending in ("jsonl", "warc") else 0)
    assert megabytes < 100


def test_a_zstd_bomb(tmp_path):
    path = tmp_path / "a.jsonl.zst"
    frame = zstandard.compress(bytes(64 << 20))
    path.write_bytes(zstandard.compress(GOOD) + frame * 16 + zstandard.compress(b"\n" + GOOD))
    documents, rejects, megabytes = measured(path)
    assert (documents, rejects) == (2, 1)
    assert megabytes < 200


def test_a_bomb_in_a_content_coding(tmp_path):
    path = tmp_path / "a.warc"
    body = gzip.compress(bytes(400 << 20), 1)
    path.write_bytes(page(1) + page(2, body, headers=b"Content-Encoding: gzip\r\n") + page(3))
    documents, rejects, megabytes = measured(path)
    assert (documents, rejects) == (2, 1)
    assert megabytes < 100


def test_a_text_that_parquet_stores_once(tmp_path):
    path = tmp_path / "a.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 400, pa.int32()), ["x" * 5_000_000])
    table = pa.table({"id": [str(n) for n in range(400)], "text": texts})
    pq.write_table(table, path, dictionary_pagesize_limit=100_000_000, store_schema=False)
    documents, rejects, megabytes = measured(path)
    assert (documents, rejects) == (400, 0)
    assert megabytes < 200


def test_much_of_everything(tmp_path):
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        for number in range(100):
            file.write(b"".join(b'{"id": "%d", "text": ""}\n' % n for n in range(3000)))
            file.write(b"bad\n" * 1000)
            file.write(b'{"id": "%d", "text": "%s"}\n' % (number, b"x" * 300_000))
    documents, rejects, megabytes = measured(path)
    assert (documents, rejects) == (100 * 3001, 100_000)
    assert megabytes < 120
