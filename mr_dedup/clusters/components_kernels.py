"""The loops of connected components: number the nodes, unite what an edge joins, name the roots.

A node is known by its rank: its place among the n distinct nodes in ascending order, a uint32.
``parents`` uint32[n] leads from each node to a smaller one of its component, and from the smallest,
the root, to itself. Nothing is validated here: components.py allocates and calls.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit, uint32, uint64

VACANT = 0xFFFFFFFF
"""What a slot of the table holds in which there is no rank."""

_AT_ONCE = 1 << 11
"""Edges that are numbered before they are united: what is known of them stays in the cache."""

_VACANT = np.uint32(VACANT)
_0, _1, _29, _32 = (np.uint64(n) for n in (0, 1, 29, 32))
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


@njit(cache=True, nogil=True)
def slot_of(node, shift):  # type: ignore[no-untyped-def]
    """Return the slot at which ``node`` is looked for first: the leading bits of a hash of it."""
    mixed = (node ^ (node >> _32)) * _FIRST
    return ((mixed ^ (mixed >> _29)) * _SECOND) >> shift


@njit(cache=True, nogil=True)
def fill_table(nodes, shift, table):  # type: ignore[no-untyped-def]
    """Put the rank of each of distinct ``nodes`` uint64[n] into ``table`` uint32[2**(64 - shift)].

    The table is vacant before, and has room for more than n.
    """
    last = uint64(table.size) - _1
    for rank in range(nodes.size):
        slot = slot_of(nodes[rank], shift)
        while table[slot] != _VACANT:
            slot = (slot + _1) & last
        table[slot] = uint32(rank)


@njit(cache=True, nogil=True)
def find_ranks(values, nodes, shift, table, ranks, misplaced):  # type: ignore[no-untyped-def]
    """Write the rank of each of ``values`` uint64[m], all of them nodes, to ``ranks`` uint32[m].

    Looks at the first slot of each, which is never vacant; lists, without a branch, those whose
    slot another node has; goes on for these. The fetches, each a miss of the cache, then do not
    wait for one another: four fifths of the time of one loop. ``misplaced`` uint32[m] is scratch.
    """
    last = uint64(table.size) - _1
    for i in range(values.size):
        ranks[i] = table[slot_of(values[i], shift)]
    listed = _0
    for i in range(values.size):
        misplaced[listed] = uint32(i)
        listed += uint64(nodes[ranks[i]] != values[i])
    for entry in range(listed):
        i = misplaced[entry]
        slot = slot_of(values[i], shift)
        while nodes[table[slot]] != values[i]:
            slot = (slot + _1) & last
        ranks[i] = table[slot]


@njit(cache=True, nogil=True)
def look_up(values, nodes, shift, table, ranks):  # type: ignore[no-untyped-def]
    """Write the rank of each of ``values`` uint64[m] to ``ranks`` int64[m]; -1 if it is no node."""
    last = uint64(table.size) - _1
    for i in range(values.size):
        slot = slot_of(values[i], shift)
        while table[slot] != _VACANT and nodes[table[slot]] != values[i]:
            slot = (slot + _1) & last
        ranks[i] = -1 if table[slot] == _VACANT else int64(table[slot])


@njit(cache=True, nogil=True)
def root_of(rank, parents):  # type: ignore[no-untyped-def]
    """Return the root of a node, and halve the path to it."""
    while parents[rank] != rank:
        above = parents[parents[rank]]
        parents[rank] = above
        rank = above
    return rank


@njit(cache=True, nogil=True)
def unite(left, right, nodes, shift, table, parents):  # type: ignore[no-untyped-def]
    """Unite the components of ``left`` and ``right`` uint64[m], the ends of edges, pair by pair.

    The smaller root becomes the root of both, so a root is the smallest of its component.
    """
    ranks, others, misplaced = np.empty((3, _AT_ONCE), np.uint32)
    size = uint64(left.size)
    begin = _0
    while begin < size:
        end = min(begin + uint64(_AT_ONCE), size)
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


@njit(cache=True, nogil=True)
def name_roots(nodes, parents, labels):  # type: ignore[no-untyped-def]
    """Write the root of each of ``nodes`` uint64[n] to ``labels`` uint64[n].

    In ascending order: a parent, being smaller, leads to its root already.
    """
    for rank in range(nodes.size):
        root = parents[parents[rank]]
        parents[rank] = root
        labels[rank] = nodes[root]
