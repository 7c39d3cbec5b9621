"""The LLVM code of kernels.py."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mr_dedup.fingerprints.kernels import BITS, TOGETHER
from mr_dedup.kernels.llvm.building import (
    INT32,
    INT64,
    broadcast,
    constant,
    data_pointer,
    load,
    store,
)


@intrinsic
def _add_where_set(
    typing_context: Any, sums: Any, hashes: Any, weights: Any, start: Any
) -> tuple[Any, Any]:

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        lanes, mask = ir.VectorType(INT32, BITS), ir.VectorType(ir.IntType(1), BITS)
        total_at, hashes_at, weights_at = (
            data_pointer(context, builder, sig.args[i], arguments[i]) for i in range(3)
        )
        total = load(builder, total_at, lanes, align=4)
        for j in range(TOGETHER):
            index = builder.add(arguments[3], ir.Constant(INT64, j))
            bits = builder.bitcast(builder.load(builder.gep(hashes_at, [index])), mask)
            weight = broadcast(builder, builder.load(builder.gep(weights_at, [index])), lanes)
            total = builder.add(total, builder.select(bits, weight, constant(lanes, 0)))
        store(builder, total, total_at, align=4)
        return context.get_dummy_value()

    return types.void(sums, hashes, weights, types.uint64), codegen
