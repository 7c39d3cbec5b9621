"""Excerpts of two texts side by side, with the words in which they differ."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

MAX_CHARACTERS = 4000
"""Length of an excerpt."""

_CONTEXT = 300
"""Characters shown before the first difference, if an excerpt starts there."""

# a Chinese or Japanese character and a Korean syllable are words by themselves; a number, a time, a
# host name and an elision are single words
_IDEOGRAPHS = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
_LETTERS = rf"[^\W{_IDEOGRAPHS}]+"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|{_LETTERS}(?:[.,:'’]{_LETTERS})*|[^\w\s]")


class Segment(NamedTuple):
    """A run of characters of a text, and whether it differs from the other text."""

    text: str
    differs: bool


@dataclass(frozen=True)
class Excerpt:
    """Characters ``start`` to ``stop`` of a text of ``total``, as consecutive segments."""

    start: int
    stop: int
    total: int
    segments: tuple[Segment, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole text."""
        return self.stop - self.start == self.total


def compare(first: str, second: str) -> tuple[Excerpt, Excerpt]:
    """Return excerpts of two texts, of up to MAX_CHARACTERS each.

    Both start at the same offset: at 0, or shortly before the first difference if that is in the
    second half of the excerpt or behind it. The words outside a longest common subsequence differ;
    white space is not compared. Takes some milliseconds for any texts (difflib takes up to minutes
    for some, or marks equal words), and twice the time of comparing long ones.

    >>> first, second = compare("one two three", "one 2 three")
    >>> [segment.text for segment in second.segments if segment.differs]
    ['2']
    """
    start = _start(first, second)
    parts = [text[start : start + MAX_CHARACTERS] for text in (first, second)]
    words = [list(_WORD.finditer(part)) for part in parts]
    one, other = (
        Excerpt(start, start + len(part), len(text), tuple(_segments(part, matches, differs)))
        for text, part, matches, differs in zip(
            (first, second), parts, words, _differing(*words), strict=True
        )
    )
    return one, other


def _start(first: str, second: str) -> int:
    if first == second:
        return 0
    shared = _shared_characters(first, second)
    return 0 if shared <= MAX_CHARACTERS // 2 else shared - _CONTEXT


def _shared_characters(first: str, second: str) -> int:
    """Return the length of the common prefix of two texts."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _differing(
    first: list[re.Match[str]], second: list[re.Match[str]]
) -> tuple[list[bool], list[bool]]:
    """Return which words of each text are not in a longest common subsequence."""
    words = [[match[0] for match in matches] for matches in (first, second)]
    differs = [True] * len(first), [True] * len(second)
    for i, j, count in LCSseq.opcodes(*words).as_matching_blocks():
        differs[0][i : i + count] = differs[1][j : j + count] = [False] * count
    return differs


def _segments(text: str, words: list[re.Match[str]], differs: list[bool]) -> list[Segment]:
    """Return ``text`` as runs of words that differ, and the text between them."""
    segments, end, word = [], 0, 0
    for is_different, run in itertools.groupby(differs):
        count = len(list(run))
        if is_different:
            start, stop = words[word].start(), words[word + count - 1].end()
            segments += [Segment(text[end:start], False), Segment(text[start:stop], True)]
            end = stop
        word += count
    segments.append(Segment(text[end:], False))
    return [segment for segment in segments if segment.text]
