"""Blocks of bytes for kernels: 64 compared at once, copied at once, and what to do with the bits.

Plain LLVM vectors, so that each processor gets its own form: one comparison of a register of 512
bits, or of two of 256.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

BLOCK_BYTES = 64
"""Bytes that are compared or copied by one call: a bit each of a uint64."""

BYTE, WORD = ir.IntType(8), ir.IntType(64)
_LANE = ir.IntType(32)
_BLOCK = ir.VectorType(BYTE, BLOCK_BYTES)


def address(context: Any, builder: Any, kind: Any, array: Any, start: Any) -> Any:
    """Return the address of ``array[start]``, an array of type ``kind``."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [start])


def loaded(builder: Any, pointer: Any, kind: Any) -> Any:
    """Return the value of LLVM type ``kind`` at an address, which need not be aligned."""
    value = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    value.align = 1
    return value


def stored(builder: Any, value: Any, pointer: Any) -> None:
    """Write a value to an address, which need not be aligned."""
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer())).align = 1


def spread(builder: Any, scalar: Any, vector: Any) -> Any:
    """Return a vector that holds ``scalar`` in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, scalar, ir.Constant(_LANE, 0))
    lanes = ir.Constant(ir.VectorType(_LANE, vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, undefined, lanes)


@intrinsic
def borrowed(typing_context: Any, array: Any) -> tuple[Any, Any]:
    """Return an array that does not count who holds it: only of one that the caller holds.

    Numba counts, by an atomic instruction each, whenever an array is taken out of a tuple or
    sliced: some tens of times for a text, on the same counters in all threads. What a function
    makes itself it drops after the last line that names it, borrowed or not.
    """

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        view = context.make_array(sig.args[0])(context, builder, arguments[0])
        for name in ("meminfo", "parent"):
            setattr(view, name, getattr(view, name).type(None))
        return view._getvalue()

    return array(array), codegen


def _compared(operator: str) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        block = loaded(builder, address(context, builder, sig.args[0], *arguments[:2]), _BLOCK)
        bound = spread(builder, arguments[2], _BLOCK)
        return builder.bitcast(builder.icmp_unsigned(operator, block, bound), WORD)

    return codegen


@intrinsic
def below_mask(typing_context: Any, content: Any, start: Any, bound: Any) -> tuple[Any, Any]:
    """Return a uint64: bit j is set if content[start + j] < bound, a uint8; unchecked."""
    return types.uint64(content, types.uint64, types.uint8), _compared("<")


@intrinsic
def equal_mask(typing_context: Any, content: Any, start: Any, byte: Any) -> tuple[Any, Any]:
    """Return a uint64: bit j is set if content[start + j] == byte, a uint8; unchecked."""
    return types.uint64(content, types.uint64, types.uint8), _compared("==")


@intrinsic
def copy_block(
    typing_context: Any, content: Any, start: Any, out: Any, begin: Any
) -> tuple[Any, Any]:
    """Copy BLOCK_BYTES bytes from content[start] to out[begin], unchecked."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        block = loaded(builder, address(context, builder, sig.args[0], *arguments[:2]), _BLOCK)
        stored(builder, block, address(context, builder, sig.args[2], *arguments[2:]))
        return context.get_dummy_value()

    return types.void(content, types.uint64, out, types.uint64), codegen


@intrinsic
def trailing_zeros64(typing_context: Any, number: Any) -> tuple[Any, Any]:
    """Return the position of the lowest bit set in a uint64, uint64; 64 if it is 0."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), codegen


@intrinsic
def set_bits64(typing_context: Any, number: Any) -> tuple[Any, Any]:
    """Return how many bits of a uint64 are set, uint64."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen
