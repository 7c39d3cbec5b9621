"""Connected components of graphs that are too large for one task: rounds of the components job."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np

from mr_dedup.clusters.components import Labels
from mr_dedup.clusters.partitioned_components import MAX_PARTITIONS
from mr_dedup.engines.engine import Dataset, Engine
from mr_dedup.jobs.components import ComponentsJob, edges_of, unsettled_labels

_PARTITION_BYTES = 32 << 20
"""Bytes of edges a partition: some 2 million, which take up to 200 MB to merge."""

_PARTITIONS_PER_TASK = 4
"""Partitions for each reduce task, so that tasks take about as long as one another."""


@dataclass(frozen=True)
class Connected:
    """The result of rounds.

    Attributes:
        labels: Those of all nodes.
        unsettled: How many labels were unsettled after each round; the last is 0.
    """

    labels: Labels
    unsettled: tuple[int, ...]


def connect(
    edges: Dataset,
    engine: Engine,
    partitions: int | None = None,
    partition_bytes: int = _PARTITION_BYTES,
) -> Connected:
    """Return the components of the graph with the given edges.

    Runs rounds of ComponentsJob until no label is unsettled: two or three for clusters of
    near-duplicates, about the logarithm of its length for a chain. The labels do not depend on the
    parts of ``edges``, on ``partitions``, or on the engine. In memory: 48 bytes a node.

    Args:
        edges: Tables whose first two columns, uint64, are the ends of edges; an edge of a node to
            itself adds the node.
        engine: What stores the edges, and runs the rounds.
        partitions: Of the nodes; by default by the size of ``edges``.
        partition_bytes: By default there is a partition for about so many bytes of edges.

    Raises:
        ValueError: For partitions that are out of range.
        MrDedupError: As Engine.run, and if the counters of a cluster could not be read.
    """
    if not edges.size_bytes:
        return Connected(Labels(*np.empty((2, 0), np.uint64)), ())
    if partitions is None:
        partitions = partitions_for(edges.size_bytes, engine.tasks, partition_bytes)
    job = ComponentsJob(partitions=partitions)
    unsettled: list[int] = []
    with contextlib.ExitStack() as rounds:
        while not unsettled or unsettled[-1]:
            with contextlib.ExitStack() as stack:
                output = stack.enter_context(engine.run(job, edges))
                edges = stack.enter_context(engine.stored(output))
                unsettled.append(unsettled_labels(output.counters))
                # the round before is not needed any more
                rounds.close()
                rounds.enter_context(stack.pop_all())
        return Connected(_read(edges), tuple(unsettled))


def partitions_for(size_bytes: int, tasks: int, partition_bytes: int = _PARTITION_BYTES) -> int:
    """Return the number of partitions: one, or enough to keep all reduce tasks busy.

    With one partition, where that is enough, there is one round.
    """
    if size_bytes <= partition_bytes:
        return 1
    wanted = max(_PARTITIONS_PER_TASK * tasks, -(-size_bytes // partition_bytes))
    return min(wanted, MAX_PARTITIONS)


def _read(tables: Dataset) -> Labels:
    """Return final labels, ascending by node."""
    columns = [edges_of(table) for _, table in tables.tables()]
    nodes, labels = map(np.concatenate, zip(*columns, strict=True))
    order = np.argsort(nodes.view(np.int64))
    return Labels(nodes[order], labels[order])
