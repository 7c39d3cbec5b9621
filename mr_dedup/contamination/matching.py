"""Find the texts of items in documents: where, how much of each, and by how many edits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.contamination import kernels
from mr_dedup.contamination.item_index import ItemIndex
from mr_dedup.contamination.kernels import MAX_BAND, ROW, Documents, Scratch
from mr_dedup.features.token_spans import TokenSpans

MAX_WORK = 2000
"""Steps for inexact matches of a document, for each of its tokens and 1,000 more: a millisecond of
a thousand tokens at most. Of pages and 1,319 questions the median is below 1."""

_ROWS = 1 << 12


class TextMatch(NamedTuple):
    """A text of the items in a document.

    Attributes:
        text: Its number.
        start, stop: Tokens of the document.
        coverage: The share of the weight of its tokens that is there, 0 to 1.
        deleted, inserted, changed: Tokens of the text that are missing, tokens of the document
            between others, and those in place of others.
    """

    text: int
    start: int
    stop: int
    coverage: float
    deleted: int = 0
    inserted: int = 0
    changed: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether the document has the text as it is, but for punctuation and case."""
        return self.deleted + self.inserted + self.changed == 0


class Matcher:
    """Finds the texts of an index in documents; its space is for one thread.

    Args:
        index: The items.
        max_work: Steps for a document's inexact matches, see ``MAX_WORK``.

    Attributes:
        stopped: In how many documents not all inexact matches were looked for, as that took more.
    """

    def __init__(self, index: ItemIndex, max_work: int = MAX_WORK) -> None:
        self.index = index
        self.stopped = 0
        self._max_work = np.uint64(max_work)
        self._min_share = np.uint64(round(1000 * index.options.with_answer))
        self._scratch = _scratch_for(index, 1 << 12, _ROWS)

    def find(self, spans: TokenSpans) -> Iterator[tuple[int, list[TextMatch]]]:
        """Yield the documents that have texts, each with its matches, exact ones first.

        Matches of one text do not overlap. All texts are found that a document has as a whole;
        and others of which n-grams are left, if the rest is similar enough.

        Args:
            spans: The tokens of documents.
        """
        documents = Documents(spans.hashes, spans.offsets)
        longest = int(np.diff(spans.offsets).max(initial=0))
        if longest > self._scratch.ids.size:
            self._scratch = _scratch_for(self.index, longest, self._scratch.next_rows.size)
        out = np.empty((self._scratch.next_rows.size, len(ROW)), np.uint32)
        document, count = 0, len(spans)
        while document < count:
            after, rows, stopped = kernels.find_matches(
                self.index.table, documents, np.uint64(document), self._min_share, self._max_work,
                self._scratch, out,
            )  # fmt: skip
            self.stopped += stopped
            yield from self._matches(out[:rows])
            if after == document:
                # one document has more matches than there was room for
                self._scratch = _scratch_for(self.index, longest, 4 * len(out))
                out = np.empty((4 * len(out), len(ROW)), np.uint32)
            document = after

    def _matches(self, rows: NDArray[np.uint32]) -> Iterator[tuple[int, list[TextMatch]]]:
        coverage = rows[:, 4] / np.maximum(self.index.table.totals[rows[:, 1]], 1)
        edges = np.flatnonzero(np.diff(rows[:, 0], prepend=-1, append=-1))
        for start, stop in itertools.pairwise(edges.tolist()):
            found = [
                TextMatch(text, begin, end, share, *edits)
                for (_, text, begin, end, _, *edits), share in zip(
                    rows[start:stop].tolist(), coverage[start:stop].tolist(), strict=True
                )
            ]
            yield int(rows[start, 0]), found


def _scratch_for(index: ItemIndex, tokens: int, rows: int) -> Scratch:
    texts = index.table.totals.size
    band = 2 * MAX_BAND + 1
    return Scratch(
        np.empty(tokens, np.uint32),
        np.empty(tokens + 1, np.uint64),
        np.empty(3 * tokens, np.uint32),
        np.empty(3 * tokens, np.uint32),
        np.zeros(1, np.uint64),
        np.zeros(texts, np.uint64),
        np.empty(texts, np.uint32),
        np.empty(texts, np.int64),
        np.empty(texts, np.uint32),
        np.empty(texts, np.uint32),
        np.empty(rows, np.uint32),
        np.zeros(index.table.word_weights.size, np.uint32),
        np.empty(band, np.int32),
        np.empty(band, np.int32),
        np.empty(band, np.int32),
        np.empty(band, np.int64),
    )
