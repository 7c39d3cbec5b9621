"""The LLVM code of kernels/memory.py."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mr_dedup.kernels.llvm.building import INT8, INT32, INT64, element_pointer, load


def _little_endian(kind: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        number = load(builder, element_pointer(context, builder, sig.args[0], *arguments), kind)
        return number if kind is INT64 else builder.zext(number, INT64)

    return codegen


@intrinsic
def load64(typing_context: Any, content: Any, start: Any) -> tuple[Any, Any]:
    return types.uint64(content, types.uint64), _little_endian(INT64)


@intrinsic
def load32(typing_context: Any, content: Any, start: Any) -> tuple[Any, Any]:
    return types.uint64(content, types.uint64), _little_endian(INT32)


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> tuple[Any, Any]:

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        byte = INT8.as_pointer()
        pointer = element_pointer(context, builder, sig.args[0], *arguments)
        kind = ir.FunctionType(ir.VoidType(), [byte, INT32, INT32, INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # to write, into the nearest cache, of data
        flags = (ir.Constant(INT32, number) for number in (1, 3, 1))
        builder.call(function, [builder.bitcast(pointer, byte), *flags])
        return context.get_dummy_value()

    return types.void(array, types.uint64), codegen
