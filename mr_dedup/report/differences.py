"""The words in which two texts differ, between those that both have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rapidfuzz.distance import LCSseq

MAX_CHARACTERS = 4000
"""Length of an excerpt."""

_CONTEXT = 300
"""Characters shown before the first difference, if an excerpt starts there."""

# a Chinese or Japanese character and a Korean syllable are words by themselves; a number, a time, a
# host name and an elision are single words
_IDEOGRAPHS = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
_LETTERS = rf"[^\W{_IDEOGRAPHS}]+"
_WORD = re.compile(rf"(?!\s)[{_IDEOGRAPHS}]|{_LETTERS}(?:[.,:'’]{_LETTERS})*|[^\w\s]")


class Run(NamedTuple):
    """Characters that both texts have, or only the first or the second one."""

    of: Literal["both", "first", "second"]
    text: str


class Excerpt(NamedTuple):
    """Characters ``start`` to ``stop`` of a text of ``total``."""

    start: int
    stop: int
    total: int

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole text."""
        return self.stop - self.start == self.total


@dataclass(frozen=True)
class Comparison:
    """Excerpts of two texts, merged.

    Attributes:
        runs: What both have, in order, and between that what only one of them has.
        first: The excerpt of the first text.
        second: That of the second one.
    """

    runs: tuple[Run, ...]
    first: Excerpt
    second: Excerpt


def compare(first: str, second: str) -> Comparison:
    """Return the differences of two texts, in excerpts of up to MAX_CHARACTERS each.

    Both start at the same offset: at 0, or shortly before the first difference if that is in the
    second half of the excerpt or behind it. The words outside a longest common subsequence differ;
    white space is not compared. Takes some milliseconds for any texts (difflib takes up to minutes
    for some, or marks equal words), and twice the time of comparing long ones.

    >>> for run in compare("one two three", "one 2 three").runs:
    ...     print(run.of, repr(run.text))
    both 'one '
    first 'two'
    both ' '
    second '2'
    both ' three'
    """
    start = _start(first, second)
    parts = [text[start : start + MAX_CHARACTERS] for text in (first, second)]
    runs: list[Run] = []
    for run in _runs(*parts):
        if run.text and runs and runs[-1].of == run.of:
            runs[-1] = Run(run.of, runs[-1].text + run.text)
        elif run.text:
            runs.append(run)
    excerpts = (
        Excerpt(start, start + len(part), len(text))
        for text, part in zip((first, second), parts, strict=True)
    )
    return Comparison(tuple(runs), *excerpts)


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


def _runs(first: str, second: str) -> Iterator[Run]:
    """Yield the two texts as runs, some of them empty."""
    first_words, second_words = (list(_WORD.finditer(text)) for text in (first, second))
    words = [[match[0] for match in matches] for matches in (first_words, second_words)]
    matching = LCSseq.opcodes(*words).as_matching_blocks()
    blocks: list[tuple[int, int, int]] = [(block.a, block.b, block.size) for block in matching]
    # behind the last equal word
    i = j = end = 0
    for next_i, next_j, count in [*blocks, (len(first_words), len(second_words), 0)]:
        gap = second[end : _start_of(second_words, j, second)]
        end += len(gap)
        if next_i > i:
            start, stop = first_words[i].start(), first_words[next_i - 1].end()
            yield Run("both", gap or first[first_words[i - 1].end() if i else 0 : start])
            yield Run("first", first[start:stop])
            # the white space behind it, before what follows in the second text
            yield Run("both", first[stop : _start_of(first_words, next_i, first)])
        else:
            yield Run("both", gap)
        if next_j > j:
            stop = second_words[next_j - 1].end()
            yield Run("second", second[end:stop])
            end = stop
        i, j = next_i + count, next_j + count
        if count:
            stop = second_words[j - 1].end()
            yield Run("both", second[end:stop])
            end = stop
    yield Run("both", second[end:])


def _start_of(words: list[re.Match[str]], number: int, text: str) -> int:
    """Return where the word of a number starts; behind the last word the end of the text."""
    return words[number].start() if number < len(words) else len(text)
