"""Offsets in strings of JSON, against Python's own decoder."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.formats.documents.json_edits import added_member, offsets_in_string, text_member

CHARACTERS = ["a", "é", "€", "😀", "\n", '"', "\\", "/", "u", "\u2028", "\x01", "\x7f", "\uffff"]


@st.composite
def strings(draw):
    """A text, and a string of JSON for it, with escapes where none are needed too."""
    text = draw(st.text(st.sampled_from(CHARACTERS) | st.characters(exclude_categories=["Cs"])))
    pieces = []
    for character in text:
        shortest = json.dumps(character, ensure_ascii=False)[1:-1]
        encoded = character.encode("utf-16-be")
        units = [encoded[at : at + 2].hex() for at in range(0, len(encoded), 2)]
        codes = "".join(f"\\u{unit}" for unit in units)
        choices = [shortest, codes, codes[:2] + codes[2:].upper().replace("\\U", "\\u")]
        choices += ["\\/"] if character == "/" else []
        pieces.append(draw(st.sampled_from(choices)))
    return text, f'"{"".join(pieces)}"'


@given(strings())
def test_offsets_divide_a_string_as_its_text(drawn):
    text, string = drawn
    assert json.loads(string) == text
    content = string.encode()
    edges = np.array([len(text[:at].encode()) for at in range(len(text) + 1)], np.int64)
    for at, offset in enumerate(offsets_in_string(content, edges).tolist()):
        assert json.loads(content[:offset] + b'"') == text[:at]
        assert json.loads(b'"' + content[offset:]) == text[at:]


@given(strings(), strings())
def test_the_string_of_the_last_member_is_found(drawn, other):
    line = f'{{"x": {{"text": 1}}, "text": {other[1]} , "a":[2.50],"text" :{drawn[1]}}}\n'.encode()
    start, stop = text_member(line, "text")
    assert line[start:stop] == drawn[1].encode()
    assert line[:start].endswith(b'"text" :')
    assert text_member(line, "x") is None
    assert text_member(line, "none") is None


def test_a_member_is_added_to_what_is_there():
    line = b'{"html": "<p>}</p>"} \r\n'
    at, member = added_member(line, "text", '"é\n')
    added = line[:at] + member + line[at:]
    assert json.loads(added) == {"html": "<p>}</p>", "text": '"é\n'}
    assert added.endswith(b"} \r\n")


def test_what_is_no_object_is_refused():
    with pytest.raises(ValueError, match=r"JSON is malformed|Expected"):
        text_member(b"[1", "text")
