"""Regroup a stream of arrays into arrays of one length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


def regrouped(batches: Iterable[NDArray[Scalar]], length: int) -> Iterator[NDArray[Scalar]]:
    """Yield the same elements in new arrays of ``length``, the last one of what is left.

    In memory: an array of each kind. Each element is copied once.

    >>> batches = [np.array([1, 2]), np.array([3]), np.array([4, 5, 6, 7])]
    >>> [batch.tolist() for batch in regrouped(batches, 3)]
    [[1, 2, 3], [4, 5, 6], [7]]
    """
    pending: list[NDArray[Scalar]] = []
    count = 0
    for batch in batches:
        start = 0
        while count + len(batch) - start >= length:
            stop = start + length - count
            yield np.concatenate([*pending, batch[start:stop]])
            pending, count, start = [], 0, stop
        if start < len(batch):
            pending.append(batch[start:])
            count += len(batch) - start
    if count:
        yield np.concatenate(pending)
