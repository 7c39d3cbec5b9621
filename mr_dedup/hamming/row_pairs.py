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
"""Pairs of rows made at a time from pairs of fingerprints, about."""


def near_rows(values: NDArray[np.uint64], k: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield rows first[m] < second[m] of ``values`` uint64[n] that differ in 1 to ``k`` bits.

    Each pair once, in no order; those of equal values are not among them. In memory 24 bytes a row,
    what ``pairs_within`` takes, and a million pairs, or as many as a row has if that is more.
    Raises ValueError and MrDedupError as ``self_join``.
    """
    nodes = distinct(values)
    planned = plan_self(nodes.size, k, sample=spread_sample(nodes))
    planned.refuse_explosion()
    rows = np.argsort(values, kind="stable")
    ordered = values[rows]
    for near in pairs_within(nodes, planned):
        yield from _expanded(rows, *(_runs(ordered, side) for side in (near.left, near.right)))


class _Runs(NamedTuple):
    """Where the rows of fingerprints begin, and how many they are."""

    starts: Rows
    sizes: Rows


def _runs(ordered: NDArray[np.uint64], values: NDArray[np.uint64]) -> _Runs:
    starts = np.searchsorted(ordered, values)
    return _Runs(starts, np.searchsorted(ordered, values, "right") - starts)


def _expanded(rows: Rows, left: _Runs, right: _Runs) -> Iterator[tuple[Rows, Rows]]:
    """Yield all rows of the left fingerprints with all of the right ones, which are aligned."""
    # some rows of the left at a time, so that many of both are no flood
    pairs, places = _spread(left)
    ends = np.cumsum(right.sizes[pairs])
    begin = 0
    while begin < pairs.size:
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + _TOGETHER)))
        some = pairs[begin:end]
        which, others = _spread(_Runs(right.starts[some], right.sizes[some]))
        first, second = rows[places[begin:end][which]], rows[others]
        yield np.minimum(first, second), np.maximum(first, second)
        begin = end


def _spread(runs: _Runs) -> tuple[Rows, Rows]:
    """Return for each member of each run which run it is of, and its place."""
    which = np.repeat(np.arange(runs.sizes.size), runs.sizes)
    within = np.arange(which.size) - np.repeat(np.cumsum(runs.sizes) - runs.sizes, runs.sizes)
    return which, runs.starts[which] + within
