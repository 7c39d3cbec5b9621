"""Symbols as tokens, against an oracle that decides by one regular expression."""

import string

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features.options import SYMBOLS, UNITS, FeatureOptions
from mr_dedup.features.preparation import marked
from mr_dedup.features.shingle_sets import shingle_sets
from mr_dedup.features.shingles import features_of
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.signatures.exact import Exact
from tests.features import text_oracle

PIECES = [
    *string.punctuation, "a", "B", "9", "12", "word", "中", "文字", "e\u0301", "=\u0338", " ", " ",
    " ", "\n", " = ", " - ", "&&", "==", "->", "</b>", "…", "，", "＋", "½", "™", "€", "→", "😍",
    "👍🏽", "\u200d", "\ufe0f", "🇩🇪", "don't", "x" * 63,
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
asked = st.fixed_dictionaries(
    {
        "symbols": st.sampled_from(SYMBOLS),
        "normalize": st.sampled_from([*text_oracle.NORMALIZE]),
        "segment": st.sampled_from([None, "zh"]),
        "stop_words": st.sampled_from([None, "en"]),
        "stem": st.sampled_from([None, "english"]),
    }
)


@given(texts, st.sampled_from(UNITS), st.integers(1, 3), asked)
def test_any_text_equals_the_oracle(text, unit, length, options):
    found = features_of(text, FeatureOptions(unit, length, "tf", **options))
    expected = text_oracle.weighted(text, unit, length, "tf", **options)
    assert found.shingles == tuple(expected)
    assert found.hashes.tolist() == [xxhash.xxh3_64_intdigest(each.encode()) for each in expected]


@given(st.lists(st.none() | texts, max_size=6), st.sampled_from(SYMBOLS))
def test_texts_are_the_same_alone_and_among_others(several, symbols):
    """In one batch, by the kernel of single words and by that of shingles."""
    options = FeatureOptions("words", 1, "binary", symbols=symbols)
    column = pa.array(several, pa.large_string())
    together = shingle_sets(column, options)
    hashes = np.split(together.hashes, together.offsets[1:-1]) if several else []
    for text, found, value in zip(several, hashes, simhash(column, options).values, strict=True):
        expected = [] if text is None else sorted(features_of(text, options).hashes)
        assert found.tolist() == expected
        assert value == simhash(pa.array([text], pa.large_string()), options).values[0]


@pytest.mark.parametrize("shift", range(70))
def test_operators_across_the_edges_of_blocks_equal_the_oracle(shift):
    text = "x" * shift + "<<= y" + " " * shift + "!== z->w C++ -1 " + "=" * shift
    for symbols in SYMBOLS:
        options = {"symbols": symbols}
        expected = text_oracle.weighted(text, "words", 1, "tf", **options)
        assert features_of(text, FeatureOptions("words", 1, "tf", **options)).shingles == tuple(
            expected
        )


@pytest.mark.parametrize(
    ("text", "auto"),
    [
        ("if (a<=b && !ok) return x+1;", "if a < = b & & ! ok return x + 1"),
        ("C, C++ and C#", "c c + + and c #"),
        ("+1 or -1, $5 or €5, 50%.", "+ 1 or - 1 $ 5 or € 5 50 %"),
        ("Compute 3 * 5.", "compute 3 * 5"),
        ("I love it 😍, 👍🏽", "i love it 😍 👍 🏽"),
        ("a well-known dash - and/or path/to, “so” (see: 2010-05-12)!",
         "a well known dash and or path to so see 2010 05 12"),
        ("| a | b |\n|---|---|\n* item\n> said\n**bold** <b>text</b>",
         "a b item said bold b > text b"),
        ("a ＋ b ≠ c", "a + b ≠ c"),
    ],
)  # fmt: skip
def test_operators_are_told_from_prose(text, auto):
    found = text_oracle.pieces(text, "words", symbols="auto")[0]
    assert found == auto
    options = FeatureOptions("words", 64, "tf", symbols="auto")
    assert features_of(text, options).shingles == (auto,)


def test_what_is_kept_keeps_texts_apart():
    pairs = ["C++", "C#", "+1", "-1", "$5", "€5", "😍", "😡", "a<b", "a>b", "(a+b)*c", "a+(b*c)"]
    keys = Exact(symbols="keep").sign(pa.array(pairs, pa.large_string())).keys
    assert len(set(keys.tolist())) == len(pairs)
    same = pa.array(["a + b", "A+B", "Ａ＋b"], pa.large_string())
    assert len(set(Exact(symbols="keep").sign(same).keys.tolist())) == 1


@given(texts, st.integers(0, 60), st.sampled_from(["x", "=", " ", "a == b"]))
def test_a_change_moves_no_marks_further_away(text, at, inserted):
    """There is no threshold of a whole text for two near-duplicates to be on either side of."""
    at = min(at, len(text))
    before, after = text[:at], text[at:]
    one, other = marked(
        pa.array([text, before + inserted + after], pa.large_string()), "auto"
    ).to_pylist()
    near = 6
    assert one[: max(at - near, 0)] == other[: max(at - near, 0)]
    rest = max(len(after) - near, 0)
    assert one[len(one) - rest :] == other[len(other) - rest :]


def test_texts_without_such_symbols_are_not_copied():
    plain = pa.array(["One, two (three)!", None, "-----", "中文。"], pa.large_string())
    assert marked(plain, "auto") is plain
    assert marked(plain, "ignore") is plain
    assert marked(plain, "keep").null_count == 1


def test_the_form_is_named_unless_symbols_are_ignored():
    assert FeatureOptions(symbols="auto").unweighted == "words:1, normalize nfkc, symbols auto"
    assert FeatureOptions(symbols="ignore").unweighted == "words:1, normalize nfkc"
    assert Exact(symbols="keep").name == "exact:symbols=keep"
    assert Exact(symbols="ignore").name == "exact"
    with pytest.raises(ValueError, match="symbols must be one of ignore, auto, keep, not 'all'"):
        FeatureOptions(symbols="all")
