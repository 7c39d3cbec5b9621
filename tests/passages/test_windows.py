"""Repeated windows, in several batches, against dictionaries of tuples of words."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.passages.cutting import cut_texts, needs_space
from mr_dedup.passages.options import PassageOptions
from mr_dedup.passages.windows import CountTable, TextWindows
from tests.passages.passage_oracle import Repeated, words_of

FEW_WORDS = st.lists(st.sampled_from(["a", "b", "b.", "c!\n", "\n\n", " \n", "A"]), max_size=25)
texts = st.lists(FEW_WORDS.map(" ".join), min_size=1, max_size=6)


def run(texts, options, min_documents, groups=None, batches=1):
    """Yield the windows of each batch, with the texts and what was found in it."""
    edges = np.linspace(0, len(texts), batches + 1).astype(int)
    hashes = None
    if groups is not None:
        hashes = np.array([hash(group) & (1 << 60) - 1 for group in groups], np.uint64)
        used = np.array([group is not None for group in groups])

    def windows(start, stop):
        some = pa.array(texts[start:stop], pa.large_string())
        if groups is None:
            return TextWindows(some, options)
        return TextWindows(some, options, hashes[start:stop], used[start:stop])

    parts = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    anchors = CountTable()
    for start, stop in parts:
        windows(start, stop).count_anchors(start, anchors)
    columns = anchors.columns()
    anchors = CountTable.of(columns["one"][columns["documents"] >= min_documents])
    table = CountTable()
    for start, stop in parts:
        found = windows(start, stop)
        found.count_windows(start, found.keep_anchors(anchors), table)
    columns = table.columns()
    kept = columns["documents"] >= min_documents
    repeated = CountTable.of(*(column[kept] for column in columns.values()))
    for start, stop in parts:
        found = windows(start, stop)
        spans, firsts = found.repeated(start, found.keep_anchors(anchors), repeated)
        yield start, pa.array(texts[start:stop], pa.large_string()), found, spans, firsts


UNITS = [
    ("tokens", 1),
    ("tokens", 2),
    ("tokens", 3),
    ("tokens", 8),
    ("lines", 1),
    ("paragraphs", 1),
]


@pytest.mark.parametrize(("unit", "size"), UNITS)
@given(
    texts=texts,
    min_documents=st.integers(2, 3),
    batches=st.sampled_from([1, 3]),
    groups=st.none() | st.lists(st.sampled_from(["x", "y", None]), min_size=6, max_size=6),
    min_tokens=st.integers(1, 2),
)
def test_spans_and_cuts_equal_the_oracle(
    unit, size, texts, min_documents, batches, groups, min_tokens
):
    groups = groups and groups[: len(texts)]
    min_tokens = 1 if unit == "tokens" else min_tokens
    options = PassageOptions(unit, size, min_tokens)
    expected = Repeated(texts, unit, size, min_documents, min_tokens, groups)
    found, cut, but_first = [], [], []
    for start, some, windows, spans, firsts in run(texts, options, min_documents, groups, batches):
        begin = windows.tokens.offsets[spans.rows]
        columns = (spans.rows + start, spans.first - begin, spans.last - begin, spans.documents)
        found += [list(row) for row in zip(*(each.tolist() for each in columns), strict=True)]
        for left, kept in ((cut, None), (but_first, firsts)):
            slices, _ = windows.slices(spans, kept)
            assert not needs_space(some, slices).any()
            left += cut_texts(some, slices, np.zeros(len(slices), bool)).to_pylist()
    assert found == expected.spans
    assert cut == list(expected.cut(but_first=False))
    assert but_first == list(expected.cut(but_first=True))


@given(texts, st.integers(1, 4))
def test_equal_passages_have_equal_hashes(texts, size):
    ids = {}
    for start, some, windows, spans, _ in run(texts, PassageOptions("tokens", size), 2):
        for row, first, last, *key in zip(
            spans.rows, spans.first, spans.last, spans.one, spans.two, strict=True
        ):
            words, _ = words_of(some[int(row)].as_py())
            begin = windows.tokens.offsets[row]
            passage = tuple(words[first - begin : last - begin])
            assert ids.setdefault(passage, tuple(key)) == tuple(key), start
    assert len(set(ids.values())) == len(ids)


@pytest.mark.parametrize("text", ["a " * 200_000, "a b " * 100_000, "中" * 200_000])
def test_texts_of_one_word_take_linear_time(text):
    """All windows are equal, and each has an anchor of its own."""
    ((start, _, windows, spans, firsts),) = run([text, text], PassageOptions(), 2)
    assert start == 0
    assert spans.rows.tolist() == [0, 1]
    assert (spans.last - spans.first).tolist() == [200_000] * 2
    assert firsts.rows.tolist() == [0]
    assert windows.tokens.hashes.size == 400_000


def test_a_table_grows():
    table = CountTable()
    texts = [" ".join(f"w{word}" for word in range(start, start + 3000)) for start in (0, 1500)]
    for row, text in enumerate(texts):
        windows = TextWindows(pa.array([text], pa.large_string()), PassageOptions("tokens", 1))
        windows.count_anchors(row, table)
    counts = table.columns()["documents"]
    assert len(table) == 4500
    assert np.bincount(counts).tolist() == [0, 3000, 1500]


@pytest.mark.parametrize(
    ("unit", "more", "reason"),
    [
        ("tokens:0", {}, "size: expected 1 to"),
        ("tokens:99999999999999999999", {}, "size: expected 1 to"),
        ("tokens:", {}, "unit: expected tokens:N"),
        ("lines:3", {}, "unit: expected tokens:N"),
        ("words", {}, "unit: expected tokens:N"),
        ("tokens:5", {"min_tokens": 2}, "min_tokens: is of lines"),
        ("lines", {"min_tokens": 0}, "min_tokens: expected 1 to"),
        ("lines", {"normalize": "nfd"}, "normalize must be one of"),
    ],
)
def test_options_out_of_range_are_refused(unit, more, reason):
    with pytest.raises(ValueError, match=reason):
        PassageOptions.parse(unit, **more)
