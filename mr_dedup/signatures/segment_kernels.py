# mypy: ignore-errors
"""Loops of segment signatures: split texts into segments, and hash these.

Nothing is validated or allocated here: segments.py does both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.shingle_kernels import hash_shingles
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.features.token_kernels import Tokens, tokenise
from mr_dedup.features.unicode_table import UnicodeTable
from mr_dedup.features.unit_kernels import end_of_unit
from mr_dedup.features.xxh3_kernels import xxh3_64
from mr_dedup.kernels.bits import folded_product
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import ALL_BITS, FACTORS, U0, U1, U2, U

CONTENT = 3
"""Texts are split by their content, not into LINES or SENTENCES."""

WINDOW = 3
"""Words whose hash decides whether a text is split before them."""

_WINDOW = U(WINDOW)
_SPACE = np.uint8(ord(" "))


class SegmentRule(NamedTuple):
    """How texts are split into segments.

    Attributes:
        by: LINES, SENTENCES or CONTENT.
        segments: The number of segments of a text; not used with a length.
        length: The lines, sentences or, on average, words of a segment; 0 to use the number.
        min_keys: The number of keys that a text with words has at least.
    """

    by: int
    segments: np.uint64
    length: np.uint64
    min_keys: np.uint64


class SegmentScratch(NamedTuple):
    """Space to split a text of b bytes.

    Attributes:
        tokens: The tokens of a text, line or sentence.
        unit_starts: uint32[b // 2 + 2], where lines or sentences with words start in the text.
        unit_stops: uint32[b // 2 + 2].
        hashes: uint64[b // 2 + 2], the windows of words.
        lowest: uint64[segments].
    """

    tokens: Tokens
    unit_starts: NDArray[np.uint32]
    unit_stops: NDArray[np.uint32]
    hashes: NDArray[np.uint64]
    lowest: NDArray[np.uint64]


@entry
def sign_segments(
    batch: TextBatch,
    table: UnicodeTable,
    rule: SegmentRule,
    scratch: SegmentScratch,
    keys: NDArray[np.uint64],
    ends: NDArray[np.uint64],
) -> None:
    """Write the keys of each text, ascending and distinct, to ``keys``, their end to ends[i + 1].

    A text with words but too few distinct segments gets further keys, from a hash of all of it.
    """
    content, starts, stops = batch
    tokens = scratch.tokens
    written = U0
    for i in range(stops.size):
        begin = written
        if rule.by == CONTENT:
            size = tokenise(content, starts[i], stops[i], table, tokens)
            written = _hash_content(size, rule, scratch, keys, written)
            end = uint64(tokens.stops[size - U1]) if size != U0 else U0
        else:
            size = _find_units(content, starts[i], stops[i], rule.by, table, scratch)
            written = _hash_units(size, rule, scratch, keys, written)
            end = uint64(scratch.unit_stops[size - U1]) if size != U0 else U0
        written = _keep_distinct(keys, begin, written)
        if size != U0 and written < begin + rule.min_keys:
            whole = xxh3_64(tokens.text, U0, end)
            for more in range(begin + rule.min_keys - written):
                keys[written] = folded_product(whole ^ FACTORS[0], uint64(more) + FACTORS[1])
                written += U1
        ends[i + 1] = written


@kernel
def _hash_content(count, rule, scratch, keys, written):
    """Write the hash of each segment of a text of ``count`` tokens that is split by its content.

    A segment starts at a window with a low hash, and ends with the window before which the next
    segment starts; else a common word between two low windows would be a segment.
    """
    if count == U0:
        return written
    text, starts, stops = scratch.tokens
    hashes = scratch.hashes
    windows = hash_shingles(scratch.tokens, count, _WINDOW, hashes)
    if rule.length != U0:
        limit, equals = ALL_BITS // rule.length, U0
    else:
        limit, equals = _lowest_hashes(hashes, windows, rule.segments - U1, scratch.lowest)
    begin = U0
    for i in range(U1, windows):
        if hashes[i] > limit or (hashes[i] == limit and equals == U0):
            continue
        if hashes[i] == limit:
            equals -= U1
        # never past the last word, for windows end there
        end = uint64(stops[uint64(i) + _WINDOW - U1])
        keys[written] = xxh3_64(text, uint64(starts[begin]), end)
        written += U1
        begin = uint64(i)
    keys[written] = xxh3_64(text, uint64(starts[begin]), uint64(stops[count - U1]))
    return written + U1


@kernel
def _lowest_hashes(hashes, windows, size, lowest):
    """Return the highest of the ``size`` lowest hashes after the first, and how many equal it."""
    kept = U0
    for i in range(U1, windows):
        value = hashes[i]
        hole = kept
        if kept == size:
            if size == U0 or value >= lowest[size - U1]:
                continue
            hole -= U1
        kept = hole + U1
        while hole > U0 and lowest[hole - U1] > value:
            lowest[hole] = lowest[hole - U1]
            hole -= U1
        lowest[hole] = value
    if kept == U0:
        return U0, U0
    limit, equals = lowest[kept - U1], U1
    while equals < kept and lowest[kept - U1 - equals] == limit:
        equals += U1
    return limit, equals


@kernel
def _hash_units(units, rule, scratch, keys, written):
    """Write the hash of each run of ``length`` units, or of ``segments`` even runs."""
    length = rule.length
    segments = (units + length - U1) // length if length != U0 else min(rule.segments, units)
    for segment in range(segments):
        if length != U0:
            first, end = uint64(segment) * length, min((uint64(segment) + U1) * length, units)
        else:
            first = uint64(segment) * units // segments
            end = (uint64(segment) + U1) * units // segments
        start, stop = scratch.unit_starts[first], scratch.unit_stops[end - U1]
        keys[written] = xxh3_64(scratch.tokens.text, uint64(start), uint64(stop))
        written += U1
    return written


@kernel
def _find_units(content, begin, end, kind, table, scratch):
    """Write the lines or sentences with words to the scratch text, tokenised; return their number.

    Between two of them is a space.
    """
    text, token_starts, token_stops = scratch.tokens
    units, base = U0, U0
    while begin < end:
        stop = end_of_unit(content, begin, end, kind)
        tokens = Tokens(text[base:], token_starts, token_stops)
        count = tokenise(content, begin, stop, table, tokens)
        if count != U0:
            size = uint64(token_stops[count - U1])
            scratch.unit_starts[units] = uint32(base)
            scratch.unit_stops[units] = uint32(base + size)
            units += U1
            text[base + size] = _SPACE
            base += size + U1
        begin = stop
    return units


@kernel
def _keep_distinct(keys, begin, end):
    """Sort keys[begin:end] and remove repeats; return the new end."""
    if end - begin < U2:
        return end
    keys[begin:end].sort()
    written = begin + U1
    for i in range(begin + U1, end):
        if keys[i] != keys[written - U1]:
            keys[written] = keys[i]
            written += U1
    return written
