"""Segments against the oracle, and how many of them an edit changes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.signatures.segments import CUTS, Segments
from tests.signatures import signature_oracle as oracle
from tests.signatures.signed import array, keys, shared
from tests.strategies import TEXTS

SIZES = st.one_of(
    st.tuples(st.sampled_from([1, 2, 3, 8, 50]), st.none()),
    st.tuples(st.none(), st.sampled_from([1, 2, 3, 10])),
)


def expected(texts, **options):
    return [oracle.segments(text or "", **options) for text in texts]


@given(st.lists(TEXTS | st.none(), max_size=4), st.sampled_from(CUTS), SIZES, st.integers(1, 8))
def test_keys_equal_the_oracle(texts, by, size, least):
    count, length = size
    least = min(least, count or least)
    found = keys(Segments(by, count, length, least).sign(array(texts)))
    assert found == expected(texts, by=by, count=count, length=length, least=least)


@pytest.mark.parametrize("asked", [{"stop_words": "en"}, {"stem": "english"}, {"segment": "zh"}])
def test_words_are_prepared_first(asked):
    texts = ["The cats and the dogs were running home " * 9, "我们在北京大学学习中文" * 9, ""]
    assert keys(Segments(**asked).sign(array(texts))) == expected(texts, **asked)


def words(rng, count):
    return [f"w{rng.getrandbits(30):x}" for _ in range(count)]


@pytest.mark.parametrize("count", [2, 8, 30])
def test_by_content_an_inserted_word_changes_the_segment_it_is_in(count):
    rng = random.Random(count)
    method = Segments("content", count, min_shared_keys=1)
    kept = 0
    for _ in range(50):
        text = words(rng, 400)
        place = rng.randrange(1, 400)
        edited = [*text[:place], "new", *text[place:]]
        signed = method.sign(array([" ".join(text), " ".join(edited)]))
        kept += shared(signed, 0, 1)
    # one segment, two where it is in their window, and where that goes or comes, three
    assert count - 2 < kept / 50 <= count - 1


@pytest.mark.parametrize("by", ["lines", "sentences"])
def test_by_lines_and_sentences_what_is_before_an_insertion_stays(by):
    rng = random.Random(1)
    end = "\n" if by == "lines" else ". "
    units = [" ".join(words(rng, 9)) for _ in range(40)]
    edited = [*units[:20], "new", *units[20:]]
    signed = Segments(by, None, 4, 1).sign(array([end.join(units), end.join(edited)]))
    assert shared(signed, 0, 1) == 5
    again = [*units[:17], "new", *units[18:]]
    signed = Segments(by, None, 4, 1).sign(array([end.join(units), end.join(again)]))
    assert shared(signed, 0, 1) == 9
    signed = Segments(by, count=8).sign(array([end.join(units), end.join(again)]))
    assert shared(signed, 0, 1) == 7


def test_lengths_by_content_are_those_asked_for_on_average():
    text = " ".join(words(random.Random(2), 60_000))
    signed = Segments(length=30, min_shared_keys=1).sign(array([text]))
    # 2,000 cuts; five standard deviations
    assert abs(signed.keys.size - 2000) < 5 * 2000**0.5


def test_sentences():
    text = (
        "One two. Three e.g. four? 五六。七！八？ v1.2 is\nout\n \nHead line\n\n... 'End.' At 3.5"
    )
    found = ["one two", "three e g", "four", "五六", "七", "八", "v1 2 is out", "head line",
             "end at 3 5"]  # fmt: skip
    assert oracle.units(text, "sentences") == found
    signed = Segments("sentences", length=1, min_shared_keys=1).sign(array([text]))
    assert sorted(signed.keys.tolist()) == sorted(map(oracle.xxh3, found))


def test_texts_of_few_segments_are_shared_by_their_copies_alone():
    texts = ["one\ntwo", "One,\n\ntwo!", "one\ntwo\nthree", "one two", "one\none\ntwo"]
    signed = Segments("lines", length=1, min_shared_keys=4).sign(array(texts))
    assert [len(of) for of in keys(signed)] == [4] * 5
    assert [shared(signed, 0, other) for other in range(5)] == [4, 4, 2, 2, 2]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"by": "words"}, "by must be one of lines, sentences, content, not 'words'"),
        ({"count": 0}, "count must be from 1 to 4096, not 0"),
        ({"count": 3}, "min_shared_keys must be from 1 to 3, not 4"),
        ({"min_shared_keys": 0}, "min_shared_keys must be from 1 to 8, not 0"),
        ({"min_shared_keys": 9}, "min_shared_keys must be from 1 to 8, not 9"),
        ({"length": 0}, "length must be from 1 to"),
        (
            {"length": 5, "min_shared_keys": 5000},
            "min_shared_keys must be from 1 to 4096, not 5000",
        ),
        ({"length": 5, "count": 8}, "count and length cannot both be given: 8, 5"),
        ({"by": "lines", "stem": "english"}, "by must be content with stop_words or stem"),
        ({"stem": "klingon"}, "stem must be one of"),
    ],
)
def test_parameters_that_cannot_be(wrong, said):
    with pytest.raises(ValueError, match=said):
        Segments(**wrong)
