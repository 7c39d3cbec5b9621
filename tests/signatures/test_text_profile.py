"""Text profiles against those that are written out."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.signatures.text_profile import TextProfile
from tests.signatures import signature_oracle as oracle
from tests.signatures.signed import array, keys
from tests.strategies import TEXTS


def expected(texts, **options):
    return [oracle.md5_keys(oracle.profile(text or "", **options)) for text in texts]


@given(
    st.lists(TEXTS | st.none(), max_size=4), st.integers(0, 4),
    st.floats(0, 1) | st.sampled_from([0.01, 0.25, 0.5]),
)  # fmt: skip
def test_keys_equal_the_oracle(texts, over, rate):
    found = TextProfile(over, rate).sign(array(texts))
    assert keys(found) == expected(texts, over=over, rate=rate)


@pytest.mark.parametrize("highest", [1, 2, 49, 150, 249, 250, 251, 350, 1000])
def test_counts_of_long_texts(highest):
    """A quantum of more than 2, also where its half is rounded."""
    rare = max(0, highest - 30)
    texts = [" ".join(f"wordword{n}" for n in range(highest, rare, -1) for _ in range(n))]
    texts.append(" ".join(f"w{n % 97}x{n % highest}" for n in range(2000)) + " most" * highest)
    assert keys(TextProfile().sign(array(texts))) == expected(texts)


def test_a_profile():
    """The key is that of a text that can be written by hand."""
    text = "Two two THREE three three it it it it once"
    assert oracle.profile(text) == "three 2\ntwo 2"
    assert oracle.profile("one two one-word") == "one 2"
    assert oracle.profile("one two") == "one 1\ntwo 1"
    same = [text, "three two three two", "two, three; two, three, twice"]
    found = keys(TextProfile().sign(array(same)))
    assert found == [oracle.md5_keys("three 2\ntwo 2")] * 3


def test_words_that_begin_alike():
    words = ["abcdefgz", "abcdefgza", "abcdefgzab", "abcdefgzac", "z"]
    texts = [" ".join(order) for order in itertools.permutations(words)]
    found = keys(TextProfile().sign(array([f"{text}, {text}" for text in texts])))
    assert found == [oracle.md5_keys("\n".join(f"{word} 2" for word in words[:4]))] * 120


def test_rare_words_and_small_changes_of_counts_do_not_matter():
    texts = ["alpha " * 300 + "beta " * n + f"rare{n}" for n in (30, 31, 32, 33)]
    first, second, third, fourth = keys(TextProfile().sign(array(texts)))
    assert first == second == third != fourth


def test_chinese_characters_are_words_and_short_words_are_none():
    found = keys(TextProfile().sign(array(["中文中文", "文文中中", "it is so", "да да"])))
    assert found == [oracle.md5_keys("中 2\n文 2")] * 2 + [[], []]
    # of words of two characters, as the segmenter makes
    texts = ["北京 北京 大学", "北京 大学 北京"]
    found = keys(TextProfile(segment="zh").sign(array(texts)))
    assert found == expected(texts, segment="zh") == [oracle.md5_keys("北京 2")] * 2


@pytest.mark.parametrize("wrong", [{"over": -1}, {"over": 65}, {"rate": -0.1}, {"rate": 1.5}])
def test_parameters_that_cannot_be(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be from 0 to"):
        TextProfile(**wrong)
