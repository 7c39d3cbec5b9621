"""Large arrays that a kernel writes for each batch, in memory that batches before have freed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray


def uninitialised(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of Arrow's allocator, which keeps freed memory for the next batch.

    What ``numpy.empty`` takes is given back to the system, which clears it for each batch, and by
    2 MB where a kernel writes a byte: a tenth of the time of ``dedup``. What is not written takes
    addresses, no memory.

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
