"""Edges between the documents that a method pairs, and stricter rules for clusters to be split."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.components import Forest, Labels, Ranks
from mr_dedup.signatures.candidates import (
    can_be_connected,
    candidates,
    connecting_edges,
    match,
    matches,
    max_keys,
    without_common_keys,
)
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

Fingerprints = NDArray[np.uint64]

MAX_MEMBERS = 1 << 12
"""Documents of a key up to which all are compared with one another; more are cut into slices."""


_NAMED_PAIRS = 1 << 16
"""Pairs whose methods are looked for together."""


@dataclass(frozen=True)
class MethodSignatures:
    """The signatures of all documents by one method, in parts, one at least, in their order."""

    method: SignatureMethod
    parts: Sequence[Signatures]

    @functools.cached_property
    def signatures(self) -> Signatures:
        """The parts joined; a copy, if there are several."""
        return Signatures.joined(self.parts)

    @functools.cached_property
    def _edges(self) -> NDArray[np.int64]:
        return np.cumsum([0, *map(len, self.parts)])

    def take(self, rows: NDArray[np.int64]) -> Signatures:
        """Return a copy of the signatures of documents ``rows``, which ascend."""
        cuts = np.searchsorted(rows, self._edges)
        some = np.flatnonzero(np.diff(cuts)).tolist() or [0]
        return Signatures.joined(
            [
                self.parts[part].take(rows[cuts[part] : cuts[part + 1]] - self._edges[part])
                for part in some
            ]
        )


@dataclass(frozen=True)
class MethodSets:
    """The methods by which n pairs are candidates.

    Attributes:
        methods: The names of the m methods.
        bits: uint[n], of the smallest type; bit i is set for method i.
    """

    methods: Sequence[str]
    bits: NDArray[np.unsignedinteger[Any]]

    def names(self, pairs: slice = slice(None)) -> pa.StringArray:
        """Return the names of the methods of some pairs; null where there are none."""
        found, indices = np.unique(self.bits[pairs], return_inverse=True)
        texts = [
            "; ".join(name for i, name in enumerate(self.methods) if bits >> i & 1)
            for bits in found.tolist()
        ]
        return pa.array([text or None for text in texts], pa.string()).take(pa.array(indices))


def method_sets(
    names: Sequence[str],
    distances: NDArray[np.uint8],
    k: int | None,
    signed: Callable[[], Iterator[MethodSignatures]],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> MethodSets:
    """Return the methods by which first[m] and second[m] are candidates.

    In memory: the signatures of _NAMED_PAIRS, and a byte a pair for eight methods.
    """
    methods = [*signed()]
    bits = np.zeros(first.size, np.min_scalar_type((1 << len(names)) - 1))
    for begin in range(0, first.size, _NAMED_PAIRS):
        these = slice(begin, begin + _NAMED_PAIRS)
        rules = [] if k is None else [distances[these] <= k]
        rules += [_matching(each, first[these], second[these]) for each in methods]
        for number, rule in enumerate(rules):
            bits[these][rule] |= bits.dtype.type(1 << number)
    return MethodSets(names, bits)


def _matching(
    signed: MethodSignatures, first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.bool_]:
    rows, at = np.unique(np.concatenate([first, second]), return_inverse=True)
    return match(signed.method, signed.take(rows), *at.reshape(2, first.size))


class StricterRules:
    """Find pairs by rules that are stricter than the methods: fewer bits, more shared keys.

    Of methods with keys that many texts have these count less and less: 2,048 texts of a key at the
    first step, half as many at each next one.

    Args:
        values: uint64[n], the fingerprints of the documents.
        k: The largest distance of candidates; None without simhash.
        signed: Yields the signatures of each other method.
        threads: The number of threads.
    """

    def __init__(
        self,
        values: Fingerprints,
        k: int | None,
        signed: Callable[[], Iterator[MethodSignatures]],
        threads: int,
    ) -> None:
        self._values = values
        self._k = k
        self._signed = signed
        self._threads = threads

    def __call__(self, nodes: Fingerprints, step: int) -> Labels | None:
        """Return the labels of ``nodes`` by rules ``step`` steps stricter; None without rules."""
        forest = Forest(nodes)
        any_rule = False
        if self._k is not None and self._k >= step:
            any_rule = True
            from mr_dedup.hamming.self_join import self_join

            pairs = self_join(nodes, self._k - step)
            forest.add(pairs.left, pairs.right)
        # what shares a key by a stricter rule shares one by any, so other documents do not matter
        member = Ranks(nodes).of(self._values) >= 0
        for each in self._signed():
            min_shared_keys = each.method.min_shared_keys
            max_texts = MAX_MEMBERS >> step if each.method.has_common_keys else None
            if max_texts is None:
                min_shared_keys += step
            if max_keys(each.parts) < min_shared_keys or (max_texts is not None and max_texts < 2):
                continue
            any_rule = True
            values, of_members, some = self._values, member, each
            if max_texts is not None:
                rows = np.flatnonzero(member)
                rare = without_common_keys(each.signatures.take(rows), max_texts)
                values, of_members = values[rows], member[rows]
                some = MethodSignatures(each.method, [rare])
            for first, second in edges(some, min_shared_keys, self._threads, by_runs=True):
                both = of_members[first] & of_members[second]
                forest.add(values[first[both]], values[second[both]])
        return forest.labels() if any_rule else None


def edges(
    signed: MethodSignatures, min_shared_keys: int, threads: int, by_runs: bool = False
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs of texts that connect all that share enough keys and pass the check.

    If texts have too many keys to link each choice of enough of them, all pairs with a key are
    counted, or ``by_runs`` only keys that follow one another in a signature are looked at, in time
    that is linear in the texts, whichever keys they share.
    """
    method = signed.method
    if method.needs_verification:
        found = matches(method, signed.signatures, min_shared_keys, MAX_MEMBERS)
        yield from ((first, second) for first, second, _ in found)
    elif can_be_connected(signed.parts, min_shared_keys):
        yield from connecting_edges(signed.parts, min_shared_keys, threads=threads)
    elif by_runs:
        yield from connecting_edges(signed.parts, min_shared_keys, by_runs=True, threads=threads)
    else:
        yield from candidates(signed.signatures, min_shared_keys, MAX_MEMBERS)
