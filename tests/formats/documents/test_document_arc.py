"""ARC files: records of both versions, as crawlers wrote them, cut and damaged ones."""

import gzip
import itertools
import random

import lz4.frame
import pytest
import zstandard

from mr_dedup.formats.documents.arc_records import _header_of
from tests.formats.documents.reading import cut_everywhere, read

PACK = {
    "": bytes, ".gz": gzip.compress, ".zst": zstandard.compress, ".lz4": lz4.frame.compress,
}  # fmt: skip
FIELDS = {
    1: b"URL IP-address Archive-date Content-type Archive-length",
    2: b"URL IP-address Archive-date Content-type Result-code Checksum Location Offset Filename "
    b"Archive-length",
}


def record(url, block, version=1, type=b"text/html", ip=b"192.0.2.1", date=b"20010203040506"):
    more = b" 200 AB12CD - 1234 x.arc" if version == 2 else b""
    head = b" ".join([url, ip, date, type]) + more
    return b"%s %d\n%s\n" % (head, len(block), block)


def version_block(version=1, end=b"\n"):
    block = b"%d 0 Example\n%s\n\n" % (version, FIELDS[version])
    return record(b"filedesc://x.arc", block, version, b"text/plain", b"0.0.0.0")


def page(number, version=1, text=b""):
    body = b"<html><body><p>page %d %s</p></body></html>" % (number, text)
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    return record(b"http://example.com/%d" % number, block, version)


def write(folder, *records, name="a.arc", by_record=True):
    path = folder / name
    pack = PACK["." + name.rpartition(".")[2] if not name.endswith("arc") else ""]
    path.write_bytes(b"".join(map(pack, records)) if by_record else pack(b"".join(records)))
    return path


@pytest.mark.parametrize(
    ("version", "suffix", "by_record"), [*itertools.product((1, 2), PACK, (True, False))]
)
def test_records_of_both_versions(tmp_path, version, suffix, by_record):
    records = [version_block(version), *(page(number, version) for number in range(5))]
    path = write(tmp_path, *records, name=f"a.arc{suffix}", by_record=by_record)
    names = ("WARC-Target-URI", "WARC-Date", "WARC-IP-Address")
    reading = read(path, fields=names, keep_records=True)
    assert reading.texts == [f"page {number}" for number in range(5)]
    assert reading.ids == [f"http://example.com/{number}" for number in range(5)]
    assert reading.fields[0] == dict(
        zip(names, ("http://example.com/0", "2001-02-03T04:05:06Z", "192.0.2.1"), strict=True)
    )
    assert reading.records == records[1:]
    assert reading.rejects.count == 0
    assert reading.rejects.skipped == {"record_type": 1}


def test_what_is_no_page_is_skipped(tmp_path):
    path = write(
        tmp_path,
        version_block(),
        record(b"dns:example.com", b"20010203\nexample.com. 1 IN A 192.0.2.1\n", type=b"text/dns"),
        record(b"http://example.com/a", b"HTTP/1.0 404 No\r\n\r\nnot there"),
        record(b"http://example.com/b", b"HTTP/1.0 200 OK\r\nContent-Type: image/png\r\n\r\n\x89P"),
        record(b"ftp://example.com/c.txt", b"a plain text", type=b"text/plain"),
        record(b"http://example.com/d", b"<html><p>without a status</html>"),
        record(b"http://example.com/e", b"<html><p>without a type</html>", type=b"no-type"),
    )
    reading = read(path)
    assert reading.texts == ["a plain text", "without a status", "without a type"]
    assert reading.rejects.skipped == {"record_type": 1, "media_type": 2, "http_status": 1}
    assert reading.rejects.count == 0


@pytest.mark.parametrize(
    "url",
    [
        b"http://example.com/a b?c=d e",
        b"http://example.com/1.2.3.4 x 2001 y",
        b"https://[2001:db8::1]/ \xff",
        b"http://example.com/" + b"x" * 3000,
    ],
)
@pytest.mark.parametrize(
    "ip", [b"192.0.2.1", b"2001:db8::1", b"[::1]", b"fe80::1%eth0", b"0.0.0.0", b"-", b"no-ip"]
)
@pytest.mark.parametrize("version", [1, 2])
def test_urls_and_addresses(tmp_path, url, ip, version):
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>text"
    path = write(tmp_path, version_block(), record(url, block, version, ip=ip), page(1))
    reading = read(path)
    assert reading.texts == ["text", "page 1"]
    assert reading.ids[0].encode() == url.replace(b"\xff", "\ufffd".encode())


def test_files_that_are_concatenated_and_separators(tmp_path):
    for between in (b"", b"\n", b"\r\n\r\n", b"\n" * 20, b"\0" * 600):
        pieces = [version_block(), page(1), version_block(2), page(2, 2), page(3, 2)]
        reading = read(write(tmp_path, between.join([*pieces, b""]), name="a.arc"))
        assert reading.texts == ["page 1", "page 2", "page 3"], between
        assert reading.rejects.count == 0
    # no line end after a block
    path = write(tmp_path, *(piece.removesuffix(b"\n") for piece in pieces))
    assert read(path).texts == ["page 1", "page 2", "page 3"]


def wrong_length(data, by):
    line, _, block = data.partition(b"\n")
    head, _, length = line.rpartition(b" ")
    return b"%s %d\n%s" % (head, int(length) + by, block)


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize(
    "bad",
    [
        wrong_length(page(7), 40),
        wrong_length(page(7), -40),
        wrong_length(page(7), 10**9),
        page(7).replace(b" text/html 9", b" text/html -9").replace(b"text/html 8", b"text/html x"),
        b"garbage\n",
    ],
    ids=range(5),
)
def test_after_damage_reading_goes_on_with_the_next_record(tmp_path, bad, suffix):
    whole = [version_block(), page(1), bad, page(2), page(3)]
    path = write(tmp_path, *whole, name=f"a.arc{suffix}", by_record=False)
    reading = read(path, max_record_bytes=1_000_000)
    assert reading.texts == ["page 1", "page 2", "page 3"]
    (reject,) = reading.rejects.listed
    unit = "decompressed byte" if suffix else "byte"
    assert reject.position == f"{unit} {len(whole[0] + whole[1])}"


def test_line_ends_that_were_changed(tmp_path):
    first, last = page(1).replace(b"\r\n", b"\n"), page(2).replace(b"\r\n", b"\n")
    reading = read(write(tmp_path, version_block(), first, last))
    assert reading.texts == ["page 1", "page 2"]
    assert reading.rejects.count == 0


def test_a_record_within_a_record_is_not_one(tmp_path):
    path = write(tmp_path, version_block(), page(1, text=b"\n\n" + page(7)), page(2))
    assert len(read(path).ids) == 2
    for cut, reading in cut_everywhere(path):
        assert len(reading.ids) == 2, cut


def test_every_cut_gives_the_same_documents(tmp_path):
    bad = wrong_length(page(7), 40)
    path = write(tmp_path, version_block(), page(1), bad, page(2), b"\n\n", page(3)[:-9])
    whole = read(path)
    assert whole.texts == ["page 1", "page 2"]
    for cut, reading in cut_everywhere(path, 3):
        assert reading.documents == whole.documents, cut
        assert reading.reasons == whole.reasons, cut


@pytest.mark.parametrize(
    ("suffix", "by_record"), [(".gz", True), (".gz", False), (".zst", True), (".lz4", True)]
)
def test_of_data_that_is_cut_short_the_last_page_is_read_as_far_as_it_is_there(
    tmp_path, suffix, by_record
):
    draw = random.Random(1)
    text = b" ".join(b"w%d" % draw.randrange(10**6) for _ in range(60_000))
    records = [version_block(), page(1), page(2), page(3, text=text)]
    path = write(tmp_path, *records, name=f"a.arc{suffix}", by_record=by_record)
    content = path.read_bytes()
    for left in range(len(content) // 2, len(content), len(content) // 20):
        path.write_bytes(content[:left])
        reading = read(path)
        first, second, last = reading.texts
        assert (first, second) == ("page 1", "page 2")
        assert f"page 3 {text.decode()}".startswith(last), left
        assert len(last) > len(text) * (left / len(content) - 0.4)
        assert reading.rejects.count == 1
        assert reading.rejects.listed[0].rest_of_file
        assert "cut short" in reading.rejects.listed[0].reason


def test_after_a_damaged_member_reading_goes_on_with_the_next(tmp_path):
    members = [gzip.compress(data) for data in (version_block(), page(1), page(2), page(3))]
    members[2] = members[2][:40] + b"\xff\x00\xff" + members[2][43:]
    path = tmp_path / "a.arc.gz"
    path.write_bytes(b"".join(members))
    reading = read(path)
    assert reading.texts == ["page 1", "page 3"]
    assert reading.rejects.count == 1


def test_a_page_that_quotes_records_before_a_damaged_one(tmp_path):
    quoting = page(1, text=b"\n" + page(7) + page(8))
    bad = page(2).replace(b"192.0.2.1 2001", b"nowhere x")
    reading = read(write(tmp_path, version_block(), quoting, bad, page(3)))
    assert reading.ids == ["http://example.com/1", "http://example.com/3"]
    assert reading.rejects.count == 1


@pytest.mark.parametrize("before", [b"\n", b"\r\n\r\n"])
def test_line_ends_before_the_first_record(tmp_path, before):
    reading = read(write(tmp_path, before, version_block(), page(1), page(2)))
    assert reading.texts == ["page 1", "page 2"]


def test_records_of_other_protocols_without_a_line_end_between(tmp_path):
    urls = (b"http://a/", b"gopher://b/", b"nntp://c/", b"https://d/")
    records = [record(url, b"a text", type=b"text/plain")[:-1] for url in urls]
    reading = read(write(tmp_path, version_block(), *records))
    assert reading.ids == [url.decode() for url in urls]


@pytest.mark.parametrize(
    "line", [b":" * 4_000_000, b"- 20010101 " * 400_000, b"a:" * 2_000_000, b" 1.2.3.4" * 500_000]
)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_line_that_is_nearly_a_header_takes_linear_work(line, is_known):
    # by square work these would take hours
    assert _header_of(b"http://e/ " + line + b" x\n", is_known) is None


def test_what_is_no_arc_at_all(tmp_path):
    path = write(tmp_path, b"a text\nof lines\n" * 50)
    reading = read(path)
    assert reading.documents == []
    assert reading.reasons[0][1].endswith("or its header is damaged")


def test_a_record_beyond_the_limit(tmp_path):
    path = write(tmp_path, version_block(), page(1, text=b"x " * 9000), page(2))
    reading = read(path, max_record_bytes=9000)
    assert reading.texts == ["page 2"]
    assert reading.reasons[0][1] == "is longer than 9000 bytes"


def test_nuls_that_were_never_written_are_reported(tmp_path):
    reading = read(write(tmp_path, version_block(), page(1), page(2), b"\0" * 50_000))
    assert reading.texts == ["page 1", "page 2"]
    (reject,) = reading.rejects.listed
    assert reject.reason == "ends with 50,000 NUL bytes"
    assert reject.rest_of_file
