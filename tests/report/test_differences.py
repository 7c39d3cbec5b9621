"""Differences of two texts, against the textbook's longest common subsequence."""

import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.report.differences import MAX_CHARACTERS, Excerpt, Segment, compare

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


def same(excerpt):
    """The words that do not differ."""
    return [word for text, differs in excerpt.segments if not differs for word in words(text)]


def text_of(excerpt):
    return "".join(segment.text for segment in excerpt.segments)


@given(WORDS, WORDS, st.sampled_from([" ", "\n\n", " \t"]))
def test_what_is_not_marked_is_a_longest_common_subsequence(one, other, gap):
    first, second = gap.join(one), " ".join(other)
    shown = compare(first, second)
    assert [text_of(excerpt) for excerpt in shown] == [first, second]
    assert same(shown[0]) == same(shown[1])
    assert len(same(shown[0])) == common(words(first), words(second))
    for excerpt in shown:
        assert excerpt.is_whole
        assert all(
            text and (text == text.strip() or not marked) for text, marked in excerpt.segments
        )
        marks = [marked for _, marked in excerpt.segments]
        assert all(one != other for one, other in itertools.pairwise(marks))


def test_segments():
    one, other = compare("Seen 10 times,\nby us.", "Seen 12 times, by us all.")
    assert one.segments == (
        Segment("Seen ", False), Segment("10", True), Segment(" times,\nby us.", False),
    )  # fmt: skip
    assert other.segments == (
        Segment("Seen ", False), Segment("12", True), Segment(" times, by us ", False),
        Segment("all", True), Segment(".", False),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "marked"),
    [
        ("v. 2.1 1) a", "v. 2.0 1) a", ["2.1"]),
        ("at 10:30, a.example.", "at 10:35, b.example.", ["10:30", "a.example"]),
        ("1,000 if it's", "1,001 if it’s", ["1,000", "it's"]),
        ("其5个", "其6个", ["5"]),
    ],
)
def test_numbers_and_names_are_words(first, second, marked):
    one, _ = compare(first, second)
    assert [text for text, differs in one.segments if differs] == marked


@pytest.mark.parametrize("texts", [("", ""), ("", "a b"), (" ", "\n"), ("...", "")])
def test_empty_texts(texts):
    for text, excerpt in zip(texts, compare(*texts), strict=True):
        assert text_of(excerpt) == text
        assert (excerpt.start, excerpt.stop, excerpt.total) == (0, len(text), len(text))


@pytest.mark.parametrize(
    ("shared", "start"),
    [(0, 0), (MAX_CHARACTERS // 2, 0), (MAX_CHARACTERS // 2 + 1, MAX_CHARACTERS // 2 - 299),
     (1_000_003, 999_703)],
)  # fmt: skip
def test_long_texts_are_shown_from_shortly_before_they_differ(shared, start):
    beginning = ("ab " * (shared // 3 + 1))[:shared]
    first, second = beginning + "1" + "x" * 9000, beginning + "2" + "y" * 30
    one, other = compare(first, second)
    assert (one.start, one.stop, one.total) == (start, start + MAX_CHARACTERS, len(first))
    assert (other.start, other.stop) == (start, min(len(second), start + MAX_CHARACTERS))
    assert text_of(one) == first[one.start : one.stop]
    assert text_of(other) == second[other.start : other.stop]
    assert any(marked for _, marked in one.segments)


def test_a_text_that_is_a_prefix_of_the_other():
    whole = "one two three four. " * 1000
    one, other = compare(whole, whole[:5000])
    assert (one.start, other.start, other.stop) == (4700, 4700, 5000)
    assert not any(marked for _, marked in other.segments)
    assert [marked for _, marked in one.segments if marked] == [True]


def test_equal_long_texts_are_shown_from_the_beginning():
    text = "word " * 10_000
    for excerpt in compare(text, text):
        assert excerpt == Excerpt(0, MAX_CHARACTERS, 50_000, (Segment(text[:4000], False),))


@pytest.mark.parametrize(("even", "odd"), [(50, 2000), (52, 1), (1, 1), (2, 3), (31, 4000)])
def test_texts_that_repeat_themselves(even, odd):
    """Of such ones difflib misses what is equal, or takes 10 seconds and more to find it."""

    def text(offset):
        return "".join(
            chr(0x4E00 + number % even) + chr(0x6000 + offset + number % odd)
            for number in range(2000)
        )

    for excerpt in compare(text(0), text(5000)):
        assert "".join(text for text, marked in excerpt.segments if not marked) == text(0)[::2]
