"""Two texts side by side, and in which words they differ."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

MOST_CHARACTERS = 4000
"""What is shown of a text."""

_BEFORE = 300
"""Characters shown before the first difference, where it is too far back to start with the text."""

# a character of Chinese or Japanese, or a syllable of Korean, is a word by itself; a number, a
# time, the name of a host or an elision is one
_IDEOGRAPHS = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
_LETTERS = rf"[^\W{_IDEOGRAPHS}]+"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|{_LETTERS}(?:[.,:'’]{_LETTERS})*|[^\w\s]")


class Segment(NamedTuple):
    """A piece of a text, and whether it differs from the other text."""

    text: str
    differs: bool


@dataclass(frozen=True)
class Excerpt:
    """Characters ``start`` to ``stop`` of a text of ``total``, as pieces that follow each other."""

    start: int
    stop: int
    total: int
    segments: tuple[Segment, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the text."""
        return self.stop - self.start == self.total


def compare(first: str, second: str) -> tuple[Excerpt, Excerpt]:
    """Return what is shown of two texts, MOST_CHARACTERS of each at the most.

    Both start at one place: the beginning, or a little before the first difference if that is in
    the second half of what would be shown, or behind it. Of their words a longest common
    subsequence is what does not differ; white space is not compared. Takes some milliseconds,
    whatever the texts (difflib takes up to minutes for some, or marks words that do not differ),
    and to find where long ones differ the time of comparing them two times.
    """
    start = _start(first, second)
    shown = [text[start : start + MOST_CHARACTERS] for text in (first, second)]
    found = [list(_WORD.finditer(text)) for text in shown]
    one, other = (
        Excerpt(start, start + len(part), len(text), tuple(_cut(part, words, differs)))
        for text, part, words, differs in zip(
            (first, second), shown, found, _differing(*found), strict=True
        )
    )
    return one, other


def _start(first: str, second: str) -> int:
    if first == second:
        return 0
    shared = _shared_characters(first, second)
    return 0 if shared <= MOST_CHARACTERS // 2 else shared - _BEFORE


def _shared_characters(first: str, second: str) -> int:
    """Return with how many equal characters two texts begin."""
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
    """Return which words of either text the other does not have at that place."""
    words = [[match[0] for match in matches] for matches in (first, second)]
    differs = [True] * len(first), [True] * len(second)
    for i, j, count in LCSseq.opcodes(*words).as_matching_blocks():
        differs[0][i : i + count] = differs[1][j : j + count] = [False] * count
    return differs


def _cut(text: str, words: list[re.Match[str]], differs: list[bool]) -> list[Segment]:
    """Return ``text`` in pieces: runs of words that differ, and what is between them."""
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
