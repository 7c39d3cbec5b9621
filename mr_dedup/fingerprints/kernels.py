"""Loops of simhash: add up the bits of weighted hashes, take the signs."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import int64, types, uint64
from numba.extending import intrinsic

from mr_dedup.features.frequency_kernels import multiply_by_idf
from mr_dedup.features.shingle_kernels import find_features
from mr_dedup.features.word_kernels import find_words
from mr_dedup.kernels.jit import kernel
from mr_dedup.kernels.llvm import INT32, INT64, broadcast, constant, data_pointer, load, store
from mr_dedup.kernels.unsigned import U0, U1, U

BITS = 64
_TOGETHER = 8
_FLUSH = U(1 << 10)
"""Features whose weights are summed in 32 bits."""

MAX_WEIGHT = 1 << 21
"""The weight of a feature must be below this."""

MAX_TEXT_WEIGHT = 1 << 31
"""The weights of all words of a text must be below this together, where one may exceed the limit
of a feature."""


@intrinsic
def _add_where_set(
    typing_context: Any, sums: Any, hashes: Any, weights: Any, start: Any
) -> tuple[Any, Any]:
    """Add weights[start + j], j < _TOGETHER, to sums[b] for each bit b set in hashes[start + j].

    ``sums`` int32[64] stays in registers for the eight. A masked addition of 16 lanes is one
    instruction with AVX-512, so 64 counters take four.
    """

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        lanes, mask = ir.VectorType(INT32, BITS), ir.VectorType(ir.IntType(1), BITS)
        total_at, hashes_at, weights_at = (
            data_pointer(context, builder, sig.args[i], arguments[i]) for i in range(3)
        )
        total = load(builder, total_at, lanes, align=4)
        for j in range(_TOGETHER):
            index = builder.add(arguments[3], ir.Constant(INT64, j))
            bits = builder.bitcast(builder.load(builder.gep(hashes_at, [index])), mask)
            weight = broadcast(builder, builder.load(builder.gep(weights_at, [index])), lanes)
            total = builder.add(total, builder.select(bits, weight, constant(lanes, 0)))
        store(builder, total, total_at, align=4)
        return context.get_dummy_value()

    return types.void(sums, hashes, weights, types.uint64), codegen


@kernel
def simhash(hashes, weights, count, sums, lanes):  # type: ignore[no-untyped-def]
    """Return the simhash, uint64, of the first ``count`` hashes uint64[n] and weights int32[n].

    Bit b is 1 if the weights of the hashes with bit b set are more than half of all: the sum of
    the paper's +w and -w is above 0, and a tie is 0. n is a multiple of 8 above ``count``; ``sums``
    int64[64] and ``lanes`` int32[64] are scratch.
    """
    padded = (count + U(_TOGETHER - 1)) // U(_TOGETHER) * U(_TOGETHER)
    weights[count:padded] = np.int32(0)
    sums[:] = int64(0)
    lanes[:] = np.int32(0)
    total = int64(0)
    for i in range(count):
        total += int64(weights[i])
    for begin in range(U0, padded, _FLUSH):
        for i in range(begin, min(uint64(begin) + _FLUSH, padded), U(_TOGETHER)):
            _add_where_set(lanes, hashes, weights, uint64(i))
        for bit in range(U(BITS)):
            sums[bit] += int64(lanes[bit])
            lanes[bit] = np.int32(0)
    fingerprint = U0
    for bit in range(U(BITS)):
        if int64(2) * sums[bit] > total:
            fingerprint |= U1 << uint64(bit)
    return fingerprint


@kernel
def simhash_texts(batch, rule, scratch, idf_table, values, occurrences):  # type: ignore[no-untyped-def]
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


@kernel
def simhash_words(batch, rule, scratch, idf_table, values, occurrences):  # type: ignore[no-untyped-def]
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
