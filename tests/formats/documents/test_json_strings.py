"""Texts of JSON strings as Python's json reads them; what it refuses is refused."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mr_dedup.formats.documents.json_string_kernels import decode_strings
from mr_dedup.formats.documents.json_strings import texts_of
from mr_dedup.kernels.byte_blocks import BLOCK_BYTES

TEXTS = st.lists(
    st.text(st.characters(codec="utf-8"), max_size=200)
    | st.text('a"\\/\b\f\n\r\t\x00\x1f\x7fé€😀\u2028', max_size=200)
)
PIECES = st.sampled_from(
    [b"a", b"b" * 63, b"b" * 64, b'"', b"\\", b"\\\\", b'\\"', b"\\n", b"\\u00e9", b"\\u0000",
     b"\\ud83d\\ude00", b"\\ud83d", b"\\ude00", b"\\uD83D\\n", b"\\u12g4", b"\\u12", b"\\x", b"\n",
     b"\x00", b"\x1f", b"\x7f", "é€😀".encode(), b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80",
     b"\xf4\x90\x80\x80"]
)  # fmt: skip


def raw(content):
    return msgspec.Raw(content)


def expected(content):
    """The text of a JSON string; None if it is none, by Python's own parser."""
    try:
        text = json.loads(content.decode())
        assert isinstance(text, str)
        text.encode()
    except (ValueError, AssertionError):
        return None
    return text


@given(TEXTS, st.booleans())
def test_texts_are_those_that_were_written(texts, ascii_only):
    strings = [raw(json.dumps(text, ensure_ascii=ascii_only).encode()) for text in texts]
    assert texts_of(strings).to_pylist() == texts


@given(st.lists(PIECES, max_size=6).map(b"".join))
@example(b"a" * 63 + b"\\")
@example(b"a" * 62 + b"\\u00")
def test_what_is_no_string_of_json_is_refused(content):
    string = b'"' + content + b'"'
    text = expected(string)
    for before, after in ([], []), ([b'"x"'], [b'"y"']):
        found = texts_of([raw(part) for part in [*before, string, *after]])
        texts = [*(expected(part) for part in before), text, *(expected(part) for part in after)]
        assert (None if found is None else found.to_pylist()) == (None if text is None else texts)


@pytest.mark.parametrize("other", [b"", b"null", b"1", b"true", b"[]", b"{}", b'"', b'"a'])
def test_other_values_are_refused(other):
    assert texts_of([raw(b'"a"'), raw(other)]) is None
    assert texts_of([raw(other)]) is None


def test_no_strings_are_no_texts():
    assert texts_of([]).to_pylist() == []


@given(st.binary(max_size=80), st.integers(0, 3))
def test_nothing_is_read_or_written_outside(content, count):
    """Whatever the bytes: what is beyond the padding stays as it is."""
    size = len(content)
    source = np.frombuffer(b'"' + content + bytes(BLOCK_BYTES), np.uint8)
    texts = np.full(size + 1 + 2 * BLOCK_BYTES, 0xAA, np.uint8)
    offsets = np.zeros(count + 1, np.int64)
    decode_strings(source, np.uint64(size + 1), texts[: size + 1 + BLOCK_BYTES], offsets)
    assert (texts[size + 1 + BLOCK_BYTES :] == 0xAA).all()
    assert offsets.max() <= size
