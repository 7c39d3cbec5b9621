"""Repeated passages by dictionaries of tuples of words, of texts of ASCII."""

import re
from collections import defaultdict
from itertools import groupby

WORD = re.compile(r"[a-z0-9]+", re.IGNORECASE)


def words_of(text):
    """The words of a text, and where they are."""
    found = list(WORD.finditer(text))
    return [each[0].lower() for each in found], [each.span() for each in found]


def units_of(text, unit):
    """The lines or paragraphs of a text with their ends, and whether they have words."""
    if unit == "lines":
        pieces = text.splitlines(keepends=True)
    else:
        # after the end of a line that an empty one follows
        pieces = re.split(r"(?<=\n)(?=[ \t\r]*\n)", text)
    at = 0
    for piece in pieces:
        yield at, piece
        at += len(piece)


def windows_of(text, unit, size, min_tokens):
    """The first word of each window, the one after its last, and what it is compared by."""
    words, spans = words_of(text)
    if unit == "tokens":
        for start in range(len(words) - size + 1):
            yield start, start + size, tuple(words[start : start + size])
        return
    for at, piece in units_of(text, unit):
        inside = [i for i, (start, _) in enumerate(spans) if at <= start < at + len(piece)]
        if len(inside) >= max(min_tokens, 1):
            yield inside[0], inside[-1] + 1, tuple(words[inside[0] : inside[-1] + 1])


class Repeated:
    """What is repeated in texts, of which each may be in a group; of one that is None in none."""

    def __init__(self, texts, unit="tokens", size=50, min_documents=2, min_tokens=1, groups=None):
        self.texts, self.unit = texts, unit
        groups = [""] * len(texts) if groups is None else groups
        documents, first = defaultdict(set), {}
        found = []
        for number, (text, group) in enumerate(zip(texts, groups, strict=True)):
            if group is None:
                continue
            for start, stop, words in windows_of(text, unit, size, min_tokens):
                documents[group, words].add(number)
                first.setdefault((group, words), (number, start))
                found.append((number, start, stop, (group, words)))
        kept = [each for each in found if len(documents[each[3]]) >= min_documents]
        self.firsts = [each for each in kept if first[each[3]] == each[:2]]
        self.spans = []
        for number, start, stop, key in kept:
            count = len(documents[key])
            last = self.spans[-1] if self.spans else None
            if unit == "tokens" and last and last[0] == number and start <= last[2]:
                last[2], last[3] = stop, min(last[3], count)
            else:
                self.spans.append([number, start, stop, count])

    def occurrences(self):
        """The document, the offsets and the words of each."""
        for number, start, stop, _ in self.spans:
            words, spans = words_of(self.texts[number])
            yield number, spans[start][0], spans[stop - 1][1], tuple(words[start:stop])

    def cut(self, but_first):
        """The texts without what is repeated."""
        for number, text in enumerate(self.texts):
            _, spans = words_of(text)
            kept = set()
            if but_first:
                kept = {
                    word for each in self.firsts if each[0] == number
                    for word in range(each[1], each[2])
                }  # fmt: skip
            gone = set()
            for row, start, stop, _ in self.spans:
                if row == number:
                    gone |= self._gone(
                        text, spans, [w for w in range(start, stop) if w not in kept]
                    )
            yield "".join(c for i, c in enumerate(text) if i not in gone)

    def _gone(self, text, spans, words):
        if not words:
            return set()
        if self.unit != "tokens":
            first = spans[words[0]][0]
            return {
                at + i for at, piece in units_of(text, self.unit) for i in range(len(piece))
                if at <= first < at + len(piece)
            }  # fmt: skip
        runs = [[w for _, w in run] for _, run in groupby(enumerate(words), lambda p: p[1] - p[0])]
        return {i for run in runs for i in range(spans[run[0]][0], spans[run[-1]][1])}
