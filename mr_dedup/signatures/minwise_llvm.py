"""The LLVM code of minwise_kernels.py."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mr_dedup.kernels.llvm.building import INT32, broadcast, element_pointer, load, store
from mr_dedup.signatures.minwise_kernels import LANES, TOGETHER

_VECTOR = ir.VectorType(INT32, LANES)


@intrinsic
def _take_lowest(
    typing_context: Any,
    lowest: Any,
    flips: Any,
    factors: Any,
    first: Any,
    hashes: Any,
    start: Any,
) -> tuple[Any, Any]:

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        def at(array: int, index: int) -> Any:
            return element_pointer(
                context, builder, sig.args[array], arguments[array], arguments[index]
            )

        minimum = load(builder, at(0, 3), _VECTOR)
        flip, factor = (load(builder, at(array, 3), _VECTOR) for array in (1, 2))
        for j in range(TOGETHER):
            pointer = builder.gep(at(4, 5), [ir.Constant(INT32, j)])
            low = builder.trunc(builder.load(pointer), INT32)
            image = builder.mul(builder.xor(broadcast(builder, low, _VECTOR), flip), factor)
            smaller = builder.icmp_unsigned("<", image, minimum)
            minimum = builder.select(smaller, image, minimum)
        store(builder, minimum, at(0, 3))
        return context.get_dummy_value()

    arguments = (lowest, flips, factors, types.uint64, hashes, types.uint64)
    return types.void(*arguments), codegen
