"""Winnowing against the oracle, and the keys that a part of a text shares with the whole."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.signatures.candidates import texts_of_keys, without_common_keys
from mr_dedup.signatures.protocol import Signatures
from mr_dedup.signatures.winnowing import Winnowing
from tests.signatures import signature_oracle as oracle
from tests.signatures.signed import array, keys, shared
from tests.strategies import TEXTS, WORDS, costly

REPEATING = st.lists(st.sampled_from(WORDS[:4]), max_size=40).map(" ".join)


@costly
@given(st.lists(TEXTS | REPEATING | st.none(), max_size=4), st.sampled_from([1, 2, 3, 8]))
def test_keys_equal_the_oracle(texts, window):
    found = keys(Winnowing(window).sign(array(texts)))
    assert found == [oracle.winnowing(text, window) for text in texts]


@costly
@given(st.lists(TEXTS | REPEATING, max_size=4), st.sampled_from([("words", 2), ("characters", 5)]))
def test_keys_of_other_shingles_equal_the_oracle(texts, shingles):
    unit, length = shingles
    found = keys(Winnowing(3, f"{unit}:{length}").sign(array(texts)))
    assert found == [oracle.winnowing(text, 3, unit, length) for text in texts]


@pytest.mark.parametrize("asked", [{"stop_words": "en"}, {"stem": "english"}, {"segment": "zh"}])
def test_words_are_prepared_first(asked):
    texts = ["The cats and the dogs were running home " * 3, "我们在北京大学学习中文" * 9, ""]
    found = keys(Winnowing(**asked).sign(array(texts)))
    assert found == [oracle.winnowing(text, **asked) for text in texts]


@costly
@given(
    st.integers(1, 9),
    st.lists(st.sampled_from("abcdef"), max_size=30),
    st.data(),
)
def test_a_common_passage_of_two_windows_is_a_common_key(window, words, data):
    """Whatever is around it: unless all windows of it have selected the same shingles."""
    other = st.lists(st.sampled_from("abcdefgh"), max_size=30)
    texts = [[*data.draw(other), *words, *data.draw(other)] for _ in range(2)]
    method = Winnowing(window, "words:2")
    signed = method.sign(array([" ".join(text) for text in texts]))
    if len(words) - 1 >= 2 * window:
        assert shared(signed, 0, 1) >= 1


def test_the_number_of_keys_follows_from_the_window():
    rng = random.Random(2)
    text = " ".join(f"w{rng.getrandbits(40)}" for _ in range(20_002))
    for window in (4, 8, 30):
        count = Winnowing(window).sign(array([text])).keys.size
        assert abs(count * (window + 1) / 40_000 - 1) < 0.05


def test_the_window_follows_from_the_threshold():
    chosen = {t: Winnowing.defaults_for(t)["window"] for t in (0.01, 0.7, 0.8, 0.84, 0.9, 0.95, 1)}
    assert chosen == {0.01: 4, 0.7: 4, 0.8: 4, 0.84: 5, 0.9: 6, 0.95: 6, 1: 6}


@pytest.mark.parametrize("count", [24, 44, 60, 120, 400, 2000])
def test_nine_tenths_of_the_shingles_in_any_place_are_a_common_key(count):
    """Words are changed as evenly as they can be, each in three shingles."""
    rng = random.Random(count)
    page = [f"w{rng.getrandbits(40)}" for _ in range(3 * count)]
    part = page[count : 2 * count + 2]
    changes = count // 30
    for number in range(changes):
        part[(number + 1) * (count + 2) // (changes + 1)] = "changed"
    signed = Winnowing().sign(array([" ".join(page), " ".join(part)]))
    assert shared(signed, 0, 1)


def test_what_is_out_of_range_is_refused():
    for window in (0, 5000):
        with pytest.raises(ValueError, match=f"window must be from 1 to 4096, not {window}"):
            Winnowing(window)


def test_common_keys_are_left_out():
    signed = Signatures(
        np.array([0, 2, 2, 5, 6, 7]),
        np.array([7, 9, 3, 7, 9, 7, 4], np.uint64),
        np.zeros((5, 0), np.uint8),
    )
    assert texts_of_keys(signed).tolist() == [1, 1, 3, 2]
    assert keys(without_common_keys(signed, 2)) == [[9], [], [3, 9], [], [4]]
    assert keys(without_common_keys(signed, 1)) == [[], [], [3], [], [4]]
    assert keys(without_common_keys(signed, 3)) == keys(signed)
    none = Signatures(np.zeros(1, np.int64), np.empty(0, np.uint64), np.zeros((0, 0), np.uint8))
    assert keys(without_common_keys(none, 1)) == []


@pytest.mark.parametrize("sorted_keys", [1, 100, 1 << 20])
def test_common_keys_are_left_out_however_many_are_sorted_at_a_time(sorted_keys):
    rng = np.random.default_rng(3)
    some = np.append(rng.integers(0, 2**64, 300, np.uint64), np.array([0, 2**64 - 1], np.uint64))
    of = [np.unique(rng.choice(some, rng.integers(0, 9))).tolist() for _ in range(200)]
    signed = Signatures(
        np.append(0, np.cumsum([len(each) for each in of])),
        np.array([key for each in of for key in each], np.uint64),
        np.zeros((200, 0), np.uint8),
    )
    counts = Counter(key for each in of for key in each)
    expected = [[key for key in each if counts[key] <= 3] for each in of]
    assert keys(without_common_keys(signed, 3, sorted_keys=sorted_keys)) == expected
