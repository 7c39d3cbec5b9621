"""Slow, obvious answers, in plain Python integers; nothing here imports mr_dedup."""

import functools
import random
from collections.abc import Iterable

MASK = (1 << 64) - 1


Pairs = frozenset[tuple[int, int]]


def hamming(x: int, y: int) -> int:
    return (x ^ y).bit_count()


def pairs_within(corpus: Iterable[int], queries: Iterable[int], k: int) -> Pairs:
    """Every (query, corpus fingerprint) within k bits, by comparing all with all."""
    return _pairs_within(frozenset(corpus), frozenset(queries), k)


def pairs_among(values: Iterable[int], k: int) -> Pairs:
    """Every pair of different values within k bits, the smaller as a signed number first."""
    return _pairs_among(frozenset(values), k)


# many tests compare the same corpus: once a process
@functools.lru_cache(maxsize=32)
def _pairs_within(corpus: frozenset[int], queries: frozenset[int], k: int) -> Pairs:
    return frozenset((q, c) for q in queries for c in corpus if (q ^ c).bit_count() <= k)


@functools.lru_cache(maxsize=32)
def _pairs_among(values: frozenset[int], k: int) -> Pairs:
    ordered = sorted(values, key=signed)
    return frozenset(
        (x, y)
        for position, x in enumerate(ordered)
        for y in ordered[position + 1 :]
        if (x ^ y).bit_count() <= k
    )


def signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def result_lines(pairs: Iterable[tuple[int, int]], with_distance: bool = False) -> str:
    """The lines that a query prints for these pairs."""
    found: dict[int, list[int]] = {}
    for query, near in pairs:
        found.setdefault(signed(query), []).append(signed(near))
    lines = []
    for query in sorted(found):
        words = [str(query)]
        for near in sorted(set(found[query])):
            words.append(
                f"{near}:{hamming(query & MASK, near & MASK)}" if with_distance else str(near)
            )
        lines.append("\t".join(words) + "\n")
    return "".join(lines)


def pair_lines(pairs: Iterable[tuple[int, int]], with_distance: bool = False) -> str:
    """The lines that are printed for these pairs, a pair each."""
    ordered = sorted((signed(left), signed(right)) for left, right in set(pairs))
    return "".join(
        f"{left}\t{right}"
        + (f":{hamming(left & MASK, right & MASK)}" if with_distance else "")
        + "\n"
        for left, right in ordered
    )


def flipped(x: int, bits: Iterable[int]) -> int:
    for bit in bits:
        x ^= 1 << bit
    return x


def neighbour(rng: random.Random, x: int, distance: int) -> int:
    """A fingerprint at exactly this distance."""
    return flipped(x, rng.sample(range(64), distance))
