"""The columns of rows of documents that several jobs read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def fingerprints_in(table: pa.Table) -> NDArray[np.uint64]:
    """Return the fingerprints of the rows that have one, uint64[m]; a copy.

    >>> fingerprints_in(pa.table({"fingerprint": pa.array([5, None, -1], pa.int64())}))
    array([                   5, 18446744073709551615], dtype=uint64)
    """
    return np.array(table["fingerprint"].drop_null()).view(np.uint64)
