# mypy: ignore-errors
"""The loops of connected components: number the nodes, unite the ends of edges, name the roots.

A node is known by its rank: its index among the n distinct nodes in ascending order, a uint32.
``parents`` uint32[n] leads from each node to a smaller one of its component, and from the smallest,
the root, to itself. ``table`` uint32[2**(64 - shift)] has one more than the rank of a node in its
slot, 0 in free slots, of which there are as many or more. Nothing is validated here: components.py
allocates and calls.
"""

from __future__ import annotations

import numpy as np
from numpy import int64, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.hash_table import find_row_slot
from mr_dedup.kernels.unsigned import U0, U1, U32, U

MAX_NODES = (1 << 32) - 2
"""Ranks, and one more than a rank, are numbers of 32 bits."""

_BATCH = 1 << 11
"""Edges that are numbered before they are united, so that their ranks stay in the cache."""

_29 = U(29)
_FIRST, _SECOND = U(0x9E3779B97F4A7C15), U(0xBF58476D1CE4E5B9)
_ONE_MORE = np.uint32(1)


@kernel
def slot_of(node, shift):
    """Return the slot where the search for ``node`` begins: the leading bits of its hash."""
    mixed = (node ^ (node >> U32)) * _FIRST
    return ((mixed ^ (mixed >> _29)) * _SECOND) >> shift


@entry
def fill_table(nodes: NDArray[np.uint64], shift: np.uint64, table: NDArray[np.uint32]) -> None:
    """Insert the rank of each of distinct ``nodes`` uint64[n] into ``table``, which is empty."""
    last = uint64(table.size) - U1
    for rank in range(nodes.size):
        slot = find_row_slot(table, last, slot_of(nodes[rank], shift), nodes, nodes[rank])
        table[slot] = uint32(rank) + _ONE_MORE


@kernel
def find_ranks(values, nodes, shift, table, ranks, misplaced):
    """Write the rank of each of ``values`` uint64[m], all of them nodes, to ``ranks`` uint32[m].

    Reads the first slot of each, which is never free; lists, without a branch, those whose slot
    another node has; searches for these. The fetches, each a miss of the cache, then do not wait
    for one another: four fifths of the time of one loop. ``misplaced`` uint32[m] is scratch.
    """
    last = uint64(table.size) - U1
    for i in range(values.size):
        ranks[i] = table[slot_of(values[i], shift)] - _ONE_MORE
    listed = U0
    for i in range(values.size):
        misplaced[listed] = uint32(i)
        listed += uint64(nodes[ranks[i]] != values[i])
    for at in range(listed):
        i = misplaced[at]
        slot = find_row_slot(table, last, slot_of(values[i], shift), nodes, values[i])
        ranks[i] = table[slot] - _ONE_MORE


@entry
def look_up(
    values: NDArray[np.uint64],
    nodes: NDArray[np.uint64],
    shift: np.uint64,
    table: NDArray[np.uint32],
    ranks: NDArray[np.int64],
) -> None:
    """Write the rank of each of ``values`` uint64[m] to ``ranks`` int64[m]; -1 if not a node."""
    last = uint64(table.size) - U1
    for i in range(values.size):
        slot = find_row_slot(table, last, slot_of(values[i], shift), nodes, values[i])
        ranks[i] = int64(table[slot]) - 1


@kernel
def root_of(rank, parents):
    """Return the root of a node, and halve the path to it."""
    while parents[rank] != rank:
        above = parents[parents[rank]]
        parents[rank] = above
        rank = above
    return rank


@entry
def unite(
    left: NDArray[np.uint64],
    right: NDArray[np.uint64],
    nodes: NDArray[np.uint64],
    shift: np.uint64,
    table: NDArray[np.uint32],
    parents: NDArray[np.uint32],
) -> None:
    """Unite the components of ``left`` and ``right`` uint64[m], the ends of edges, pair by pair.

    The smaller root becomes the root of both, so a root is the smallest of its component.
    """
    ranks, others, misplaced = np.empty((3, _BATCH), np.uint32)
    size = uint64(left.size)
    begin = U0
    while begin < size:
        end = min(begin + uint64(_BATCH), size)
        find_ranks(left[begin:end], nodes, shift, table, ranks, misplaced)
        find_ranks(right[begin:end], nodes, shift, table, others, misplaced)
        # one step up for all, so that these fetches do not wait for one another either
        for i in range(end - begin):
            ranks[i], others[i] = parents[ranks[i]], parents[others[i]]
        for i in range(end - begin):
            root, other = root_of(ranks[i], parents), root_of(others[i], parents)
            if root < other:
                parents[other] = root
            else:
                parents[root] = other
        begin = end


@entry
def name_roots(
    nodes: NDArray[np.uint64], parents: NDArray[np.uint32], labels: NDArray[np.uint64]
) -> None:
    """Write the root of each of ``nodes`` uint64[n] to ``labels`` uint64[n].

    In ascending order: a parent, being smaller, leads to its root already.
    """
    for rank in range(nodes.size):
        root = parents[parents[rank]]
        parents[rank] = root
        labels[rank] = nodes[root]
