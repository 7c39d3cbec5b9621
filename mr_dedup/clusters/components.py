"""Connected components: which fingerprints a chain of near-duplicates joins.

The nodes of the graph are fingerprints, its edges pairs of them. The label of a node is the
smallest fingerprint of its component; smaller, and ascending, mean the order of signed numbers, in
which fingerprints are printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mr_dedup.clusters import components_kernels as kernels

Fingerprints = NDArray[np.uint64]


@dataclass(frozen=True)
class Labels:
    """Distinct ``nodes`` uint64[n], ascending, and aligned with them their ``labels`` uint64[n].

    As a graph, pairs of a node and its label are a forest of stars with the same components.
    """

    nodes: Fingerprints
    labels: Fingerprints

    @property
    def roots(self) -> NDArray[np.bool_]:
        """Which nodes are the smallest of their components, bool[n]."""
        roots: NDArray[np.bool_] = self.nodes == self.labels
        return roots

    def __len__(self) -> int:
        return int(self.nodes.size)

    def of(self, values: Fingerprints) -> tuple[Fingerprints, NDArray[np.bool_]]:
        """Return the label of each of ``values`` uint64[m], 0 of no node, and which are nodes."""
        ranks = self._ranks.of(values)
        known = ranks >= 0
        labels = np.zeros(values.size, np.uint64)
        labels[known] = self.labels[ranks[known]]
        return labels, known

    @cached_property
    def _ranks(self) -> Ranks:
        return Ranks(self.nodes)


def components(left: Fingerprints, right: Fingerprints) -> Labels:
    """Return the components of the graph whose edges are ``left[i]`` to ``right[i]``, uint64[m].

    An edge from a node to itself adds the node; edges may repeat. Union-find with
    path halving, over the ranks of nodes. Nearly linear, 110 ns an edge at a million edges, 160 at
    16 million; in memory, beside the arguments, 18 bytes an edge or 36 a node. Raises ValueError
    for arrays of other types or lengths, and for 2**32 - 1 nodes or more.

    Nodes are sorted, and ranks found by a hash table: np.searchsorted took 3 to 7 times as long in
    all; a directory over the leading bits as long, but 6 times or more where values share 28 bits.
    """
    _check(left, right)
    forest = Forest(_distinct(left, right))
    forest.add(left, right)
    return forest.labels()


class Forest:
    """Connected components of edges between known nodes, which are added in batches.

    In memory: 20 to 28 bytes a node, however many edges there are.

    Args:
        nodes: Distinct, uint64[n], ascending as signed numbers.

    Raises:
        ValueError: For 2**32 - 1 nodes or more.
    """

    def __init__(self, nodes: Fingerprints) -> None:
        self._nodes = nodes
        self._shift, self._table = _table_of(nodes)
        self._parents = np.arange(nodes.size, dtype=np.uint32)

    def add(self, left: Fingerprints, right: Fingerprints) -> None:
        """Add the edges ``left[i]`` to ``right[i]``, uint64[m], all of whose ends are nodes."""
        left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
        kernels.unite(left, right, self._nodes, self._shift, self._table, self._parents)

    def labels(self) -> Labels:
        """Return the labels of all nodes."""
        labels = np.empty_like(self._nodes)
        kernels.name_roots(self._nodes, self._parents, labels)
        return Labels(self._nodes, labels)

    def connected(self) -> NDArray[np.bool_]:
        """Return which nodes are in a component of several, bool[n]; only after ``labels``."""
        several: NDArray[np.bool_] = np.bincount(self._parents, minlength=self._parents.size) > 1
        return several[self._parents]


class Ranks:
    """The indices of values among distinct ``nodes`` uint64[n], in any order.

    A hash table, 8 to 16 bytes a node. Of 200,000 values among 75,000 nodes np.searchsorted takes
    ten times as long.
    """

    def __init__(self, nodes: Fingerprints) -> None:
        """Raises ValueError for 2**32 - 1 nodes or more."""
        self._nodes = np.ascontiguousarray(nodes)
        self._shift, self._table = _table_of(self._nodes)

    def of(self, values: Fingerprints) -> NDArray[np.int64]:
        """Return the index of each of ``values`` uint64[m], int64[m]; -1 if it is not a node."""
        ranks = np.empty(values.size, np.int64)
        kernels.look_up(np.ascontiguousarray(values), self._nodes, self._shift, self._table, ranks)
        return ranks


class UnionFind:
    """Connected components of edges that are added in batches.

    Stores a forest of stars over the nodes, and buffers the latest edges until there are as many
    of them as nodes, so that each is processed about twice: 2.4 times the time of ``components``
    for 16 million. In memory: up to 110 bytes a node, and what ``components`` takes for a million
    edges.
    """

    def __init__(self, min_buffered: int = 1 << 20) -> None:
        """Buffer ``min_buffered`` edges or more until they are worth a pass over the forest."""
        self._min_buffered = min_buffered
        self._labels = components(*np.empty((2, 0), np.uint64))
        self._buffered: list[tuple[Fingerprints, Fingerprints]] = []
        self._size = 0

    def add(self, left: Fingerprints, right: Fingerprints) -> None:
        """Add edges, as those of ``components``; the arrays are stored, not copied.

        Raises ValueError as ``components``, for too many nodes perhaps later.
        """
        _check(left, right)
        self._buffered.append((left, right))
        self._size += left.size
        if self._size >= max(self._min_buffered, len(self._labels)):
            self.labels()

    def labels(self) -> Labels:
        """Return the components of the edges so far; raises ValueError for too many nodes."""
        if self._buffered:
            forest = (self._labels.nodes, self._labels.labels)
            left, right = map(np.concatenate, zip(forest, *self._buffered, strict=True))
            self._buffered, self._size = [], 0
            self._labels = components(left, right)
        return self._labels


def _table_of(nodes: Fingerprints) -> tuple[np.uint64, NDArray[np.uint32]]:
    """Return the shift of the kernels' hashes, and their hash table of ``nodes``."""
    if nodes.size > kernels.MAX_NODES:
        raise ValueError(f"nodes: expected less than 2**32 - 1, got {nodes.size}")
    # two to four slots a node
    bits = nodes.size.bit_length() + 1
    shift = np.uint64(64 - bits)
    table = np.zeros(1 << bits, dtype=np.uint32)
    kernels.fill_table(nodes, shift, table)
    return shift, table


def _check(left: Fingerprints, right: Fingerprints) -> None:
    for name, ends in (("left", left), ("right", right)):
        if ends.ndim != 1 or ends.dtype != np.uint64:
            raise ValueError(f"{name} must be uint64[m], not {ends.dtype}{list(ends.shape)}")
    if left.size != right.size:
        raise ValueError(f"left, right: expected as many of both, got {left.size}, {right.size}")


def _distinct(left: Fingerprints, right: Fingerprints) -> Fingerprints:
    """Return all values, ascending as signed numbers, each once."""
    values = np.concatenate([left, right]).view(np.int64)
    values.sort()
    new = np.ones(values.size, dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new].view(np.uint64)
