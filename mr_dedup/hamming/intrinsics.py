"""Instructions that numba has no name for: a vector comparison, bit counts."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 32
"""Signatures tested by one call of :func:`lanes_within`; arrays carry this much padding."""


@intrinsic
def lanes_within(
    typing_context: Any, signatures: Any, start: Any, probe: Any, k: Any
) -> tuple[Any, Any]:
    """Return a uint32 whose bit j is set if signatures[start + j] is within k bits of probe.

    ``signatures`` uint32[n], contiguous; ``start`` uint64; ``probe`` and ``k`` uint32. Reads
    LANES elements from ``start`` on, unaligned and unchecked: the caller pads the array.

    Plain LLVM vector IR, so that each processor gets its own form: two 512-bit registers and a
    vector population count where there is one, shuffles or four-register code elsewhere. The
    scalar loop that numba vectorises by itself needs a second pass to find which lanes matched,
    and ran 1.5 times slower.
    """
    signature = types.uint32(signatures, types.uint64, types.uint32, types.uint32)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        array_value, start_value, probe_value, k_value = arguments
        lane, mask = ir.IntType(32), ir.IntType(LANES)
        vector = ir.VectorType(lane, LANES)
        array = context.make_array(sig.args[0])(context, builder, array_value)
        pointer = builder.bitcast(builder.gep(array.data, [start_value]), vector.as_pointer())
        loaded = builder.load(pointer)
        loaded.align = 4

        def splat(scalar: Any) -> Any:
            undefined = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(undefined, scalar, ir.Constant(lane, 0))
            return builder.shuffle_vector(one, undefined, ir.Constant(vector, [0] * LANES))

        population_count = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector]), f"llvm.ctpop.v{LANES}i32"
        )
        distance = builder.call(population_count, [builder.xor(loaded, splat(probe_value))])
        return builder.bitcast(builder.icmp_unsigned("<=", distance, splat(k_value)), mask)

    return signature, codegen


@intrinsic
def population_count(typing_context: Any, number: Any) -> tuple[Any, Any]:
    """Return how many bits of a uint64 are set, uint64: one instruction, no loop over them."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def trailing_zeros(typing_context: Any, number: Any) -> tuple[Any, Any]:
    """Return the position of the lowest bit set in a uint32 that is not 0, uint32."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint32(types.uint32), codegen
