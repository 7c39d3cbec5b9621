"""Cuts out of texts, by Python strings and sets of code points; what is cut is put back."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features.token_spans import token_spans
from mr_dedup.passages import cutting
from mr_dedup.passages.cutting import Slices
from tests.features import text_oracle
from tests.strategies import TEXTS

PIECES = ["a", "Bc", " ", ". ", "! ", "\n\n", "中", "。", "ก", "é", "e\u0301", "🇩", "🇪"]
MIXED = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def large(texts):
    return pa.array(texts, pa.large_string())


def slices_of(*triples):
    columns = zip(*triples, strict=True) if triples else ((), (), ())
    return Slices(*(np.array(list(column), np.int64) for column in columns))


def triples_of(slices):
    return list(
        zip(slices.rows.tolist(), slices.starts.tolist(), slices.stops.tolist(), strict=True)
    )


@st.composite
def intervals(draw, rows=3, size=12):
    """Some slices in order, which may overlap, as (row, start, stop)."""
    found = draw(
        st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, size), st.integers(0, size)))
    )
    return sorted((row, min(edges), max(edges)) for row, *edges in found if edges[0] != edges[1])


def covered(triples):
    return {(row, at) for row, start, stop in triples for at in range(start, stop)}


def apart(triples):
    unions, _ = cutting.joined(slices_of(*triples))
    return triples_of(unions)


@given(intervals())
def test_unions_equal_sets(triples):
    unions, of = cutting.joined(slices_of(*triples))
    found = triples_of(unions)
    assert covered(found) == covered(triples)
    for (row, _, stop), (next_row, start, _) in itertools.pairwise(found):
        assert (row, stop) < (next_row, start)
    for (row, start, stop), union in zip(triples, of.tolist(), strict=True):
        assert found[union][0] == row
        assert found[union][1] <= start <= stop <= found[union][2]


@given(intervals(), intervals())
def test_differences_equal_sets(triples, others):
    triples, others = apart(triples), apart(others)
    left, of = cutting.without(slices_of(*triples), slices_of(*others))
    found = triples_of(left)
    assert covered(found) == covered(triples) - covered(others)
    assert found == sorted(found)
    assert all(start < stop for _, start, stop in found)
    for (row, start, stop), source in zip(found, of.tolist(), strict=True):
        assert triples[source][0] == row
        assert triples[source][1] <= start <= stop <= triples[source][2]


def token_slices(data, texts, form="nfkc"):
    """Slices from the start of a token to the end of one, apart, as users of the module have."""
    tokens = token_spans(large(texts), form)
    found = []
    for row in range(len(texts)):
        first, last = tokens.offsets[row], tokens.offsets[row + 1]
        at = int(first)
        while at < last:
            length = data.draw(st.integers(0, 3))
            if length:
                end = min(at + length, int(last)) - 1
                start, stop = int(tokens.starts[at]), int(tokens.stops[end])
                if not found or found[-1][0] != row or found[-1][2] <= start:
                    found.append((row, start, stop))
            at += length + 1
    return slices_of(*found), tokens


@given(st.data(), st.lists(TEXTS | MIXED, max_size=4))
def test_cuts_leave_the_other_words_and_are_put_back(data, texts):
    slices, _ = token_slices(data, texts)
    spaces = cutting.needs_space(large(texts), slices)
    cut = cutting.cut_texts(large(texts), slices, spaces)
    removed = cutting.removed_texts(large(texts), slices)
    for row, text in enumerate(texts):
        these = np.flatnonzero(slices.rows == row)
        read = text.encode()
        left = cut[row].as_py()
        again = cutting.unspliced(
            left.encode(),
            slices.starts[these].tolist(),
            [removed[at].as_py().encode() for at in these.tolist()],
            [int(space) for space in spaces[these]],
        )
        assert again == read
        # the same with a separator between all that is left
        kept, at = [], 0
        for start, stop in zip(slices.starts[these], slices.stops[these], strict=True):
            kept.append(read[at:start].decode())
            at = stop
        kept.append(read[at:].decode())
        words = [token for token, _ in text_oracle.prepared(left)]
        assert words == [token for each in kept for token, _ in text_oracle.prepared(each)]
        edges = {edge for found in regex.finditer(r"\X", text) for edge in found.span()}
        ends = {len(text[:edge].encode()) for edge in edges} | {0}
        assert {*slices.starts[these].tolist(), *slices.stops[these].tolist()} <= ends


@pytest.mark.parametrize(
    ("text", "cut", "expected"),
    [
        ("abc中文def", "中文", "abc def"),
        ("中文 def", "中文", " def"),
        ("第一中文二", "中文", "第一二"),
        ("🇩中🇪", "中", "🇩 🇪"),
        ("one two three", "two", "one  three"),
        ("가中나", "中", "가 나"),
    ],
)
def test_words_stay_apart(text, cut, expected):
    read, wanted = text.encode(), cut.encode()
    start = read.index(wanted)
    slices = slices_of((0, start, start + len(wanted)))
    spaces = cutting.needs_space(large([text]), slices)
    assert cutting.cut_texts(large([text]), slices, spaces).to_pylist() == [expected]


def test_cuts_that_touch_have_one_space():
    slices = slices_of((0, 1, 4), (0, 4, 7))
    spaces = cutting.needs_space(large(["a中文b"]), slices)
    assert spaces.tolist() == [True, False]
    assert cutting.cut_texts(large(["a中文b"]), slices, spaces).to_pylist() == ["a b"]


_END = regex.compile(r"(?<=[.!?])(?=[ \n\t\r])|(?<=[。！？])|(?<=\n)(?=[ \t\r]*\n)")


def sentences_of(text):
    """Slices of code points, without white space at their ends."""
    found, begin = [], 0
    for end in [*(match.start() for match in _END.finditer(text)), len(text)]:
        unit = text[begin:end]
        stripped = unit.strip(" \n\t\r")
        if stripped:
            start = begin + unit.index(stripped)
            found.append((start, start + len(stripped)))
        begin = end
    return found


@given(st.data(), st.lists(MIXED, min_size=1, max_size=3))
def test_sentences_equal_the_oracle(data, texts):
    slices, tokens = token_slices(data, texts)
    found, of = cutting.whole_sentences(large(texts), slices, tokens)
    expected = set()
    for row, text in enumerate(texts):
        starts = tokens.starts[tokens.offsets[row] : tokens.offsets[row + 1]].tolist()
        stops = tokens.stops[tokens.offsets[row] : tokens.offsets[row + 1]].tolist()
        for start, stop in sentences_of(text):
            start, stop = len(text[:start].encode()), len(text[:stop].encode())
            within = [t for t in zip(starts, stops, strict=True) if start <= t[0] < stop]
            for at, begin, end in triples_of(slices):
                if at == row and within and begin <= within[0][0] and within[-1][1] <= end:
                    expected |= {(row, position) for position in range(start, stop)}
    unit_ends = covered(triples_of(found))
    assert expected <= unit_ends
    # what is more is white space and sentences without tokens
    for row, at in unit_ends - expected:
        byte = texts[row].encode()[at : at + 1]
        assert not byte.isalnum(), (row, at)
    for (row, start, stop), source in zip(triples_of(found), of.tolist(), strict=True):
        assert slices.rows[source] == row
        assert start <= slices.stops[source]
        assert stop > slices.starts[source]


@given(st.lists(TEXTS | MIXED, min_size=1, max_size=4), st.data())
def test_code_points_equal_pythons(texts, data):
    pairs = [
        (row, at)
        for row, text in enumerate(texts)
        for at in data.draw(st.lists(st.integers(0, len(text)), max_size=4))
    ]
    pairs = data.draw(st.permutations(pairs))
    rows = np.array([row for row, _ in pairs], np.int64)
    offsets = np.array([len(texts[row][:at].encode()) for row, at in pairs], np.int64)
    assert cutting.code_points(large(texts), rows, offsets).tolist() == [at for _, at in pairs]


def test_slices_that_are_no_slices_are_refused():
    texts = large(["abc"])
    none = np.zeros(1, bool)
    for triple in [(1, 0, 1), (0, 2, 1), (0, 1, 4), (0, -1, 1), (-1, 0, 1)]:
        with pytest.raises(ValueError, match="expected"):
            cutting.cut_texts(texts, slices_of(triple), none)
    with pytest.raises(ValueError, match="do not overlap"):
        cutting.cut_texts(texts, slices_of((0, 0, 2), (0, 1, 3)), np.zeros(2, bool))
    with pytest.raises(ValueError, match="int64"):
        Slices(np.zeros(1), np.zeros(1), np.zeros(1))


def test_content_that_was_cut_short_is_reported():
    with pytest.raises(ValueError, match="too few for a cut at byte 9"):
        cutting.unspliced(b"abc", [9], [b"x"], [0])
