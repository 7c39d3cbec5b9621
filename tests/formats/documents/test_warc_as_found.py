"""WARC files as crawlers write them: every version, coding and line end, by count."""

import gzip
import itertools
import random

import pytest

from mr_dedup.formats.documents.chunks import document_parts
from mr_dedup.formats.documents.files import DocumentFile
from tests.formats.documents.reading import cut_everywhere, read
from tests.formats.documents.test_document_warc import page, write
from tests.formats.documents.test_http_body import PACK, chunked

HTTP = b"application/http; msgtype=response"
VERSIONS = [b"0.17", b"0.18", b"1.0", b"1.1"]


def headers(number, length, version=b"1.0", type=HTTP, end=b"\r\n", kind=b"response", more=()):
    lines = [
        b"WARC/" + version,
        b"WARC-Type: " + kind,
        b"WARC-Target-URI: http://host/%d" % number,
        b"WARC-Date: 2009-03-65T08:43:19-0800",
        b"WARC-Record-ID: <urn:uuid:%d>" % number,
        *more,
        *([b"Content-Type: " + type] if type else []),
        *([] if length is None else [b"Content-Length: %d" % length]),
    ]
    return end.join([*lines, b"", b""])


def http(body, type=b"text/html; charset=utf-8", said=(), end=b"\r\n"):
    lines = [b"HTTP/1.1 200 OK", *([b"Content-Type: " + type] if type else []), *said]
    return end.join([*lines, b"Content-Length: 1", b"", body])


def record(number, block, **more):
    end = more.get("end", b"\r\n")
    return headers(number, len(block), **more) + block + end + end


def html(number):
    return b"<!doctype html><html><body><p>page %d in words</p></body></html>\n" % number


def texts(numbers):
    return [f"page {number} in words" for number in numbers]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.parametrize("ending", ["warc", "warc.gz"])
def test_every_version_and_coding_by_count(tmp_path, version, end, ending):
    """Each header over each body, in chunks or not: as many documents as records."""
    records = [record(0, b"software: x\r\n", kind=b"warcinfo", type=b"application/warc-fields")]
    said = ["", "gzip", "deflate", "br", "utf-8"]
    for number, (packing, coding, in_chunks, said_chunked) in enumerate(
        itertools.product(PACK, said, (False, True), (False, True)), 1
    ):
        body = PACK[packing](html(number))
        names = [b"Content-Encoding: " + coding.encode()] * bool(coding)
        names += [b"Transfer-Encoding: chunked"] * said_chunked
        block = http(chunked(body) if in_chunks else body, said=names, end=end)
        records.append(record(number, block, version=version, end=end))
    pack = gzip.compress if ending == "warc.gz" else bytes
    path = write(tmp_path, *map(pack, records), name=f"a.{ending}")
    reading = read(path)
    assert reading.reasons == []
    assert reading.texts == texts(range(1, len(records)))
    assert reading.ids == [f"urn:uuid:{number}" for number in range(1, len(records))]


def test_wet_files(tmp_path):
    text = "Überschrift\n文本 und mehr\n"
    path = write(
        tmp_path,
        record(0, b"Software-Info: x\r\n", kind=b"warcinfo", type=b"application/warc-fields"),
        *(record(n, text.encode(), kind=b"conversion", type=b"text/plain") for n in (1, 2)),
        name="a.wet",
    )
    assert read(path).texts == [text] * 2
    packed = write(tmp_path, gzip.compress(path.read_bytes()), name="a.warc.wet.gz")
    assert read(packed).texts == [text] * 2


def test_wet_texts_are_utf8_whatever_they_say(tmp_path):
    texts = [
        "users’ rights",
        "Write <meta charset='windows-1251'> in the head. Привет, мир.",
        "Terms of use that anyone may read before using what is offered here, © 2009",
        "a cut € and a stray",
    ]
    path = write(
        tmp_path,
        *(
            record(n, t.encode(), kind=b"conversion", type=b"text/plain")
            for n, t in enumerate(texts)
        ),
        record(9, "早€".encode() + b"\xff", kind=b"conversion", type=b"text/plain"),
    )
    assert read(path).texts == [*texts, "早€\ufffd"]


def test_letters_survive_a_wrong_charset(tmp_path):
    """Those of HTTP over pages that say what they are in, or are UTF-8."""
    rng = random.Random(2)
    words = [
        " ".join("".join(rng.choices("абвгдежзиклмнопрст", k=6)) for _ in range(30))
        for _ in range(6)
    ]
    page = "<html><head><meta charset='{}'></head><body><p>{}</p></body></html>"
    records = [
        record(n, http(page.format("windows-1251", words[n]).encode("cp1251"))) for n in range(3)
    ]
    records += [
        record(
            3 + n,
            http(page.format(meta, words[3 + n]).encode(), type=b"text/html; charset=" + said),
        )
        for n, (meta, said) in enumerate(
            [("utf-8", b"windows-1251"), ("gb2312", b"gb2312"), ("koi8-r", b"utf-16")]
        )
    ]
    records.append(record(7, http(html(7), type=b"text/html; charset=utf-16")))
    assert read(write(tmp_path, *records)).texts == [*words, *texts([7])]


def test_records_without_media_types(tmp_path):
    path = write(
        tmp_path,
        record(1, http(html(1)), type=b""),
        record(2, http(html(2), type=b"")),
        record(3, http(html(3)), type=b"text/html"),
        record(4, http(html(4)), type=b"Application/HTTP"),
        record(5, html(5), type=b"", kind=b"resource"),
        record(6, b"words without markup\n", type=b"", kind=b"resource"),
        record(7, http(b"<!-- a -->" * 40 + html(7), type=b"")),
        record(8, html(8), type=b""),
        record(9, http(html(9), type=b"TEXT/HTML, text/html; charset=utf-8")),
        record(10, http(b"\x89PNG\r\n\x1a\n" + bytes(200), type=b"")),
    )
    reading = read(path)
    assert reading.texts[:5] == texts(range(1, 6))
    assert reading.texts[5] == "words without markup\n"
    assert reading.texts[6:] == texts([7, 8, 9])
    assert reading.rejects.skipped == {"media_type": 1}
    assert reading.rejects.count == 0


@pytest.mark.parametrize(
    "declared",
    [
        b"text/html charset=utf-8",
        b"text/html: charset=utf-8",
        b"text/html\tcharset=utf-8",
        b"text/html foo bar",
        b"text/html;;",
        b"text/html/charset",
        b" 'Text/HTML'",
        b'"text/html"',
        b'"text/html; charset=utf-8"',
        b"application/xhtml+xml charset=utf-8",
        # none, or as good as none: sniffed
        b"*/*",
        b"unknown/unknown",
        b"Application/Unknown; charset=utf-8",
        b"html",
        b"; charset=utf-8",
    ],
)
def test_media_types_of_html(tmp_path, declared):
    response = record(1, http(html(1), type=declared))
    resource = record(2, html(2), type=declared, kind=b"resource")
    assert read(write(tmp_path, response, resource)).texts == texts([1, 2])
    image = record(1, http(b"\x89PNG\r\n\x1a\n" + bytes(200), type=b"*/*"))
    assert read(write(tmp_path, image)).rejects.skipped == {"media_type": 1}


@pytest.mark.parametrize(
    "declared", [b"text/htmlx", b"text/css", b"image/*", b"xtext/html", b"application/html-text"]
)
def test_other_media_types(tmp_path, declared):
    path = write(tmp_path, record(1, http(html(1), type=declared)))
    assert read(path).rejects.skipped == {"media_type": 1}


def test_a_charset_is_found_after_any_media_type(tmp_path):
    declared = [
        b"text/plain charset=koi8-r",
        b"text/plain\tCharset = 'koi8-r'",
    ]
    blocks = [http("мир".encode("koi8-r"), type=type) for type in declared]
    path = write(tmp_path, *(record(n, block) for n, block in enumerate(blocks)))
    assert read(path).texts == ["мир"] * 2


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.parametrize(
    "lines",
    [
        [b"HTTP/1.1 200 OK", b"<html><p>page 1 in words"],
        [b"HTTP/1.1 200 OK", b"Content-Type: text/html", b"<!DOCTYPE html>", b"<p>page 1 in words"],
        [b"HTTP/1.1 200 OK", b"Link: <http://a/>", b"<p>page 1 in", b"", b"", b"words"],
        [b"HTTP/1.1 200 OK", b"Content-Type: text/html", b"<p>", b"a: b", b"", b"c"],
    ],
)
def test_http_headers_without_an_empty_line(tmp_path, lines, end):
    """The body begins at the first line that looks like HTML."""
    path = write(tmp_path, record(1, end.join(lines)), record(2, http(html(2))))
    reading = read(path, keep_records=True)
    expected = "a: b c" if lines[-1] == b"c" else "page 1 in words"
    assert reading.texts == [expected, *texts([2])]
    assert b"".join(reading.records) == path.read_bytes()


@pytest.mark.parametrize(
    "block",
    [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nsome words\r\n",
        b"HTTP/1.1 200 OK\r\nLink: x\r\n<http://a/>\r\n<" + b"\n<" * 100_000,
    ],
)
def test_http_headers_without_an_end_are_rejected(tmp_path, block):
    reading = read(write(tmp_path, record(1, block), record(2, http(html(2)))))
    assert reading.texts == texts([2])
    assert [reason for _, reason in reading.reasons] == [
        "its page cannot be read: its HTTP header has no end"
    ]


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.parametrize(
    "other", [b"Content-Length: 10", b"content-length : 10", b"Content-Length:"]
)
def test_of_two_lengths_the_first_is_used(tmp_path, other, end):
    one, two = (record(n, http(html(n), end=end), end=end) for n in (1, 2))
    parts = one.partition(b"Content-Length:")
    line = parts[2].partition(end)
    doubled = b"".join([*parts[:2], line[0], end, other, end, *line[2:]])
    for records in ((doubled, two), (two, doubled)):
        reading = read(write(tmp_path, *records), keep_records=True)
        assert sorted(reading.texts) == texts([1, 2])
        assert sorted(one.rstrip() for one in reading.records) == [one.rstrip(), two.rstrip()]


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/1.1 200",
        b"HTTP/1.0  200 OK",
        b"http/1.1 200 ok",
        b"HTTP/2 200",
        b"ICY 200 OK",
        b"HTTP/1.1 200 \xe9t\xe9",
        b"HTTP/1.1 200 OK\r\njunk\r\nPower by: x\r\nX : y\r\n folded",
        b"HTTP/1.1 200 OK\nServer: x",
    ],
)
def test_odd_http_headers(tmp_path, line):
    path = write(tmp_path, record(1, http(html(1)).replace(b"HTTP/1.1 200 OK", line)))
    assert read(path).texts == texts([1])


def clueweb09(pages, end=b"\n"):
    """Return a file as those of ClueWeb09 are: lines end with LF, one empty one parts records."""
    info = b"software: Nutch 1.0-dev\nconformsTo: http://host/0.18.html\n"
    more = [b"WARC-Warcinfo-ID: 993d3969"], [b"WARC-TREC-ID: clueweb09-en0000-00-0000"]
    records = [
        headers(0, len(info), b"0.18", b"application/warc-fields", b"\n", b"warcinfo") + info
    ]
    for number in range(1, pages + 1):
        block = http(html(number) + b"\n", end=b"\n")
        records.append(
            headers(number, len(block), b"0.18", end=b"\n", more=more[number % 2]) + block
        )
    return [one + b"\n" for one in records]


def test_clueweb09(tmp_path):
    records = clueweb09(9)
    path = write(tmp_path, *records)
    reading = read(path, fields=["WARC-TREC-ID"], keep_records=True)
    assert reading.texts == texts(range(1, 10))
    assert reading.reasons == []
    assert reading.fields[0] == {"WARC-TREC-ID": "clueweb09-en0000-00-0000"}
    # as they came, but for the empty line
    assert [one.rstrip() for one in reading.records] == [one.rstrip() for one in records[1:]]
    assert read(write(tmp_path, *reading.records)).texts == texts(range(1, 10))
    small = write(tmp_path, *clueweb09(2), name="b.warc")
    whole = read(small)
    for cut, parts in cut_everywhere(small):
        assert (parts.documents, parts.reasons) == (whole.documents, []), cut


def test_clueweb09_with_malformed_headers(tmp_path):
    """An empty line in a header, bytes that are no text in a URI, a URI of several lines."""
    records = clueweb09(9)
    for number, (before, after) in {
        2: (b"WARC-Date", b"\nWARC-Date"),
        3: (b"WARC-Record-ID", b"\n\n\nWARC-Record-ID"),
        4: (b"host/4", b"host/\x08\xc3\x80\xff"),
        5: (b"host/5", b"host/5\nand more of it"),
        6: (b"Content-Length", b"\r\nContent-Length"),
    }.items():
        records[number] = records[number].replace(before, after, 1)
    path = write(tmp_path, *records)
    reading = read(path, keep_records=True)
    assert reading.texts == texts(range(1, 10))
    assert reading.reasons == []
    assert b"\n\n" not in reading.records[1].partition(b"HTTP/1.1")[0][:-2]
    assert read(write(tmp_path, *reading.records)).documents == [
        (id, text, sum(map(len, reading.records[:n])))
        for n, (id, text, _) in enumerate(reading.documents)
    ]


@pytest.mark.parametrize("ending", ["warc", "warc.gz"])
@pytest.mark.parametrize("copied", ["with CR", "without CR"])
def test_copies_with_other_line_ends_than_the_lengths_count(tmp_path, copied, ending):
    if copied == "with CR":
        data = b"".join(clueweb09(9)).replace(b"\n", b"\r\n")
    else:
        data = b"".join(record(n, http(html(n))) for n in range(1, 10)).replace(b"\r\n", b"\n")
    path = write(tmp_path, gzip.compress(data) if ending == "warc.gz" else data, name=f"a.{ending}")
    reading = read(path, keep_records=True)
    assert reading.texts == texts(range(1, 10))
    assert reading.reasons == []
    # those that are kept have a length that is right
    kept = write(tmp_path, *reading.records, name="kept.warc")
    assert read(kept).texts == reading.texts
    assert read(write(tmp_path, *reading.records[::-1])).texts == reading.texts[::-1]


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_last_record_that_is_cut_is_rejected(tmp_path, end):
    data = record(1, http(html(1)), end=end) + record(2, http(html(2)), end=end)
    for cut in range(len(end) * 2 + 1, 60):
        reading = read(write(tmp_path, data[:-cut]))
        assert (reading.texts, reading.rejects.count) == (texts([1]), 1), cut


def test_lengths_in_characters_and_off_by_one(tmp_path):
    blocks = [http(html(n) + ("<p>" + "ü早𝄞" * 20).encode()) for n in range(1, 5)]
    wrong = [len(blocks[0].decode()), len(blocks[1].decode("utf-8").encode("utf-16-le")) // 2]
    records = [
        headers(n, length) + block + b"\r\n\r\n"
        for n, (block, length) in enumerate(
            zip(blocks, [*wrong, len(blocks[2]) + 1, len(blocks[3])], strict=True), 1
        )
    ]
    reading = read(write(tmp_path, *records))
    assert [text[:15] for text in reading.texts] == texts(range(1, 5))
    assert reading.reasons == []


def test_other_wrong_lengths_are_rejected(tmp_path):
    block = http(html(2))
    for wrong in (0, 3, len(block) - 30, len(block) + 30, 10**6):
        path = write(tmp_path, page(1), headers(2, wrong) + block + b"\r\n\r\n", page(3))
        reading = read(path)
        assert reading.texts == ["page 1", "page 3"], wrong
        assert [place for place, _ in reading.reasons] == [f"byte {len(page(1))}"]


def test_clueweb22(tmp_path):
    """A first record without a length, and pages without HTTP headers."""
    info = headers(0, None, b"1.1", b"application/warc-fields", kind=b"warcinfo")
    records = [info + b"software: x\r\nformat: WARC File Format 1.1\r\n\r\n\r\n"]
    records += [record(n, html(n), version=b"1.1") for n in range(1, 9)]
    reading = read(write(tmp_path, *records))
    assert reading.texts == texts(range(1, 9))
    assert reading.reasons == []
    packed = write(tmp_path, *map(gzip.compress, records), name="a.warc.gz")
    assert read(packed).texts == texts(range(1, 9))


def test_many_records_of_all_kinds_in_parts(tmp_path):
    rng = random.Random(1)
    records = []
    for number in range(300):
        end = rng.choice([b"\r\n", b"\n"])
        body = rng.choice(list(PACK.values()))(html(number) + b"more words " * rng.randrange(200))
        block = http(chunked(body) if rng.random() < 0.3 else body, end=end)
        version = rng.choice(VERSIONS)
        records.append(record(number, block, version=version, end=end) + end * rng.randrange(4))
    path = write(tmp_path, *records)
    whole = read(path)
    assert whole.reasons == []
    assert [text[: text.index("words") + 5] for text in whole.texts] == texts(range(300))
    parts = document_parts(DocumentFile.detect(path), 10_000)
    assert len(parts) > 10
    assert read(*parts).documents == whole.documents
