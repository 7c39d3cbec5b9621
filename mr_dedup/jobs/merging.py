"""Merging of what a reduce task reads, in bounded memory where much of it is equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import TypeVar

_Mergeable = TypeVar("_Mergeable", bound=Sized)


def merged_in_turn(
    items: Iterable[_Mergeable], merge: Callable[[list[_Mergeable]], _Mergeable], limit: int
) -> _Mergeable:
    """Return all items merged; they are merged whenever ``limit`` rows are buffered.

    If more than half of these are left the limit is doubled, so that no row is merged more than a
    logarithmic number of times.

    Args:
        items: Read once, one at a time. Their lengths are their rows.
        merge: Merges a list of items, which may be empty.
        limit: Rows that are buffered.
    """
    buffered: list[_Mergeable] = []
    rows = 0
    for item in items:
        buffered.append(item)
        rows += len(item)
        if rows >= limit:
            buffered = [merge(buffered)]
            rows = len(buffered[0])
            limit = max(limit, 2 * rows)
    return merge(buffered)
