"""What a task counts of the documents it reads."""

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from mr_dedup.formats.documents.html_text import text_of_html
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.contract import Counters, TaskInput
from mr_dedup.jobs.reading import DocumentReading, reading_summary


def test_bytes_of_texts_are_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "text": "abc"}\n{"id": "2", "text": "é"}\n')
    counters = Counters()
    with DocumentReading(TaskInput(path, "a.jsonl", 0), None, ReadOptions(), counters) as reading:
        assert sum(map(len, reading.batches())) == 2
    assert (counters["documents_read"], counters["text_bytes"]) == (2, 5)


PAGE = "<nav><a href=/>menu</a></nav><p>some words of an article"


def counted(tmp_path, name, content, **options):
    """Return the counters of reading a file."""
    path = tmp_path / name
    path.write_bytes(content)
    counters = Counters()
    part = TaskInput(path, name, 0)
    with DocumentReading(part, None, ReadOptions(**options), counters) as reading:
        assert sum(map(len, reading.batches())) > 0
    return counters


def of_pages(counters):
    return {
        name: value for name, value in reading_summary(counters).items() if name.startswith("html")
    }


def test_what_is_cut_of_pages_is_counted_in_each_format(tmp_path):
    main, whole = (text_of_html(PAGE, extent).text for extent in ("main", "page"))
    share = 1 - len(main) / len(whole)
    assert 0 < share < 1
    pq.write_table(pa.table({"text": ["a", None], "html": [None, PAGE]}), tmp_path / "p")
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGE.encode()
    header = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http\r\n"
    warc = header + b"Content-Length: %d\r\n\r\n%s\r\n\r\n" % (len(block), block)
    for name, content in {
        "a.html": PAGE.encode(),
        "a.jsonl": msgspec.json.encode({"html": PAGE}) + b'\n{"text": "a"}\n',
        "a.parquet": (tmp_path / "p").read_bytes(),
        "a.warc": warc,
    }.items():
        counters = counted(tmp_path, name, content)
        assert of_pages(counters) == {"html_pages": 1, "html_cut_share": round(share, 3)}
        counters = counted(tmp_path, name, content, html="page")
        assert of_pages(counters) == {"html_pages": 1, "html_cut_share": 0}
    assert of_pages(counted(tmp_path, "b.jsonl", b'{"text": "a"}\n')) == {}
