"""Documents in WARC files: which records, what they say, and what damage does."""

import gzip
import io
import os
import random
import threading
import zlib

import brotli
import pytest
import zstandard
from fastwarc.stream_io import GzipWriter
from fastwarc.warc import WarcRecord, WarcRecordType

from mr_dedup.errors import FormatError
from mr_dedup.formats.documents.chunks import document_parts
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
    assert reading.rejects.skipped == {
        "record_type": 3,
        "http_status": 2,
        "media_type": 2,
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
        page(9, headers=b"X: " + b"x" * 1_000_000 + b"\r\n"),
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
    assert reject.position == f"byte {len(page(1))}"
    with pytest.raises(FormatError, match="byte"):
        read(path, strict=True, max_record_bytes=limit)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", b"Content-Length: 50\r\n"),
        (b"", b"content-length:\r\n 0050\r\n"),
        (gzip.compress(b"<p>page")[:10], b"Content-Encoding: gzip\r\n"),
        (gzip.compress(b"<p>page")[:11], b""),
        (zstandard.compress(b"<p>page" * 9)[:9], b""),
        (gzip.compress(b"") + b"<p>page", b""),
        (brotli.compress(b"<p>page" * 9)[:5], b"Content-Encoding: br\r\n"),
        (bytes(5000), b""),
        (bytes(9) + b"\r\n" + bytes(9), b""),
    ],
    ids=range(9),
)
def test_a_page_that_is_empty_because_it_cannot_be_read_is_rejected(tmp_path, body, headers):
    for type in (b"text/html", b"text/plain", b""):
        reading = read(write(tmp_path, page(1), page(9, body, type, headers=headers), page(2)))
        assert reading.texts == ["page 1", "page 2"]
        assert reading.rejects.count == 1


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", b""),
        (b"", b"Content-Length: 0\r\n"),
        (gzip.compress(b""), b"Content-Encoding: gzip\r\n"),
        (zlib.compress(b""), b"Content-Encoding: deflate\r\n"),
        (zstandard.compress(b""), b""),
        (b"0\r\n\r\n", b"Transfer-Encoding: chunked\r\n"),
        (b"\xef\xbb\xbf", b"Content-Length: 3\r\n"),
        (b"\r\n \r\n", b""),
    ],
    ids=range(8),
)
def test_a_page_without_a_text_is_empty(tmp_path, body, headers):
    reading = read(write(tmp_path, page(1), page(2, body, headers=headers), page(3)))
    assert reading.texts == ["page 1", "", "page 3"]
    assert reading.reasons == []


def test_a_record_without_a_type_is_rejected(tmp_path):
    untyped = page(2).replace(b"WARC-Type: response\r\n", b"")
    reading = read(write(tmp_path, page(1), untyped, page(3)))
    assert reading.texts == ["page 1", "page 3"]
    assert [reason for _, reason in reading.reasons] == [
        "its page cannot be read: there is no WARC-Type"
    ]


@pytest.mark.parametrize("ending", ["warc", "warc.gz", "warc.zst"])
def test_headers_of_any_length_up_to_the_limit(tmp_path, ending):
    """Of records, and of HTTP: one field, or many."""
    fields = [
        b"WARC-JSON-Metadata: " + b"a" * 300_000 + b"\r\n",
        b"X-A: %s\r\n" % (b"v" * 90) * 4000,
    ]
    records = [page(1, more=field) for field in fields]
    records += [page(1, headers=field) for field in fields]
    for long in records:
        data = page(0) + long + page(2)
        path = write(tmp_path, PACK[ending](data), name=f"a.{ending}")
        limit = len(long)
        reading = read(path, max_record_bytes=limit, keep_records=True)
        assert reading.texts == ["page 0", "page 1", "page 2"]
        assert reading.records[1] == long
        reading = read(path, max_record_bytes=limit - 100)
        assert reading.texts == ["page 0", "page 2"]
        assert reading.rejects.count == 1


def test_pages_after_what_the_server_sent_first(tmp_path):
    first = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"
    blocks = [b"".join(first[:count]) + b"HTTP/1.1 200 OK\r\n\r\n<p>a page" for count in range(3)]
    path = write(
        tmp_path, *(record(n, block) for n, block in enumerate(blocks)), record(9, first[0])
    )
    reading = read(path)
    assert reading.texts == ["a page"] * 3
    assert reading.rejects.skipped == {"http_status": 1}


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
        page(9, length=2**63),
        page(9, length=2**64 + len(page(9))),
        page(9).replace(b"Content-Length: ", b"Content-Length: +"),
        page(9).replace(b"Content-Length: ", b"Content-Length: 0x"),
        page(9).replace(b"Content-Length: ", b"Content-Length: 1e"),
        page(9).replace(b"Content-Length: ", b"Content-Length: " + b"9" * 5000),
        page(9).replace(b"Content-Length: ", b"Content-Length: \xd9\xa3"),
        page(9, more=b"X: " + b"x" * 1_000_000 + b"\r\n"),
        page(9)[:-20].replace(b"Content-Length", b"Length"),
    ],
    ids=range(17),
)
@pytest.mark.parametrize("ending", ["warc", "warc.gz", "warc.zst"])
def test_after_damage_reading_goes_on_with_the_next_record(tmp_path, bad, ending):
    data = page(1) + bad + b"\r\n\r\n" + page(2) + page(3)
    pack = {"warc": bytes, "warc.gz": gzip.compress, "warc.zst": zstandard.compress}[ending]
    path = write(tmp_path, pack(data), name=f"a.{ending}")
    reading = read(path, max_record_bytes=1_000_000)
    assert reading.texts == ["page 1", "page 2", "page 3"]
    (reject,) = reading.rejects.listed
    unit = "byte" if ending == "warc" else "decompressed byte"
    assert reject.position == f"{unit} {len(page(1))}"


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
        # what there is of the page
        assert "page 2".startswith(" ".join(reading.texts[2:])), left
        assert ending != "warc" or not reading.texts[2:], left
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
    # where all of it is in one block a cut is as another
    for size, step in ((16, 1), (1 << 13, 5)):
        with small_blocks(monkeypatch, size):
            whole = read(path, max_record_bytes=1 << 26)
            assert [text for text in whole.texts if len(text) < 100] == ["page 1", "page 3"]
            for cut, reading in cut_everywhere(path, step):
                assert reading.documents == whole.documents, cut
                assert reading.reasons == whole.reasons, cut
                assert reading.rejects.skipped == whole.rejects.skipped, cut


def test_many_parts_of_a_larger_file(tmp_path):
    path = write(
        tmp_path, *(page(n, b"<p>page %d " % n + b"x" * (n * 37 % 5000)) for n in range(400))
    )
    parts = document_parts(DocumentFile.detect(path), 10_000)
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


PACK = {"warc": bytes, "warc.gz": gzip.compress, "warc.zst": zstandard.compress}


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("packed_by", ["file", "record"])
def test_a_length_beyond_the_limit_loses_one_record(tmp_path, ending, packed_by):
    """False ones, and a true one, which no other record is found in."""
    long = page(5, b"<p>" + b"x" * 300_000)
    records = [page(n) for n in range(4)] + [page(4, length=10**8), long, page(6), page(7)]
    if packed_by == "file":
        records = [b"".join(records)]
    path = write(tmp_path, *map(PACK[ending], records), name=f"a.{ending}")
    reading = read(path, max_record_bytes=200_000)
    assert reading.texts == [f"page {n}" for n in (0, 1, 2, 3, 6, 7)]
    assert [reason for _, reason in reading.reasons] == [
        "is cut short, or its length is wrong",
        "is longer than 200000 bytes",
    ]


def test_a_long_last_record_is_too_long_or_cut_short(tmp_path):
    long = page(2, b"<p>" + b"x" * 300_000)
    for record, reason in ((long, "longer than 200000"), (long[:-1000], "cut short")):
        path = write(tmp_path, gzip.compress(page(1) + record), name="a.warc.gz")
        reading = read(path, max_record_bytes=200_000)
        assert reading.texts == ["page 1"]
        ((_, said),) = reading.reasons
        assert reason in said


PADDING = {
    "NULs": bytes(100),
    "a tar's": bytes(512),
    "a page of NULs": bytes(4096),
    "blanks": b" \t  ",
    "blanks and line ends": b"  \r\n\t\r\n",
    "NULs in lines": b"\0\n\0\n",
    "many blanks": b" " * 5000,
}


@pytest.mark.parametrize("padding", PADDING.values(), ids=PADDING)
@pytest.mark.parametrize("ending", ["warc", "warc.gz"])
def test_padding_between_records_is_skipped(tmp_path, padding, ending):
    records = [page(number) for number in range(4)]
    expected = [f"page {number}" for number in range(4)]
    between = padding.join(records)
    before_line_end = b"".join(r[:-4] + padding[:200] + b"\r\n\r\n" for r in records)
    for data in (between, between + padding, before_line_end, b"\r\n" + between):
        path = write(tmp_path, PACK[ending](data), name=f"a.{ending}")
        reading = read(path)
        assert (reading.texts, reading.reasons) == (expected, [])
        assert reading.ids == [f"urn:uuid:{number}" for number in range(4)]


def test_padding_is_skipped_wherever_a_file_is_cut(tmp_path, monkeypatch):
    path = write(tmp_path, page(1), bytes(30), page(2), b" \t\r\n", page(3), bytes(20))
    whole = read(path)
    assert whole.texts == ["page 1", "page 2", "page 3"]
    with small_blocks(monkeypatch):
        for cut, reading in cut_everywhere(path):
            assert (reading.documents, reading.reasons) == (whole.documents, []), cut


def test_after_damage_a_record_behind_padding_is_found(tmp_path):
    path = write(tmp_path, page(1), page(2, length=900)[:-4], bytes(9), page(3), bytes(9), page(4))
    reading = read(path)
    assert reading.texts == ["page 1", "page 3", "page 4"]
    assert reading.rejects.count == 1


def test_nuls_that_were_never_written_are_not_padding(tmp_path):
    nuls = bytes(1 << 20)
    reading = read(write(tmp_path, nuls))
    assert reading.rejects.counts.incomplete_files == 1
    path = write(tmp_path, page(1), page(2), nuls)
    place = len(page(1) + page(2))
    for reading in (read(path), *(reading for _, reading in _cut_at(path, 1, place, place + 9))):
        assert reading.texts == ["page 1", "page 2"]
        # with the line ends before them
        assert reading.reasons == [(f"byte {place - 4}", "ends with 1,048,576 NUL bytes")]
        assert reading.rejects.counts.incomplete_files == 1


def _cut_at(path, *cuts):
    file = DocumentFile.detect(path)
    for cut in cuts:
        yield cut, read(DocumentPart(file, 0, cut), DocumentPart(file, cut))


def random_page(number):
    return page(number, random.Random(number).randbytes(300).hex().encode(), type=b"text/plain")


@pytest.mark.parametrize("fault", ["flipped", "garbage", "dropped", "repeated", "zeros"])
def test_after_a_damaged_member_reading_goes_on_with_the_next(tmp_path, fault):
    """Wherever in the member the damage is, its record alone is lost."""
    count = 6
    members = [gzip.compress(random_page(number)) for number in range(count)]
    texts = read(write(tmp_path, *map(random_page, range(count)))).texts
    # in the last four bytes it may be noticed no more when the size is damaged too
    for at in range(0, len(members[2]), 7):
        bad = bytearray(members[2])
        if fault == "flipped":
            bad[at] ^= 0xFF
        elif fault == "garbage":
            bad[at : at + 9] = b"\x1f\x8b\x08 junk"
        elif fault == "dropped":
            del bad[at : at + 20]
        elif fault == "repeated":
            bad[at:at] = bad[max(0, at - 20) : at + 20]
        else:
            bad[at : at + 30] = bytes(len(bad[at : at + 30]))
        path = write(tmp_path, *members[:2], bad, *members[3:], name="a.warc.gz")
        reading = read(path)
        others = [text for text in reading.texts if text != texts[2]]
        assert others == texts[:2] + texts[3:], at
        # of a damaged name or time in gzip's header nothing is noticed, and nothing is lost
        assert reading.texts == texts or reading.rejects.count == 1, at
        assert reading.rejects.counts.incomplete_files == 0
        if reading.rejects.count:
            with pytest.raises(FormatError, match=r"a\.warc\.gz"):
                read(path, strict=True)


def test_a_member_without_its_end_leaves_the_next_long_one(tmp_path):
    """Its decoder reads on in the next, and takes stored blocks for its own."""
    long = page(2, random.Random(2).randbytes(400_000).hex().encode(), type=b"text/plain")
    short = page(1, random.Random(8).randbytes(100).hex().encode(), type=b"text/plain")
    for lost in range(10, 22):
        cut = gzip.compress(short, 1)[:-lost]
        members = [gzip.compress(page(0)), cut, gzip.compress(long, 0), gzip.compress(page(3))]
        reading = read(write(tmp_path, *members, name="a.warc.gz"))
        assert reading.ids == ["urn:uuid:0", "urn:uuid:2", "urn:uuid:3"], lost
        assert reading.rejects.count == 1


def test_all_damaged_members_are_rejects_and_a_lost_rest_is_reported(tmp_path):
    members = [gzip.compress(random_page(number)) for number in range(100)]
    texts = read(write(tmp_path, *map(random_page, range(100)))).texts
    bad = {0, 1, 7, 50, 51, 52, 98}
    for number in bad:
        middle = bytearray(members[number])
        middle[len(middle) // 2] ^= 0xFF
        members[number] = bytes(middle)
    path = write(tmp_path, *members, name="a.warc.gz")
    reading = read(path)
    assert reading.texts == [text for number, text in enumerate(texts) if number not in bad]
    counts = reading.rejects.counts
    assert (counts.rejected, counts.incomplete_files) == (len(bad), 0)
    # places are bytes of what was decompressed, and ascend
    assert [place for _, _, place in reading.documents] == sorted(
        {place for _, _, place in reading.documents}
    )
    path = write(tmp_path, *members[:60], members[60][:-20], name="a.warc.gz")
    counts = read(path).rejects.counts
    assert (counts.rejected, counts.incomplete_files) == (len([n for n in bad if n < 60]) + 1, 1)


def test_garbage_between_members_is_one_reject(tmp_path):
    members = [gzip.compress(page(number)) for number in range(3)]
    for junk in (b"junk", b"\x1f\x8b\x08", bytes(70_000) + b"x" * 200_000):
        reading = read(write(tmp_path, junk.join(members), name="a.warc.gz"))
        assert reading.texts == ["page 0", "page 1", "page 2"]
        assert reading.rejects.count == 2


def test_from_a_pipe_what_is_before_damage_is_read(tmp_path):
    members = [gzip.compress(page(number)) for number in range(3)]
    path = tmp_path / "a.warc.gz"
    os.mkfifo(path)
    for data, expected in ((b"".join(members), 3), (b"junk".join(members), 1)):
        writer = threading.Thread(target=path.write_bytes, args=[data])
        writer.start()
        reading = read(DocumentFile(path, "a.warc.gz", "warc", "gzip"))
        writer.join(60)
        assert reading.texts == [f"page {number}" for number in range(expected)]
        assert reading.rejects.counts.incomplete_files == (expected < 3)


def test_only_whole_compressed_files(tmp_path):
    path = write(tmp_path, gzip.compress(page(1)), name="a.warc.gz")
    with pytest.raises(ValueError, match="can only be read as a whole"):
        DocumentPart(DocumentFile.detect(path), 0, 5)


@pytest.mark.parametrize(
    "type",
    [b"text/xml", b"application/xml; charset=utf-8", b"Text/XML", b"application/vnd.wap.xhtml+xml"],
)
@pytest.mark.parametrize(
    "begin",
    [
        b"<html xmlns='http://www.w3.org/1999/xhtml'>",
        b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- a -->\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML '
        b'1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">\n<html>',
        b"<?xml version='1.0'?><?a b='>'?><!-- a <b@c.d> and <html > -->\n%b<html>" % (b" " * 9000),
        b"<h:html xmlns:h='http://www.w3.org/1999/xhtml'>",
    ],
)
def test_xhtml_by_the_media_types_of_xml(tmp_path, type, begin):
    name = b"h:" if b"h:" in begin else b""
    body = begin + b"<%bhead><%btitle/></%bhead><%bbody>own words</%bbody></%bhtml>" % ((name,) * 6)
    reading = read(write(tmp_path, page(1, body, type=type), page(2)))
    assert [text for _, text, _ in reading.documents] == ["own words", "page 2"]
    assert reading.rejects.count == 0


@pytest.mark.parametrize("type", [b"text/xml", b"application/xml", b"application/rss+xml"])
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"<?xml version='1.0'?><urlset><url><loc>http://host/html</loc></url></urlset>", b""),
        (b"<rss><channel><description>&lt;html></description></channel></rss>", b""),
        (b"<htmlx/>", b""),
        (b"<?xml version='1.0'?><!-- was <html > --><urlset>", b""),
        (b"", b""),
        (b"damaged", b"Content-Encoding: gzip\r\n"),
        (b"<a>" * 2_000_000, b""),
    ],
)
def test_other_xml_is_skipped(tmp_path, type, body, headers):
    reading = read(write(tmp_path, page(1, body, type=type, headers=headers), page(2)))
    assert [text for _, text, _ in reading.documents] == ["page 2"]
    assert reading.rejects.count == 0
    assert reading.rejects.skipped == {"media_type": 1}
