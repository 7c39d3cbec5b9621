"""Connected components of a graph in partitions: the links that partitions exchange in a round.

Each node belongs to one partition, by its hash. A link leads from a node to a smaller one of its
component, and is stored in the partition of the larger node. A round merges the links of a
partition into stars, whose nodes all link to the smallest. Two kinds of messages shorten links, as
in Kiveris and others, Connected Components in MapReduce and Beyond (SoCC 2014):

- small-star: a star joins nodes of other partitions, too; these get their new links.
- large-star: a partition with links to a node gets the node's own link. In the paper all
  neighbours of a node meet for that, however many they are. Here they stay where they are, and
  each partition with links to a node requests its link, once.

So a hub with millions of neighbours costs its partition a link from each task, and a request from
each partition. When no partition has links to send, all links lead to the smallest node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming.distinct import distinct

if TYPE_CHECKING:
    from mr_dedup.clusters.components import Labels

Fingerprints = NDArray[np.uint64]
Partitions = NDArray[np.uint16]

MAX_PARTITIONS = 1 << 16
"""Partitions are numbered with 16 bits."""

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
class PartitionLinks:
    """The links of a partition: of its ``own`` nodes, ascending, and of ``others``.

    An own node that is the smallest of its component links to itself, so that none is lost.
    """

    own: Links
    others: Links

    @classmethod
    def of(cls, labels: Labels, partition: int, partitions: int) -> PartitionLinks:
        """Return the links of ``partition`` if its star forest is ``labels``."""
        own = partition_of(labels.nodes, partitions) == partition
        others = ~own & ~labels.roots
        return cls(
            Links(labels.nodes[own], labels.labels[own]),
            Links(labels.nodes[others], labels.labels[others]),
        )


@dataclass(frozen=True)
class Requests:
    """Requests for the links of ``nodes`` uint64[n], from partitions ``senders`` uint64[n]."""

    nodes: Fingerprints
    senders: Fingerprints


def partition_of(nodes: Fingerprints, partitions: int) -> Partitions:
    """Return the partition, below ``partitions``, of each of ``nodes`` uint64[n]: uint16[n].

    Raises ValueError for partitions that are not from 1 to MAX_PARTITIONS.
    """
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise ValueError(f"partitions must be from 1 to {MAX_PARTITIONS}, not {partitions}")
    mixed = (nodes ^ (nodes >> _33)) * _FIRST
    mixed = (mixed ^ (mixed >> _33)) * _SECOND
    return ((mixed >> _32) % np.uint64(partitions)).astype(np.uint16)


def partitioned(
    to: Partitions, *columns: Fingerprints
) -> Iterator[tuple[int, tuple[Fingerprints, ...]]]:
    """Yield each partition that occurs in ``to`` with its rows of ``columns``, in their order."""
    order = np.argsort(to, kind="stable")  # a radix sort, of so short numbers
    counts = np.bincount(to)
    ends = counts.cumsum()
    columns = tuple(column[order] for column in columns)
    for partition in np.flatnonzero(counts).tolist():
        rows = slice(ends[partition] - counts[partition], ends[partition])
        yield partition, tuple(column[rows] for column in columns)


def requests(labels: Labels, partitions: int) -> Requests:
    """Return the requests of all partitions that get the links of ``labels``, each once.

    A partition requests the link of every label of its nodes, except those that are its own.
    """
    senders = partition_of(labels.nodes, partitions)
    away = partition_of(labels.labels, partitions) != senders
    nodes, numbers = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for sender, (wanted,) in partitioned(senders[away], labels.labels[away]):
        nodes.append(distinct(wanted))
        numbers.append(np.full(nodes[-1].size, sender, np.uint64))
    return Requests(np.concatenate(nodes), np.concatenate(numbers))


def messages(
    links: PartitionLinks, requested: Requests, partitions: int
) -> tuple[Partitions, Links]:
    """Return the links that a partition sends to others, and the partition that each is for.

    To the partitions of ``links.others`` these links, to those that requested an own node's link
    that one, each once; a node that links to itself is not sent. All requested nodes are own ones.
    """
    own, others = links.own, links.others
    rows = np.searchsorted(own.nodes.view(np.int64), requested.nodes.view(np.int64))
    assert np.array_equal(own.nodes[rows], requested.nodes)
    leading = own.labels[rows] != requested.nodes
    base = np.uint64(MAX_PARTITIONS)
    numbers = distinct(rows[leading].astype(np.uint64) * base + requested.senders[leading])
    rows = (numbers // base).astype(np.intp)
    return (
        np.append(partition_of(others.nodes, partitions), (numbers % base).astype(np.uint16)),
        Links(np.append(others.nodes, own.nodes[rows]), np.append(others.labels, own.labels[rows])),
    )
