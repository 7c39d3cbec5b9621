"""The loops of simhash: add up hashes bit by bit, take the signs."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import int64, njit, types, uint64
from numba.extending import intrinsic

from mr_dedup.features.frequency_kernels import weigh_by_rarity
from mr_dedup.features.kernels import find_features
from mr_dedup.features.word_kernels import find_words

BITS = 64
_TOGETHER = 8
_U = np.uint64
_0, _1 = _U(0), _U(1)
_FLUSH = _U(1 << 10)
"""Features whose weights are summed in 32 bits."""

MOST_WEIGHT = 1 << 21
"""What the weight of a feature must be less than."""

WORD_WEIGHTS = 1 << 31
"""What the weights of all words of a text may be less than together in place of that."""


@intrinsic
def _add_where_set(
    typing_context: Any, sums: Any, hashes: Any, weights: Any, start: Any
) -> tuple[Any, Any]:
    """Add weights[start + j], j < _TOGETHER, to sums[b] for each bit b set in hashes[start + j].

    ``sums`` int32[64] stays in registers for the eight. A masked addition of 16 lanes is one
    instruction with AVX-512, so 64 counters take four.
    """

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        half, word = ir.IntType(32), ir.IntType(64)
        lanes = ir.VectorType(half, BITS)

        def data(position: int) -> Any:
            return context.make_array(sig.args[position])(
                context, builder, arguments[position]
            ).data

        pointer = builder.bitcast(data(0), lanes.as_pointer())
        total = builder.load(pointer)
        total.align = 4
        for j in range(_TOGETHER):
            at = builder.add(arguments[3], ir.Constant(word, j))
            bits = builder.bitcast(
                builder.load(builder.gep(data(1), [at])), ir.VectorType(ir.IntType(1), BITS)
            )
            weight = builder.load(builder.gep(data(2), [at]))
            one = builder.insert_element(
                ir.Constant(lanes, ir.Undefined), weight, ir.Constant(half, 0)
            )
            spread = builder.shuffle_vector(
                one, ir.Constant(lanes, ir.Undefined), ir.Constant(lanes, [0] * BITS)
            )
            added = builder.select(bits, spread, ir.Constant(lanes, [0] * BITS))
            total = builder.add(total, added)
        stored = builder.store(total, pointer)
        stored.align = 4
        return context.get_dummy_value()

    return types.void(sums, hashes, weights, types.uint64), codegen


@njit(cache=True, nogil=True)
def simhash(hashes, weights, count, sums, lanes):  # type: ignore[no-untyped-def]
    """Return the simhash, uint64, of ``count`` hashes uint64[n] and weights int32[n].

    Bit b is 1 if the weights of the hashes with bit b set are more than half of all: the sum of
    the paper's +w and -w is above 0, and a tie is 0. n is a multiple of 8 above ``count``; ``sums``
    int64[64] and ``lanes`` int32[64] are scratch.
    """
    padded = (count + _U(_TOGETHER - 1)) // _U(_TOGETHER) * _U(_TOGETHER)
    weights[count:padded] = np.int32(0)
    sums[:] = int64(0)
    lanes[:] = np.int32(0)
    total = int64(0)
    for i in range(count):
        total += int64(weights[i])
    for begin in range(_0, padded, _FLUSH):
        for i in range(begin, min(uint64(begin) + _FLUSH, padded), _U(_TOGETHER)):
            _add_where_set(lanes, hashes, weights, uint64(i))
        for bit in range(_U(BITS)):
            sums[bit] += int64(lanes[bit])
            lanes[bit] = np.int32(0)
    fingerprint = _0
    for bit in range(_U(BITS)):
        if int64(2) * sums[bit] > total:
            fingerprint |= _1 << uint64(bit)
    return fingerprint


@njit(cache=True, nogil=True)
def simhash_texts(  # type: ignore[no-untyped-def]
    content,
    starts,
    stops,
    pages,
    entries,
    by_characters,
    length,
    steps,
    scratch,
    idf_table,
    values,
    occurrences,
    sums,
    lanes,
):
    """Write the simhash of each content[starts[i]:stops[i]], and how many shingles it has.

    ``sums`` and ``lanes`` are scratch, as for ``simhash``.
    """
    for i in range(stops.size):
        count, _ = find_features(
            content, starts[i], stops[i], pages, entries, by_characters, length, steps, scratch
        )
        occurrences[i] = count
        if idf_table.unknown > 0:
            weigh_by_rarity(scratch.hashes, scratch.weights, count, idf_table)
        if count > _0:
            values[i] = simhash(scratch.hashes, scratch.weights, count, sums, lanes)


@njit(cache=True, nogil=True)
def simhash_words(  # type: ignore[no-untyped-def]
    content, starts, stops, pages, entries, totals, scratch, idf_table, values, occurrences
):
    """Write the simhash of the words of each content[starts[i]:stops[i]], and how many it has.

    As ``simhash_texts`` would, in half of the time; ``totals`` as in ``find_words``.
    """
    sums, lanes = np.empty(BITS, np.int64), np.empty(BITS, np.int32)
    for i in range(stops.size):
        occurrences[i], distinct = find_words(
            content, starts[i], stops[i], pages, entries, totals, scratch
        )
        if idf_table.unknown > 0:
            weigh_by_rarity(scratch.hashes, scratch.weights, distinct, idf_table)
        if distinct > _0:
            values[i] = simhash(scratch.hashes, scratch.weights, distinct, sums, lanes)
