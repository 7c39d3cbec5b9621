"""Vectorised tests of Hamming distances: one fingerprint or signature against many.

Plain LLVM vector code, so that each processor gets its own form: two 512-bit registers and a
vector population count where there is one, shuffles or four-register code elsewhere. Nothing here
checks an index: the caller pads arrays that are read past their end.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mr_dedup.kernels.llvm import INT32, INT64, broadcast, call, constant, data_pointer, load

LANES = 32
"""Signatures tested by one call of :func:`lanes_within`; arrays carry this much padding."""

PROBES = 8
"""Fingerprints tested by one call of :func:`probes_within`: one 512-bit register."""

_PAIRS = PROBES // 2

ALL_PAIRS = (1 << _PAIRS) - 1
"""The result of :func:`probes_within` that rules out no fingerprint."""

ROWS = 8
"""Neighbouring signatures tested by one call of :func:`rows_within`."""

GROUP = 8
"""Rows of bits compared by one call of :func:`group_within`, each a lane of a 512-bit register."""


@intrinsic
def lanes_within(
    typing_context: Any, signatures: Any, start: Any, probe: Any, k: Any
) -> tuple[Any, Any]:
    """Return a uint32 whose bit j is set if signatures[start + j] is within k bits of probe.

    ``signatures`` uint32[n] or uint64[n], contiguous; ``start`` uint64; ``probe`` and ``k`` of the
    signatures' type. Reads LANES elements from ``start`` on.

    The scalar loop that numba vectorises by itself needs a second pass to find which lanes
    matched, and took 1.5 times as long.
    """
    number = signatures.dtype
    signature = types.uint32(signatures, types.uint64, number, number)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        array_value, start_value, probe_value, k_value = arguments
        mask, vector = ir.IntType(LANES), ir.VectorType(ir.IntType(number.bitwidth), LANES)
        data = data_pointer(context, builder, sig.args[0], array_value)
        group = load(builder, builder.gep(data, [start_value]), vector, align=4)
        xored = builder.xor(group, broadcast(builder, probe_value, vector))
        distance = call(builder, f"llvm.ctpop.v{LANES}i{number.bitwidth}", xored)
        within = builder.icmp_unsigned("<=", distance, broadcast(builder, k_value, vector))
        return builder.bitcast(within, mask)

    return signature, codegen


@intrinsic
def probes_within(
    typing_context: Any,
    stream: Any,
    start: Any,
    hashing: Any,
    starts: Any,
    signatures: Any,
    k: Any,
) -> tuple[Any, Any]:
    """Return a uint32 whose bit p is set if stream[start + 2p] or the next one may match.

    A fingerprint may match if one of the LANES signatures from its bucket's start on is within k
    bits of its own. All _PAIRS bits are set if one of the PROBES buckets has more than LANES
    fingerprints. Reads stream[start : start + PROBES]; ``hashing`` is hamming.design.Hashing, and
    buckets and signatures are those of hamming.kernels.bucket_of and signature_of.

    No branch: the minimum over two fingerprints' distances is compared once. A probe of four
    tables of a million took 0.65 to 0.7 of the time of one bucket after another; with a bit for
    each fingerprint 0.72 to 0.78, with sixteen fingerprints a call 0.85.
    """
    signature = types.uint32(stream, types.uint64, hashing, starts, signatures, types.uint32)
    has_fold = not isinstance(hashing.types[2], types.NoneType)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        words, halves = ir.VectorType(INT64, PROBES), ir.VectorType(INT32, PROBES)
        vector = ir.VectorType(INT32, LANES)

        def data(index: int) -> Any:
            return data_pointer(context, builder, sig.args[index], arguments[index])

        def number(field: int) -> Any:
            return broadcast(builder, builder.extract_value(arguments[2], field), words)

        probes = load(builder, builder.gep(data(0), [arguments[1]]), words, align=8)
        mask, first, fold, second, shift = range(5)
        mixed = builder.mul(builder.and_(probes, number(mask)), number(first))
        if has_fold:
            folded = builder.xor(mixed, builder.lshr(mixed, number(fold)))
            mixed = builder.mul(folded, number(second))
        buckets = builder.lshr(mixed, number(shift))
        high = builder.lshr(probes, constant(words, 32))
        rotated = builder.xor(
            builder.shl(high, constant(words, 1)),
            builder.lshr(high, constant(words, 31)),
        )
        own = builder.trunc(builder.xor(probes, rotated), halves)

        starts_data, signatures_data = data(3), data(4)
        longest: Any = ir.Constant(INT32, 0)
        nearest: list[Any] = []
        for probe in range(PROBES):
            bucket = builder.extract_element(buckets, ir.Constant(INT32, probe))
            pointer = builder.gep(starts_data, [bucket])
            base = builder.load(pointer)
            end = builder.load(builder.gep(pointer, [ir.Constant(INT32, 1)]))
            longest = call(builder, "llvm.umax.i32", longest, builder.sub(end, base))
            pointer = builder.gep(signatures_data, [builder.zext(base, INT64)])
            group = load(builder, pointer, vector, align=4)
            repeated = builder.shuffle_vector(
                own, ir.Constant(halves, ir.Undefined), constant(vector, probe)
            )
            distance = call(builder, f"llvm.ctpop.v{LANES}i32", builder.xor(group, repeated))
            if probe % 2:
                distance = call(builder, f"llvm.umin.v{LANES}i32", nearest.pop(), distance)
            nearest.append(distance)
        pairs: Any = ir.Constant(INT32, 0)
        limit = broadcast(builder, arguments[5], vector)
        for pair, distance in enumerate(nearest):
            lanes = builder.bitcast(builder.icmp_unsigned("<=", distance, limit), INT32)
            within = builder.icmp_unsigned("!=", lanes, ir.Constant(INT32, 0))
            bit = builder.shl(builder.zext(within, INT32), ir.Constant(INT32, pair))
            pairs = builder.or_(pairs, bit)
        too_long = builder.icmp_unsigned(">", longest, ir.Constant(INT32, LANES))
        return builder.select(too_long, ir.Constant(INT32, ALL_PAIRS), pairs)

    return signature, codegen


@intrinsic
def rows_within(
    typing_context: Any, signatures: Any, row: Any, offset: Any, k: Any
) -> tuple[Any, Any]:
    """Return a uint32 that is not 0 if one of ROWS signatures is within k bits of a later one.

    Each signatures[row + r] is compared with the LANES from signatures[row + r + offset] on.
    ``signatures`` uint32[n] or uint64[n], contiguous; ``row`` and ``offset`` uint64, ``k`` of the
    signatures' type.

    One comparison for all rows: 256 pairs of 32 bits in 4 to 5 ns. To load the same LANES once for
    all rows takes 0.9 of that, but would compare the rows with themselves.
    """
    number = signatures.dtype
    signature = types.uint32(signatures, types.uint64, types.uint64, number)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        array_value, row_value, offset_value, k_value = arguments
        mask, vector = ir.IntType(LANES), ir.VectorType(ir.IntType(number.bitwidth), LANES)
        kind = f"v{LANES}i{number.bitwidth}"
        own = builder.gep(data_pointer(context, builder, sig.args[0], array_value), [row_value])
        nearest: list[Any] = []
        for _ in range(ROWS):
            group = load(builder, builder.gep(own, [offset_value]), vector, align=4)
            xored = builder.xor(group, broadcast(builder, builder.load(own), vector))
            distance = call(builder, f"llvm.ctpop.{kind}", xored)
            if nearest:
                distance = call(builder, f"llvm.umin.{kind}", nearest.pop(), distance)
            nearest.append(distance)
            own = builder.gep(own, [ir.Constant(INT64, 1)])
        within = builder.icmp_unsigned("<=", nearest.pop(), broadcast(builder, k_value, vector))
        return builder.bitcast(within, mask)

    return signature, codegen


@intrinsic
def group_within(
    typing_context: Any, columns: Any, start: Any, probe: Any, limits: Any, at: Any, limit: Any
) -> tuple[Any, Any]:
    """Return a uint8 whose bit j is set if row j of a group differs in few enough bits.

    That is in at most ``limits[at + j] + limit`` bits from ``probe`` uint64[w]. ``columns``
    uint64[n] has word i of row j at ``start`` + GROUP i + j, ``limits`` int32[m]; ``start`` and
    ``at`` uint64, ``limit`` int64. Reads GROUP w words and GROUP limits. Rows of 4 words take 0.5
    to 1 ns each.
    """
    signature = types.uint8(columns, types.uint64, probe, limits, types.uint64, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        columns_value, start_value, probe_value, limits_value, at_value, limit_value = arguments
        vector, narrow = ir.VectorType(INT64, GROUP), ir.VectorType(INT32, GROUP)
        probes = context.make_array(sig.args[2])(context, builder, probe_value)
        data = data_pointer(context, builder, sig.args[0], columns_value)
        begin = builder.gep(data, [start_value])
        total = cgutils.alloca_once_value(builder, constant(vector, 0))
        (words,) = cgutils.unpack_tuple(builder, probes.shape, 1)
        with cgutils.for_range(builder, words) as loop:
            offset = builder.mul(loop.index, ir.Constant(INT64, GROUP))
            group = load(builder, builder.gep(begin, [offset]), vector, align=8)
            own = builder.load(builder.gep(probes.data, [loop.index]))
            xored = builder.xor(group, broadcast(builder, own, vector))
            bits = call(builder, f"llvm.ctpop.v{GROUP}i64", xored)
            builder.store(builder.add(builder.load(total), bits), total)
        allowed = data_pointer(context, builder, sig.args[3], limits_value)
        own_limits = load(builder, builder.gep(allowed, [at_value]), narrow, align=4)
        bound = builder.add(
            builder.sext(own_limits, vector), broadcast(builder, limit_value, vector)
        )
        within = builder.icmp_signed("<=", builder.load(total), bound)
        return builder.bitcast(within, ir.IntType(GROUP))

    return signature, codegen
