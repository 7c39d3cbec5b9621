"""Connected components whose labels stay where the tasks have written them."""

from __future__ import annotations

from collections.abc import Sequence

from mr_dedup.clusters.partitioned_components import MAX_PARTITIONS
from mr_dedup.jobs.components import ComponentsJob, unsettled_labels
from mr_dedup.pipeline.sharded_run import Left, ShardedRun

_PARTITION_BYTES = 32 << 20
"""Bytes of edges a partition: some 2 million, which take up to 200 MB to merge."""

_PARTITIONS_PER_TASK = 4
"""Partitions for each reduce task, so that tasks take about as long as one another."""


def connected(run: ShardedRun, edges: Sequence[Left], tasks: int) -> Left | None:
    """Return the labels of all nodes of edges: shards of partitions of nodes; None if no edges.

    Runs rounds of ComponentsJob until no label is unsettled, each over the labels of the one
    before; over few edges one round.
    """
    edges = [left for left in edges if left.rows]
    if not edges:
        return None
    partitions = 1
    if not run.is_small(edges):
        # 16 bytes an edge
        partitions = partitions_for(16 * sum(left.rows for left in edges), tasks)
    job = ComponentsJob(partitions=partitions)
    inputs: Sequence[Left] = edges
    number = 0
    while True:
        left = run.over_shards(job, f"labels-{number}", inputs)
        if inputs is not edges:
            run.remove(f"labels-{number - 1}")
        if not unsettled_labels(left.counters):
            return left
        inputs = [left]
        number += 1


def partitions_for(size_bytes: int, tasks: int) -> int:
    """Return the number of partitions: one, or enough to keep all reduce tasks busy.

    With one partition, where that is enough, there is one round.
    """
    if size_bytes <= _PARTITION_BYTES:
        return 1
    wanted = max(_PARTITIONS_PER_TASK * tasks, -(-size_bytes // _PARTITION_BYTES))
    return min(wanted, MAX_PARTITIONS)
