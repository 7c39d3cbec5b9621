"""Cut slices out of texts, and put them back.

A slice is never cut within a word or a grapheme cluster if it begins and ends where tokens do, as
``token_spans`` returns them, and no two words become one: where they would, a space is written in
place of the slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.text_batch import text_batch
from mr_dedup.features.text_units import text_units
from mr_dedup.features.token_spans import TokenSpans
from mr_dedup.features.unicode_table import KIND, MARK, WORD, unicode_table

Boundaries = Literal["words", "sentences"]
BOUNDARIES: tuple[Boundaries, ...] = get_args(Boundaries)

_FIRST_FLAG, _LAST_FLAG = 0x1F1E6, 0x1F1FF
"""Letters of which two that stand together are a flag."""


@dataclass(frozen=True)
class Slices:
    """Slices of texts: c of them, ascending by row and start.

    Attributes:
        rows: int64[c], the text.
        starts, stops: int64[c], offsets in bytes of UTF-8 from the beginning of the text.
    """

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("rows", "starts", "stops"):
            column = getattr(self, name)
            if column.dtype != np.int64 or column.shape != self.rows.shape or column.ndim != 1:
                raise ValueError(f"{name}: expected int64[c], got {column.dtype}{column.shape}")

    def __len__(self) -> int:
        return int(self.rows.size)

    def chosen(self, which: NDArray[Any]) -> Slices:
        """Return the slices of a mask, or of indices."""
        return Slices(self.rows[which], self.starts[which], self.stops[which])

    @classmethod
    def none(cls) -> Slices:
        """Return no slices."""
        return cls(*(np.empty(0, np.int64) for _ in range(3)))


def joined(slices: Slices) -> tuple[Slices, NDArray[np.int64]]:
    """Return the unions of slices that overlap or touch, and the union that each is in, int64[c].

    Example:
        >>> slices = Slices(*(np.array(each) for each in ([0, 0, 1], [2, 4, 4], [5, 9, 6])))
        >>> unions, of = joined(slices)
        >>> unions.starts.tolist(), unions.stops.tolist(), of.tolist()
        ([2, 4], [9, 6], [0, 0, 1])
    """
    if not len(slices):
        return slices, np.empty(0, np.int64)
    # rows apart, so that one running maximum is enough
    wide = int(slices.stops.max()) + 1
    starts, stops = slices.rows * wide + slices.starts, slices.rows * wide + slices.stops
    ends = np.maximum.accumulate(stops)
    new = np.append(True, (starts[1:] > ends[:-1]) | (np.diff(slices.rows) != 0))
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(slices)) - 1
    rows = slices.rows[first]
    return Slices(rows, slices.starts[first], ends[last] - rows * wide), np.cumsum(new) - 1


def without(slices: Slices, others: Slices) -> tuple[Slices, NDArray[np.int64]]:
    """Return what of slices, which are apart, is in none of ``others``, which are apart too.

    And the slice that each is of, int64. Slices of nothing are left out.

    Example:
        >>> slices = Slices(*(np.array(each) for each in ([0], [2], [9])))
        >>> others = Slices(*(np.array(each) for each in ([0, 0], [0, 5], [3, 6])))
        >>> left, of = without(slices, others)
        >>> left.starts.tolist(), left.stops.tolist(), of.tolist()
        ([3, 6], [5, 9], [0, 0])
    """
    if not len(slices) or not len(others):
        return slices, np.arange(len(slices))
    wide = int(max(slices.stops.max(), others.stops.max())) + 1
    starts, stops = slices.rows * wide + slices.starts, slices.rows * wide + slices.stops
    begin, end = others.rows * wide + others.starts, others.rows * wide + others.stops
    edges = np.concatenate([starts, stops, begin, end])
    kinds = np.repeat([1, -1, 2, -2], [len(slices), len(slices), len(others), len(others)])
    order = np.argsort(edges, kind="stable")
    edges, kinds = edges[order], kinds[order]
    inside = np.cumsum(np.where(np.abs(kinds) == 1, kinds, 0))[:-1]
    covered = np.cumsum(np.where(np.abs(kinds) == 2, kinds // 2, 0))[:-1]
    wanted = (inside > 0) & (covered == 0) & (edges[1:] > edges[:-1])
    found, after = edges[:-1][wanted], edges[1:][wanted]
    of = np.searchsorted(starts, found, "right") - 1
    # an edge of another slice may divide what is left
    if found.size:
        same = np.append(False, (found[1:] == after[:-1]) & (of[1:] == of[:-1]))
        first = np.flatnonzero(~same)
        last = np.append(first[1:], found.size) - 1
        found, after, of = found[first], after[last], of[first]
    rows = found // wide
    return Slices(rows, found - rows * wide, after - rows * wide), of


def slices_of_tokens(tokens: TokenSpans, spans: Slices) -> tuple[Slices, NDArray[np.int64]]:
    """Return the slices that spans of tokens are, and the span that each is of, int64.

    Tokens at the ends that share a character with one outside, as of ½, are left out; spans of
    such tokens alone too.

    Args:
        tokens: Of some texts.
        spans: The text of each span, its first token of all in the batch, and the one after its
            last.

    Example:
        >>> from mr_dedup.features.token_spans import token_spans
        >>> tokens = token_spans(pa.array(["to be or x\u00bd"], pa.large_string()))
        >>> spans = Slices(*(np.array(each) for each in ([0, 0], [1, 4], [3, 5])))
        >>> slices, of = slices_of_tokens(tokens, spans)
        >>> slices.starts.tolist(), slices.stops.tolist(), of.tolist()
        ([3], [8], [0])
    """
    first, last = spans.starts.copy(), spans.stops.copy()
    begin, end = tokens.offsets[spans.rows], tokens.offsets[spans.rows + 1]
    starts, stops = tokens.starts, tokens.stops
    inside = np.flatnonzero((first > begin) & (first < last))
    while inside.size:
        inside = inside[starts[first[inside]] < stops[first[inside] - 1]]
        first[inside] += 1
        inside = inside[first[inside] < last[inside]]
    inside = np.flatnonzero((last < end) & (first < last))
    while inside.size:
        inside = inside[stops[last[inside] - 1] > starts[last[inside]]]
        last[inside] -= 1
        inside = inside[first[inside] < last[inside]]
    of = np.flatnonzero(first < last)
    first, last = first[of], last[of]
    found = Slices(spans.rows[of], starts[first].astype(np.int64), stops[last - 1].astype(np.int64))
    return found, of


def whole_sentences(
    texts: pa.LargeStringArray, slices: Slices, tokens: TokenSpans
) -> tuple[Slices, NDArray[np.int64]]:
    """Return the sentences all of whose tokens are in a slice, and the slice they are in, int64.

    Consecutive ones of a slice are one. They end with their last character, a full stop for
    example, and without the space after it. Sentences without tokens stay with those around them.

    Args:
        texts: n texts.
        slices: What is to be cut out of these; apart from one another.
        tokens: Of the texts.

    Raises:
        ValueError: For another type of array.
    """
    units = text_units(texts, "sentences")
    count = np.diff(units.edges)
    row_of = np.repeat(np.arange(count.size), count)
    of_tokens = np.repeat(np.arange(len(tokens)), np.diff(tokens.offsets))
    wide = 1 << 32
    token_starts = of_tokens * wide + tokens.starts
    token_stops = of_tokens * wide + tokens.stops
    first = np.searchsorted(token_starts, row_of * wide + units.starts)
    last = np.searchsorted(token_starts, row_of * wide + units.stops)
    has_tokens = last > first
    begin = slices.rows * wide + slices.starts
    end = slices.rows * wide + slices.stops
    if not len(slices) or not has_tokens.any():
        return Slices.none(), np.empty(0, np.int64)
    units_at = np.flatnonzero(has_tokens)
    first, last = first[units_at], last[units_at] - 1
    of = np.searchsorted(begin, token_starts[first], "right") - 1
    inside = of >= 0
    inside &= token_stops[last] <= end[np.maximum(of, 0)]
    inside &= row_of[units_at] == slices.rows[np.maximum(of, 0)]
    units_at, of = units_at[inside], of[inside]
    if not units_at.size:
        return Slices.none(), np.empty(0, np.int64)
    # sentences without tokens between two that are cut are cut with them
    rank = np.cumsum(has_tokens)[units_at]
    new = np.append(True, (np.diff(rank) != 1) | (np.diff(of) != 0))
    begins = np.flatnonzero(new)
    ends = np.append(begins[1:], units_at.size) - 1
    found = Slices(
        row_of[units_at[begins]].astype(np.int64),
        units.starts[units_at[begins]].astype(np.int64),
        units.stops[units_at[ends]].astype(np.int64),
    )
    return found, of[begins]


def needs_space(texts: pa.LargeStringArray, slices: Slices) -> NDArray[np.bool_]:
    """Return whether what is left on both sides of a slice would become one word, bool[c].

    Or one flag. Slices that touch count as one: the space is that of the first.
    """
    unions, of = joined(slices)
    content, starts, stops = text_batch(texts)
    begin = starts[unions.rows] + unions.starts.astype(np.uint64)
    end = starts[unions.rows] + unions.stops.astype(np.uint64)
    inner = (unions.starts > 0) & (end < stops[unions.rows])
    at = np.flatnonzero(inner)
    last, first = content[begin[at] - np.uint64(1)], content[end[at]]
    at = at[_may_join(last) & _may_join(first)]
    found = np.zeros(len(unions), bool)
    for union in at.tolist():
        start, stop = int(begin[union]), int(end[union])
        found[union] = _join(_last_character(content, start), _first_character(content, stop))
    is_first = np.append(True, np.diff(of) != 0)[: of.size]
    result: NDArray[np.bool_] = found[of] & is_first
    return result


def _may_join(content: NDArray[np.uint8]) -> NDArray[np.bool_]:
    letters = np.frombuffer(bytes(byte >= 128 or chr(byte).isalnum() for byte in range(256)), bool)
    return letters[content]


def _last_character(content: NDArray[np.uint8], stop: int) -> int:
    return ord(content[max(stop - 4, 0) : stop].tobytes().decode(errors="replace")[-1])


def _first_character(content: NDArray[np.uint8], start: int) -> int:
    return ord(content[start : start + 4].tobytes().decode(errors="replace")[0])


def _join(last: int, first: int) -> bool:
    if _FIRST_FLAG <= last <= _LAST_FLAG and _FIRST_FLAG <= first <= _LAST_FLAG:
        return True
    return _kind_of(last) in (WORD, MARK) and _kind_of(first) in (WORD, MARK)


@cache
def _kind_of(character: int) -> int:
    table = unicode_table()
    return int(table.entries[int(table.pages[character >> 8]) << 8 | character & 255] & KIND)


def cut_texts(
    texts: pa.LargeStringArray, slices: Slices, spaces: NDArray[np.bool_]
) -> pa.LargeStringArray:
    """Return texts without slices; nulls stay null.

    Args:
        texts: n texts.
        slices: What is cut out of them; no two overlap.
        spaces: Whether a space is written in place of each, bool[c].

    Raises:
        ValueError: For slices that overlap, or are not within their text.

    Example:
        >>> texts = pa.array(["one two three", None], pa.large_string())
        >>> slices = Slices(*(np.array(each) for each in ([0], [4], [8])))
        >>> cut_texts(texts, slices, np.array([False])).to_pylist()
        ['one three', None]
    """
    _check(texts, slices)
    if not len(slices):
        return texts
    content, starts, stops = text_batch(texts)
    changed, begins = np.unique(slices.rows, return_index=True)
    ends = np.append(begins[1:], len(slices))
    written: dict[int, bytes] = {}
    for row, begin, end in zip(changed.tolist(), begins.tolist(), ends.tolist(), strict=True):
        text = content[int(starts[row]) : int(stops[row])].tobytes()
        these = slice(begin, end)
        written[row] = spliced(
            text,
            slices.starts[these].tolist(),
            slices.stops[these].tolist(),
            [b" " if space else b"" for space in spaces[these]],
        )
    return replaced(texts, written)


def replaced(texts: pa.LargeStringArray, written: dict[int, bytes]) -> pa.LargeStringArray:
    """Return texts of which some rows, by number, are replaced by other content."""
    pieces, row = [], 0
    for number, content in written.items():
        if number > row:
            pieces.append(texts.slice(row, number - row))
        pieces.append(pa.array([content], pa.large_binary()).cast(texts.type))
        row = number + 1
    if row < len(texts):
        pieces.append(texts.slice(row))
    return pa.concat_arrays(pieces) if pieces else texts


def spliced(
    content: bytes, starts: Sequence[int], stops: Sequence[int], put: Sequence[bytes]
) -> bytes:
    """Return content with other bytes in place of slices, which ascend and do not overlap.

    >>> spliced(b"abcdef", [1, 4], [3, 5], [b"", b"XY"])
    b'adXYf'
    """
    pieces, at = [], 0
    for start, stop, each in zip(starts, stops, put, strict=True):
        pieces += [content[at:start], each]
        at = stop
    pieces.append(content[at:])
    return b"".join(pieces)


def unspliced(
    content: bytes, starts: Sequence[int], removed: Sequence[bytes], put: Sequence[int]
) -> bytes:
    """Return what ``spliced`` made content of.

    Args:
        content: What it returned.
        starts: Where the slices began, in what it was given.
        removed: What was in them.
        put: How many bytes are in the place of each.

    Raises:
        ValueError: If there is less content than was left.

    Example:
        >>> unspliced(b"adXYf", [1, 4], [b"bc", b"e"], [0, 2])
        b'abcdef'
    """
    pieces: list[bytes] = []
    at = size = 0
    for start, each, gone in zip(starts, removed, put, strict=True):
        stop = at + start - size
        if not at <= stop <= stop + gone <= len(content):
            raise ValueError(f"has {len(content)} bytes, too few for a cut at byte {start}")
        pieces += [content[at:stop], each]
        at, size = stop + gone, start + len(each)
    pieces.append(content[at:])
    return b"".join(pieces)


def removed_texts(texts: pa.LargeStringArray, slices: Slices) -> pa.LargeStringArray:
    """Return the texts of slices; ValueError for one that is not within its text."""
    _check(texts, slices, may_overlap=True)
    content, starts, _ = text_batch(texts)
    begin = starts[slices.rows] + slices.starts.astype(np.uint64)
    end = starts[slices.rows] + slices.stops.astype(np.uint64)
    found = [
        content[start:stop].tobytes()
        for start, stop in zip(begin.tolist(), end.tolist(), strict=True)
    ]
    return pa.array(found, pa.large_binary()).cast(pa.large_string())


def code_points(
    texts: pa.LargeStringArray, rows: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return offsets in code points, int64[c], for offsets in bytes of UTF-8.

    ``rows`` and ``offsets`` int64[c] are in any order. Takes a nanosecond for each byte of the
    texts that have offsets.

    >>> texts = pa.array(["ä€", "x"], pa.large_string())
    >>> code_points(texts, np.array([0, 0, 1]), np.array([2, 5, 1])).tolist()
    [1, 2, 1]
    """
    if not rows.size:
        return np.empty(0, np.int64)
    content, starts, _ = text_batch(texts)
    found = np.empty(rows.size, np.int64)
    by_row = np.argsort(rows, kind="stable")
    used, begins = np.unique(rows[by_row], return_index=True)
    utf8, ends = content.data, np.append(begins[1:], rows.size)
    for row, first, after in zip(used.tolist(), begins.tolist(), ends.tolist(), strict=True):
        these = by_row[first:after]
        begin, at, count = int(starts[row]), 0, 0
        for index in these[np.argsort(offsets[these], kind="stable")].tolist():
            offset = int(offsets[index])
            count += len(str(utf8[begin + at : begin + offset], "utf-8"))
            found[index] = count
            at = offset
    return found


def _check(texts: pa.LargeStringArray, slices: Slices, *, may_overlap: bool = False) -> None:
    sizes = text_batch(texts).sizes.astype(np.int64)
    if not len(slices):
        return
    rows, starts, stops = slices.rows, slices.starts, slices.stops
    if rows.min() < 0 or rows.max() >= len(texts):
        raise ValueError(f"rows: expected 0 to {len(texts) - 1}")
    if (starts < 0).any() or (stops < starts).any() or (stops > sizes[rows]).any():
        raise ValueError("slices: expected slices within their texts")
    ascends = (rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (starts[1:] >= stops[:-1]))
    if not may_overlap and not ascends.all():
        raise ValueError("slices: expected slices that ascend and do not overlap")
