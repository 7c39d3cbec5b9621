"""Rows by their fingerprints: pairs within k bits, of rows that may share fingerprints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.planner import plan_self, spread_sample
from mr_dedup.hamming.self_join import pairs_within

Rows = NDArray[np.int64]

_TOGETHER = 1 << 20
"""Pairs of rows made at a time from pairs of fingerprints, at most."""


def row_pairs_within(values: NDArray[np.uint64], k: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield rows first[m] < second[m] of ``values`` uint64[n] that differ in 1 to ``k`` bits.

    Each pair once, in no order; those of equal values are not among them. In memory 24 bytes a row,
    what ``pairs_within`` takes, and a million pairs, however many rows share a fingerprint.
    Raises ValueError and MrDedupError as ``self_join``.
    """
    nodes = distinct(values)
    planned = plan_self(nodes.size, k, sample=spread_sample(nodes))
    planned.refuse_explosion()
    rows = np.argsort(values, kind="stable")
    ordered = values[rows]
    for pairs in pairs_within(nodes, planned):
        yield from _expanded(rows, *(_runs(ordered, side) for side in (pairs.left, pairs.right)))


class _Runs(NamedTuple):
    """Where the rows of fingerprints begin, and how many they are."""

    starts: Rows
    sizes: Rows


def _runs(ordered: NDArray[np.uint64], values: NDArray[np.uint64]) -> _Runs:
    starts = np.searchsorted(ordered, values)
    return _Runs(starts, np.searchsorted(ordered, values, "right") - starts)


def _expanded(rows: Rows, left: _Runs, right: _Runs) -> Iterator[tuple[Rows, Rows]]:
    """Yield all rows of the left fingerprints with all of the right ones, which are aligned."""
    ends = np.cumsum(left.sizes * right.sizes)
    total = int(ends[-1]) if ends.size else 0
    # _TOGETHER pairs of rows at a time; a batch may begin or end inside the product of two
    # fingerprints' rows
    for begin in range(0, total, _TOGETHER):
        end = min(begin + _TOGETHER, total)
        of = slice(np.searchsorted(ends, begin, "right"), np.searchsorted(ends, end) + 1)
        here = np.diff(np.minimum(ends[of], end), prepend=begin)
        before = ends[of] - left.sizes[of] * right.sizes[of]
        within = np.arange(begin, end) - np.repeat(before, here)
        others = np.repeat(right.sizes[of], here)
        one = within // others
        first = rows[np.repeat(left.starts[of], here) + one]
        second = rows[np.repeat(right.starts[of], here) + within - one * others]
        yield np.minimum(first, second), np.maximum(first, second)
