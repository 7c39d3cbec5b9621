"""What intrinsics are written with: LLVM types, unaligned loads and stores, calls.

Plain LLVM vectors, so that each processor gets its own form: one operation on a register of 512
bits, or two on registers of 256.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

INT8, INT32, INT64, INT128 = (ir.IntType(bits) for bits in (8, 32, 64, 128))


def data_pointer(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Return the address of the first element of an array of numba's type ``kind``."""
    return context.make_array(kind)(context, builder, array).data


def element_pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Return the address of ``array[index]``, unchecked; ``array`` is of numba's type ``kind``."""
    return builder.gep(data_pointer(context, builder, kind, array), [index])


def load(builder: Any, pointer: Any, kind: Any, align: int = 1) -> Any:
    """Return the value of LLVM's type ``kind`` at an address aligned to ``align`` bytes."""
    value = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    value.align = align
    return value


def store(builder: Any, value: Any, pointer: Any, align: int = 1) -> None:
    """Write a value to an address aligned to ``align`` bytes."""
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer())).align = align


def constant(vector: Any, value: int) -> Any:
    """Return a constant vector with ``value`` in every lane."""
    return ir.Constant(vector, [value] * vector.count)


def broadcast(builder: Any, scalar: Any, vector: Any) -> Any:
    """Return a vector with ``scalar`` in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, scalar, ir.Constant(INT32, 0))
    return builder.shuffle_vector(one, undefined, constant(ir.VectorType(INT32, vector.count), 0))


def call(builder: Any, name: str, *operands: Any) -> Any:
    """Return LLVM's function ``name`` of operands of one type, which is also the result's."""
    kind = ir.FunctionType(operands[0].type, [operand.type for operand in operands])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), operands)
