"""The loops of min-wise hashing: the least of a text's shingles by each order, and bands.

Nothing is validated or allocated here: minwise.py does both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types, uint32, uint64
from numba.extending import intrinsic

from mr_dedup.features.kernels import find_features
from mr_dedup.kernels.bits import folded_product
from mr_dedup.kernels.llvm import broadcast, element_pointer, load, store

LANES = 16
"""Permutations that are applied at once."""

BINS = 128
"""Orders that have shingles of their own, no two the same, at the most."""

_TOGETHER = 8
_U = np.uint64
_0, _1, _LANES, _SHINGLES = (_U(n) for n in (0, 1, LANES, _TOGETHER))
_LEVELS, _2, _30, _32, _BINS, _LOW = (_U(n) for n in (2, 2, 30, 32, BINS, 0xFFFFFFFF))
_CHOICES = np.array([1, 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35], np.uint64)
"""Times the high half of a hash: its bin by one of them says nothing of that by another."""

_FACTORS = _U(0x9E3779B97F4A7C15), _U(0xD6E8FEB86659FD93)

_HALF = ir.IntType(32)
_VECTOR = ir.VectorType(_HALF, LANES)


@intrinsic
def _take_least(
    typing_context: Any,
    least: Any,
    offset: Any,
    flips: Any,
    factors: Any,
    first: Any,
    hashes: Any,
    start: Any,
) -> tuple[Any, Any]:
    """Have least[offset + j] not above what permutation first + j makes of any of some hashes.

    For j < LANES and the low halves of hashes[start : start + 8]; arrays of uint32 but for
    ``hashes`` uint64. Permutation p makes (h ^ flips[p]) * factors[p] of h.
    """

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        def at(array: int, position: int) -> Any:
            return element_pointer(
                context, builder, sig.args[array], arguments[array], arguments[position]
            )

        place = at(0, 1)
        lowest = load(builder, place, _VECTOR)
        flip, factor = (load(builder, at(array, 4), _VECTOR) for array in (2, 3))
        word = at(5, 6)
        for j in range(_TOGETHER):
            pointer = builder.gep(word, [ir.Constant(_HALF, j)])
            low = builder.trunc(builder.load(pointer), _HALF)
            image = builder.mul(builder.xor(broadcast(builder, low, _VECTOR), flip), factor)
            smaller = builder.icmp_unsigned("<", image, lowest)
            lowest = builder.select(smaller, image, lowest)
        store(builder, lowest, place)
        return context.get_dummy_value()

    arguments = (least, types.uint64, flips, factors, types.uint64, hashes, types.uint64)
    return types.void(*arguments), codegen


@njit(cache=True, nogil=True)
def least_of_texts(  # type: ignore[no-untyped-def]
    content,
    starts,
    stops,
    pages,
    entries,
    by_characters,
    length,
    steps,
    scratch,
    flips,
    factors,
    least,
    occurrences,
    spare,
    bins,
):
    """Write to least[i] the least shingle of each content[starts[i]:stops[i]] by each order.

    ``flips`` and ``factors`` uint32[p]; ``least`` uint32[n, p] begins as all ones, and stays so
    where a text has no shingles; ``occurrences`` uint64[n] tells how many. ``spare`` and ``bins``
    are scratch, as for ``take_least``.
    """
    for i in range(stops.size):
        count, _ = find_features(
            content, starts[i], stops[i], pages, entries, by_characters, length, steps, scratch
        )
        occurrences[i] = count
        take_least(scratch.hashes, count, flips, factors, uint64(i), least, spare, bins)


@njit(cache=True, nogil=True)
def least_of_sets(offsets, hashes, scratch, flips, factors, least, spare, bins):  # type: ignore[no-untyped-def]
    """Do the same for sets of hashes; ``scratch`` uint64 is 7 longer than the largest of them."""
    for i in range(least.shape[0]):
        start, count = uint64(offsets[i]), uint64(offsets[i + 1] - offsets[i])
        for j in range(count):
            scratch[j] = hashes[start + uint64(j)]
        take_least(scratch, count, flips, factors, uint64(i), least, spare, bins)


@njit(cache=True, nogil=True)
def take_least(hashes, count, flips, factors, i, least, spare, bins):  # type: ignore[no-untyped-def]
    """Write to least[i] the least of ``count`` hashes by each order; up to 7 follow them.

    ``spare`` uint32[4, p rounded up to a multiple of LANES] and ``bins`` uint32[BINS] are scratch.
    """
    if count == _0:
        return
    permutations = uint64(flips.size)
    row = least[i]
    orders, few_flips, few_factors, few_least = spare[0], spare[1], spare[2], spare[3]
    few = permutations
    for level in range(_LEVELS):
        if few == _0:
            return
        few = _0
        for first in range(_0, permutations, _BINS):
            begin = uint64(first)
            size = min(_BINS, permutations - begin)
            # the next orders and the next level have other bins
            choice = (begin // _BINS + level) % uint64(_CHOICES.size)
            fill_bins(
                hashes, count, uint64(flips[begin]), uint64(factors[begin]), _CHOICES[choice],
                level, bins[:size],
            )  # fmt: skip
            # without a branch on what is as random as a hash, which took three times as long
            for place in range(size):
                order = begin + uint64(place)
                row[order] = min(row[order], bins[place])
                orders[few] = order
                few_flips[few], few_factors[few] = flips[order], factors[order]
                few += uint64(row[order] == _LOW)
    if few == _0:
        return
    few_least[:] = _LOW
    # the last once more makes no difference
    for more in range(count, (count + _SHINGLES - _1) // _SHINGLES * _SHINGLES):
        hashes[more] = hashes[count - _1]
    for first in range(_0, few, _LANES):
        for start in range(_0, count, _SHINGLES):
            _take_least(
                few_least, uint64(first), few_flips, few_factors, uint64(first), hashes,
                uint64(start),
            )  # fmt: skip
    for j in range(few):
        row[orders[j]] = uint64(few_least[j]) >> _2 | _LEVELS << _30


@njit(cache=True, nogil=True)
def fill_bins(hashes, count, flip, factor, choice, level, bins):  # type: ignore[no-untyped-def]
    """Write the value of each bin's first hash to ``bins``, all ones if it has none."""
    size = uint64(bins.size)
    # the next level has the others first
    turned = _LOW * (level & _1)
    bins[:] = _LOW
    for j in range(count):
        place = ((hashes[j] >> _32) * choice & _LOW) * size >> _32
        image = ((hashes[j] ^ flip) * factor ^ turned) & _LOW
        bins[place] = min(bins[place], uint32(image >> _2 | level << _30))


@njit(cache=True, nogil=True)
def mix_bands(least, rows, keys):  # type: ignore[no-untyped-def]
    """Write to keys[i, b] uint64 a hash of least[i, b rows : (b + 1) rows] and of b."""
    for i in range(keys.shape[0]):
        for band in range(keys.shape[1]):
            key = uint64(band) + _1
            for row in range(rows):
                value = uint64(least[i, band * rows + row])
                key = folded_product(key ^ value ^ _FACTORS[0], value + _FACTORS[1])
            keys[i, band] = key
