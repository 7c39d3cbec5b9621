"""Vocabularies, and how often their words are drawn."""

import datetime
import unicodedata
from collections import Counter

import numpy as np
import pytest

from data_gen.languages import (
    FIRST,
    FORMS,
    FUNCTION_WORDS,
    LAST,
    VOCABULARY,
    Language,
    chinese,
    draw_words,
    english,
    frequency_table,
    synonym,
)
from data_gen.streams import Choices, Stream
from tests.data_gen.document_oracles import slow_tokens

both = pytest.mark.parametrize("language", [english(), chinese()], ids=["english", "chinese"])


@both
def test_a_vocabulary_has_distinct_words_of_letters(language: Language) -> None:
    assert len(language.words) == VOCABULARY
    assert len({unicodedata.normalize("NFKC", word).lower() for word in language.words}) == (
        VOCABULARY
    )
    assert all(word.isalpha() and word == word.lower() for word in language.words)
    for form in language.forms[:: FORMS + 1]:
        assert form.encode(language.charset).decode(language.charset) == form


def test_english_words_are_a_token_each_and_longer_the_rarer() -> None:
    words = english().words
    assert all(slow_tokens(word) == [word] for word in words)
    lengths = [np.mean([len(word) for word in part]) for part in (words[:100], words[100:])]
    assert lengths[0] < 5 < 8 < lengths[1]
    accented = [word for word in words if not word.isascii()]
    assert 500 < len(accented) < 1200


def test_chinese_words_are_of_one_to_three_characters() -> None:
    words = chinese().words
    assert all(slow_tokens(word) == list(word) for word in words)
    assert set(map(len, words)) == {1, 2, 3}
    characters = Counter("".join(words)).most_common()
    assert 2000 < len(characters) <= 3000
    # the tenth most frequent has about a tenth of the first
    assert 5 < characters[0][1] / characters[9][1] < 20


@pytest.mark.parametrize("size", [1, 2, 256, VOCABULARY])
def test_frequencies_follow_zipfs_law(size: int) -> None:
    slots = np.bincount(frequency_table(size), minlength=size)
    assert slots.size == size
    assert slots.sum() == 2**18
    whole = sum(1 / rank for rank in range(1, size + 1))
    expected = [2**18 / rank / whole for rank in range(1, size + 1)]
    assert all(abs(one - other) <= 1 for one, other in zip(slots, expected, strict=True))


def test_words_are_drawn_by_their_frequency() -> None:
    drawn = draw_words(Stream(3, "words").raw(100_000))
    counts = np.bincount(drawn, minlength=VOCABULARY)
    expected = 100_000 / sum(1 / rank for rank in range(1, VOCABULARY + 1))
    assert np.abs(counts[:8] * np.arange(1, 9) / expected - 1).max() < 0.1


@both
def test_synonyms_come_in_pairs_in_the_same_form(language: Language) -> None:
    for word in range(0, VOCABULARY * FORMS, 7):
        other = synonym(word)
        assert synonym(other) == word
        assert other % FORMS == word % FORMS
        assert (other == word) == (word // FORMS < FUNCTION_WORDS)
        assert 0 <= other // FORMS < VOCABULARY


def test_the_text_of_sentences() -> None:
    words = english().words
    sentence = [5 * FORMS + FIRST, 6 * FORMS, 7 * FORMS + LAST]
    one = f"{words[5].capitalize()} {words[6]} {words[7]}."
    assert english().paragraph([sentence, sentence]) == f"{one} {one}"
    one = "".join(chinese().words[5:8]) + "。"
    assert chinese().paragraph([sentence, sentence]) == one * 2


@both
def test_a_phrase_has_so_many_words(language: Language) -> None:
    choices = Choices(Stream(1, "phrases"))
    known = set(language.words)
    for size in (1, 2, 9):
        phrase = language.phrase(choices, size)
        if language is english():
            assert phrase[0].isupper()
            assert len(phrase.split(" ")) == size
            assert set(phrase.lower().split(" ")) <= known
        else:
            assert size <= len(phrase) <= 3 * size


def test_bylines() -> None:
    day = datetime.date(2019, 2, 3)
    assert english().byline(day, 12345) == "Published February 3, 2019 · 12,345 views"
    assert chinese().byline(day, 12345) == "发布时间：2019年2月3日 阅读：12345次"


@both
def test_rewritten_text_is_the_same_after_normalisation(language: Language) -> None:
    text = "".join(language.forms[:: FORMS * 3 + 1]) + language.byline(
        datetime.date.max, 1234567890
    )
    rewritten = language.rewritten(text)
    assert rewritten != text
    assert unicodedata.normalize("NFKC", rewritten) == unicodedata.normalize("NFKC", text)


def test_golden_words_of_a_language() -> None:
    assert english().words[:5] == ["bou", "brert", "round", "ste", "ceast"]
    assert chinese().words[:5] == ["鄞", "打", "屿", "磊", "萍"]
