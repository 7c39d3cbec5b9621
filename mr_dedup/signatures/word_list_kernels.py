# mypy: ignore-errors
"""Loops of methods that hash a list of words: exact, keywords and text profile.

What is hashed of text i is written to ``out[edges[i]:edges[i + 1]]``, ``edges`` uint64[n + 1] with
edges[0] = 0. Nothing is validated or allocated here: the modules of the methods do both.

Plain Python stays far behind: to split and count the words of 30 MB of licence texts alone takes
1.3 s, where a whole ``mr-dedup fingerprint`` of these takes 1.0 s of CPU.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import float32, float64, int32, uint8, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.frequency_kernels import IdfTable, multiply_by_idf
from mr_dedup.features.shingle_kernels import Scratch, hash_shingles
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.features.token_kernels import Tokens, copy_text, is_null, tokenise
from mr_dedup.features.unicode_table import CHARACTER, KIND, UnicodeTable
from mr_dedup.kernels.bits import byte_swapped
from mr_dedup.kernels.entry import Matrix, entry, kernel
from mr_dedup.kernels.hash_table import find_row_slot
from mr_dedup.kernels.memory import load64
from mr_dedup.kernels.unsigned import U0, U1, U2, U8, U10, U
from mr_dedup.kernels.utf8 import decode, table_entry

_SPACE, _LINE_END, _ZERO = (np.uint8(ord(c)) for c in " \n0")
_NOT_ASCII = np.uint8(0x80)
_NO_HASH = U(1 << 32)


class KeywordRule(NamedTuple):
    """Which words of a text are its keywords.

    Attributes:
        table: The character table for prepared texts.
        totals: uint64[s]; a word that occurs t times weighs totals[t], and beyond the end as much
            more for each occurrence as the last two differ.
        idf_table: Their idfs.
        max_words: The largest number of keywords of a text.
        by_weight: Whether they are written in the order of their weights, else of their bytes.
    """

    table: UnicodeTable
    totals: NDArray[np.uint64]
    idf_table: IdfTable
    max_words: np.uint64
    by_weight: bool


class ProfileRule(NamedTuple):
    """Which words are in the profile of a text.

    Attributes:
        table: The character table for prepared texts.
        kinds: The Unicode table; words that begin with a character of a script without spaces are
            in the profile, whatever their length.
        over: Other words have more characters than that.
        rate: Counts are rounded down to multiples of this part of the highest count.
    """

    table: UnicodeTable
    kinds: UnicodeTable
    over: np.uint64
    rate: float


@entry
def write_normalised(
    batch: TextBatch, table: UnicodeTable, tokens: Tokens, edges: NDArray[np.uint64]
) -> None:
    """Write the joined tokens of each text to ``tokens.text``, which has space for all texts.

    Of a text without words, its bytes; of a null, nothing.
    """
    content, starts, stops = batch
    written = U0
    for i in range(stops.size):
        left = Tokens(tokens.text[written:], tokens.starts, tokens.stops)
        count = tokenise(content, starts[i], stops[i], table, left)
        if count != U0:
            written += uint64(tokens.stops[count - U1])
        elif not is_null(content, starts[i]):
            written += copy_text(content, starts[i], stops[i], left.text)
        edges[i + 1] = written


@entry
def write_keywords(
    batch: TextBatch,
    rule: KeywordRule,
    scratch: Scratch,
    chosen: NDArray[np.uint32],
    sketches: tuple[Matrix[np.uint32], Matrix[np.float32]],
    out: NDArray[np.uint8],
    edges: NDArray[np.uint64],
) -> None:
    """Write the keywords of each text, with a space between two, which no word has.

    The heaviest words, those of equal weight in the order of their bytes. ``chosen``
    uint32[max_words + 1] is scratch. ``sketches`` are words uint32[n, max_words] and weights
    float32[n, max_words]: row i gets the low halves of the keywords' hashes, ascending, and their
    weights, at its end; nothing if there are no columns.
    """
    content, starts, stops = batch
    tokens, weight = scratch.tokens, scratch.keys
    words, weights = sketches
    totals = rule.totals
    last = uint64(totals.size - 1)
    step = totals[last] - totals[last - U1]
    written = U0
    for i in range(stops.size):
        distinct = count_words(content, starts[i], stops[i], rule.table, scratch)
        for word in range(distinct):
            times = weight[word]
            weight[word] = totals[min(times, last)] + (max(times, last) - last) * step
        if rule.idf_table.unknown > 0:
            idfs = scratch.weights
            idfs[:distinct] = int32(1)
            multiply_by_idf(scratch.hashes, idfs, distinct, rule.idf_table)
            for word in range(distinct):
                weight[word] *= uint64(idfs[word])
        kept = _choose_heaviest(tokens, weight, distinct, rule.max_words, chosen)
        if words.shape[1]:
            _write_sketch(scratch.hashes, weight, chosen[:kept], words[i], weights[i])
        if not rule.by_weight:
            _sort_by_bytes(tokens, chosen, kept)
        for rank in range(kept):
            if rank > 0:
                out[written] = _SPACE
                written += U1
            written = _write_word(tokens, uint64(chosen[rank]), out, written)
        edges[i + 1] = written


@entry
def write_profiles(
    batch: TextBatch,
    rule: ProfileRule,
    scratch: Scratch,
    out: NDArray[np.uint8],
    edges: NDArray[np.uint64],
) -> None:
    """Write the profile of each text: the words and their counts, a line each.

    Counts are rounded down to multiples of ``rate`` times the highest, rounded, but at least of 2,
    or of 1 if the highest is 1. Words with a count of 0 are skipped. The highest counts come first,
    words of equal counts in the order of their bytes.
    """
    content, starts, stops = batch
    tokens, times = scratch.tokens, scratch.keys
    written = U0
    for i in range(stops.size):
        distinct = count_words(content, starts[i], stops[i], rule.table, scratch)
        highest = U0
        for word in range(distinct):
            if not _is_in_profile(tokens, word, rule):
                times[word] = U0
            highest = max(highest, times[word])
        quantum = min(highest, max(U2, uint64(np.floor(rule.rate * float64(highest) + 0.5))))
        count = U0
        for word in range(distinct):
            if times[word] != U0 and times[word] >= quantum:
                times[word] -= times[word] % quantum
                scratch.times[count] = uint32(word)
                count += U1
        _write_prefixes(tokens, distinct, times)
        order = _sorted(
            tokens, times, distinct, scratch.times[:count], scratch.times[count : U2 * count]
        )
        for rank in range(count):
            word = uint64(order[rank])
            if rank > 0:
                out[written] = _LINE_END
                written += U1
            written = _write_word(tokens, word, out, written)
            out[written] = _SPACE
            written = _write_decimal(times[word], out, written + U1)
        edges[i + 1] = written


@kernel
def count_words(content, begin, end, table, scratch):
    """Find the distinct words of ``content[begin:end]``, in order; return their number.

    Word w is token w of the scratch, hashes[w] its hash, and keys[w] the number of times it occurs.
    Words are distinguished by their hashes.
    """
    tokens, hashes = scratch.tokens, scratch.hashes
    slots, times = scratch.times, scratch.keys
    count = tokenise(content, begin, end, table, tokens)
    hash_shingles(tokens, count, U1, hashes)
    capacity = U2
    while capacity < U2 * count:
        capacity *= U2
    slots[:capacity] = uint32(0)
    last = capacity - U1
    distinct = U0
    for i in range(count):
        slot = find_row_slot(slots, last, hashes[i] & last, hashes, hashes[i])
        if slots[slot] == uint32(0):
            # in place: as many or more have been read
            tokens.starts[distinct], tokens.stops[distinct] = tokens.starts[i], tokens.stops[i]
            hashes[distinct], times[distinct] = hashes[i], U0
            distinct += U1
            slots[slot] = uint32(distinct)
        times[uint64(slots[slot]) - U1] += U1
    return distinct


@kernel
def _choose_heaviest(tokens, weight, count, max_words, chosen):
    """Write the ``max_words`` heaviest of ``count`` words, in order; return their number."""
    _write_prefixes(tokens, count, weight)
    kept, lightest = U0, U0
    for i in range(count):
        word = uint64(i)
        if weight[word] < lightest:
            continue
        hole = kept
        while hole > U0:
            other = uint64(chosen[hole - U1])
            x, y = weight[word], weight[other]
            if x == y:
                x, y = weight[count + other], weight[count + word]
            if x < y or (x == y and _precedes(tokens, other, word)):
                break
            chosen[hole] = uint32(other)
            hole -= U1
        chosen[hole] = uint32(word)
        kept = min(kept + U1, max_words)
        if kept == max_words:
            lightest = weight[uint64(chosen[max_words - U1])]
    return kept


@entry
def compare_keywords(
    first: Matrix[np.uint32],
    first_weights: Matrix[np.float32],
    second: Matrix[np.uint32],
    second_weights: Matrix[np.float32],
    out: NDArray[np.float64],
) -> None:
    """Write |a - b|**2 / (|a|**2 + |b|**2) of each two rows of weights; NaN if all are 0.

    Words uint32[m, n] ascend, weights are float32[m, n]. By a merge, so that the sum is the same
    in both directions, and exactly 0 where all weights are equal.
    """
    columns = uint64(first.shape[1])
    for p in range(out.size):
        apart, whole = 0.0, 0.0
        i, j = U0, U0
        while i < columns or j < columns:
            x = uint64(first[p, i]) if i < columns else _NO_HASH
            y = uint64(second[p, j]) if j < columns else _NO_HASH
            a, b = 0.0, 0.0
            if x <= y:
                a = float64(first_weights[p, i])
                i += U1
            if y <= x:
                b = float64(second_weights[p, j])
                j += U1
            apart += (a - b) * (a - b)
            whole += a * a + b * b
        out[p] = apart / whole if whole > 0.0 else np.nan


@kernel
def _write_prefixes(tokens, count, numbers):
    """Write the first 8 bytes of each word to numbers[count:], big-endian, padded by 0.

    Few words have equal ones. Keywords take half of the time that they take with words compared
    byte by byte.
    """
    for word in range(count):
        start = uint64(tokens.starts[word])
        missing = U8 * (U8 - min(uint64(tokens.stops[word]) - start, U8))
        prefix = byte_swapped(load64(tokens.text, start)) >> missing << missing
        numbers[count + uint64(word)] = prefix


@kernel
def _precedes(tokens, one, other):
    """Return whether the bytes of a word are before those of another, different word."""
    text, starts, stops = tokens
    i, j = uint64(starts[one]), uint64(starts[other])
    i_end, j_end = uint64(stops[one]), uint64(stops[other])
    while i < i_end and j < j_end and text[i] == text[j]:
        i += U1
        j += U1
    return j < j_end and (i == i_end or text[i] < text[j])


@kernel
def _sorted(tokens, numbers, count, order, other):
    """Sort the words in ``order``: larger numbers first, then by bytes.

    Merges longer and longer runs into ``other`` and back; returns the one with the result.
    ``numbers`` are those of ``count`` words, then their prefixes.
    """
    size = uint64(order.size)
    width = U1
    while width < size:
        for begin in range(U0, size, U2 * width):
            i, i_end = uint64(begin), min(uint64(begin) + width, size)
            j, j_end = i_end, min(i_end + width, size)
            for target in range(i, j_end):
                is_first = j == j_end
                if i < i_end and not is_first:
                    one, next_one = uint64(order[i]), uint64(order[j])
                    x, y = numbers[one], numbers[next_one]
                    if x == y:
                        x, y = numbers[count + next_one], numbers[count + one]
                    is_first = x > y or (x == y and _precedes(tokens, one, next_one))
                if is_first:
                    other[target] = order[i]
                    i += U1
                else:
                    other[target] = order[j]
                    j += U1
        order, other = other, order
        width *= U2
    return order


@kernel
def _sort_by_bytes(tokens, chosen, count):
    for rank in range(U1, count):
        word = chosen[rank]
        hole = uint64(rank)
        while hole > U0 and _precedes(tokens, uint64(word), uint64(chosen[hole - U1])):
            chosen[hole] = chosen[hole - U1]
            hole -= U1
        chosen[hole] = word


@kernel
def _write_sketch(hashes, weight, chosen, words, weights):
    """Write the chosen words, ascending, and their weights to the end of both arrays."""
    first = uint64(words.size - chosen.size)
    for rank in range(uint64(chosen.size)):
        word = uint64(chosen[rank])
        value = uint32(hashes[word])
        hole = first + uint64(rank)
        while hole > first and words[hole - U1] > value:
            words[hole], weights[hole] = words[hole - U1], weights[hole - U1]
            hole -= U1
        words[hole] = value
        weights[hole] = float32(weight[word])


@kernel
def _is_in_profile(tokens, word, rule):
    text, start, stop = tokens.text, uint64(tokens.starts[word]), uint64(tokens.stops[word])
    characters = U0
    i = start
    while i < stop and characters <= rule.over:
        characters += uint64(text[i] & uint8(0xC0) != uint8(0x80))
        i += U1
    if characters > rule.over or text[start] < _NOT_ASCII:
        return characters > rule.over
    character, _ = decode(text, start, stop)
    return table_entry(rule.kinds, character) & KIND == int32(CHARACTER)


@kernel
def _write_word(tokens, word, out, written):
    for i in range(uint64(tokens.starts[word]), uint64(tokens.stops[word])):
        out[written] = tokens.text[i]
        written += U1
    return written


@kernel
def _write_decimal(number, out, written):
    size = U1
    rest = number // U10
    while rest != U0:
        rest //= U10
        size += U1
    for digit in range(size):
        out[written + size - U1 - uint64(digit)] = _ZERO + uint8(number % U10)
        number //= U10
    return written + size
