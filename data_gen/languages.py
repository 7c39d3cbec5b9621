"""Made-up languages: vocabularies by rank, how often each word occurs, and how words are set.

A language is the same for every seed: only what is written in it differs. Words occur by Zipf's
law, the r-th as often as 1 / r. What stands around the words (dates, counters, punctuation) is
English or Chinese as on the web.
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
# words of the first ranks have no synonyms: they hold sentences together
FUNCTION_WORDS = 32

# how a word is set: a sentence is a list of its words' ranks x FORMS + one of these
PLAIN, COMMA, FIRST, LAST, FORMS = 0, 1, 2, 3, 4

# a frequency is a number of slots of so many: a draw is then one look into a table
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
# what Unicode's compatibility normalisation (NFKC) takes back
_WIDE_DIGITS = str.maketrans("0123456789，：", "０１２３４５６７８９,:")


@dataclass(frozen=True, eq=False)
class Language:
    """A vocabulary, and the conventions of pages written in it.

    - ``name``, ``code``: as ``--language`` and as ``<html lang>`` have it.
    - ``shingle_tokens``: how many tokens make a shingle of its truth.
    - ``words``: by rank, the most frequent first, all different; VOCABULARY of them.
    - ``forms``: what is printed for rank x FORMS + form, with what follows it.
    - ``charset``: an encoding that was common before UTF-8.
    - ``byline``: what a page says of its date and of how often it was seen.
    - ``rewritten``: the same text in other code points, equal after NFKC.
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
        """Return sentences in print, in a row."""
        return "".join(map(self.forms.__getitem__, chain.from_iterable(sentences))).rstrip()

    def phrase(self, choices: Choices, size: int) -> str:
        """Return ``size`` words drawn by their frequency, the first as at a sentence's start."""
        often = frequency_table(VOCABULARY)
        ranks = [int(often[choices.below(1 << _SLOT_BITS)]) for _ in range(size)]
        forms = [FIRST] + [PLAIN] * (size - 1)
        printed = [self.forms[r * FORMS + form] for r, form in zip(ranks, forms, strict=True)]
        return "".join(printed).rstrip()


def draw_words(raw: Longs) -> NDArray[np.int64]:
    """Return a word's rank for each of uint64[n] uniform values, by its leading bits: int64[n]."""
    slots = (raw >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
    return frequency_table(VOCABULARY)[slots].astype(np.int64)


def synonym(word: int) -> int:
    """Return a word of a sentence with its synonym, of the next rank, in its place.

    Synonyms come in pairs: that of the synonym is the word itself. A function word stays.
    """
    return word if word < FUNCTION_WORDS * FORMS else word ^ FORMS


@functools.cache
def frequency_table(size: int) -> NDArray[np.uint16]:
    """Return the rank that each of 2**18 equally likely slots stands for, by Zipf's law.

    ``size`` ranks, at most 2**15; slots go by rank, and the rarest ranks may have none. Weights
    are rounded to whole multiples of 2**-32 of the first, so that the last digit of a platform's
    division does not show.
    """
    heaped = np.cumsum(np.rint(2.0**32 / np.arange(1, size + 1))).astype(np.uint64)
    middles = np.arange(1, 2 << _SLOT_BITS, 2, dtype=np.uint64)
    middles = (middles * heaped[-1]) >> np.uint64(_SLOT_BITS + 1)
    ranks: NDArray[np.uint16] = np.searchsorted(heaped, middles, side="right").astype(np.uint16)
    return ranks


@functools.cache
def english() -> Language:
    """Return the language of words made of English-like syllables."""
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
    """Return the language of words of one to three Chinese characters."""
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
    """Return distinct words of a to z; the rarer, the longer, and one in forty has an accent."""
    choices = Choices(Stream(0, "english words"))
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        rank = len(words)
        # one syllable for the first ranks, where half of all that is written comes from
        syllables = 1 + choices.below(2 if rank < 1000 else 4) * (rank >= 100) + (rank >= 4000)
        word = "".join(_syllable(choices) for _ in range(syllables))
        if rank >= FUNCTION_WORDS and not choices.below(40):
            word = word.translate(_ACCENTED)
        words.setdefault(word)
    return list(words)


def _syllable(choices: Choices) -> str:
    return "".join(part[choices.below(len(part))] for part in (_ONSETS, _VOWELS, _CODAS))


def _chinese_words() -> list[str]:
    """Return distinct words of characters by Zipf's law; single characters are the commonest."""
    span = _LAST_CHARACTER - _FIRST_CHARACTER + 1
    places = scattered(Stream(0, "chinese characters"), span, _CHARACTERS)
    characters = [chr(_FIRST_CHARACTER + place) for place in places.tolist()]
    often = frequency_table(_CHARACTERS)
    choices = Choices(Stream(0, "chinese words"))
    words: dict[str, None] = dict.fromkeys(characters[: _CHARACTERS // 10])
    while len(words) < VOCABULARY:
        size = (2, 2, 2, 3)[choices.below(4)]
        drawn = [characters[often[choices.below(1 << _SLOT_BITS)]] for _ in range(size)]
        words.setdefault("".join(drawn))
    return list(words)
