"""The sets of shingles of the truth: those of an oracle, and those that mr_dedup compares."""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given

from bench.field.shingles import normalised, sets_of, tokens_of
from mr_dedup.features.shingle_sets import shingle_sets
from tests.features import text_oracle
from tests.strategies import TEXTS

MIXED = st.lists(
    st.sampled_from(
        [
            "the",
            "Straße",
            "中",
            "文",
            "字",
            "ไท",
            "ย",
            "é",
            "e\u0301",
            "\u0301",
            "½",
            "™",
            "_",
            " ",
            "co\u00adop",
            "カ",
            "ー",
            "ﬁn",
            "١٢",
            "—",
            "\0",
            "\u200d",
            "한국",
            "ក្ក",
            "\u3099",
            "𝐀",
        ]
    ),
    max_size=30,
).map("".join)


def set_at(sets, row):
    return set(sets.hashes[sets.offsets[row] : sets.offsets[row + 1]].tolist())


@given(st.lists(TEXTS | MIXED, max_size=8))
@example(["", "-----", "a", "a b", "a b c", "a b c a b c", "—", "a\u0301" * 20])
@example(["中文字" * 5, "中 a " * 9, "x " * 27 + "中文字", "x " * 28 + "中文字"])
def test_sets_are_as_similar_as_those_of_the_oracle(texts):
    sets = sets_of(texts)
    oracle = [set(text_oracle.shingles(text, "auto", 0)) for text in texts]
    assert len(sets) == len(texts)
    for i, one in enumerate(oracle):
        assert len(set_at(sets, i)) == len(one)
        for j, other in enumerate(oracle):
            assert len(set_at(sets, i) & set_at(sets, j)) == len(one & other), (texts[i], texts[j])


@given(st.lists(TEXTS | MIXED, min_size=1, max_size=8))
def test_similarities_are_those_that_dedup_computes(texts):
    sets, ours = sets_of(texts), shingle_sets(pa.array(texts, pa.large_string()))
    i, j = (side.ravel() for side in np.indices((len(texts), len(texts))))
    truth = [
        len(set_at(sets, one) & set_at(sets, other)) / len(set_at(sets, one) | set_at(sets, other))
        for one, other in zip(i, j, strict=True)
    ]
    assert truth == pytest.approx(ours.jaccard(i, j).tolist(), abs=1e-12)


@given(TEXTS | MIXED)
def test_hashes_ascend_and_differ(text):
    hashes = sets_of([text]).hashes
    assert hashes.size
    assert (hashes[1:] > hashes[:-1]).all()


@given(TEXTS | MIXED)
def test_texts_are_normalised_as_the_oracle_does(text):
    assert normalised(text) == text_oracle.casefolded_nfkc(text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, World_2!", ["hello", "world", "2"]),
        ("“Curly” — quotes…", ["curly", "quotes"]),
        ("ＡＢＣ Straße", ["abc", "strasse"]),
        ("深度学", ["\1深", "\1度", "\1学"]),
        ("a 中", ["a", "中"]),
        ("深度 a 学", ["\1深", "\1度", "a", "学"]),
    ],
)
def test_tokens(text, tokens):
    assert tokens_of(text).decode().split() == tokens


def test_no_texts_have_no_sets():
    assert len(sets_of([])) == 0
