"""Ids as fields of text: every id another field, every field of one id."""

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.formats import id_text

ALPHABET = ("\\", "t", "n", "r", "\t", "\n", "\r", "a")


def array(values):
    return pa.array(values, pa.large_string())


def test_every_short_id_has_a_field_of_its_own():
    ids = ["".join(letters) for n in range(6) for letters in itertools.product(ALPHABET, repeat=n)]
    fields = id_text.escape_ids(array(ids)).to_pylist()
    assert len(set(fields)) == len(ids)
    assert not any(set(field) & set("\t\r\n") for field in fields)
    assert id_text.unescape_ids(array(fields)).to_pylist() == ids
    assert [id_text.escape_id(id) for id in ids] == fields


def test_every_short_field_is_that_of_its_id():
    letters = [letter for letter in ALPHABET if letter not in "\t\r\n"]
    fields = ["".join(each) for n in range(7) for each in itertools.product(letters, repeat=n)]
    ids = id_text.unescape_ids(array(fields))
    assert id_text.escape_ids(ids).to_pylist() == fields


@given(st.lists(st.none() | st.text(st.sampled_from([*ALPHABET, "ü", "中"]), max_size=12)))
def test_ids_come_back_null_ones_too(ids):
    assert id_text.unescape_ids(id_text.escape_ids(array(ids))).to_pylist() == ids


def test_ids_that_need_nothing_are_as_they_were():
    ids = [r"C:\Users\x", r"\\server\share", "https://a.example/?q=1", "", "\\"]
    assert id_text.escape_ids(array(ids)).to_pylist() == ids
    sliced = array(["x", *ids])[1:]
    assert id_text.escape_ids(sliced).to_pylist() == ids
    assert id_text.unescape_ids(sliced).to_pylist() == ids
