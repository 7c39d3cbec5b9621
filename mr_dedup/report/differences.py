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

_WORD_END = 50
"""Characters of the last word of an excerpt that are left out where the word is cut."""

_TAIL = 4
"""A tail of an excerpt is short if it has at most one word for so many before it."""

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
    texts = (first, second)
    parts = [_excerpt(text, start) for text in texts]
    words = [list(_WORD.finditer(part)) for part in parts]
    blocks = _matching_blocks(*words)
    is_cut = [start + len(part) < len(text) for part, text in zip(parts, texts, strict=True)]
    last = [blocks[-1][side] + blocks[-1][2] if blocks else 0 for side in (0, 1)]
    tails = [len(words[side]) - last[side] for side in (0, 1)]
    for side, other in ((0, 1), (1, 0)):
        # the other text may go on with these words, behind its excerpt
        if is_cut[other] and not tails[other] and 0 < tails[side] <= last[side] // _TAIL:
            parts[side] = parts[side][: words[side][last[side] - 1].end()]
            del words[side][last[side] :]
    runs: list[Run] = []
    for run in _runs(parts, words, blocks):
        if run.text and runs and runs[-1].of == run.of:
            runs[-1] = Run(run.of, runs[-1].text + run.text)
        elif run.text:
            runs.append(run)
    excerpts = (
        Excerpt(start, start + len(part), len(text))
        for part, text in zip(parts, texts, strict=True)
    )
    return Comparison(tuple(runs), *excerpts)


def _start(first: str, second: str) -> int:
    if first == second:
        return 0
    shared = _shared_characters(first, second)
    return 0 if shared <= MAX_CHARACTERS // 2 else shared - _CONTEXT


def _excerpt(text: str, start: int) -> str:
    """Return the excerpt of a text; it ends with a whole word if that is not long."""
    part = text[start : start + MAX_CHARACTERS]
    if start + len(part) < len(text):
        end = re.search(rf"\s\S{{1,{_WORD_END}}}$", part)
        return part[: end.start()] if end else part
    return part


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


def _matching_blocks(
    first: list[re.Match[str]], second: list[re.Match[str]]
) -> list[tuple[int, int, int]]:
    """Return runs of a longest common subsequence: where they begin in both, and their lengths."""
    blocks = LCSseq.opcodes(*([word[0] for word in words] for words in (first, second)))
    return [(block.a, block.b, block.size) for block in blocks.as_matching_blocks() if block.size]


def _runs(
    parts: list[str], words: list[list[re.Match[str]]], blocks: list[tuple[int, int, int]]
) -> Iterator[Run]:
    """Yield the two texts as runs, some of them empty."""
    (first, second), (first_words, second_words) = parts, words
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
