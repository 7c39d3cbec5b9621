"""Connected components whose labels stay where the tasks have written them."""

from __future__ import annotations

from collections.abc import Sequence

from mr_dedup.jobs.components import ComponentsJob, unsettled_labels
from mr_dedup.pipeline.components import partitions_for
from mr_dedup.pipeline.sharded.run import Left, ShardedRun


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
