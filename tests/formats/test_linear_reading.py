"""Every reader takes time in proportion to what it reads, whatever that is.

Counted are the calls that Python makes, and the bytes that are copied or searched, never seconds.
"""

import gzip
import re
import sys
import tracemalloc
import zlib
from typing import NamedTuple

import pytest
from resiliparse.extract import html2text

from mr_dedup.formats import content, fingerprint_files, lines, pair_files, url_lines
from mr_dedup.formats.documents import html_text, http_body
from mr_dedup.formats.documents.rejects import Rejects
from tests.formats.documents.reading import read
from tests.formats.documents.test_document_warc import page


def calls(function):
    """Return how many calls of functions ``function`` makes, those of C included."""
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.fixture
def touched(monkeypatch):
    """Return a list whose first element counts the bytes that are copied out or searched."""
    count = [0]

    class CountedPattern(NamedTuple):
        pattern: re.Pattern

        def search(self, data, start, stop):
            found = self.pattern.search(data, start, stop)
            count[0] += (found.end() if found else min(stop, len(data))) - start
            return found

    class Counting(content.Content):
        def _copy(self, start, stop):
            data = super()._copy(start, stop)
            count[0] += len(data)
            return data

        # these copy by themselves, or by what is counted above: twice at most
        def read(self, size):
            data = super().read(size)
            count[0] += len(data)
            return data

        def peek(self, size):
            data = super().peek(size)
            count[0] += len(data)
            return data

        def search(self, pattern, start, stop, max_match_bytes=64):
            return super().search(CountedPattern(pattern), start, stop, max_match_bytes)

        def _fill(self, size):
            before = len(self._buffer)
            super()._fill(size)
            count[0] += len(self._buffer) - before

    monkeypatch.setattr(content, "Content", Counting)
    return count


HEADER = b"WARC/1.0\r\nWARC-Type: response\r\n"
HOSTILE = {
    "lengths beyond many others": lambda n: (
        (HEADER + b"Content-Length: 4000000\r\n\r\n") * n + b"y" * 4_500_000
    ),
    "lengths beyond the next": lambda n: (HEADER + b"Content-Length: 999\r\n\r\n") * n,
    "lengths of too few bytes": lambda n: (
        (HEADER + b"Content-Length: 1\r\n\r\n" + b"<p>\n" * 9) * n
    ),
    "no lengths": lambda n: (HEADER + b"\r\n") * n,
    "no lengths, and blank lines": lambda n: (HEADER + b"\r\n" * 900) * (n // 20),
    "headers without ends": lambda n: b"WARC/1.0\na:x\n" * n,
    "short headers": lambda n: b"WARC/1.0\na:\n\n" * n,
    "versions": lambda n: b"WARC/1.0\n" * n,
    "versions after blank lines": lambda n: b"\r\n\r\nWARC/1.0" * n,
    "marks": lambda n: b"\nWARC/" * n,
    "blank lines": lambda n: b"\r\n" * 50 * n,
    "lengths that end in blanks": lambda n: (
        (HEADER + b"Content-Length: 9\r\n\r\n" + b" " * 99 + b"x\n") * n
    ),
    "lengths that end in NULs": lambda n: (
        (HEADER + b"Content-Length: 0\r\n\r\n" + bytes(3000) + b"x\n") * (n // 20)
    ),
    "lengths beyond the limit": lambda n: (HEADER + b"Content-Length: 99999999\r\n\r\n") * n,
    "NULs before versions": lambda n: b"\0WARC/1.0" * n,
    "long headers": lambda n: (HEADER + b"X: " + b"x" * 30_000 + b"\r\n\r\n") * (n // 100),
    "lines": lambda n: HEADER + b"a:b\n" * 20 * n,
    "records within a header without an end": lambda n: b"WARC/1.0\nab: " * 5 * n,
    "records within a header": lambda n: b"WARC/1.0\nab: " * 5 * n + b"\n\n",
    "records before what may be a length": lambda n: b"WARC/1.0\na:\n\n " * 5 * n + b"\nHTTP/1.1",
    "many fields": lambda n: HEADER + b"a:\n" * 50 * n + b"Content-Length: 0\n\n",
    "fields of one name": lambda n: HEADER + b"content-length\n" * 20 * n + b"\n",
    "lengths": lambda n: HEADER + b"Content-Length: 9\n" * 20 * n + b"\n123456789\n\n",
    "lines that go on": lambda n: HEADER + b"Content-Length:\n" + b" \n" * 50 * n + b" 9\n\n",
    "blanks after names": lambda n: HEADER + (b"content-length" + b" " * 999) * n + b"\n\n",
    "empty records": lambda n: (HEADER + b"Content-Length: 0\r\n\r\n\r\n\r\n") * n,
}


@pytest.mark.parametrize("ending", ["warc", "warc.gz"])
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_warc(tmp_path, touched, hostile, ending):
    found = []
    for n in (1000, 2000):
        data = hostile(n)
        path = tmp_path / f"{n}.{ending}"
        path.write_bytes(gzip.compress(data, 1) if ending == "warc.gz" else data)
        touched[0] = 0
        steps = calls(lambda path=path: read(path, max_record_bytes=5_000_000))
        found.append((steps, touched[0]))
        assert touched[0] < 200 * len(data)
    (fewer_steps, fewer_bytes), (steps, bytes_touched) = found
    assert steps < 2.2 * fewer_steps + 1000
    assert bytes_touched < 2.2 * fewer_bytes + 1_000_000


def small_member(n):
    return gzip.compress(HEADER + b"Content-Length: 9\r\n\r\n%09d\r\n\r\n" % n)


def broken(member):
    return member[:-8] + bytes(8)


STORED = b"\x1f\x8b\x08" + bytes(7)
"""What a member begins with; a block as it is may follow."""


def nested_members(n):
    """Return members that each have all later ones in them, and end with damage."""
    begin = b"WARC/1.0\r\n"
    parts = []
    for _ in range(n):
        parts.append(STORED + b"\0\xff\xff\0\0" + begin)
    return b"".join(parts) + bytes(70_000) + b"\x07" * 9


MEMBERS = {
    "damaged members": lambda n: b"".join(broken(small_member(i)) for i in range(n)),
    "every other one damaged": lambda n: b"".join(
        small_member(i) + broken(small_member(i)) for i in range(n // 2)
    ),
    "garbage between them": lambda n: b"x".join(map(small_member, range(n))),
    "what members begin with": lambda n: small_member(1) + b"x" + b"\x1f\x8b\x08" * 20 * n,
    "headers of members": lambda n: small_member(1) + b"x" + STORED * 8 * n,
    "empty blocks": lambda n: small_member(1) + b"x" + (STORED + b"\0\0\0\xff\xff" * 9) * n,
    "members in members": nested_members,
}


@pytest.mark.parametrize("hostile", MEMBERS.values(), ids=MEMBERS)
def test_damaged_members(tmp_path, touched, monkeypatch, hostile):
    """What is decompressed, and searched for members, is counted too."""
    decompress = zlib.decompressobj

    class Decompressor:
        def __init__(self, *args, of=None, **more):
            self.of = of or decompress(*args, **more)

        def decompress(self, data, *limit):
            left = len(data)
            try:
                content = self.of.decompress(data, *limit)
                left = len(self.of.unused_data) + len(self.of.unconsumed_tail)
                touched[0] += len(content) + len(data) - left
            except zlib.error:
                touched[0] += len(data)
                raise
            return content

        def copy(self):
            return Decompressor(of=self.of.copy())

        def __getattr__(self, name):
            return getattr(self.of, name)

    monkeypatch.setattr(zlib, "decompressobj", Decompressor)
    found = []
    for n in (1500, 3000):
        path = tmp_path / f"{n}.warc.gz"
        path.write_bytes(hostile(n))
        touched[0] = 0
        found.append((calls(lambda path=path: read(path)), touched[0]))
    (fewer_steps, fewer_bytes), (steps, bytes_touched) = found
    assert steps < 2.2 * fewer_steps + 1000
    assert bytes_touched < 2.2 * fewer_bytes + 1_000_000


BODIES = {
    "chunks": lambda n: b"1\r\na\r\n" * n,
    "chunks of nothing much": lambda n: b"1\na" * n,
    "gzip members": lambda n: gzip.compress(b"") * n,
    "comments": lambda n: b"<!-- a -->" * n + b"<script>x",
    "openings of comments": lambda n: b"<!--" * n,
    "white space": lambda n: b" \n" * n,
}


@pytest.mark.parametrize("hostile", BODIES.values(), ids=BODIES)
def test_bodies_and_what_pages_begin_with(tmp_path, hostile):
    steps = []
    for n in (4000, 8000):
        path = tmp_path / f"{n}.warc"
        chunked = b"Transfer-Encoding: chunked\r\n"
        path.write_bytes(page(1, hostile(n), headers=chunked) + page(2, hostile(n), type=b""))
        steps.append(calls(lambda path=path: read(path)))
        steps[-1] += calls(lambda n=n: http_body.looks_like_html(hostile(n)))
    assert steps[1] < 2.2 * steps[0] + 1000


BLANK = {
    "jsonl": (b'{"id": "%d", "text": "x"}\n', lambda path: read(path)),
    "warc": (page(1).replace(b"%", b"%%") + b"%d\n", lambda path: read(path)),
    "txt": (b"http://host/%d\n", lambda path: list(url_lines.url_lines(str(path), Rejects()))),
    "fingerprints": (
        b"%d\n",
        lambda path: list(fingerprint_files.FingerprintFile(path, "text", "gzip").batches()),
    ),
    "tsv": (b"%d\t7\n", lambda path: pair_files.read_pairs(path)),
    "truth": (b"%d\t7\t0.5\n", lambda path: pair_files.read_truth(path)),
}


@pytest.mark.parametrize("format", BLANK)
@pytest.mark.parametrize("blank", [b"\n", b"\r\n"], ids=["LF", "CR LF"])
def test_blank_lines_are_skipped_many_at_once(tmp_path, format, blank):
    """A megabyte of gzip data is a gigabyte of them."""
    line, reading = BLANK[format]
    name = format if format in ("jsonl", "warc") else "txt"
    steps = []
    for megabytes in (1, 2):
        path = tmp_path / f"{megabytes}.{name}.gz"
        lines = [line % number + blank * (megabytes << 19) for number in (1, 2)]
        path.write_bytes(gzip.compress(b"".join(lines), 1))
        steps.append(calls(lambda path=path: reading(path)))
    assert steps[1] < 2.2 * steps[0] + 1000
    # calls for a block of a quarter of a megabyte, or of 4 KB
    assert steps[1] < 20_000


def test_lines_keep_their_numbers_after_blank_ones(tmp_path):
    path = tmp_path / "a.jsonl"
    blank = b"\n \n\r\n\t\n" * 50_000
    path.write_bytes(blank + b'{"id": 1, "text": "x"}\n' + blank + b"bad\n" + blank[:-1])
    for limit in (1 << 20, 100):
        reading = read(path, max_record_bytes=limit)
        assert reading.documents == [("1", "x", len(blank))]
        (reject,) = reading.reasons
        assert reject[0] == f"line 400002 (byte {2 * len(blank) + 23})"


def test_a_line_that_is_read_in_many_pieces_is_searched_once(tmp_path, monkeypatch):
    """In a part of a file too, where the end of the last line is looked for behind its stop."""
    searched = [0]

    class Counting(bytearray):
        def find(self, byte, start, stop):
            searched[0] += stop - start
            return super().find(byte, start, stop)

        def __add__(self, other):
            return Counting(bytes(self) + bytes(other))

    path = tmp_path / "a"
    path.write_bytes(b"x" * 4_000_000)
    monkeypatch.setattr(lines, "_READ_BYTES", 1 << 12)
    monkeypatch.setattr(lines, "bytearray", Counting, raising=False)
    with content.open_content(path, "a") as opened:
        assert len(list(lines.line_blocks(opened, 0, 10, 1 << 30))) == 1
    assert searched[0] < 5_000_000


def test_a_tag_of_many_values_takes_no_memory():
    for value in ('""', "''", '"a" ', "'\"'"):
        html = "<a " + value * 1_000_000
        tracemalloc.start()
        try:
            with pytest.raises(html_text.HtmlError, match="attributes"):
                html_text.text_of_html(html, "main")
            assert tracemalloc.get_traced_memory()[1] < 100_000_000
        finally:
            tracemalloc.stop()


MULTIPLIED = {
    "formatting with attributes": lambda n: (
        "<p>" + "".join(f"<b id={i}>" for i in range(n)) + "</p>" + "<p>x" * (4 * n)
    ),
    "closed where it is none": lambda n: (
        "<p>" + "".join(f"<FONT id={i}><!-- </font> -->" for i in range(n)) + "</p>" + "<p>x" * n
    ),
    "formatting without": lambda n: (
        "<p>" + "<b>" * 3 + "<i>" * 3 + "<tt>" * 3 + "<u>" * 3 + "</p>" + "<p>x" * 8 * n
    ),
}


@pytest.mark.parametrize("html", MULTIPLIED.values(), ids=MULTIPLIED)
def test_elements_of_formatting_are_not_multiplied(monkeypatch, html):
    """The parser opens those again in each paragraph that nothing has closed."""
    page = html(2000)
    elements = parsed_html(monkeypatch, page).document.query_selector_all("*")
    assert len(elements) < page.count("<") + 100_000
    assert html_text.text_of_html(page, "page").text.split() == ["x"] * page.count("x")


@pytest.mark.parametrize("option", ["<option>x", "<OPTION value='</select>'>x</Option>\n"])
@pytest.mark.parametrize("around", ["<select>{}", "<select><script></select></script>{}</select>"])
def test_a_select_element_has_few_options(monkeypatch, around, option):
    """The parser looks at all of them for each of them."""
    html = "<p>a" + around.format(option * 20_000)
    options = parsed_html(monkeypatch, html).document.query_selector_all("option")
    assert len(options) <= 1000
    assert html_text.text_of_html(html, "page").text == "a"


def parsed_html(monkeypatch, html):
    """Return what is parsed for the text of ``html``."""
    parsed = []

    def extract(tree, **options):
        parsed.append(tree)
        return "x"

    with monkeypatch.context() as patched:
        patched.setattr(html2text, "extract_plain_text", extract)
        html_text.text_of_html(html, "page")
    return parsed[0]
