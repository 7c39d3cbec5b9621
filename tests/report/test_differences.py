"""Differences of two texts, against the textbook's longest common subsequence."""

import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.report.differences import MAX_CHARACTERS, Excerpt, Run, compare

WORDS = st.lists(st.sampled_from(["a", "b", "the", "cat,", "中国", "x_1"]), max_size=12)


def common(first, second):
    """The length of a longest common subsequence."""

    @functools.cache
    def longest(i, j):
        if i == len(first) or j == len(second):
            return 0
        if first[i] == second[j]:
            return 1 + longest(i + 1, j + 1)
        return max(longest(i + 1, j), longest(i, j + 1))

    return longest(0, 0)


def words(text):
    """The words of these tests' texts."""
    for mark in (",", "中", "国"):
        text = text.replace(mark, f" {mark} ")
    return text.split()


def text_of(compared, *which):
    """The characters that are in both texts and in ``which``."""
    return "".join(run.text for run in compared.runs if run.of in ("both", *which))


def only(compared, which):
    return [run.text for run in compared.runs if run.of == which]


@given(WORDS, WORDS, st.sampled_from([" ", "\n\n", " \t"]))
def test_what_both_have_is_a_longest_common_subsequence(one, other, gap):
    first, second = gap.join(one), " ".join(other)
    compared = compare(first, second)
    assert words(text_of(compared, "first")) == words(first)
    assert words(text_of(compared, "second")) == words(second)
    assert len(words(text_of(compared))) == common(words(first), words(second))
    assert compared.first.is_whole
    assert compared.second.is_whole
    assert all(text and (text == text.strip() or of == "both") for of, text in compared.runs)
    assert all(one.of != other.of for one, other in itertools.pairwise(compared.runs))


def test_runs():
    compared = compare("Seen 10 times,\nby us.", "Seen 12 times, by us all.")
    assert compared.runs == (
        Run("both", "Seen "), Run("first", "10"), Run("both", " "), Run("second", "12"),
        Run("both", " times, by us "), Run("second", "all"), Run("both", "."),
    )  # fmt: skip
    assert compare("a b c", "a c").runs == (Run("both", "a "), Run("first", "b"), Run("both", " c"))


@pytest.mark.parametrize(
    ("first", "second", "marked"),
    [
        ("v. 2.1 1) a", "v. 2.0 1) a", ["2.1"]),
        ("at 10:30, a.example.", "at 10:35, b.example.", ["10:30", "a.example"]),
        ("1,000 if it's", "1,001 if it’s", ["1,000", "it's"]),
        ("其5个", "其6个", ["5"]),
        ("中\u3000国", "中国", []),
    ],
)
def test_numbers_and_names_are_words(first, second, marked):
    assert only(compare(first, second), "first") == marked


@pytest.mark.parametrize("texts", [("", ""), ("", "a b"), (" ", "\n"), ("...", "")])
def test_empty_texts(texts):
    compared = compare(*texts)
    for text, excerpt in zip(texts, (compared.first, compared.second), strict=True):
        assert excerpt == Excerpt(0, len(text), len(text))
    assert text_of(compared, "second") == texts[1]


@pytest.mark.parametrize(
    ("shared", "start"),
    [(0, 0), (MAX_CHARACTERS // 2, 0), (MAX_CHARACTERS // 2 + 1, MAX_CHARACTERS // 2 - 299),
     (1_000_003, 999_703)],
)  # fmt: skip
def test_long_texts_are_shown_from_shortly_before_they_differ(shared, start):
    beginning = ("ab " * (shared // 3 + 1))[:shared]
    first, second = beginning + "1" + "x" * 9000, beginning + "2" + "y" * 30
    compared = compare(first, second)
    one, other = compared.first, compared.second
    assert one == (start, start + MAX_CHARACTERS, len(first))
    assert other == (start, min(len(second), start + MAX_CHARACTERS), len(second))
    assert words(text_of(compared, "first")) == words(first[one.start : one.stop])
    assert text_of(compared, "second").split() == second[other.start : other.stop].split()
    assert only(compared, "first")


def test_a_text_that_is_a_prefix_of_the_other():
    whole = "one two three four. " * 1000
    compared = compare(whole, whole[:5000])
    assert (compared.first.start, compared.second.start, compared.second.stop) == (4700, 4700, 5000)
    assert only(compared, "second") == []
    assert len(only(compared, "first")) == 1


def test_what_follows_behind_the_other_excerpt_is_no_difference():
    """An insertion at the beginning moves the end of the text out of the excerpt."""
    numbers = " ".join(f"n{number}" for number in range(2000))
    for texts in [(f"one two three {numbers}", numbers), (numbers, f"one two three {numbers}")]:
        compared = compare(*texts)
        marked = only(compared, "first") + only(compared, "second")
        assert marked == ["one two three"]
        for text, excerpt in zip(texts, (compared.first, compared.second), strict=True):
            assert 3980 <= excerpt.stop <= 4000
            assert text[: excerpt.stop].split()[-1] == text_of(compared).split()[-1]
    # of a text that ends there it is one
    (missing,) = only(compare(numbers, numbers[:3000]), "first")
    assert missing.endswith(" n1299 n1300")
    # and a long one may be
    compared = compare("a " * 2000 + "b", "a " * 1000 + "c " * 1000 + "d")
    assert only(compared, "second")


def test_equal_long_texts_are_shown_from_the_beginning():
    text = "word " * 10_000
    compared = compare(text, text)
    assert compared.first == compared.second == Excerpt(0, MAX_CHARACTERS, 50_000)
    assert compared.runs == (Run("both", text[:4000]),)


@pytest.mark.parametrize(("even", "odd"), [(50, 2000), (52, 1), (1, 1), (2, 3), (31, 4000)])
def test_texts_that_repeat_themselves(even, odd):
    """Of such ones difflib misses what is equal, or takes 10 seconds and more to find it."""

    def text(offset):
        return "".join(
            chr(0x4E00 + number % even) + chr(0x6000 + offset + number % odd)
            for number in range(2000)
        )

    assert text_of(compare(text(0), text(5000))) == text(0)[::2]
