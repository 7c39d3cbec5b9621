"""Order more pairs than fit the memory: set aside by ranges, each merged by itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from mr_dedup.formats.spill import Spill
from mr_dedup.hamming.pairs import Pairs

_PAIR_BYTES = 40
"""What a pair takes while pairs are merged."""

_RANGES = 64
"""Ranges that pairs are set aside in."""


def in_order(parts: Iterable[Pairs], memory_bytes: int) -> Iterator[Pairs]:
    """Yield the pairs of all parts ascending by left, then right (signed), each once, in parts.

    What does not fit ``memory_bytes`` goes to temporary files, in ranges that the pairs held till
    then halve and halve again, so that no distribution of the values makes one of them much larger
    than the others; a range that is too large still is cut again. A fingerprint's own pairs fit
    always.
    """
    limit = max(1, memory_bytes // _PAIR_BYTES)
    parts = iter(parts)
    held: list[Pairs] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size > limit:
            held = [Pairs.merged(held)]
            size = len(held[0])
            if size > limit // 2 and held[0].left[0] != held[0].left[-1]:
                yield from _by_ranges(held[0], parts, memory_bytes)
                return
    if size:
        yield Pairs.merged(held)


def _by_ranges(held: Pairs, parts: Iterator[Pairs], memory_bytes: int) -> Iterator[Pairs]:
    """Yield the pairs of ``held``, which are ascending, and of ``parts``, range by range."""
    lefts = held.left.view(np.int64)
    # each the first of a range but for the first, so that at least two ranges have pairs
    edges = np.unique(lefts[np.linspace(0, lefts.size - 1, _RANGES + 1).astype(np.intp)])[1:]
    with Spill(columns=2) as spill:
        for part in itertools.chain([held], parts):
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
