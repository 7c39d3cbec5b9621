"""The LLVM code of kernels/distances.py."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mr_dedup.kernels.distances import ALL_PAIRS, GROUP, LANES, PROBES, ROWS
from mr_dedup.kernels.llvm.building import (
    INT32,
    INT64,
    broadcast,
    call,
    constant,
    data_pointer,
    load,
)


@intrinsic
def lanes_within(
    typing_context: Any, signatures: Any, start: Any, probe: Any, k: Any
) -> tuple[Any, Any]:
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
