"""Texts taken out of JSON lines, against Python's json; and at once against line by line."""

import itertools
import json
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mr_dedup.formats.documents.json_text_kernels import TextTaker
from tests.formats.documents.reading import read
from tests.strategies import ENCODABLE

TAKER = TextTaker("text")


def take(lines, taker=TAKER, before=b"", behind=b""):
    """Return texts and what is left of lines, None if any is unusual."""
    buffer = bytearray(before + lines + behind)
    taken = taker.take(buffer, len(before), len(before + lines))
    if taken is None:
        return None
    edges = taken.edges.tolist()
    assert (edges[0], edges[-1]) == (len(before), len(before + lines))
    assert all(buffer[stop - 1 : stop] == b"\n" for stop in edges[1:-1])
    taken.texts.validate(full=True)
    return taken.texts.to_pylist(), bytes(taken.rest)


def escaped(text, rng):
    """Return a JSON string for ``text``, spelled in one of the many ways."""
    short = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n",
             "\r": "\\r", "\t": "\\t"}  # fmt: skip
    spelled = []
    for character in text:
        units = character.encode("utf-16-be").hex()
        numbered = "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
        ways = [numbered, "\\u".join(numbered.upper().split("\\U"))]
        ways += [short[character]] * 2 if character in short else []
        ways += [character] * 4 if character >= " " and character not in '"\\' else []
        spelled.append(rng.choice(ways))
    return f'"{"".join(spelled)}"'


texts = st.one_of(
    st.text(ENCODABLE, max_size=150),
    st.text(st.sampled_from('a"\\/\b\f\n\r\t\0\x1f\x7fé中😀'), max_size=150),
)


OTHERS = [
    *('"n": [1, {"text": "no"}]', '"s": "text"', '"e": "a\\"\\\\ \\n}{"', '"o": {}', '"x": null'),
    f'"long": "{"y" * 200}"',
]


@given(st.lists(texts, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_texts_however_they_are_escaped(found, rng):
    lines = []
    for number, text in enumerate(found):
        blank = rng.choice(["", " ", "\t ", "  " * 40])
        members = [f'"id": "{number}"', f'"text"{blank}:{blank}{escaped(text, rng)}']
        members += rng.choices(OTHERS, k=rng.randrange(4))
        rng.shuffle(members)
        lines.append(f"{{{', '.join(members)}}}")
    end = rng.choice(["\n", "\r\n"])
    whole = (end.join(lines) + end * rng.randrange(2)).encode()
    taken, rest = take(
        whole, before=rng.choice([b"", b"\xef\xbb\xbf"]), behind=b" " * rng.choice([0, 99])
    )
    assert taken == found
    records = [json.loads(line) for line in rest.splitlines()]
    assert records == [{**json.loads(line), "text": ""} for line in lines]


@pytest.mark.parametrize("shift", range(66))
def test_strings_at_every_edge_of_a_block(shift):
    for text in ("", "x", "é" * 40, "中" * 70, "😀" * 33, "a\n" * 50, '"' * 70, "ab中" * 40):
        for ascii in (True, False):
            record = {"x" * shift: 1, "text": text, "y": "z" * shift}
            line = json.dumps(record, ensure_ascii=ascii).encode()
            assert take(line) == ([text], json.dumps({**record, "text": ""}).encode() + b"\n")


EDGES = [0x61, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC]
EDGES += [0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]


def is_utf8(content):
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_kind_of_byte_behind_every_other(length):
    """All that is UTF-8 and no more, alone and across the edge of a block."""
    rng = random.Random(length)
    leads = EDGES if length < 4 else [0xE1, 0xED, 0xF0, 0xF1, 0xF4, 0xF5]
    for content in map(bytes, itertools.product(leads, *[EDGES] * (length - 1))):
        for padding in (0, rng.randrange(56, 66)):
            taken = take(b'{"text":"' + b"p" * padding + content + b'"}')
            assert (taken is not None) == is_utf8(content), content
            assert taken is None or taken[0] == ["p" * padding + content.decode()]


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


@pytest.mark.parametrize("line", UNUSUAL)
def test_what_is_unusual_is_left_alone(line):
    for behind in (b"", b'"}' * 60, b" " * 99, b'"text": "b"}\n' * 9):
        assert take(line, behind=behind) is None
        assert take(b'{"text": "fine"}\n' + line, behind=behind) is None or line == b""


def test_names_of_any_length_and_script():
    for name in ("t", "text", "内容", "x" * 300, "a b"):
        line = json.dumps({name + "x": "no", name: "yes", "z": 1}, ensure_ascii=False)
        taken = take(line.encode(), TextTaker(name))
        assert taken == (["yes"], line.replace("yes", "").encode() + b"\n")


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


@given(st.sampled_from(RECORDS), st.randoms(use_true_random=False))
def test_if_what_is_left_is_json_so_was_the_line(record, rng):
    line = mutated(record.encode(), rng)
    taken = take(line)
    if taken is None:
        return
    (text,), rest = taken
    try:
        left = json.loads(rest.decode(errors="replace"))
    except ValueError:
        return
    assert left["text"] == ""
    assert json.loads(line.decode(errors="replace")) == {**left, "text": text}


@given(
    st.lists(st.sampled_from(RECORDS), min_size=1, max_size=4), st.randoms(use_true_random=False)
)
@example(['{"text": "a", "te\\u0078t": "b"}'], random.Random(0))
def test_at_once_as_line_by_line(tmp_path_factory, records, rng):
    """A line that is no JSON has the others read line by line, and is the only difference."""
    lines = [
        mutated(record.encode(), rng) if rng.random() < 0.6 else record.encode()
        for record in records
    ]
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    options = {"fields": ["f", "text", "n"], "keep_records": True, "max_record_bytes": 70}
    readings = []
    for last in (b"", b"bad"):
        path.write_bytes(b"".join(line + b"\n" for line in lines) + last)
        readings.append(read(path, **options))
    at_once, by_line = readings
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
        assert take(b"".join(lines)) is not None
        path = tmp_path / "a.jsonl"
        path.write_bytes(b"".join(lines))
        places = [0, *itertools.accumulate(map(len, lines[:-1]))]
        expected = [name] * 3 if kind is not None else names
        reading = read(path)
        assert reading.ids == [
            id or f"{path}:{at}" for id, at in zip(expected, places, strict=True)
        ]
        assert read(path, id_names=[]).ids == [f"{path}:{at}" for at in places]
