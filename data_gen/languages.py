"""Made-up languages: their vocabularies, word frequencies and typography.

A language is the same for every seed, only the texts differ. Words follow Zipf's law: the frequency
of the r-th is proportional to 1 / r. Dates, counters and punctuation are as on English or Chinese
pages of the web.
"""

from __future__ import annotations

import datetime
import functools
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from data_gen.streams import Choices, Longs, Stream, scattered

VOCABULARY = 1 << 15
# words of the first ranks have no synonyms
FUNCTION_WORDS = 32

# forms of a word: a sentence is a list of rank x FORMS + form of its words
PLAIN, COMMA, FIRST, LAST, FORMS = 0, 1, 2, 3, 4

# a word has so many of 2**18 slots as is its frequency: a draw is one table lookup
_SLOT_BITS = 18

# fmt: off
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
           "October", "November", "December")
_ONSETS = ("b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w",
           "th", "sh", "ch", "st", "tr", "pr", "br", "gr", "cl", "pl")
_VOWELS = ("a", "a", "a", "e", "e", "e", "i", "i", "o", "o", "u", "ea", "ou", "ai", "ee")
_CODAS = ("", "", "", "", "", "n", "r", "s", "t", "l", "d", "m", "nd", "st", "rt", "ng", "ck")
# fmt: on
_ACCENTED = str.maketrans("aeiou", "áéïöü")
_CHARACTERS = 3000
_FIRST_CHARACTER, _LAST_CHARACTER = 0x4E00, 0x9FA5
# characters that NFKC normalises to the ASCII ones
_WIDE_DIGITS = str.maketrans("0123456789，：", "０１２３４５６７８９,:")


@dataclass(frozen=True, eq=False)
class Language:
    """A vocabulary, and the conventions of pages written in it.

    Args:
        name: the value of ``--language``.
        code: the value of ``<html lang>``.
        shingle_tokens: the number of tokens of a shingle.
        words: VOCABULARY distinct words, the most frequent first.
        forms: the text for each rank x FORMS + form, with the punctuation and space behind it.
        charset: an encoding that was common before UTF-8.
        byline: returns the line with the date and the count of views.
        rewritten: returns the same text with other code points, equal after NFKC.
    """

    name: str
    code: str
    shingle_tokens: int
    words: Sequence[str] = field(repr=False)
    forms: Sequence[str] = field(repr=False)
    charset: str
    byline: Callable[[datetime.date, int], str]
    rewritten: Callable[[str], str]

    def paragraph(self, sentences: Sequence[Sequence[int]]) -> str:
        """Return the text of consecutive sentences."""
        return "".join(map(self.forms.__getitem__, chain.from_iterable(sentences))).rstrip()

    def phrase(self, choices: Choices, size: int) -> str:
        """Return ``size`` random words, the first one capitalised as at the start of a sentence."""
        frequencies = frequency_table(VOCABULARY)
        ranks = [int(frequencies[choices.below(1 << _SLOT_BITS)]) for _ in range(size)]
        forms = [FIRST] + [PLAIN] * (size - 1)
        printed = [self.forms[r * FORMS + form] for r, form in zip(ranks, forms, strict=True)]
        return "".join(printed).rstrip()


def draw_words(raw: Longs) -> NDArray[np.int64]:
    """Return the rank of a word, int64[n], for each of n uniform uint64 values."""
    slots = (raw >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
    return frequency_table(VOCABULARY)[slots].astype(np.int64)


def synonym(word: int) -> int:
    """Return the synonym of a word of a sentence in the same form; function words have none.

    Synonyms are pairs of neighbouring ranks: each is the synonym of the other.
    """
    return word if word < FUNCTION_WORDS * FORMS else word ^ FORMS


@functools.cache
def frequency_table(size: int) -> NDArray[np.uint16]:
    """Return the rank of each of 2**18 equally likely slots, by Zipf's law, ascending.

    There are ``size`` ranks, at most 2**15; the rarest may have no slot. Weights are rounded to
    multiples of 2**-32 of the first one, so that the result does not depend on the last digit of a
    platform's division.
    """
    cumulative = np.cumsum(np.rint(2.0**32 / np.arange(1, size + 1))).astype(np.uint64)
    middles = np.arange(1, 2 << _SLOT_BITS, 2, dtype=np.uint64)
    middles = (middles * cumulative[-1]) >> np.uint64(_SLOT_BITS + 1)
    ranks: NDArray[np.uint16] = np.searchsorted(cumulative, middles, side="right").astype(np.uint16)
    return ranks


@functools.cache
def english() -> Language:
    """Return the language with words of English-like syllables."""
    words = _english_words()
    return Language(
        name="english",
        code="en",
        shingle_tokens=3,
        words=words,
        forms=[
            form
            for word in words
            for form in (f"{word} ", f"{word}, ", f"{word.title()} ", f"{word}. ")
        ],
        charset="windows-1252",
        byline=lambda day, views: (
            f"Published {_MONTHS[day.month - 1]} {day.day}, {day.year} · {views:,} views"
        ),
        rewritten=functools.partial(unicodedata.normalize, "NFD"),
    )


@functools.cache
def chinese() -> Language:
    """Return the language with words of one to three Chinese characters."""
    words = _chinese_words()
    return Language(
        name="chinese",
        code="zh",
        shingle_tokens=5,
        words=words,
        forms=[form for word in words for form in (word, f"{word}，", word, f"{word}。")],
        charset="gb18030",
        byline=lambda day, views: f"发布时间：{day.year}年{day.month}月{day.day}日 阅读：{views}次",
        rewritten=lambda text: text.translate(_WIDE_DIGITS),
    )


def _english_words() -> list[str]:
    """Return distinct words of a to z: rarer words are longer, and one in forty has an accent."""
    choices = Choices(Stream(0, "english words"))
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        rank = len(words)
        # one syllable for the first ranks, which are half of all text
        syllables = 1 + choices.below(2 if rank < 1000 else 4) * (rank >= 100) + (rank >= 4000)
        word = "".join(_syllable(choices) for _ in range(syllables))
        if rank >= FUNCTION_WORDS and not choices.below(40):
            word = word.translate(_ACCENTED)
        words.setdefault(word)
    return list(words)


def _syllable(choices: Choices) -> str:
    return "".join(part[choices.below(len(part))] for part in (_ONSETS, _VOWELS, _CODAS))


def _chinese_words() -> list[str]:
    """Return distinct words with characters by Zipf's law; the most frequent are single ones."""
    span = _LAST_CHARACTER - _FIRST_CHARACTER + 1
    offsets = scattered(Stream(0, "chinese characters"), span, _CHARACTERS)
    characters = [chr(_FIRST_CHARACTER + offset) for offset in offsets.tolist()]
    frequencies = frequency_table(_CHARACTERS)
    choices = Choices(Stream(0, "chinese words"))
    words: dict[str, None] = dict.fromkeys(characters[: _CHARACTERS // 10])
    while len(words) < VOCABULARY:
        size = (2, 2, 2, 3)[choices.below(4)]
        drawn = [characters[frequencies[choices.below(1 << _SLOT_BITS)]] for _ in range(size)]
        words.setdefault("".join(drawn))
    return list(words)
