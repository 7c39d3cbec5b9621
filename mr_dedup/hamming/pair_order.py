"""Sort pairs that do not fit the memory: spilled by ranges, each of which is merged."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from mr_dedup.files.spill import Spill
from mr_dedup.hamming.pairs import Pairs

_PAIR_BYTES = 40
"""The memory of a pair while pairs are merged."""

_RANGES = 64
"""Ranges that pairs are spilled in."""


def in_order(parts: Iterable[Pairs], memory_bytes: int) -> Iterator[Pairs]:
    """Yield the pairs of all parts ascending by left, then right (signed), each once, in parts.

    What does not fit ``memory_bytes`` is spilled to temporary files, in ranges that have the same
    number of the pairs buffered so far, so that skew makes none much larger than others; a range
    that is still too large is split again. The pairs of one left fingerprint are in memory, however
    many: up to 8 million at k = 5.
    """
    limit = merged_at = max(1, memory_bytes // _PAIR_BYTES)
    parts = iter(parts)
    buffered: list[Pairs] = []
    size = 0
    for part in parts:
        buffered.append(part)
        size += len(part)
        if size > merged_at:
            buffered = [Pairs.merged(buffered)]
            size = len(buffered[0])
            # merging again before there are twice as many gains nothing
            merged_at = max(limit, 2 * size)
            if size > limit // 2 and buffered[0].left[0] != buffered[0].left[-1]:
                yield from _by_ranges(buffered[0], parts, memory_bytes)
                return
    if size:
        yield Pairs.merged(buffered)


def _by_ranges(buffered: Pairs, parts: Iterator[Pairs], memory_bytes: int) -> Iterator[Pairs]:
    """Yield the pairs of ``buffered``, which are ascending, and of ``parts``, range by range."""
    lefts = buffered.left.view(np.int64)
    # each the first of a range but for the first, so that at least two ranges have pairs
    edges = np.unique(lefts[np.linspace(0, lefts.size - 1, _RANGES + 1).astype(np.intp)])[1:]
    with Spill(columns=2) as spill:
        for part in itertools.chain([buffered], parts):
            ranges = np.searchsorted(edges, part.left.view(np.int64), side="right")
            order = np.argsort(ranges, kind="stable")
            cuts = np.searchsorted(ranges[order], np.arange(edges.size + 2))
            for number, (start, stop) in enumerate(itertools.pairwise(cuts.tolist())):
                if start < stop:
                    chosen = order[start:stop]
                    spill.append(number, [part.left[chosen], part.right[chosen]])
        for number in spill.rows:
            pairs = (Pairs(left, right) for left, right in spill.read(number))
            yield from in_order(pairs, memory_bytes)
            spill.remove(number)
