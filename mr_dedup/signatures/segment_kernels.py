"""The loops of segment signatures: where texts are cut, and the hashes of what is between.

Nothing is validated or allocated here: segments.py does both.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint8, uint32, uint64

from mr_dedup.features.kernels import hash_shingles, normalise
from mr_dedup.features.xxh3 import xxh3_64
from mr_dedup.kernels.bits import folded_product

LINES, SENTENCES, CONTENT = range(3)
"""What texts are cut by."""

WINDOW = 3
"""Words whose hash decides whether a text is cut before them."""

_U = np.uint64
_0, _1, _2, _WINDOW = (_U(n) for n in (0, 1, 2, WINDOW))
_ALL = ~_0
_FACTORS = _U(0x9E3779B97F4A7C15), _U(0xD6E8FEB86659FD93)
_SPACE, _TAB, _LINE_END, _RETURN = (np.uint8(ord(c)) for c in " \t\n\r")
_STOP, _EXCLAMATION, _QUESTION = (np.uint8(ord(c)) for c in ".!?")


@njit(cache=True, nogil=True)
def sign_segments(  # type: ignore[no-untyped-def]
    content, starts, stops, pages, entries, by, count, length, least, scratch, unit_starts,
    unit_stops, lowest, keys, ends,
):  # fmt: skip
    """Write the keys of each content[starts[i]:stops[i]] to ``keys``, and to ends[i + 1] their end.

    ``count`` segments a text, or as many as there are of ``length``, if that is not 0. Ascending,
    each once; if less than ``least``, and any, as many more. ``unit_starts`` and ``unit_stops``
    uint32[u] and ``lowest`` uint64[count] are scratch.
    """
    written = _0
    for i in range(stops.size):
        begin = written
        if by == CONTENT:
            size = normalise(
                content, starts[i], stops[i], pages, entries, scratch.text, scratch.token_starts,
                scratch.token_stops,
            )  # fmt: skip
            written = _hash_content(scratch, size, count, length, lowest, keys, written)
            end = uint64(scratch.token_stops[size - _1]) if size != _0 else _0
        else:
            size = _find_units(
                content, starts[i], stops[i], by == SENTENCES, pages, entries, scratch,
                unit_starts, unit_stops,
            )  # fmt: skip
            written = _hash_units(
                scratch.text, unit_starts, unit_stops, size, count, length, keys, written
            )
            end = uint64(unit_stops[size - _1]) if size != _0 else _0
        written = _keep_distinct(keys, begin, written)
        if size != _0 and written < begin + least:
            whole = xxh3_64(scratch.text, _0, end)
            for more in range(begin + least - written):
                keys[written] = folded_product(whole ^ _FACTORS[0], uint64(more) + _FACTORS[1])
                written += _1
        ends[i + 1] = written


@njit(cache=True, nogil=True)
def _hash_content(scratch, tokens, count, length, lowest, keys, written):  # type: ignore[no-untyped-def]
    """Write the hash of each segment of a text that is cut where windows have low hashes.

    A segment goes on to the end of the window before which the next one is cut, or a common word
    between two cuts would be one.
    """
    if tokens == _0:
        return written
    text, starts, stops, hashes = (
        scratch.text, scratch.token_starts, scratch.token_stops, scratch.hashes
    )  # fmt: skip
    windows = hash_shingles(text, starts, stops, tokens, _WINDOW, scratch.spans, hashes)
    if length != _0:
        limit, equals = _ALL // length, _0
    else:
        limit, equals = _lowest_hashes(hashes, windows, count - _1, lowest)
    begin = _0
    for i in range(_1, windows):
        if hashes[i] > limit or (hashes[i] == limit and equals == _0):
            continue
        if hashes[i] == limit:
            equals -= _1
        # never past the last word, for windows end there
        end = uint64(stops[uint64(i) + _WINDOW - _1])
        keys[written] = xxh3_64(text, uint64(starts[begin]), end)
        written += _1
        begin = uint64(i)
    keys[written] = xxh3_64(text, uint64(starts[begin]), uint64(stops[tokens - _1]))
    return written + _1


@njit(cache=True, nogil=True)
def _lowest_hashes(hashes, windows, most, lowest):  # type: ignore[no-untyped-def]
    """Find the ``most`` lowest hashes of windows but the first: the last, and how many equal it."""
    kept = _0
    for i in range(_1, windows):
        value = hashes[i]
        hole = kept
        if kept == most:
            if most == _0 or value >= lowest[most - _1]:
                continue
            hole -= _1
        kept = hole + _1
        while hole > _0 and lowest[hole - _1] > value:
            lowest[hole] = lowest[hole - _1]
            hole -= _1
        lowest[hole] = value
    if kept == _0:
        return _0, _0
    limit, equals = lowest[kept - _1], _1
    while equals < kept and lowest[kept - _1 - equals] == limit:
        equals += _1
    return limit, equals


@njit(cache=True, nogil=True)
def _hash_units(text, starts, stops, units, count, length, keys, written):  # type: ignore[no-untyped-def]
    """Write the hash of each run of ``length`` units, or of ``count`` runs as even as can be."""
    segments = (units + length - _1) // length if length != _0 else min(count, units)
    for segment in range(segments):
        if length != _0:
            first, end = uint64(segment) * length, min((uint64(segment) + _1) * length, units)
        else:
            first = uint64(segment) * units // segments
            end = (uint64(segment) + _1) * units // segments
        keys[written] = xxh3_64(text, uint64(starts[first]), uint64(stops[end - _1]))
        written += _1
    return written


@njit(cache=True, nogil=True)
def _find_units(  # type: ignore[no-untyped-def]
    content, begin, end, by_sentences, pages, entries, scratch, starts, stops
):
    """Write the lines or sentences that have words to scratch.text, normalised; return how many.

    Unit u is text[starts[u]:stops[u]]; a space is between two.
    """
    units, base = _0, _0
    while begin < end:
        stop = _end_of_unit(content, begin, end, by_sentences)
        tokens = normalise(
            content, begin, stop, pages, entries, scratch.text[base:], scratch.token_starts,
            scratch.token_stops,
        )  # fmt: skip
        if tokens != _0:
            size = uint64(scratch.token_stops[tokens - _1])
            starts[units], stops[units] = uint32(base), uint32(base + size)
            units += _1
            scratch.text[base + size] = _SPACE
            base += size + _1
        begin = stop
    return units


@njit(cache=True, nogil=True)
def _end_of_unit(content, begin, end, by_sentences):  # type: ignore[no-untyped-def]
    """Return where the line or sentence that starts at ``begin`` ends."""
    for i in range(begin, end):
        byte = content[i]
        after = uint64(i) + _1
        if byte == _LINE_END:
            if not by_sentences or _is_blank(content, after, end):
                return after
        elif by_sentences:
            if byte in (_STOP, _EXCLAMATION, _QUESTION):
                if after == end or _is_white(content[after]):
                    return after
            elif _ends_chinese(content, uint64(i), end):
                return after + _2
    return end


@njit(cache=True, nogil=True)
def _is_white(byte):  # type: ignore[no-untyped-def]
    return byte in (_SPACE, _LINE_END, _TAB, _RETURN)


@njit(cache=True, nogil=True)
def _is_blank(content, begin, end):  # type: ignore[no-untyped-def]
    """Return whether nothing shows from ``begin`` to the end of the line, which there is."""
    for i in range(begin, end):
        if content[i] == _LINE_END:
            return True
        if not _is_white(content[i]):
            return False
    return False


@njit(cache=True, nogil=True)
def _ends_chinese(content, i, end):  # type: ignore[no-untyped-def]
    """Return whether content[i : i + 3] is one of 。！？."""
    lead = content[i]
    if lead < uint8(0xE3) or i + _2 >= end:
        return False
    middle, last = content[i + _1], content[i + _2]
    if lead == uint8(0xE3):
        return middle == uint8(0x80) and last == uint8(0x82)
    full_width = lead == uint8(0xEF) and middle == uint8(0xBC)
    return full_width and (last == uint8(0x81) or last == uint8(0x9F))


@njit(cache=True, nogil=True)
def _keep_distinct(keys, begin, end):  # type: ignore[no-untyped-def]
    """Sort keys[begin:end] and leave out repeats; return where they then end."""
    if end - begin < _2:
        return end
    keys[begin:end].sort()
    written = begin + _1
    for i in range(begin + _1, end):
        if keys[i] != keys[written - _1]:
            keys[written] = keys[i]
            written += _1
    return written
