# mypy: ignore-errors
"""Loops of simhash: add up the bits of weighted hashes, take the signs."""

from __future__ import annotations

import numpy as np
from numpy import int64, uint64
from numpy.typing import NDArray

from mr_dedup.features.frequency_kernels import IdfTable, multiply_by_idf
from mr_dedup.features.shingle_kernels import Scratch, ShingleRule, find_features
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.features.word_kernels import WordRule, WordScratch, find_words
from mr_dedup.kernels.entry import entry, intrinsic, kernel
from mr_dedup.kernels.unsigned import U0, U1, U

BITS = 64
TOGETHER = 8
"""Features that are added up at once."""

_FLUSH = U(1 << 10)
"""Features whose weights are summed in 32 bits."""

MAX_WEIGHT = 1 << 21
"""The weight of a feature must be below this."""

MAX_TEXT_WEIGHT = 1 << 31
"""The weights of all words of a text must be below this together, where one may exceed the limit
of a feature."""


@intrinsic("mr_dedup.fingerprints.llvm")
def _add_where_set(
    sums: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    weights: NDArray[np.int32],
    start: np.uint64,
) -> None:
    """Add weights[start + j], j < TOGETHER, to sums[b] for each bit b set in hashes[start + j].

    ``sums`` int32[64] stays in registers for the eight. A masked addition of 16 lanes is one
    instruction with AVX-512, so 64 counters take four.
    """
    raise NotImplementedError


@kernel
def simhash(hashes, weights, count, sums, lanes):
    """Return the simhash, uint64, of the first ``count`` hashes uint64[n] and weights int32[n].

    Bit b is 1 if the weights of the hashes with bit b set are more than half of all: the sum of
    the paper's +w and -w is above 0, and a tie is 0. n is a multiple of 8 above ``count``; ``sums``
    int64[64] and ``lanes`` int32[64] are scratch.
    """
    padded = (count + U(TOGETHER - 1)) // U(TOGETHER) * U(TOGETHER)
    weights[count:padded] = np.int32(0)
    sums[:] = int64(0)
    lanes[:] = np.int32(0)
    total = int64(0)
    for i in range(count):
        total += int64(weights[i])
    for begin in range(U0, padded, _FLUSH):
        for i in range(begin, min(uint64(begin) + _FLUSH, padded), U(TOGETHER)):
            _add_where_set(lanes, hashes, weights, uint64(i))
        for bit in range(U(BITS)):
            sums[bit] += int64(lanes[bit])
            lanes[bit] = np.int32(0)
    fingerprint = U0
    for bit in range(U(BITS)):
        if int64(2) * sums[bit] > total:
            fingerprint |= U1 << uint64(bit)
    return fingerprint


@entry
def simhash_texts(
    batch: TextBatch,
    rule: ShingleRule,
    scratch: Scratch,
    idf_table: IdfTable,
    values: NDArray[np.uint64],
    occurrences: NDArray[np.uint64],
) -> None:
    """Write the simhash of each text, and its number of shingles, repeats counted."""
    content, starts, stops = batch
    sums, lanes = np.empty(BITS, np.int64), np.empty(BITS, np.int32)
    for i in range(stops.size):
        count, _ = find_features(content, starts[i], stops[i], rule, scratch)
        occurrences[i] = count
        if idf_table.unknown > 0:
            multiply_by_idf(scratch.hashes, scratch.weights, count, idf_table)
        if count > U0:
            values[i] = simhash(scratch.hashes, scratch.weights, count, sums, lanes)


@entry
def simhash_words(
    batch: TextBatch,
    rule: WordRule,
    scratch: WordScratch,
    idf_table: IdfTable,
    values: NDArray[np.uint64],
    occurrences: NDArray[np.uint64],
) -> None:
    """Write the simhash of the words of each text, and its number of words, repeats counted.

    As ``simhash_texts`` does, in half the time; see ``find_words``.
    """
    content, starts, stops = batch
    sums, lanes = np.empty(BITS, np.int64), np.empty(BITS, np.int32)
    for i in range(stops.size):
        occurrences[i], distinct = find_words(content, starts[i], stops[i], rule, scratch)
        if idf_table.unknown > 0:
            multiply_by_idf(scratch.hashes, scratch.weights, distinct, idf_table)
        if distinct > U0:
            values[i] = simhash(scratch.hashes, scratch.weights, distinct, sums, lanes)
