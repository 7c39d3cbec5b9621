# mypy: ignore-errors
"""Kernels over packed counters: read, increment and decrement those of many digests.

Counters of ``bits`` bits are packed into uint64 words, none across two. The first half of a digest
chooses the segment, the second half its counters in there: see ``locate``. The caller allocates and
validates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mr_dedup.kernels.entry import Matrix, entry, kernel

_U = np.uint64
_0, _1, _32, _64 = _U(0), _U(1), _U(32), _U(64)
_LOW = _U(0xFFFFFFFF)
_STEP = _U(0x9E3779B97F4A7C15)


@kernel
def _mixed(value):
    """Return ``value`` with every bit depending on all of its bits (splitmix64's finalizer)."""
    value = (value ^ (value >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> _U(27))) * _U(0x94D049BB133111EB)
    return value ^ (value >> _U(31))


@kernel
def _segment(first, segments):
    """Return the segment of a digest: the upper half of its first half, scaled to segments."""
    return ((first >> _32) * segments) >> _32


@kernel
def locate(digests, number, segments, segment_words, bits, out_words, out_shifts):
    """Write the word of each counter of a digest, and the bits to shift it by.

    Hash 2j and hash 2j + 1 are the lower and the upper 32 bits of the digest's second half plus
    (j + 1) times an odd constant, mixed. A hash is scaled to the words of a segment, which gives
    the word; the fraction is scaled to the counters of a word, which gives the counter.
    """
    base = _segment(digests[number, 0], segments) * segment_words
    in_word = _64 // bits
    state = digests[number, 1]
    mixed = _0
    for i in range(out_words.size):
        if i & 1:
            hashed = mixed >> _32
        else:
            state += _STEP
            mixed = _mixed(state)
            hashed = mixed & _LOW
        scaled = hashed * segment_words
        out_words[i] = base + (scaled >> _32)
        out_shifts[i] = (((scaled & _LOW) * in_word) >> _32) * bits


@entry
def all_raised(
    words: NDArray[np.uint64],
    digests: Matrix[np.uint64],
    segments: np.uint64,
    segment_words: np.uint64,
    bits: np.uint64,
    at: NDArray[np.uint64],
    shifts: NDArray[np.uint64],
    out: NDArray[np.bool_],
) -> None:
    """Write to ``out`` bool[n] whether all counters of a digest are positive."""
    max_value = (_1 << bits) - _1
    for number in range(digests.shape[0]):
        locate(digests, number, segments, segment_words, bits, at, shifts)
        smallest = max_value
        for i in range(at.size):
            smallest = min(smallest, (words[at[i]] >> shifts[i]) & max_value)
        out[number] = smallest != _0


@entry
def raise_counters(
    words: NDArray[np.uint64],
    digests: Matrix[np.uint64],
    segments: np.uint64,
    segment_words: np.uint64,
    bits: np.uint64,
    at: NDArray[np.uint64],
    shifts: NDArray[np.uint64],
) -> None:
    """Increment the counters of each digest, but for saturated ones."""
    max_value = (_1 << bits) - _1
    for number in range(digests.shape[0]):
        locate(digests, number, segments, segment_words, bits, at, shifts)
        for i in range(at.size):
            word = words[at[i]]
            if (word >> shifts[i]) & max_value != max_value:
                words[at[i]] = word + (_1 << shifts[i])


@entry
def lower_counters(
    words: NDArray[np.uint64],
    digests: Matrix[np.uint64],
    segments: np.uint64,
    segment_words: np.uint64,
    bits: np.uint64,
    at: NDArray[np.uint64],
    shifts: NDArray[np.uint64],
    saturated: NDArray[np.bool_],
) -> int:
    """Decrement the counters of each digest, but for saturated ones.

    Sets ``saturated`` bool[segments] for their segments. Returns the number of counters that were
    0, which those of a digest that was counted never are.
    """
    max_value = (_1 << bits) - _1
    zeros = _0
    for number in range(digests.shape[0]):
        locate(digests, number, segments, segment_words, bits, at, shifts)
        for i in range(at.size):
            word = words[at[i]]
            value = (word >> shifts[i]) & max_value
            if value == max_value:
                saturated[_segment(digests[number, 0], segments)] = True
            elif value == _0:
                zeros += _1
            else:
                words[at[i]] = word - (_1 << shifts[i])
    return zeros


@entry
def count_values(words: NDArray[np.uint64], bits: int, histogram: NDArray[np.uint64]) -> None:
    """Count the counters of each value in ``histogram`` uint64[2**bits]."""
    max_value = (_1 << _U(bits)) - _1
    in_word = _64 // _U(bits)
    for word in words:
        for _ in range(in_word):
            histogram[word & max_value] += _1
            word >>= _U(bits)


@entry
def sort_equal_halves(digests: Matrix[np.uint64], order: NDArray[np.int64]) -> None:
    """Sort ``order`` int64[n], which sorts digests by their first halves, by the second ones too.

    A stable insertion sort: mostly equal digests share a half, and these are in order already.
    """
    for end in range(1, order.size):
        moved = order[end]
        at = end
        while at > 0:
            other = order[at - 1]
            if digests[other, 0] != digests[moved, 0] or digests[other, 1] <= digests[moved, 1]:
                break
            order[at] = other
            at -= 1
        order[at] = moved
