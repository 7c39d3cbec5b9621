"""The loops of methods that hash a list of words: which words a text has, and which come first.

What is hashed of text i is written to out[edges[i]:edges[i + 1]], ``edges`` uint64[n + 1] from 0
on. Nothing is validated or allocated here: the modules of the methods do both.
"""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int32, njit, uint8, uint32, uint64

from mr_dedup.features.frequency_kernels import weigh_by_rarity
from mr_dedup.features.kernels import copy_text, decode, hash_shingles, is_null, normalise
from mr_dedup.features.unicode_table import CHARACTER
from mr_dedup.kernels.bits import byte_swapped
from mr_dedup.kernels.memory import load64

_U = np.uint64
_0, _1, _2, _8, _10 = (_U(n) for n in (0, 1, 2, 8, 10))
_SPACE, _LINE_END, _ZERO = (np.uint8(ord(c)) for c in " \n0")
_NOT_ASCII = np.uint8(0x80)
_PAST_HASHES = _U(1 << 32)


@njit(cache=True, nogil=True)
def write_normalised(  # type: ignore[no-untyped-def]
    content, starts, stops, pages, entries, token_starts, token_stops, out, edges
):
    """Write the words of each content[starts[i]:stops[i]] with what is between them.

    Of a text without words, the text as it is; of a null, nothing. ``token_starts`` and
    ``token_stops`` are scratch, and ``out`` as ``normalise`` has it, for all texts together.
    """
    written = _0
    for i in range(stops.size):
        count = normalise(
            content, starts[i], stops[i], pages, entries, out[written:], token_starts, token_stops
        )
        if count != _0:
            written += uint64(token_stops[count - _1])
        elif not is_null(content, starts[i]):
            written += copy_text(content, starts[i], stops[i], out[written:])
        edges[i + 1] = written


@njit(cache=True, nogil=True)
def write_keywords(  # type: ignore[no-untyped-def]
    content, starts, stops, pages, entries, totals, table, most, by_weight, scratch, chosen,
    words, weights, out, edges,
):  # fmt: skip
    """Write the ``most`` words that weigh most of each content[starts[i]:stops[i]].

    With a space between, which none has: the heaviest first, or by their bytes, as those of equal
    weight are anyway. A word that occurs t times weighs totals[t], uint64[s], where t is more than
    it has as in ``word_kernels.find_words``; times its idf, if ``table`` has any. ``chosen``
    uint32[most + 1] is scratch. Row i of ``words`` uint32[n, most] and ``weights`` float32[n, most]
    gets the low halves of their hashes, ascending, and what they weigh, at its end; nothing if
    these have no columns.
    """
    text, word_starts, word_stops = scratch.text, scratch.token_starts, scratch.token_stops
    weight = scratch.keys
    last = uint64(totals.size - 1)
    step = totals[last] - totals[last - _1]
    written = _0
    for i in range(stops.size):
        distinct = count_words(content, starts[i], stops[i], pages, entries, scratch)
        for word in range(distinct):
            times = weight[word]
            weight[word] = totals[min(times, last)] + (max(times, last) - last) * step
        if table.unknown > 0:
            idfs = scratch.weights
            idfs[:distinct] = int32(1)
            weigh_by_rarity(scratch.hashes, idfs, distinct, table)
            for word in range(distinct):
                weight[word] *= uint64(idfs[word])
        kept = _choose_heaviest(text, word_starts, word_stops, weight, distinct, most, chosen)
        if words.shape[1]:
            _write_sketch(scratch.hashes, weight, chosen, kept, words[i], weights[i])
        if not by_weight:
            _sort_by_bytes(text, word_starts, word_stops, chosen, kept)
        for rank in range(kept):
            if rank > 0:
                out[written] = _SPACE
                written += _1
            word = uint64(chosen[rank])
            start, stop = uint64(word_starts[word]), uint64(word_stops[word])
            written = _copy(text, start, stop, out, written)
        edges[i + 1] = written


@njit(cache=True, nogil=True)
def write_profiles(  # type: ignore[no-untyped-def]
    content, starts, stops, pages, entries, kind_pages, kinds, over, rate, scratch, out, edges
):
    """Write the profile of each content[starts[i]:stops[i]]: words and counts, a line each.

    Of words of more than ``over`` characters, and those that begin with a CJK character, which
    ``kind_pages`` and ``kinds`` tell, a Unicode table. Counts are rounded down to multiples of
    ``rate`` times the highest, rounded, but at least of 2, or of 1 if the highest is 1; those that
    are then 0 are left out, the highest come first, words of equal counts by their bytes.
    """
    text, word_starts, word_stops = scratch.text, scratch.token_starts, scratch.token_stops
    times = scratch.keys
    written = _0
    for i in range(stops.size):
        distinct = count_words(content, starts[i], stops[i], pages, entries, scratch)
        highest = _0
        for word in range(distinct):
            start, stop = uint64(word_starts[word]), uint64(word_stops[word])
            if not _is_told(text, start, stop, kind_pages, kinds, over):
                times[word] = _0
            highest = max(highest, times[word])
        quantum = min(highest, max(_2, uint64(np.floor(rate * float64(highest) + 0.5))))
        count = _0
        for word in range(distinct):
            if times[word] != _0 and times[word] >= quantum:
                times[word] -= times[word] % quantum
                scratch.times[count] = uint32(word)
                count += _1
        _write_first_bytes(text, word_starts, word_stops, distinct, times)
        order = _sorted(
            text, word_starts, word_stops, times, distinct, scratch.times[:count],
            scratch.times[count : _2 * count],
        )  # fmt: skip
        for rank in range(count):
            word = uint64(order[rank])
            if rank > 0:
                out[written] = _LINE_END
                written += _1
            start, stop = uint64(word_starts[word]), uint64(word_stops[word])
            written = _copy(text, start, stop, out, written)
            out[written] = _SPACE
            written = _write_decimal(times[word], out, written + _1)
        edges[i + 1] = written


@njit(cache=True, nogil=True)
def count_words(content, begin, end, pages, entries, scratch):  # type: ignore[no-untyped-def]
    """Find the words of ``content[begin:end]``, each once, as they come; return how many.

    Word w is scratch.text[token_starts[w]:token_stops[w]], hashes[w] its hash, and keys[w] says
    how often the text has it. Words are told apart by their hashes.
    """
    starts, stops, hashes = scratch.token_starts, scratch.token_stops, scratch.hashes
    slots, times = scratch.times, scratch.keys
    tokens = normalise(content, begin, end, pages, entries, scratch.text, starts, stops)
    hash_shingles(scratch.text, starts, stops, tokens, _1, scratch.spans, hashes)
    capacity = _2
    while capacity < _2 * tokens:
        capacity *= _2
    slots[:capacity] = uint32(0)
    distinct = _0
    for i in range(tokens):
        feature = hashes[i]
        slot = feature & (capacity - _1)
        while slots[slot] != uint32(0) and hashes[uint64(slots[slot]) - _1] != feature:
            slot = (slot + _1) & (capacity - _1)
        if slots[slot] == uint32(0):
            # in place, for as many or more are already read
            starts[distinct], stops[distinct] = starts[i], stops[i]
            hashes[distinct], times[distinct] = feature, _0
            distinct += _1
            slots[slot] = uint32(distinct)
        times[uint64(slots[slot]) - _1] += _1
    return distinct


@njit(cache=True, nogil=True)
def _choose_heaviest(text, starts, stops, weight, count, most, chosen):  # type: ignore[no-untyped-def]
    """Write to ``chosen`` the heaviest of ``count`` words, in their order; return how many."""
    _write_first_bytes(text, starts, stops, count, weight)
    kept, lightest = _0, _0
    for i in range(count):
        word = uint64(i)
        if weight[word] < lightest:
            continue
        hole = kept
        while hole > _0:
            other = uint64(chosen[hole - _1])
            x, y = weight[word], weight[other]
            if x == y:
                x, y = weight[count + other], weight[count + word]
            if x < y or (x == y and _bytes_precede(text, starts, stops, other, word)):
                break
            chosen[hole] = uint32(other)
            hole -= _1
        chosen[hole] = uint32(word)
        kept = min(kept + _1, most)
        if kept == most:
            lightest = weight[uint64(chosen[most - _1])]
    return kept


@njit(cache=True, nogil=True)
def compare_keywords(first, first_weights, second, second_weights, out):  # type: ignore[no-untyped-def]
    """Write |a - b|**2 / (|a|**2 + |b|**2) of every two rows of weights; NaN if all are 0.

    Words are uint32[m, n], ascending, weights float32[m, n]. A merge, so that the sum is the same
    whichever is first, and exactly 0 where all weights are equal.
    """
    columns = uint64(first.shape[1])
    for p in range(out.size):
        apart, whole = 0.0, 0.0
        i, j = _0, _0
        while i < columns or j < columns:
            x = uint64(first[p, i]) if i < columns else _PAST_HASHES
            y = uint64(second[p, j]) if j < columns else _PAST_HASHES
            a, b = 0.0, 0.0
            if x <= y:
                a = float64(first_weights[p, i])
                i += _1
            if y <= x:
                b = float64(second_weights[p, j])
                j += _1
            apart += (a - b) * (a - b)
            whole += a * a + b * b
        out[p] = apart / whole if whole > 0.0 else np.nan


@njit(cache=True, nogil=True)
def _write_first_bytes(text, starts, stops, count, numbers):  # type: ignore[no-untyped-def]
    """Write the first 8 bytes of each word to numbers[count:], the first one leading.

    And 0 for those that it does not have. Few words have these in common: compared in place they
    have keywords take half of the time. A function counts references to its arrays, inlined or not.
    """
    for word in range(count):
        start = uint64(starts[word])
        missing = _8 * (_8 - min(uint64(stops[word]) - start, _8))
        numbers[count + uint64(word)] = byte_swapped(load64(text, start)) >> missing << missing


@njit(cache=True, nogil=True)
def _bytes_precede(text, starts, stops, one, other):  # type: ignore[no-untyped-def]
    """Return whether a word comes before another, which differs from it."""
    i, j = uint64(starts[one]), uint64(starts[other])
    i_end, j_end = uint64(stops[one]), uint64(stops[other])
    while i < i_end and j < j_end and text[i] == text[j]:
        i += _1
        j += _1
    return j < j_end and (i == i_end or text[i] < text[j])


@njit(cache=True, nogil=True)
def _sorted(text, starts, stops, numbers, count, order, other):  # type: ignore[no-untyped-def]
    """Sort the words of ``order``, of ``count``: those of larger numbers first, then by bytes.

    Merges of ever longer runs, to ``other`` and back. Returns that of both that has the result.
    """
    size = uint64(order.size)
    width = _1
    while width < size:
        for begin in range(_0, size, _2 * width):
            i, i_end = uint64(begin), min(uint64(begin) + width, size)
            j, j_end = i_end, min(i_end + width, size)
            for place in range(i, j_end):
                is_first = j == j_end
                if i < i_end and not is_first:
                    one, next_one = uint64(order[i]), uint64(order[j])
                    x, y = numbers[one], numbers[next_one]
                    if x == y:
                        x, y = numbers[count + next_one], numbers[count + one]
                    is_first = x > y or (
                        x == y and _bytes_precede(text, starts, stops, one, next_one)
                    )
                if is_first:
                    other[place] = order[i]
                    i += _1
                else:
                    other[place] = order[j]
                    j += _1
        order, other = other, order
        width *= _2
    return order


@njit(cache=True, nogil=True)
def _sort_by_bytes(text, starts, stops, chosen, count):  # type: ignore[no-untyped-def]
    for rank in range(_1, count):
        word = chosen[rank]
        hole = uint64(rank)
        while hole > _0 and _bytes_precede(
            text, starts, stops, uint64(word), uint64(chosen[hole - _1])
        ):
            chosen[hole] = chosen[hole - _1]
            hole -= _1
        chosen[hole] = word


@njit(cache=True, nogil=True)
def _write_sketch(hashes, weight, chosen, count, words, weights):  # type: ignore[no-untyped-def]
    """Write words, ascending, and weights to the last ``count`` of these."""
    first = uint64(words.size) - count
    for rank in range(count):
        word = uint64(chosen[rank])
        value = uint32(hashes[word])
        hole = first + uint64(rank)
        while hole > first and words[hole - _1] > value:
            words[hole], weights[hole] = words[hole - _1], weights[hole - _1]
            hole -= _1
        words[hole] = value
        weights[hole] = float32(weight[word])


@njit(cache=True, nogil=True, inline="always")
def _is_told(text, start, stop, pages, kinds, over):  # type: ignore[no-untyped-def]
    characters = _0
    i = start
    while i < stop and characters <= over:
        characters += uint64(text[i] & uint8(0xC0) != uint8(0x80))
        i += _1
    if characters > over or text[start] < _NOT_ASCII:
        return characters > over
    character, _ = decode(text, start, stop)
    entry = kinds[uint64(pages[character >> _U(8)]) << _U(8) | character & _U(255)]
    return entry & int32(3) == int32(CHARACTER)


@njit(cache=True, nogil=True, inline="always")
def _copy(text, start, stop, out, written):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        out[written] = text[i]
        written += _1
    return written


@njit(cache=True, nogil=True)
def _write_decimal(number, out, written):  # type: ignore[no-untyped-def]
    size = _1
    rest = number // _10
    while rest != _0:
        rest //= _10
        size += _1
    for place in range(size):
        out[written + size - _1 - uint64(place)] = _ZERO + uint8(number % _10)
        number //= _10
    return written + size
