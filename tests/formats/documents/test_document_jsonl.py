"""Documents as JSON lines: what is read, what is rejected, and where."""

import gzip
import itertools
import json
import random

import numpy as np
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError
from mr_dedup.formats.documents.files import DocumentFile, DocumentPart
from mr_dedup.formats.documents.lines_at import lines_at
from tests.formats.documents.reading import cut_everywhere, read, small_blocks
from tests.strategies import ENCODABLE

BAD = {
    b"{": "is not JSON",
    b"nonsense": "is not JSON",
    b'{"id": "a", "text": "b",}': "is not JSON",
    b'{"id": "a", "text": "b"} {}': "is not JSON",
    b'{"id": "a", "text": "b"}{"id": "c", "text": "d"}': "is not JSON",
    b'{"id": "a", "text": "raw \x00 byte"}': "is not JSON",
    b'{"id": "a", "text": "\\ud800"}': "its 'text' has half of a surrogate pair",
    b'{"id": "a", "text": "\\udc00\\ud800"}': "its 'text' has half of a surrogate pair",
    b'{"id": "a", "text": "b", "score": 1NaN}': "is not JSON",
    b'{"id": "a", "text": "b", "score": nan}': "is not JSON",
    b'{"id": "a", "text": "b", "more": "\\ud8zz"}': "is not JSON",
    b'{"id": "a", "text": Infinity}': "its 'text' is a number, not text",
    b"[1, 2]": "is not as expected",
    b"null": "is not as expected",
    b'"text"': "is not as expected",
    b'{"id": "a", "text": 1}': "its 'text' is a number, not text",
    b'{"id": "a", "text": ["b"]}': "its 'text' is an array, not text",
    b'{"id": "a", "text": null, "html": {}}': "its 'html' is an object, not text",
    b'{"id": "a"}': "has neither 'text' nor 'html'",
    b'{"id": "a", "text": null}': "its 'text' is null",
    b'{"id": "a", "text": NaN, "html": null}': "its 'text' is null",
    b'{"id": "a", "html": null}': "its 'html' is null",
    b"{}": "has neither 'text' nor 'html'",
    b'{"id": "a", "text": "\xff"}': "is not UTF-8",
    b'{"id": "a", "text": "\xed\xa0\x80"}': "is not UTF-8",
    b'{"id": "a", "text": "b", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}": "is nested too",
    b'{"id": "a", "text": "b", "x": ' + b'{"x":' * 100_000: "is nested too",
    b"\xff\xfd{\x00": "is not JSON",
}


def write(tmp_path, *lines, name="a.jsonl", end=b"\n"):
    path = tmp_path / name
    path.write_bytes(b"".join(line + end for line in lines))
    return path


def test_ids_texts_and_places(tmp_path):
    path = write(
        tmp_path,
        b'{"id": "a", "text": "one", "more": [1, {"text": "no"}]}',
        b'{"text": "two", "url": "http://b/"}',
        '{"id": "ü", "text": "早 \\u65e9 \\ud83d\\ude00 \\u0000"}'.encode(),
        b'{"id": "d", "text": " d", "html": "<p>unread"}',
    )
    reading = read(path)
    assert reading.documents == [
        ("a", "one", 0),
        ("http://b/", "two", 56),
        ("ü", "早 早 😀 \0", 92),
        ("d", " d", 147),
    ]
    assert reading.files == [str(path)] * 4
    assert reading.rejects.count == 0


@pytest.mark.parametrize(
    ("record", "id"),
    [
        (b'{"id": 17, "text": ""}', "17"),
        (b'{"id": -18446744073709551616, "text": ""}', "-18446744073709551616"),
        (b'{"id": null, "url": "u", "text": ""}', "u"),
        (b'{"id": "", "url": "u", "text": ""}', "u"),
        (b'{"url": 5, "text": ""}', "5"),
        (b'{"text": ""}', "docs.jsonl:1"),
        (b'{"id": "", "text": ""}', "docs.jsonl:1"),
        (b'{"id": "first", "id": "last", "text": ""}', "last"),
        (b'{"id": ' + b"1" * 5000 + b', "text": ""}', "1" * 5000),
        (b'{"id": 3.0, "text": ""}', "3"),
        (b'{"id": 1e3, "text": ""}', "1000"),
        (b'{"id": 1.50, "text": ""}', "1.5"),
        (b'{"id": -1e300, "text": ""}', "-1e+300"),
        (b'{"id": true, "text": ""}', "true"),
        (b'{"id": NaN, "url": "u", "text": ""}', "u"),
        (b'{"id": Infinity, "text": ""}', "docs.jsonl:1"),
        (b'{"id": -Infinity, "text": ""}', "docs.jsonl:1"),
        (b'{"id": 1e400, "text": ""}', "docs.jsonl:1"),
        (b'{"id": {"a": 1}, "text": ""}', "docs.jsonl:1"),
        (b'{"id": [1], "url": "u", "text": ""}', "u"),
        (b'{"id": "\xc3", "text": ""}', "docs.jsonl:1"),
        (b'{"id": "\\ud800", "url": "u", "text": ""}', "u"),
    ],
)
def test_what_a_document_is_called(tmp_path, record, id):
    path = write(tmp_path, b"", record)
    assert read(DocumentFile(path, "docs.jsonl", "jsonl")).documents == [(id, "", 1)]


def test_ids_without_a_form_are_counted(tmp_path):
    lines = [b'{"id": %b, "text": "t"}' % id for id in (b"[]", b"1e400", b"null", b"5", b'"\xff"')]
    assert read(write(tmp_path, *lines)).rejects.counts.unusable_ids == 3
    with_url = [line.replace(b"{", b'{"url": "u", ') for line in lines]
    assert read(write(tmp_path, *with_url)).rejects.counts.unusable_ids == 0


UNREAD = [
    *(b"NaN", b"-Infinity", b'[NaN, {"a": Infinity}]', b"1e400", b"-%d" % 2**70, b"1.50"),
    *(b'"\\ud83d"', b'"\\ude00\\ud83d x"', b'["NaN", "\\"NaN", "\\\\", NaN]', b'"\\\\\\ud83d\\n"'),
    *(b'{"\\ud83d": NaN}', b'"\xff"', b"[" * 500 + b"]" * 500, b'"\\ud83d\\ude00 \\uDBFF"'),
]
"""Values of members that are not read."""


@pytest.mark.parametrize("value", UNREAD)
def test_members_that_are_not_read_pass_unchanged(tmp_path, value):
    """Whether they are before what is read, or behind it; they do not change texts or ids."""
    lines = [
        b'{"x": %b, "id": "a NaN", "text": "NaN \\ud83d\\ude00 \\\\ud83d, Infinity"}' % value,
        b'{"id": 1, "text": "b", "x": %b}' % value,
        b'{"id": 2, "text": "c", "x": %b, "x": 1}' % value,
    ]
    reading = read(write(tmp_path, *lines), keep_records=True)
    text = "NaN \U0001f600 \\ud83d, Infinity"
    assert [document[:2] for document in reading.documents] == [
        ("a NaN", text),
        ("1", "b"),
        ("2", "c"),
    ]
    assert reading.records == [line + b"\n" for line in lines]
    assert reading.rejects.listed == []
    # the same line by line, and of what is read
    for options in ({}, {"fields": ["x", "text"], "id_names": ["x", "id"]}):
        readings = [read(write(tmp_path, *more), **options) for more in (lines, [*lines, b"bad"])]
        assert readings[0].documents == readings[1].documents
        assert readings[0].fields == readings[1].fields


@pytest.mark.parametrize("text", ["", " \n\t", "\u3000"])
def test_html_is_read_for_a_blank_text(tmp_path, text):
    lines = [
        json.dumps({"id": number, "text": text, "html": html}).encode()
        for number, html in enumerate(["<p>one", "<p>two", "", None, {"a": 1}, "<p> "])
    ]
    reading = read(write(tmp_path, *lines))
    assert reading.texts[:2] == ["one", "two"]
    assert not "".join(reading.texts[2:]).strip()
    assert reading.rejects.counts.empty == 4
    assert reading.rejects.count == 0


def test_records_without_a_text_are_no_rejects(tmp_path):
    lines = [b'{"id": 1, "text": "t"}', b'{"text": null, "content": "c"}', b'{"html": NaN}', b"{}"]
    counts = read(write(tmp_path, *lines)).rejects.counts
    assert (counts.documents, counts.without_text, counts.rejected) == (1, 2, 1)
    assert str(counts.first_without_text).endswith("line 2 (byte 23): its 'text' is null")
    assert counts.other_fields == {"content": 1}
    counts.require_few_rejected(0.5)
    assert list(counts.warnings()) == [
        "2 of 3 records have no text; if another field such as content has it, name that with "
        "--text-field or --html-field"
    ]


def test_html_is_made_text(tmp_path):
    path = write(tmp_path, b'{"id": "a", "html": "<title>t</title><p>one<script>two</script>"}')
    assert read(path).texts == ["one t"]


def test_other_names(tmp_path):
    path = write(tmp_path, b'{"doc": "a", "content": "b", "id": "no", "text": 3}')
    reading = read(path, id_names=["key", "doc"], text_name="content")
    assert reading.documents == [("a", "b", 0)]
    assert read(path, id_names=[], text_name="content").ids == [f"{path}:0"]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_bad_line_is_rejected_and_the_others_are_kept(tmp_path, bad):
    good = [b'{"id": "%d", "text": "t"}' % number for number in range(3)]
    path = write(tmp_path, good[0], bad, b" \t", b"", good[1], bad, good[2])
    reading = read(path)
    assert reading.ids == ["0", "1", "2"]
    places = [f"line {n} (byte {at})" for n, at in ((2, 25), (6, 25 * 2 + len(bad) + 1 + 3 + 1))]
    assert [reject.position for reject in reading.rejects.listed] == places
    assert all(reject.file == str(path) for reject in reading.rejects.listed)
    assert all(reject.reason.startswith(BAD[bad]) for reject in reading.rejects.listed)
    with pytest.raises(FormatError) as error:
        read(path, strict=True)
    assert error.value.offset == places[0]


def test_an_object_over_two_lines_is_no_document_even_if_the_count_is_right(tmp_path):
    two = b'{"id": "a", "text": "b"}{"id": "c", "text": "d"}'
    path = write(tmp_path, two, b'{"id": "e",', b' "text": "f"}')
    reading = read(path)
    assert reading.documents == []
    assert reading.rejects.count == 3
    path = write(tmp_path, two, b'{"x": {}', b', "y": {"z": 0}, "text": "f"}')
    assert read(path).rejects.count == 3


def test_members_that_are_not_read_need_not_be_utf8(tmp_path):
    path = write(tmp_path, b'{"id": "a", "text": "b", "x": "\xff"}')
    assert read(path).ids == ["a"]
    path = write(tmp_path, b'{"text": "b", "x": "\xff"}', b'{"text": "b", "x": "a\\ud83d"}')
    assert read(path, fields=["x"]).fields == [{"x": "\ufffd"}, {"x": "a\ufffd"}]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks(tmp_path, end, mark):
    path = tmp_path / "a.jsonl"
    line = b'{"id": "a", "text": "b"}'
    path.write_bytes(mark + line + end + end + line)
    reading = read(path, keep_records=True)
    first = len(mark)
    assert reading.documents == [("a", "b", first), ("a", "b", first + 24 + 2 * len(end))]
    # the last line need not end, its record does
    assert reading.records == [line + end, line + b"\n"]


def test_byte_order_marks_before_any_line(tmp_path, monkeypatch):
    """As of files that were concatenated, whatever the size of blocks."""
    mark = b"\xef\xbb\xbf"
    lines = [b'{"id": "%d", "text": "t"}\n' % number for number in range(40)]
    for marked in (range(40), [0, 5, 6], [39]):
        written = [mark * (1 + n % 2) * (n in marked) + line for n, line in enumerate(lines)]
        path = tmp_path / "a.jsonl"
        path.write_bytes(mark.join([b"".join(written), b"\n", b""]))
        for size in (16, 100, 1 << 18):
            with small_blocks(monkeypatch, size):
                reading = read(path, keep_records=True)
                assert reading.records == lines
                ends = itertools.accumulate(map(len, written))
                starts = [end - len(line) for end, line in zip(ends, lines, strict=True)]
                assert [at for _, _, at in reading.documents] == starts
                file = DocumentFile.detect(path)
                copied = lines_at(file.whole(), np.array(starts), 1 << 20)
                assert [line for block in copied for line in block.to_pylist()] == lines
        assert reading.rejects.count == 0


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"  \r\n"])
def test_files_with_nothing_in_them(tmp_path, content):
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    reading = read(path)
    assert (reading.documents, reading.rejects.count) == ([], 0)


def test_fields_and_records(tmp_path):
    lines = [
        b'{"id": "a", "text": "t", "s": "x\\ty", "n": 1.50, "o": {"k": [1, 2]}}',
        b'{"id": 7, "text": "t", "s": null, "b": false}',
    ]
    names = ["s", "n", "o", "b", "id", "text"]
    reading = read(write(tmp_path, *lines), fields=names, keep_records=True)
    assert reading.fields == [
        dict(zip(names, ["x\ty", "1.50", '{"k": [1, 2]}', None, "a", "t"], strict=True)),
        dict(zip(names, [None, None, None, "false", "7", "t"], strict=True)),
    ]
    assert reading.records == [line + b"\n" for line in lines]


def test_lines_that_are_too_long(tmp_path, monkeypatch):
    def line(id, length):
        return b'{"id": "%s", "text": "%s"}' % (id, b"x" * (length - 23))

    lines = [line(b"a", 100), line(b"b", 101), line(b"c", 100), line(b"d", 5000), line(b"e", 30)]
    path = write(tmp_path, *lines, end=b"\r\n")
    for size in (16, 64, 1000, 1 << 18):
        with small_blocks(monkeypatch, size):
            reading = read(path, max_record_bytes=100)
        assert reading.ids == ["a", "c", "e"]
        reason = "is longer than 100 bytes"
        assert reading.reasons == [("line 2 (byte 102)", reason), ("line 4 (byte 307)", reason)]


def test_batches_are_about_as_large_as_asked(tmp_path, monkeypatch):
    lines = [b'{"id": "%d", "text": "%s"}' % (n, b"x" * 1000) for n in range(1000)]
    path = write(tmp_path, *lines)
    with small_blocks(monkeypatch, 2000):
        reading = read(path, batch_bytes=100_000)
    assert reading.ids == [str(n) for n in range(1000)]
    assert max(reading.batches) < 100
    assert min(reading.batches[:-1]) > 80


TEXTS = st.text(ENCODABLE, max_size=12)


@st.composite
def lines_and_documents(draw):
    """Lines, and for each its id and text, "bad", or None where it is blank."""
    lines, expected = [], []
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["good", "good", "good", "html", "bad", "blank"]))
        if kind == "good":
            id, text = draw(TEXTS.filter(bool) | st.integers(0, 2**70)), draw(TEXTS)
            more = draw(st.dictionaries(TEXTS.map("x".__add__), TEXTS, max_size=2))
            record = {"id": id, "text": text, **more}
            ascii = draw(st.booleans())
            lines.append(json.dumps(record, ensure_ascii=ascii).encode())
            expected.append((str(id), text))
        elif kind == "html":
            lines.append(b'{"url": "u", "html": "<b>h</b>"}')
            expected.append(("u", "h"))
        elif kind == "bad":
            lines.append(draw(st.sampled_from(sorted(BAD, key=len)[:-5])))
            expected.append("bad")
        else:
            lines.append(draw(st.sampled_from([b"", b" ", b"\t \r"])))
            expected.append(None)
    return lines, expected


@given(
    lines_and_documents(),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.lists(st.integers(0, 2000), max_size=3),
    st.sampled_from([8, 40, 1 << 18]),
)
def test_any_lines_cut_anywhere(tmp_path_factory, sample, end, whole_end, cuts, size):
    lines, expected = sample
    data = b"".join(line + end for line in lines)
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_bytes(data if whole_end else data[: len(data) - len(end)])
    places = [len(end.join([*lines[:n], b""])) for n in range(len(lines))]
    documents = [
        (*document, place)
        for document, place in zip(expected, places, strict=True)
        if document not in (None, "bad")
    ]
    bad = [place for kind, place in zip(expected, places, strict=True) if kind == "bad"]
    file = DocumentFile.detect(path)
    edges = [0, *sorted(cuts), None]
    parts = [DocumentPart(file, *edge) for edge in itertools.pairwise(edges)]
    with pytest.MonkeyPatch.context() as monkeypatch, small_blocks(monkeypatch, size):
        for sources in ([path], parts):
            reading = read(*sources)
            assert reading.documents == documents
            found = [reject.position.partition("byte ")[2] for reject in reading.rejects.listed]
            assert [int(place.rstrip(")")) for place in found] == bad


def test_every_cut_gives_the_same_documents(tmp_path, monkeypatch):
    lines = [b'{"id": "a", "text": "b"}', b"", b"bad", b'{"text": "c"}', b"x" * 90, b'{"id": "d"}']
    path = write(tmp_path, *lines, b'{"id": "e", "text": "f"}')
    whole = read(path, max_record_bytes=80)
    assert len(whole.documents) == 3
    for size in (16, 1 << 18):
        with small_blocks(monkeypatch, size):
            for cut, reading in cut_everywhere(path):
                assert reading.documents == whole.documents, cut
                assert reading.rejects.count == whole.rejects.count, cut


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compressed_lines(tmp_path, monkeypatch, pack):
    lines = [b'{"id": "%d", "text": "t%d"}\n' % (n, n) for n in range(500)]
    path = tmp_path / ("a.jsonl.gz" if pack is gzip.compress else "a.jsonl.zst")
    path.write_bytes(pack(b"".join(lines[:300])) + pack(b"") + pack(b"".join(lines[300:])))
    for size in (16, 100, 1 << 16):
        with small_blocks(monkeypatch, size):
            assert read(path).texts == [f"t{n}" for n in range(500)]
    path.write_bytes(pack(b"".join([lines[0], b"bad\n", lines[1]])))
    assert read(path).reasons[0][0] == f"line 2 (decompressed byte {len(lines[0])})"


UNUSUAL = [
    *(b"", b" ", b"{}", b"[]", b"null", b'{"text"', b'{"text":', b'{"text":"', b'{"text":"a'),
    *(b'{"text":"a"', b'{"text": null}', b'{"text": 1}', b'{"text": ["a"]}', b'{"text": a}'),
    *(b'{"text": {"text": "a"}}', b'{"a": {"text": "b"}}', b'{"text": "a", "text": "b"}'),
    *(b'{"te\\u0078t": "a"}', b'{"text": "a", "te\\u0078t": "b"}', b'{"text": "\\"}'),
    *(b'{"text": "\\x"}', b'{"text": "\\u12"}', b'{"text": "\\u12g4"}', b'{"text": "\\ud800"}'),
    *(b'{"text": "\\udc00\\ud800"}', b'{"text": "\\ud800x"}', b'{"text": "\\ud800\\n"}'),
    *(b'{"text": "\\ud800\\u0041"}', b'{"text": "\t"}', b'{"text": "\x00"}', b'{"text": "a\nb"}'),
    *(b'{"x": "a\nb", "text": "c"}', b'{"x": "\\\n", "text": ""}', b' {"text": "a"}'),
    *(b'{"text": "a"} ', b'[{"text": "a"}]', b'{"text": "a"}\n\n', b'{"text": "a"}\n[]\n'),
    *(b'"text": "a"', b'{"texts": "a"}', b'{"TEXT": "a"}', b'{"x": "text"}', b'{"text" "a"}'),
]


def mutated(line, rng):
    """Return a line with some bytes changed, added, dropped or repeated."""
    content = bytearray(line)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 5])):
        at = rng.randrange(len(content) + 1)
        byte = rng.choice(b'"\\{}[]:, \t\rutexd08\0\x1f\x80\xbf\xc3\xe4\xed\xf0\xff')
        change = rng.randrange(4)
        if change == 0:
            content[at : at + 1] = bytes([byte])
        elif change == 1:
            content[at:at] = bytes([byte])
        elif change == 2:
            del content[at : at + rng.randrange(3)]
        else:
            content[at:at] = content[at : at + rng.randrange(20)]
    return bytes(content)


RECORDS = [
    '{"id": "a", "text": "one two"}',
    '{"text": "\\u4e2d\\ud83d\\ude00 é中😀 \\n", "id": "b"}',
    '{"id": 17, "n": [1, {"text": "no"}], "text": ""}',
    '{"url": "http://x/", "m": {"a": "\\"}"}, "text": "x"}',
    '{"text": "no id", "f": -1.5e3}',
]


@given(
    st.lists(st.sampled_from(RECORDS), min_size=1, max_size=4), st.randoms(use_true_random=False)
)
@example(['{"text": "a", "te\\u0078t": "b"}'], random.Random(0))
def test_at_once_as_line_by_line(tmp_path_factory, records, rng):
    check_at_once(
        tmp_path_factory.mktemp("lines") / "a.jsonl",
        [
            mutated(record.encode(), rng) if rng.random() < 0.6 else record.encode()
            for record in records
        ],
    )


@pytest.mark.parametrize("line", UNUSUAL)
def test_unusual_lines_at_once_as_line_by_line(tmp_path, line):
    check_at_once(tmp_path / "a.jsonl", [b'{"text": "fine"}', line, b'{"text": "x"}'])


def check_at_once(path, lines):
    """A line that is not JSON has the others read line by line, and is the only difference."""
    options = {"fields": ["f", "text", "n"], "keep_records": True, "max_record_bytes": 70}
    readings = []
    for last in (b"", b"bad"):
        path.write_bytes(b"".join(line + b"\n" for line in lines) + last)
        readings.append(read(path, **options))
    at_once, by_line = readings
    if "several lines" in by_line.reasons[-1][1]:
        return  # of records cut in two, which is no file of lines
    assert by_line.reasons[-1][1].startswith("is not JSON")
    assert at_once.reasons == by_line.reasons[:-1]
    for column in ("documents", "fields", "records"):
        assert getattr(at_once, column) == getattr(by_line, column)


def test_ids_of_every_kind_are_read_at_once(tmp_path):
    """And called as line by line: a file of each kind, then all of them."""
    kinds = [{"id": "a"}, {"id": 5}, {"id": 0}, {"url": "u"}, {"id": "", "url": 7}, {"id": None}]
    kinds.append({})
    names = ["a", "5", "0", "u", "7", None, None]
    for kind, name in [*zip(kinds, names, strict=True), (None, None)]:
        records = [kind] * 3 if kind is not None else kinds
        lines = [json.dumps({**record, "text": "t"}).encode() + b"\n" for record in records]
        path = tmp_path / "a.jsonl"
        path.write_bytes(b"".join(lines))
        places = [0, *itertools.accumulate(map(len, lines[:-1]))]
        expected = [name] * 3 if kind is not None else names
        reading = read(path)
        assert reading.ids == [
            id or f"{path}:{at}" for id, at in zip(expected, places, strict=True)
        ]
        assert read(path, id_names=[]).ids == [f"{path}:{at}" for at in places]


def test_a_first_line_that_is_damaged_to_look_like_an_array_loses_itself_alone(tmp_path):
    path = write(tmp_path, b'["id": "a", "text": "b"}', b'{"id": "c", "text": "d"}')
    reading = read(path)
    assert reading.ids == ["c"]
    assert [reject.rest_of_file for reject in reading.rejects.listed] == [False]
