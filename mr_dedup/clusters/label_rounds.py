"""Components of a graph that is spread over partitions: what these tell one another in a round.

Each node belongs to one partition, by its hash, and links lead from a node to a smaller one of its
component; a link is held by the partition of the larger node. A round merges what is known there
into stars, whose nodes all link to the smallest. Two things make links shorter, as in Kiveris and
others, Connected Components in MapReduce and Beyond (SoCC 2014):

- small-star: a star joins nodes of other partitions, too; these are told their new links.
- large-star: who links to a node is told where that node itself leads to. In the paper all
  neighbours of a node meet for that, however many they are. Here they stay where they are, and
  each partition that has links to a node asks the node's own, once.

So a hub with millions of neighbours costs its partition a link from each task, and a question of
each partition. Where no partition has anything to tell, all links lead to the smallest node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming.distinct import distinct

if TYPE_CHECKING:
    # numba takes half a second to import: the client does without
    from mr_dedup.clusters.components import Labels

Fingerprints = NDArray[np.uint64]
Partitions = NDArray[np.uint16]

MOST_PARTITIONS = 1 << 16
"""Partitions that fit the numbers of them."""

_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_33, _32 = np.uint64(33), np.uint64(32)


@dataclass(frozen=True)
class Links:
    """Links from ``nodes`` to ``labels``, uint64[n] each, aligned: not larger, one component."""

    nodes: Fingerprints
    labels: Fingerprints

    def __len__(self) -> int:
        return int(self.nodes.size)


@dataclass(frozen=True)
class Held:
    """What a partition holds: the links of its ``own`` nodes, ascending, and those of ``others``.

    An own node that is the smallest of its component links to itself, so that none is lost.
    """

    own: Links
    others: Links

    @classmethod
    def of(cls, labels: Labels, partition: int, partitions: int) -> Held:
        """Return what ``partition`` holds if it knows of ``labels``."""
        own = partition_of(labels.nodes, partitions) == partition
        others = ~own & ~labels.roots
        return cls(
            Links(labels.nodes[own], labels.labels[own]),
            Links(labels.nodes[others], labels.labels[others]),
        )


@dataclass(frozen=True)
class Questions:
    """Who wants to know where ``nodes`` uint64[n] lead to: the partitions ``askers`` uint64[n]."""

    nodes: Fingerprints
    askers: Fingerprints


def partition_of(nodes: Fingerprints, partitions: int) -> Partitions:
    """Return the partition, below ``partitions``, of each of ``nodes`` uint64[n]: uint16[n].

    Raises ValueError for partitions that are not from 1 to MOST_PARTITIONS.
    """
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise ValueError(f"partitions must be from 1 to {MOST_PARTITIONS}, not {partitions}")
    mixed = (nodes ^ (nodes >> _33)) * _FIRST
    mixed = (mixed ^ (mixed >> _33)) * _SECOND
    return ((mixed >> _32) % np.uint64(partitions)).astype(np.uint16)


def dealt(to: Partitions, *columns: Fingerprints) -> Iterator[tuple[int, tuple[Fingerprints, ...]]]:
    """Yield each partition that there is in ``to`` with its rows of ``columns``, in their order."""
    order = np.argsort(to, kind="stable")  # a radix sort, of so short numbers
    counts = np.bincount(to)
    ends = counts.cumsum()
    columns = tuple(column[order] for column in columns)
    for partition in np.flatnonzero(counts).tolist():
        rows = slice(ends[partition] - counts[partition], ends[partition])
        yield partition, tuple(column[rows] for column in columns)


def questions(labels: Labels, partitions: int) -> Questions:
    """Return what partitions are to ask, once they hold the links of ``labels``, each once.

    A partition asks for every label of its nodes but those that are its own.
    """
    askers = partition_of(labels.nodes, partitions)
    away = partition_of(labels.labels, partitions) != askers
    nodes, numbers = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for asker, (asked,) in dealt(askers[away], labels.labels[away]):
        nodes.append(distinct(asked))
        numbers.append(np.full(nodes[-1].size, asker, np.uint64))
    return Questions(np.concatenate(nodes), np.concatenate(numbers))


def told(held: Held, asked: Questions, partitions: int) -> tuple[Partitions, Links]:
    """Return the links that a partition tells others, and whom: of their nodes, and what they ask.

    It holds every node that is asked for. That a node leads nowhere is not told, and a question
    that is repeated is answered once.
    """
    own, others = held.own, held.others
    found = np.searchsorted(own.nodes.view(np.int64), asked.nodes.view(np.int64))
    assert np.array_equal(own.nodes[found], asked.nodes)
    leading = own.labels[found] != asked.nodes
    base = np.uint64(MOST_PARTITIONS)
    numbers = distinct(found[leading].astype(np.uint64) * base + asked.askers[leading])
    places = (numbers // base).astype(np.intp)
    return (
        np.append(partition_of(others.nodes, partitions), (numbers % base).astype(np.uint16)),
        Links(
            np.append(others.nodes, own.nodes[places]), np.append(others.labels, own.labels[places])
        ),
    )
