"""Instructions that numba has no name for: a vector comparison, bit counts."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 32
"""Signatures tested by one call of :func:`lanes_within`; arrays carry this much padding."""

PROBES = 8
"""Fingerprints tested by one call of :func:`near_pairs`: one 512-bit register of them."""

_PAIRS = PROBES // 2

ALL_PAIRS = (1 << _PAIRS) - 1
"""What :func:`near_pairs` returns if it rules out none."""

ROWS = 8
"""Neighbouring signatures tested by one call of :func:`rows_near`."""

GROUP = 8
"""Rows of bits compared by one call of :func:`group_within`: a lane of a 512-bit register each."""


@intrinsic
def lanes_within(
    typing_context: Any, signatures: Any, start: Any, probe: Any, k: Any
) -> tuple[Any, Any]:
    """Return a uint32 whose bit j is set if signatures[start + j] is within k bits of probe.

    ``signatures`` uint32[n] or uint64[n], contiguous; ``start`` uint64; ``probe`` and ``k`` of the
    signatures' type. Reads LANES elements from ``start`` on, unaligned and unchecked: the caller
    pads the array.

    Plain LLVM vector IR, so that each processor gets its own form: two 512-bit registers and a
    vector population count where there is one, shuffles or four-register code elsewhere. The
    scalar loop that numba vectorises by itself needs a second pass to find which lanes matched,
    and ran 1.5 times slower.
    """
    number = signatures.dtype
    signature = types.uint32(signatures, types.uint64, number, number)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        array_value, start_value, probe_value, k_value = arguments
        mask, vector = ir.IntType(LANES), ir.VectorType(ir.IntType(number.bitwidth), LANES)
        array = context.make_array(sig.args[0])(context, builder, array_value)
        pointer = builder.bitcast(builder.gep(array.data, [start_value]), vector.as_pointer())
        loaded = builder.load(pointer)
        loaded.align = 4

        xored = builder.xor(loaded, _splat(builder, probe_value, vector))
        distance = _call(builder, f"llvm.ctpop.v{LANES}i{number.bitwidth}", xored)
        near = builder.icmp_unsigned("<=", distance, _splat(builder, k_value, vector))
        return builder.bitcast(near, mask)

    return signature, codegen


@intrinsic
def near_pairs(
    typing_context: Any,
    stream: Any,
    start: Any,
    mask: Any,
    first: Any,
    fold: Any,
    second: Any,
    shift: Any,
    starts: Any,
    signatures: Any,
    k: Any,
) -> tuple[Any, Any]:
    """Return a uint32 whose bit p is set if stream[start + 2p] or the one after it is near.

    A fingerprint is near if one of the LANES signatures from its bucket's start on is within k
    bits of its own. All _PAIRS bits are set if one of the PROBES buckets holds more than LANES.
    Reads stream[start : start + PROBES] unchecked; bucket and signature are kernels.bucket_of and
    kernels.signature_of, eight at a time.

    No branch: the minimum over two fingerprints' distances is compared once. A probe of four
    tables over a million took 0.65 to 0.7 of the time of one bucket after another; with a bit for
    each fingerprint 0.72 to 0.78, for sixteen at once 0.85.
    """
    fold_type = fold if isinstance(fold, types.NoneType) else types.uint64
    signature = types.uint32(
        stream, types.uint64, types.uint64, types.uint64, fold_type, types.uint64, types.uint64,
        starts, signatures, types.uint32,
    )  # fmt: skip

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        word, half = ir.IntType(64), ir.IntType(32)
        words, halves = ir.VectorType(word, PROBES), ir.VectorType(half, PROBES)
        vector = ir.VectorType(half, LANES)

        def data(number: int) -> Any:
            return context.make_array(sig.args[number])(context, builder, arguments[number]).data

        def number(position: int) -> Any:
            return _splat(builder, arguments[position], words)

        pointer = builder.gep(data(0), [arguments[1]])
        probes = builder.load(builder.bitcast(pointer, words.as_pointer()))
        probes.align = 8
        mixed = builder.mul(builder.and_(probes, number(2)), number(3))
        if not isinstance(sig.args[4], types.NoneType):
            folded = builder.xor(mixed, builder.lshr(mixed, number(4)))
            mixed = builder.mul(folded, number(5))
        buckets = builder.lshr(mixed, number(6))
        high = builder.lshr(probes, ir.Constant(words, [32] * PROBES))
        rotated = builder.xor(
            builder.shl(high, ir.Constant(words, [1] * PROBES)),
            builder.lshr(high, ir.Constant(words, [31] * PROBES)),
        )
        own = builder.trunc(builder.xor(probes, rotated), halves)

        starts_data, signatures_data = data(7), data(8)
        longest: Any = ir.Constant(half, 0)
        nearest: list[Any] = []
        for probe in range(PROBES):
            bucket = builder.extract_element(buckets, ir.Constant(half, probe))
            pointer = builder.gep(starts_data, [bucket])
            base = builder.load(pointer)
            end = builder.load(builder.gep(pointer, [ir.Constant(half, 1)]))
            longest = _call(builder, "llvm.umax.i32", longest, builder.sub(end, base))
            pointer = builder.gep(signatures_data, [builder.zext(base, word)])
            group = builder.load(builder.bitcast(pointer, vector.as_pointer()))
            group.align = 4
            spread = builder.shuffle_vector(
                own, ir.Constant(halves, ir.Undefined), ir.Constant(vector, [probe] * LANES)
            )
            distance = _call(builder, f"llvm.ctpop.v{LANES}i32", builder.xor(group, spread))
            if probe % 2:
                distance = _call(builder, f"llvm.umin.v{LANES}i32", nearest.pop(), distance)
            nearest.append(distance)
        pairs: Any = ir.Constant(half, 0)
        limit = _splat(builder, arguments[9], vector)
        for pair, distance in enumerate(nearest):
            lanes = builder.bitcast(builder.icmp_unsigned("<=", distance, limit), half)
            near = builder.icmp_unsigned("!=", lanes, ir.Constant(half, 0))
            bit = builder.shl(builder.zext(near, half), ir.Constant(half, pair))
            pairs = builder.or_(pairs, bit)
        too_long = builder.icmp_unsigned(">", longest, ir.Constant(half, LANES))
        return builder.select(too_long, ir.Constant(half, ALL_PAIRS), pairs)

    return signature, codegen


@intrinsic
def rows_near(
    typing_context: Any, signatures: Any, row: Any, offset: Any, k: Any
) -> tuple[Any, Any]:
    """Return a uint32 that is not 0 if one of ROWS signatures is within k bits of a later one.

    Each signatures[row + r] is held against the LANES from signatures[row + r + offset] on.
    ``signatures`` uint32[n] or uint64[n], contiguous, read unchecked; ``row`` and ``offset``
    uint64, ``k`` of the signatures' type.

    One comparison for all rows: 256 pairs of 32 bits in 4 to 5 ns. To load the same LANES for all
    rows once takes 0.9 of that, but would hold the rows against themselves.
    """
    number = signatures.dtype
    signature = types.uint32(signatures, types.uint64, types.uint64, number)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        array_value, row_value, offset_value, k_value = arguments
        mask, vector = ir.IntType(LANES), ir.VectorType(ir.IntType(number.bitwidth), LANES)
        kind = f"v{LANES}i{number.bitwidth}"
        data = context.make_array(sig.args[0])(context, builder, array_value).data
        own = builder.gep(data, [row_value])
        nearest: list[Any] = []
        for _ in range(ROWS):
            later = builder.bitcast(builder.gep(own, [offset_value]), vector.as_pointer())
            group = builder.load(later)
            group.align = 4
            xored = builder.xor(group, _splat(builder, builder.load(own), vector))
            distance = _call(builder, f"llvm.ctpop.{kind}", xored)
            if nearest:
                distance = _call(builder, f"llvm.umin.{kind}", nearest.pop(), distance)
            nearest.append(distance)
            own = builder.gep(own, [ir.Constant(ir.IntType(64), 1)])
        near = builder.icmp_unsigned("<=", nearest.pop(), _splat(builder, k_value, vector))
        return builder.bitcast(near, mask)

    return signature, codegen


@intrinsic
def group_within(
    typing_context: Any, columns: Any, start: Any, probe: Any, limits: Any, at: Any, limit: Any
) -> tuple[Any, Any]:
    """Return a uint8 whose bit j is set if row j of a group differs in few enough bits.

    That is in at most ``limits[at + j] + limit`` bits from ``probe`` uint64[w]. ``columns``
    uint64[n] has word i of row j at ``start`` + GROUP i + j, ``limits`` int32[m]; ``start`` and
    ``at`` uint64, ``limit`` int64. Reads GROUP w words and GROUP limits, unaligned and unchecked:
    the caller pads. Rows of 4 words take 0.5 to 1 ns each.
    """
    signature = types.uint8(columns, types.uint64, probe, limits, types.uint64, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        columns_value, start_value, probe_value, limits_value, at_value, limit_value = arguments
        word = ir.IntType(64)
        vector = ir.VectorType(word, GROUP)
        narrow = ir.VectorType(ir.IntType(32), GROUP)
        probes = context.make_array(sig.args[2])(context, builder, probe_value)
        data = context.make_array(sig.args[0])(context, builder, columns_value).data
        begin = builder.gep(data, [start_value])
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0] * GROUP))
        (words,) = cgutils.unpack_tuple(builder, probes.shape, 1)
        with cgutils.for_range(builder, words) as loop:
            place = builder.mul(loop.index, ir.Constant(word, GROUP))
            group = builder.load(builder.bitcast(builder.gep(begin, [place]), vector.as_pointer()))
            group.align = 8
            own = builder.load(builder.gep(probes.data, [loop.index]))
            xored = builder.xor(group, _splat(builder, own, vector))
            bits = _call(builder, f"llvm.ctpop.v{GROUP}i64", xored)
            builder.store(builder.add(builder.load(total), bits), total)
        allowed = context.make_array(sig.args[3])(context, builder, limits_value).data
        pointer = builder.bitcast(builder.gep(allowed, [at_value]), narrow.as_pointer())
        loaded = builder.load(pointer)
        loaded.align = 4
        most = builder.add(builder.sext(loaded, vector), _splat(builder, limit_value, vector))
        near = builder.icmp_signed("<=", builder.load(total), most)
        return builder.bitcast(near, ir.IntType(GROUP))

    return signature, codegen


def _splat(builder: Any, scalar: Any, vector: Any) -> Any:
    """Return a vector that holds ``scalar`` in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    lane = ir.IntType(32)
    one = builder.insert_element(undefined, scalar, ir.Constant(lane, 0))
    zeros = ir.Constant(ir.VectorType(lane, vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, undefined, zeros)


def _call(builder: Any, name: str, *operands: Any) -> Any:
    """Return LLVM's function ``name`` of operands of one type, which is the result's."""
    kind = ir.FunctionType(operands[0].type, [operand.type for operand in operands])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), operands)


@intrinsic
def population_count(typing_context: Any, number: Any) -> tuple[Any, Any]:
    """Return how many bits of a uint64 are set, uint64: one instruction, no loop over them."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def prefetch(typing_context: Any, array: Any, position: Any) -> tuple[Any, Any]:
    """Have the line of array[position] fetched into the cache, to be written; unchecked.

    A position past the array is no fault.
    """
    signature = types.void(array, types.uint64)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, arguments[0]).data
        byte, half = ir.IntType(8).as_pointer(), ir.IntType(32)
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, half, half, half])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # to write, near, of data
        builder.call(function, [pointer, *(ir.Constant(half, n) for n in (1, 3, 1))])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def trailing_zeros(typing_context: Any, number: Any) -> tuple[Any, Any]:
    """Return the position of the lowest bit set in a uint32 that is not 0, uint32."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint32(types.uint32), codegen
