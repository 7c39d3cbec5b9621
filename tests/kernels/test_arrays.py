"""Arrays of Arrow's allocator."""

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.kernels.arrays import uninitialised, written


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_arrays_can_be_written_and_are_freed(dtype, size):
    before = pa.total_allocated_bytes()
    array = uninitialised(size, dtype)
    assert (array.shape, array.dtype) == ((size,), dtype)
    array[:] = np.arange(size) % 100
    assert pa.total_allocated_bytes() >= before + array.nbytes
    copy = written(array, size // 2)
    assert copy.tolist() == [n % 100 for n in range(size // 2)]
    assert not np.shares_memory(array, copy) or not copy.size
    del array, copy
    assert pa.total_allocated_bytes() == before
