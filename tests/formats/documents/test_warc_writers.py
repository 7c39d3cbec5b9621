"""WARC files as libraries write them: names of fields, versions, compression, codings, by count."""

import gzip
import itertools
import re

import pytest
import zstandard

from tests.formats.documents.reading import cut_everywhere, read
from tests.formats.documents.test_http_body import PACK, chunked

VERSIONS = [b"0.17", b"0.18", b"1.0", b"1.1"]


def in_turn(line):
    letters = itertools.cycle([bytes.lower, bytes.upper])
    return b"".join(next(letters)(bytes([byte])) for byte in line)


def names(spell):
    """Return what spells a line by the name of its field alone."""

    def spelled(line):
        name, _, value = line.partition(b": ")
        return spell(name) + b": " + value

    return spelled


SPELLINGS = {
    "as in the standard": bytes,
    # Rust's http, Node.js
    "lower case": names(bytes.lower),
    "upper case": names(bytes.upper),
    # Go's textproto
    "canonical in Go": names(lambda name: b"-".join(map(bytes.capitalize, name.split(b"-")))),
    "in turn": names(in_turn),
    "blanks before the colon": lambda line: line.replace(b": ", b" \t: ", 1),
    "a tab after it": lambda line: line.replace(b": ", b":\t", 1),
    "nothing after it": lambda line: line.replace(b": ", b":", 1),
    "blanks around the value": lambda line: line.replace(b": ", b": \t ", 1) + b" \t",
    "folded after the colon": lambda line: line.replace(b": ", b":\r\n ", 1),
    "folded twice": lambda line: line.replace(b": ", b":\r\n\t \r\n\t", 1),
    "folded in lower case": lambda line: line.lower().replace(b": ", b" :\n\t", 1),
    "lines before it": lambda line: b"no field at all\r\n:\r\n" + line,
    "another field of a longer name": lambda line: b"X-" + line + b"x\r\n" + line,
    "repeated": lambda line: line + b"\r\n" + line,
    "repeated, first empty": lambda line: line.partition(b":")[0] + b":\r\n" + line,
    "values in capitals": lambda line: (
        line.upper() if re.match(b"(warc-type|content-type|t.*-e)", line.lower()) else line
    ),
}
COMPRESSIONS = {
    "none": (".warc", lambda records: b"".join(records)),
    "gzip, a member a record": (".warc.gz", lambda records: b"".join(map(gzip.compress, records))),
    "gzip, one member": (".warc.gz", lambda records: gzip.compress(b"".join(records))),
    "zstd, a frame a record": (
        ".warc.zst",
        lambda records: b"".join(map(zstandard.compress, records)),
    ),
    "zstd, one frame": (".warc.zst", lambda records: zstandard.compress(b"".join(records))),
}
CODINGS = list(itertools.product(PACK, [False, True]))
TEXT = "Wörter of page {} ausgeschrieben"


def record(spell, version, number, packing="", in_chunks=False, end=b"\r\n"):
    """Return a record of a response with its last line end, all fields spelled alike."""
    body = PACK[packing](TEXT.format(number).encode("latin1"))
    body = chunked(body) if in_chunks else body
    http = [b"Server: x", b"Content-Type: text/plain; charset=iso-8859-1"]
    http += [b"Content-Encoding: %s" % packing.encode()] * bool(packing)
    http += [b"Transfer-Encoding: chunked"] * in_chunks
    http += [b"Content-Length: %d" % len(body)]
    block = end.join([b"HTTP/1.1 200 OK", *map(spell, http), b"", body])
    fields = [
        b"WARC-Type: response",
        b"WARC-Record-ID: <urn:uuid:%d>" % number,
        b"WARC-Target-URI: http://host/Path?q=%d" % number,
        b"WARC-Date: 2024-01-01T00:00:%02dZ" % (number % 60),
        b"Content-Type: application/http; msgtype=response",
        b"Content-Length: %d" % len(block),
    ]
    return end.join([b"WARC/" + version, *map(spell, fields), b"", block, b"", b""])


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_writer_by_count(tmp_path, spelling, compression):
    """Every version and coding, with either end of lines: as many documents as records."""
    ending, pack = COMPRESSIONS[compression]
    cells = list(itertools.product(VERSIONS, [b"\r\n", b"\n"], CODINGS))
    records = [
        record(SPELLINGS[spelling], version, number, *coding, end=end)
        for number, (version, end, coding) in enumerate(cells)
    ]
    path = tmp_path / f"a{ending}"
    path.write_bytes(pack(records))
    reading = read(path, fields=["url", "warc-date", "Warc-Target-Uri"], keep_records=True)
    assert reading.reasons == []
    assert reading.rejects.skipped == {}
    assert reading.texts == [TEXT.format(number) for number in range(len(cells))]
    assert [id.lower() for id in reading.ids] == [f"urn:uuid:{n}" for n in range(len(cells))]
    for number, fields in enumerate(reading.fields):
        url = f"http://host/path?q={number}"
        assert [fields[name].lower() for name in ("url", "Warc-Target-Uri")] == [url, url]
        assert fields["warc-date"].upper() == f"2024-01-01T00:00:{number % 60:02}Z"
    if not spelling.startswith("repeated"):
        assert [kept.rstrip() for kept in reading.records] == [each.rstrip() for each in records]
    if compression == "none":
        path.write_bytes(b"".join(reading.records))
        assert read(path).texts == reading.texts


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_writer_wherever_a_file_is_cut(tmp_path, spelling):
    spell = SPELLINGS[spelling]
    path = tmp_path / "a.warc"
    path.write_bytes(b"".join(record(spell, b"1.0", number) for number in range(3)))
    for cut, reading in cut_everywhere(path, 7):
        assert reading.texts == [TEXT.format(number) for number in range(3)], cut


# other lines are no sign of a record
@pytest.mark.parametrize("spelling", [each for each in SPELLINGS if each != "lines before it"])
def test_every_writer_after_damage(tmp_path, spelling):
    """The next record is found however its first field is spelled."""
    one, two = (record(SPELLINGS[spelling], b"1.1", number) for number in range(2))
    path = tmp_path / "a.warc"
    path.write_bytes(one[:-30] + b"\n" + two)
    reading = read(path)
    assert (reading.texts, reading.rejects.count) == ([TEXT.format(1)], 1)
