"""The components job: edges between fingerprints to labels, the smallest of their components.

One run is one round of clusters/partitioned_components.py. A map task reads edges, or the labels of
an earlier round, and replaces them by a forest: each node links to the smallest that the task has
seen in its component. A first reduce step merges the links of each partition of nodes, and sends
links to other partitions; a second merges what was sent. Where nothing was sent, by the counter of
unsettled labels, the labels are final; otherwise the result goes through another round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.components import UnionFind
from mr_dedup.clusters.partitioned_components import (
    MAX_PARTITIONS,
    Links,
    PartitionLinks,
    Partitions,
    Requests,
    messages,
    partition_of,
    partitioned,
    requests,
)
from mr_dedup.errors import MrDedupError
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, Reduce, TaskInput

Fingerprints = NDArray[np.uint64]
Edges = tuple[Fingerprints, Fingerprints]

EDGES = "edges"
"""The counter of edges that were read."""

UNSETTLED = "unsettled_labels"
"""The counter of links that partitions sent to one another: where it is 0 the labels are final."""


class ComponentsJob(Job, frozen=True, kw_only=True):
    """One round: tables with columns node and label, uint64; each node once if labels are final.

    Counts the ``edges`` read, the ``unsettled_labels``, and the ``nodes`` and ``components`` found,
    which are too many as long as labels are unsettled.

    Inputs are tables whose first two columns, uint64, are the ends of edges.

    Attributes:
        partitions: Of the nodes; each is a key of the reduce steps.
        max_buffered_links: Links to other partitions that a reduce task has in memory before it
            sends them, 18 bytes each.
    """

    partitions: int = 16
    max_buffered_links: int = 1 << 20

    def __post_init__(self) -> None:
        """Raise ValueError for a number of partitions that is out of range."""
        if not 1 <= self.partitions <= MAX_PARTITIONS:
            raise ValueError(
                f"--partitions must be from 1 to {MAX_PARTITIONS}, not {self.partitions}"
            )

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the forest of one input, and the requests that arise from it; by partition.

        In memory: the forest; see UnionFind.
        """
        forest = UnionFind()
        for _, table in part.keyed_tables():
            left, right = edges_of(table)
            forest.add(left, right)
            counters[EDGES] += left.size
        labels = forest.labels()
        requested = requests(labels, self.partitions)
        yield from self._by_partition(labels.nodes, "label", labels.labels)
        yield from self._by_partition(requested.nodes, "sender", requested.senders)

    def max_keys(self) -> Sequence[int | None]:
        """Return the number of keys of each reduce step."""
        return [self.partitions, self.partitions]

    def reduces(self) -> Sequence[Reduce]:
        """Return the step that sends links, and that which merges them."""
        return [self.send_links, self.merge_links]

    def send_links(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the merged links of each partition, and its messages to others.

        In memory: a forest of the links of a partition, the requests for its nodes, one a node and
        sender of each map task, and ``max_buffered_links``.
        """
        buffered: list[tuple[Partitions, Links]] = []
        size = 0
        for key, tables in groups:
            links, requested = self._links_and_requests(key, tables)
            yield from _link_tables(key, links)
            buffered.append(messages(links, requested, self.partitions))
            size += len(buffered[-1][1])
            counters[UNSETTLED] += len(buffered[-1][1])
            if size >= self.max_buffered_links:
                yield from _sent(buffered)
                buffered, size = [], 0
        yield from _sent(buffered)

    def merge_links(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the labels of the nodes of each partition, and new links of nodes of others."""
        for key, tables in groups:
            forest = UnionFind()
            for table in tables:
                forest.add(*edges_of(table))
            links = PartitionLinks.of(forest.labels(), key, self.partitions)
            counters["nodes"] += len(links.own)
            counters["components"] += int(np.count_nonzero(links.own.nodes == links.own.labels))
            yield from _link_tables(key, links)

    def _by_partition(
        self, nodes: Fingerprints, name: str, values: Fingerprints
    ) -> Iterator[Keyed]:
        """Yield tables of nodes and values, each under the partition of its nodes."""
        for key, columns in partitioned(partition_of(nodes, self.partitions), nodes, values):
            yield key, pa.table(dict(zip(("node", name), columns, strict=True)))

    def _links_and_requests(
        self, key: int, tables: Iterator[pa.Table]
    ) -> tuple[PartitionLinks, Requests]:
        forest, requested = UnionFind(), [np.empty((2, 0), np.uint64)]
        for table in tables:
            if "sender" in table.column_names:
                requested.append(np.stack(edges_of(table)))
            else:
                forest.add(*edges_of(table))
        links = PartitionLinks.of(forest.labels(), key, self.partitions)
        return links, Requests(*np.concatenate(requested, axis=1))


def unsettled_labels(counters: Mapping[str, int]) -> int:
    """Return how many labels a round left unsettled, by its counters.

    Raises:
        MrDedupError: If the counters could not be read, as happens on clusters.
    """
    if EDGES not in counters:
        raise MrDedupError(
            "the counters of the job were not read, and only they show whether labels are final"
        )
    return counters.get(UNSETTLED, 0)


def edges_of(table: pa.Table) -> Edges:
    """Return the first two columns of a table, uint64[n] each."""
    return table.column(0).to_numpy(), table.column(1).to_numpy()


def _link_tables(key: int, links: PartitionLinks) -> Iterator[Keyed]:
    """Yield the links of a partition, its own nodes' first."""
    for some in (links.own, links.others):
        if len(some):
            yield key, pa.table({"node": some.nodes, "label": some.labels})


def _sent(buffered: Sequence[tuple[Partitions, Links]]) -> Iterator[Keyed]:
    """Yield links under the partitions that they are sent to."""
    if not buffered:
        return
    to = np.concatenate([to for to, _ in buffered])
    nodes = np.concatenate([links.nodes for _, links in buffered])
    labels = np.concatenate([links.labels for _, links in buffered])
    for key, columns in partitioned(to, nodes, labels):
        yield key, pa.table(dict(zip(("node", "label"), columns, strict=True)))
