"""Documents in WARC files: which records, what they say, and what damage does."""

import gzip
import io
import zlib

import brotli
import pytest
import zstandard
from fastwarc.stream_io import GzipWriter
from fastwarc.warc import WarcRecord, WarcRecordType

from mr_dedup.errors import FormatError
from mr_dedup.formats.documents.files import DocumentFile, DocumentPart
from tests.formats.documents.reading import cut_everywhere, read, small_blocks

HTTP = b"application/http; msgtype=response"


def record(number, block, kind=b"response", type=HTTP, length=None, more=b""):
    return (
        b"WARC/1.0\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:uuid:%d>\r\n"
        b"WARC-Target-URI: http://host/%d\r\nWARC-Date: 2024-01-01T00:00:00Z\r\n%s"
        b"Content-Type: %s\r\nContent-Length: %d\r\n\r\n"
        % (kind, number, number, more, type, len(block) if length is None else length)
    ) + block + b"\r\n\r\n"  # fmt: skip


def page(number, body=None, type=b"text/html", status=b"200 OK", headers=b"", **more):
    body = b"<p>page %d" % number if body is None else body
    head = b"HTTP/1.1 %s\r\n%s%s\r\n" % (
        status,
        b"Content-Type: %s\r\n" % type * bool(type),
        headers,
    )
    return record(number, head + body, **more)


def write(tmp_path, *records, name="a.warc"):
    path = tmp_path / name
    path.write_bytes(b"".join(records))
    return path


def test_pages_resources_and_conversions_are_documents(tmp_path):
    records = [
        record(0, b"software: x\r\n", kind=b"warcinfo", type=b"application/warc-fields"),
        record(1, b"GET / HTTP/1.1\r\n\r\n", kind=b"request", type=b"application/http"),
        page(2),
        page(3, "gar\xe7on".encode("latin1"), type=b"text/plain; charset=ISO-8859-1"),
        record(4, b"<p>resource", kind=b"resource", type=b"text/html"),
        record(5, "文本".encode(), kind=b"conversion", type=b"text/plain"),
        page(6, b"\x89PNG", type=b"image/png"),
        page(7, status=b"404 Not Found"),
        page(8, status=b"301 Moved"),
        page(9, b"", kind=b"revisit"),
        page(10, b"<html><body>untyped", type=b""),
        record(11, b"example.org 1.2.3.4", type=b"text/dns"),
        page(12, b"<p>last", status=b"206 Partial"),
    ]
    path = write(tmp_path, *records)
    reading = read(path)
    starts = [sum(map(len, records[:n])) for n in range(len(records))]
    expected = {2: "page 2", 3: "garçon", 4: "resource", 5: "文本", 10: "untyped", 12: "last"}
    assert reading.documents == [(f"urn:uuid:{n}", text, starts[n]) for n, text in expected.items()]
    assert reading.rejects.count == 0
    assert reading.rejects.passed_over == {
        "another record type": 3,
        "HTTP status": 2,
        "media type": 2,
    }


def test_ids_fields_and_records(tmp_path):
    path = write(tmp_path, page(1), page(2))
    reading = read(path, id_names=["url"], fields=["id", "WARC-Date", "none"], keep_records=True)
    assert reading.ids == ["http://host/1", "http://host/2"]
    date = "2024-01-01T00:00:00Z"
    assert reading.fields[0] == {"id": "urn:uuid:1", "WARC-Date": date, "none": None}
    assert reading.records == [page(1), page(2)]
    assert read(path, id_names=["warc-date"]).ids == [date, date]
    assert read(DocumentFile(path, "x", "warc"), id_names=[]).ids == ["x:0", f"x:{len(page(1))}"]


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        (b"gzip", gzip.compress),
        (b"deflate", zlib.compress),
        (b"br", brotli.compress),
        (b"zstd", zstandard.compress),
    ],
)
def test_content_and_transfer_codings(tmp_path, coding, pack):
    body = pack(b"<p>packed page")
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    path = write(
        tmp_path,
        page(1, body, headers=b"Content-Encoding: %s\r\n" % coding),
        page(
            2, chunked, headers=b"Content-Encoding: %s\r\nTransfer-Encoding: chunked\r\n" % coding
        ),
    )
    assert read(path).texts == ["packed page"] * 2


@pytest.mark.parametrize(
    "bad",
    [
        page(9, b"\x1f\x8bgarbage", headers=b"Content-Encoding: gzip\r\n"),
        page(9, bytes(range(256)), headers=b"Content-Encoding: rot13\r\n"),
        page(9, headers=b"X: " + b"x" * 100_000 + b"\r\n"),
        page(9, status=b"OK"),
        record(9, b"no HTTP at all"),
        record(9, b""),
        page(9, b"<p>" * 600_000),
        page(9, gzip.compress(b"x" * 2_000_000), headers=b"Content-Encoding: gzip\r\n"),
        page(9, b"x" * 1_000_000),
    ],
    ids=range(9),
)
def test_a_bad_page_is_rejected_and_the_others_are_kept(tmp_path, bad):
    path = write(tmp_path, page(1), bad, page(2))
    limit = 2_000_000 if b"<p><p>" in bad else 1_000_000
    reading = read(path, max_record_bytes=limit)
    assert reading.texts == ["page 1", "page 2"]
    (reject,) = reading.rejects.listed
    assert reject.place == f"byte {len(page(1))}"
    with pytest.raises(FormatError, match="byte"):
        read(path, strict=True, max_record_bytes=limit)


@pytest.mark.parametrize(
    "bad",
    [
        b"garbage\r\nmore garbage\r\n\r\n",
        b"WARC/1.0\r\nno length: 3\r\n\r\nabc\r\n\r\n",
        page(9, length=3),
        page(9, length=len(page(2)) + 100),
        page(9, length=10**9),
        page(9, length=10**17),
        page(9).replace(b"Content-Length: ", b"Content-Length: -"),
        page(9, length=10**30),
        page(9, more=b"X: " + b"x" * 100_000 + b"\r\n"),
        page(9)[:-20].replace(b"Content-Length", b"Length"),
    ],
    ids=range(10),
)
@pytest.mark.parametrize("ending", ["warc", "warc.gz", "warc.zst"])
def test_after_damage_reading_goes_on_with_the_next_record(tmp_path, bad, ending):
    data = page(1) + bad + b"\r\n\r\n" + page(2) + page(3)
    pack = {"warc": bytes, "warc.gz": gzip.compress, "warc.zst": zstandard.compress}[ending]
    path = write(tmp_path, pack(data), name=f"a.{ending}")
    reading = read(path)
    if bad in (page(9, length=10**9), page(9, length=10**17)) and ending != "warc":
        # too long to be held, and what was passed over cannot be read again
        assert reading.texts == ["page 1"]
    else:
        assert reading.texts == ["page 1", "page 2", "page 3"]
    (reject,) = reading.rejects.listed
    unit = "byte" if ending == "warc" else "decompressed byte"
    assert reject.place == f"{unit} {len(page(1))}"


@pytest.mark.parametrize("ending", ["warc", "warc.gz", "warc.zst"])
def test_a_file_cut_short_keeps_the_records_before(tmp_path, ending):
    pack = {"warc": bytes, "warc.gz": gzip.compress, "warc.zst": zstandard.compress}[ending]
    records = [pack(page(number)) for number in range(3)]
    last = len(records[2])
    for left in [*range(1, last - 4, 5), last - 5]:
        path = write(tmp_path, *records[:2], records[2][:left], name=f"a.{ending}")
        reading = read(path)
        assert reading.texts[:2] == ["page 0", "page 1"], left
        # the last bytes of compressed data are its checksum: all of the record may be there
        assert reading.texts[2:] in ([], ["page 2"] * (ending != "warc" and left > last - 24)), left
        assert reading.rejects.count == 1, left


def test_a_record_within_a_record_is_not_one(tmp_path):
    inner = page(7, b"<p>inner")
    path = write(tmp_path, page(1, b"<p>outer\r\n\r\n" + inner), page(2))
    assert read(path).ids == ["urn:uuid:1", "urn:uuid:2"]
    for cut, reading in cut_everywhere(path):
        assert reading.ids == ["urn:uuid:1", "urn:uuid:2"], cut


def test_every_cut_gives_the_same_documents(tmp_path, monkeypatch):
    path = write(
        tmp_path,
        page(1),
        b"\r\n\r\n",
        page(8, length=2_000),
        page(2, status=b"404 No"),
        b"garbage\r\n\r\n",
        page(3),
        page(9, b"x" * 900),
        page(4)[:-9],
    )
    for size in (16, 1 << 13):
        with small_blocks(monkeypatch, size):
            whole = read(path, max_record_bytes=1 << 26)
            assert [text for text in whole.texts if len(text) < 100] == ["page 1", "page 3"]
            for cut, reading in cut_everywhere(path):
                assert reading.documents == whole.documents, cut
                assert reading.reasons == whole.reasons, cut
                assert reading.rejects.passed_over == whole.rejects.passed_over, cut


def test_many_parts_of_a_larger_file(tmp_path):
    path = write(
        tmp_path, *(page(n, b"<p>page %d " % n + b"x" * (n * 37 % 5000)) for n in range(400))
    )
    parts = DocumentFile.detect(path).parts(10_000)
    assert len(parts) > 20
    assert read(*parts).documents == read(path).documents


def test_files_that_fastwarc_wrote(tmp_path):
    path = tmp_path / "a.warc.gz"
    with path.open("wb") as file, GzipWriter(file) as packer:
        for number in range(50):
            written = WarcRecord()
            written.init_headers(WarcRecordType.resource, b"urn:uuid:%d" % number)
            written.headers["Content-Type"] = "text/html"
            written.set_bytes_content(b"<p>page %d" % number)
            written.write(packer)
    assert read(path).texts == [f"page {n}" for n in range(50)]


def test_what_is_no_warc_at_all(tmp_path):
    path = write(tmp_path, b"hello\n" * 50_000)
    assert read(path).reasons == [("byte 0", "is not a WARC record, or its header is damaged")]
    assert read(write(tmp_path, b"")).rejects.count == 0
    assert read(write(tmp_path, b"\r\n" * 100)).rejects.count == 0
    with pytest.raises(FormatError, match=r"a\.warc, byte 0"):
        read(write(tmp_path, io.DEFAULT_BUFFER_SIZE * b"x"), strict=True)


def test_only_whole_compressed_files(tmp_path):
    path = write(tmp_path, gzip.compress(page(1)), name="a.warc.gz")
    with pytest.raises(ValueError, match="can only be read as a whole"):
        DocumentPart(DocumentFile.detect(path), 0, 5)
