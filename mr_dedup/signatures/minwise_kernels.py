# mypy: ignore-errors
"""Loops of min-wise hashing: the first shingle of a text in each order, and keys of bands.

Nothing is validated or allocated here: minwise.py does both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.shingle_kernels import Scratch, ShingleRule, find_features
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.kernels.bits import folded_product
from mr_dedup.kernels.entry import Matrix, entry, intrinsic, kernel
from mr_dedup.kernels.unsigned import FACTORS, U0, U1, U2, U30, U32, U

LANES = 16
"""Orders computed at once."""

BINS = 128
"""Orders that share out the shingles among them, a bin of shingles each."""

TOGETHER = 8
"""Hashes that are compared with LANES orders at once."""

_LANES, _BINS, _SHINGLES, _LEVELS, _LOW = U(LANES), U(BINS), U(TOGETHER), U2, U(0xFFFFFFFF)
_CHOICES = np.array([1, 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35], np.uint64)
"""Factors of the high half of a hash: the bins by one are independent of those by another."""


class Orders(NamedTuple):
    """p orders of shingles, and space to find the first shingle in each.

    Order i sorts by ``(h ^ flips[i]) * factors[i]``, h being the low half of a shingle's hash.

    Attributes:
        flips: uint32[p].
        factors: uint32[p], odd.
        spare: uint32[4, q], q being p rounded up to a multiple of LANES.
        bins: uint32[BINS].
    """

    flips: NDArray[np.uint32]
    factors: NDArray[np.uint32]
    spare: Matrix[np.uint32]
    bins: NDArray[np.uint32]


@intrinsic("mr_dedup.signatures.minwise_llvm")
def _take_lowest(
    lowest: NDArray[np.uint32],
    flips: NDArray[np.uint32],
    factors: NDArray[np.uint32],
    first: np.uint64,
    hashes: NDArray[np.uint64],
    start: np.uint64,
) -> None:
    """Lower lowest[i] to the smallest of (h ^ flips[i]) * factors[i] over eight h.

    For i from ``first`` to ``first`` + LANES; h are the low halves of hashes[start : start + 8].
    Arrays are uint32 but for ``hashes`` uint64.
    """
    raise NotImplementedError


@entry
def minwise_of_texts(
    batch: TextBatch,
    rule: ShingleRule,
    scratch: Scratch,
    orders: Orders,
    values: Matrix[np.uint32],
    occurrences: NDArray[np.uint64],
) -> None:
    """Write the min-wise hashes of each text, and its number of shingles, repeats counted.

    ``values`` uint32[n, p] must be all ones; they stay so where a text has no shingles.
    """
    content, starts, stops = batch
    for i in range(stops.size):
        count, _ = find_features(content, starts[i], stops[i], rule, scratch)
        occurrences[i] = count
        take_minwise(scratch.hashes, count, orders, values[i])


@entry
def minwise_of_sets(
    offsets: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
    scratch: NDArray[np.uint64],
    orders: Orders,
    values: Matrix[np.uint32],
) -> None:
    """Write the min-wise hashes of each hashes[offsets[i]:offsets[i + 1]], as for texts.

    ``scratch`` uint64 is as long as the largest set and 7 more.
    """
    for i in range(values.shape[0]):
        start, count = uint64(offsets[i]), uint64(offsets[i + 1] - offsets[i])
        for j in range(count):
            scratch[j] = hashes[start + uint64(j)]
        take_minwise(scratch, count, orders, values[i])


@kernel
def take_minwise(hashes, count, orders, row):
    """Write the min-wise hashes of the first ``count`` hashes to ``row`` uint32[p], all ones.

    Up to 7 more elements of ``hashes`` are overwritten. See ``minwise.minwise_hashes`` for the
    orders.
    """
    if count == U0:
        return
    flips, factors, spare, bins = orders
    permutations = uint64(flips.size)
    # the orders without a shingle of their own, and what is needed of them
    rest, rest_flips, rest_factors, rest_lowest = spare[0], spare[1], spare[2], spare[3]
    left = permutations
    for level in range(_LEVELS):
        if left == U0:
            return
        left = U0
        for first in range(U0, permutations, _BINS):
            begin = uint64(first)
            size = min(_BINS, permutations - begin)
            # the next orders and the next level have other bins
            choice = (begin // _BINS + level) % uint64(_CHOICES.size)
            _fill_bins(
                hashes, count, (flips[begin], factors[begin], _CHOICES[choice]), level, bins[:size]
            )
            # without a branch on what is as random as a hash, which took three times as long
            for offset in range(size):
                order = begin + uint64(offset)
                row[order] = min(row[order], bins[offset])
                rest[left] = order
                rest_flips[left], rest_factors[left] = flips[order], factors[order]
                left += uint64(row[order] == _LOW)
    if left == U0:
        return
    rest_lowest[:] = _LOW
    # repeats of the last hash change nothing
    for more in range(count, (count + _SHINGLES - U1) // _SHINGLES * _SHINGLES):
        hashes[more] = hashes[count - U1]
    for first in range(U0, left, _LANES):
        for start in range(U0, count, _SHINGLES):
            _take_lowest(
                rest_lowest, rest_flips, rest_factors, uint64(first), hashes, uint64(start)
            )
    for j in range(left):
        row[rest[j]] = uint64(rest_lowest[j]) >> U2 | _LEVELS << U30


@kernel
def _fill_bins(hashes, count, constants, level, bins):
    """Write the value of each bin's first hash to ``bins``, all ones if the bin is empty.

    ``constants`` are the flip and the factor of the order, and the factor of the bins.
    """
    flip, factor, choice = uint64(constants[0]), uint64(constants[1]), constants[2]
    size = uint64(bins.size)
    # the next level has the largest first
    turned = _LOW * (level & U1)
    bins[:] = _LOW
    for j in range(count):
        number = ((hashes[j] >> U32) * choice & _LOW) * size >> U32
        image = ((hashes[j] ^ flip) * factor ^ turned) & _LOW
        bins[number] = min(bins[number], uint32(image >> U2 | level << U30))


@entry
def mix_bands(values: Matrix[np.uint32], rows: int, keys: Matrix[np.uint64]) -> None:
    """Write to keys[i, b], uint64, a hash of b and of values[i, b rows : (b + 1) rows]."""
    for i in range(keys.shape[0]):
        for band in range(keys.shape[1]):
            key = uint64(band) + U1
            for row in range(rows):
                value = uint64(values[i, band * rows + row])
                key = folded_product(key ^ value ^ FACTORS[0], value + FACTORS[1])
            keys[i, band] = key
