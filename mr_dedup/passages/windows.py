"""Windows of tokens, lines and paragraphs of texts, and how many texts have each.

A window is compared by a hash of 122 bits over the 64-bit XXH3 of its tokens. Of windows of tokens
only those are hashed whose anchor several texts have: see ``kernels.find_token_runs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.text_units import text_units
from mr_dedup.features.token_spans import TokenSpans, token_spans
from mr_dedup.features.unit_kernels import Units
from mr_dedup.passages import kernels
from mr_dedup.passages.cutting import Slices, slices_of_tokens, without
from mr_dedup.passages.options import PassageOptions

_MIN_SLOTS = 1 << 10


class CountTable:
    """How many texts have each of some keys of 128 bits, and where each occurs first.

    Takes 32 to 48 bytes a key, twice that while it grows.

    Args:
        entries: How many keys are expected.
    """

    def __init__(self, entries: int = 0) -> None:
        self._arrays = _arrays_for(entries)

    @classmethod
    def of(
        cls,
        one: NDArray[np.uint64],
        two: NDArray[np.uint64] | None = None,
        counts: NDArray[np.uint32] | None = None,
        first_rows: NDArray[np.uint32] | None = None,
        first_starts: NDArray[np.uint32] | None = None,
    ) -> CountTable:
        """Return the table of distinct keys that were counted before; what is missing is 0."""
        table = cls(one.size)
        arrays = table._arrays
        columns = (one, two, counts, first_rows, first_starts)
        to: tuple[NDArray[Any], ...] = (
            arrays.one,
            arrays.two,
            arrays.counts,
            arrays.first_rows,
            arrays.first_starts,
        )
        for column, target in zip(columns, to, strict=True):
            target[: one.size] = 0 if column is None else column
        arrays.used[0] = one.size
        kernels.fill_slots(arrays)
        return table

    def __len__(self) -> int:
        return int(self._arrays.used[0])

    @property
    def arrays(self) -> kernels.Table:
        """The table as kernels take it."""
        return self._arrays

    def reserve(self, more: int) -> None:
        """Make space for so many keys more."""
        before, used = self._arrays, len(self)
        if used + more <= before.one.size:
            return
        grown = _arrays_for(max(used + more, 2 * used))
        for name in kernels.Table._fields[1:-1]:
            getattr(grown, name)[:used] = getattr(before, name)[:used]
        grown.used[0] = used
        kernels.fill_slots(grown)
        self._arrays = grown

    def columns(self) -> dict[str, NDArray[np.uint64] | NDArray[np.uint32]]:
        """Return ``one``, ``two``, ``documents``, ``row`` and ``start`` of all keys."""
        arrays, used = self._arrays, len(self)
        return {
            "one": arrays.one[:used],
            "two": arrays.two[:used],
            "documents": arrays.counts[:used],
            "row": arrays.first_rows[:used],
            "start": arrays.first_starts[:used],
        }


def _arrays_for(entries: int) -> kernels.Table:
    slots = max(_MIN_SLOTS, 1 << (2 * entries - 1).bit_length()) if entries else _MIN_SLOTS
    size = slots // 2
    return kernels.Table(
        np.zeros(slots, np.uint32),
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
        np.zeros(1, np.int64),
    )


@dataclass(frozen=True)
class Spans:
    """Repeated windows of texts, joined where they touch: s spans, ascending.

    Attributes:
        rows: int64[s], the text.
        first, last: int64[s], the first token in the batch, and the one after the last.
        one, two: uint64[s], the hash of the tokens.
        documents: uint32[s], in how many texts its windows are at least.
    """

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    one: NDArray[np.uint64]
    two: NDArray[np.uint64]
    documents: NDArray[np.uint32]

    def __len__(self) -> int:
        return int(self.rows.size)


class TextWindows:
    """The windows of n texts.

    Takes some 32 bytes a token, of 4 to 6 bytes of text.

    Args:
        texts: n texts.
        groups: uint64[n], a hash of the group in which a text is counted; None if there is one.
        is_used: bool[n], which texts are counted at all; None for all.
        options: What a window is.

    Raises:
        ValueError: For another type of array.
    """

    def __init__(
        self,
        texts: pa.LargeStringArray,
        options: PassageOptions,
        groups: NDArray[np.uint64] | None = None,
        is_used: NDArray[np.bool_] | None = None,
    ) -> None:
        self.tokens: TokenSpans = token_spans(texts, options.normalize)
        self._groups = np.zeros(len(texts), np.uint64) if groups is None else groups
        is_used = np.ones(len(texts), bool) if is_used is None else is_used
        count = self.tokens.hashes.size
        self._prefixes = kernels.Prefixes(*np.empty((2, count + 1), np.uint64))
        kernels.fill_prefixes(self.tokens.hashes, self._prefixes)
        self._units: Units | None = None
        edges = self.tokens.offsets
        if options.unit == "tokens":
            none = np.empty(0, np.int64)
            self._windows = kernels.Windows(np.int64(options.size), none, none, edges)
            self._runs = _runs_for(count)
            slots = 1 << options.size.bit_length()
            self._count = kernels.find_token_runs(
                edges, self._groups, is_used, self._prefixes, options.size, options.gram,
                np.empty(slots, np.int64), np.empty(slots, np.uint64), self._runs,
            )  # fmt: skip
            return
        units = text_units(texts, options.unit)
        self._units = units
        size = units.starts.size
        starts, stops = np.empty((2, size), np.int64)
        self._windows = kernels.Windows(np.int64(0), starts, stops, edges)
        kernels.tokens_of_units(edges, self.tokens.starts, units.edges, units.stops, self._windows)
        self._runs = _runs_for(size)
        self._count = kernels.find_unit_runs(
            edges, self._groups, is_used, units.edges, self._prefixes, self._windows,
            options.min_tokens, self._runs,
        )  # fmt: skip

    def count_anchors(self, first_row: int, table: CountTable) -> None:
        """Count the texts of each anchor; their rows are numbered from ``first_row`` on."""
        table.reserve(self._count)
        kernels.count_anchors(self._runs, self._count, first_row, table.arrays)

    def keep_anchors(self, anchors: CountTable) -> int:
        """Leave out the windows whose anchors are not in a table; return how many are left."""
        self._count, windows = kernels.keep_runs(self._runs, self._count, anchors.arrays)
        return windows

    def has_windows(self) -> NDArray[np.bool_]:
        """Return which texts have windows that were not left out, bool[n]."""
        found = np.zeros(len(self.tokens), bool)
        found[self._runs.rows[: self._count]] = True
        return found

    def count_windows(self, first_row: int, windows: int, table: CountTable) -> None:
        """Count the texts of each of so many windows that are left."""
        table.reserve(windows)
        kernels.count_windows(
            self._runs, self._count, first_row, self._groups, self._prefixes, self._windows,
            table.arrays,
        )  # fmt: skip

    def repeated(self, first_row: int, windows: int, table: CountTable) -> tuple[Spans, Spans]:
        """Return where windows of a table are, and which occur here for the first time of all."""
        spans, firsts = _found_for(windows), _found_for(windows)
        found, first = kernels.find_repeated(
            self._runs, self._count, first_row, self._groups, self._prefixes, self._windows,
            table.arrays, spans, firsts,
        )  # fmt: skip
        return _spans_of(spans, found), _spans_of(firsts, first)

    def offsets(self, spans: Spans) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where spans begin and end, int64[s] in bytes from the beginning of their text."""
        starts = self.tokens.starts[spans.first].astype(np.int64)
        return starts, self.tokens.stops[spans.last - 1].astype(np.int64)

    def slices(self, spans: Spans, firsts: Spans | None = None) -> tuple[Slices, NDArray[np.int64]]:
        """Return what is to be cut out for spans to be gone, and the span that each slice is of.

        Args:
            spans: Of this batch. Of a line or a paragraph all is cut, with its end.
            firsts: What of them is to stay.
        """
        if self._units is not None:
            of = np.arange(len(spans))
            if firsts is not None:
                of = of[~np.isin(spans.first, firsts.first)]
            unit = np.searchsorted(self._windows.stops, spans.last[of])
            begins, nexts = self._units.begins[unit], self._units.nexts[unit]
            return Slices(spans.rows[of], begins.astype(np.int64), nexts.astype(np.int64)), of
        tokens, of = Slices(spans.rows, spans.first, spans.last), np.arange(len(spans))
        if firsts is not None:
            tokens, of = without(tokens, Slices(firsts.rows, firsts.first, firsts.last))
        slices, chosen = slices_of_tokens(self.tokens, tokens)
        return slices, of[chosen]


def _spans_of(found: kernels.Found, count: int) -> Spans:
    these = slice(count)
    return Spans(
        found.rows[these].astype(np.int64),
        found.starts[these],
        found.stops[these],
        found.one[these],
        found.two[these],
        found.documents[these],
    )


def _runs_for(size: int) -> kernels.Runs:
    return kernels.Runs(
        np.empty(size, np.uint32),
        np.empty(size, np.uint64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )


def _found_for(size: int) -> kernels.Found:
    return kernels.Found(
        np.empty(size, np.uint32),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint32),
    )
