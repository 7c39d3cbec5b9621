"""Counted words against the features of every shingle, and a vocabulary that lasts and is lost."""

import itertools
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features import word_kernels as kernels
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import table_for
from mr_dedup.features.shingle_kernels import ShingleRule, find_features
from mr_dedup.features.shingles import scratch_for
from mr_dedup.features.unicode_table import CHARACTER, KIND, unicode_table
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.kernels.compiler import jit
from tests.features import text_oracle
from tests.strategies import ENCODABLE

find_words = jit(kernels.find_words)

TOTALS = np.arange(4, dtype=np.int32) * 64


def counted(contents, scratch=None, options=None):
    """For each text, how many words it has, and how often each hash."""
    data = np.frombuffer(b"".join(contents), np.uint8)
    cuts = np.cumsum([0, *map(len, contents)]).astype(np.uint64)
    scratch = scratch or kernels.word_scratch_for(max(map(len, contents), default=0))
    for begin, end in itertools.pairwise(cuts):
        table = table_for(options or FeatureOptions())
        rule = kernels.WordRule(table, TOTALS)
        occurrences, distinct = find_words(data, begin, end, rule, scratch)
        hashes = scratch.hashes[:distinct].tolist()
        assert len(set(hashes)) == distinct
        yield int(occurrences), dict(zip(hashes, scratch.weights[:distinct] // 64, strict=True))


def expected(content, options=None):
    """The same from the features of every shingle."""
    options = options or FeatureOptions()
    data = np.frombuffer(content, np.uint8)
    scratch = scratch_for(len(content), options)
    count, _ = find_features(
        data, np.uint64(0), np.uint64(len(content)),
        ShingleRule(table_for(options), False, np.uint64(1), np.ones(1, np.int32)), scratch,
    )  # fmt: skip
    return int(count), dict(Counter(scratch.hashes[:count].tolist()))


PIECES = ["Word", "WORD", "Straße", "中", "文a", "—", "e\u0301", "、", "ひらがな", "カ", "𠀀", "ｱ"]
PIECES += ["İ", "Ⱥ", "\0", " ", "한국어", "\u0301", "é" * 8, "x" * 16, "x" * 17, "y" * 63]
contents = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=80).map("".join),
    st.text(ENCODABLE, max_size=60),
).map(str.encode)


@given(st.lists(contents, max_size=6))
def test_any_texts_have_the_words_of_every_shingle(found):
    assert list(counted(found)) == [expected(content) for content in found]


NOT_UTF8 = st.sampled_from(
    [b"ab ", b"\xe4", b"\xe5", b"\xb8\xad", b"\xff", b"\xf0\xa0", b"\xc3", b"x"]
)


@given(st.lists(NOT_UTF8, max_size=60).map(b"".join) | st.binary(max_size=200))
def test_words_of_any_bytes_do_not_depend_on_those_around(content):
    alone, around = list(counted([content])), list(counted([b"z\xbf", content, b"\xbf" * 80]))
    assert alone == around[1:2]
    assert alone[0][0] == expected(content)[0]


@given(st.lists(contents, max_size=3))
def test_words_of_segmented_texts_too(found):
    """There CJK characters make words, by another table."""
    options = FeatureOptions(segment="zh")
    assert list(counted(found, None, options)) == [expected(text, options) for text in found]


@pytest.mark.parametrize("shift", range(66))
def test_words_at_every_edge_of_a_block(shift):
    for filler in (b"ab, ", b"x", "é ".encode(), "中".encode(), "。a中".encode()):
        text = b"-" * shift + filler * 40 + b"LONG" * 30 + b" ende " + b"q" * shift
        assert list(counted([text, text[:-1]])) == [expected(text), expected(text[:-1])]


def test_every_length_of_a_word_by_the_hash_of_the_package():
    """Words that differ in the last byte, or are the beginning of another, are different."""
    words = [b"abcdefghijklmnopqrstuvwxyz"[:n] for n in range(1, 27)]
    words += [word[:-1] + b"0" for word in words[1:]]
    ((occurrences, found),) = counted([b" ".join(words * 2)])
    assert occurrences == 2 * len(words)
    assert found == {xxhash.xxh3_64_intdigest(word): 2 for word in words}


def test_weights_go_on_behind_the_totals():
    ((_, found),) = counted([b"a " * 9 + b"b b c"])
    assert sorted(found.values()) == [1, 2, 9]


def test_a_vocabulary_that_is_lost_again_and_again():
    """More words than are kept, in small texts and in one, and old ones among the new."""
    rng = random.Random(3)
    known = [f"w{n}".encode() for n in range(200_000)]
    known += [chr(n).encode() for n in range(0x4E00, 0x9000)]
    texts = [b" ".join(rng.choices(known, k=5000)) for _ in range(80)]
    texts.insert(30, b"".join(known[200_000:]) + b" ".join(known))
    texts.insert(31, b"".join(known[200_000:]))
    scratch = kernels.word_scratch_for(max(map(len, texts)))
    resets, used = 0, 0
    for text, found in zip(texts, counted(texts, scratch), strict=True):
        resets += int(scratch.used[0]) < used
        used = int(scratch.used[0])
        assert found == expected(text)
    assert resets > 3


def test_what_the_loop_takes_for_granted_of_the_table():
    found = unicode_table().each()
    assert np.flatnonzero(found & KIND == CHARACTER).max() < kernels.CODE_POINTS
    # with the same kind, and no case
    assert set(found[0x4E00:0xA000]) == {CHARACTER}
    # no word may begin with a zero byte, for a key of zeros is nobody's
    assert found[0] & KIND != CHARACTER


def test_texts_of_too_many_words_are_hashed_another_way(monkeypatch):
    """The same fingerprints on both sides of the limit, which is a text of 67 MB."""
    from mr_dedup.fingerprints import kernels as simhash_kernels

    options = FeatureOptions("words", 1, "tf")
    texts = pa.array(["the end. " * n + "中文 " * (n % 7) for n in range(50)], pa.large_string())
    expected_values = simhash(texts, options).values.tolist()
    monkeypatch.setattr(simhash_kernels, "MAX_TEXT_WEIGHT", 64 * 100)
    monkeypatch.setattr(simhash_kernels, "simhash_words", None)
    assert simhash(texts, options).values.tolist() == expected_values


def test_features_are_those_of_the_oracle():
    text = "The end. The END; Ünïcode 中文中 ｱア x" + "y" * 40
    ((occurrences, found),) = counted([text.encode()])
    # not yet normalised where the kernel is given it
    counts = Counter(text_oracle.shingles(text, "words", 1, normalize="none"))
    assert occurrences == counts.total()
    assert found == {xxhash.xxh3_64_intdigest(word.encode()): n for word, n in counts.items()}
