"""Clusters of fingerprints: the connected components of all pairs within k bits.

They are found in memory, or by jobs: the join job finds the pairs, rounds of the components job the
labels. The result is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.components import Labels, components
from mr_dedup.engines.engine import Engine
from mr_dedup.engines.resources import core_count
from mr_dedup.jobs.contract import Keyed
from mr_dedup.pipeline.summary import FingerprintSummary

# imported where fingerprints are joined, as only simhash needs it
if TYPE_CHECKING:
    from mr_dedup.hamming.planner import Plan
    from mr_dedup.jobs.join import JoinJob

Fingerprints = NDArray[np.uint64]

_MAX_LOCAL_SECONDS = 60
"""The planned time up to which no job is run; 10 million fingerprints at k = 10 take 38 s."""

_TASK_FINGERPRINTS = 1 << 23
"""Fingerprints a map task reads, at most: 64 MB."""

_TABLE_FINGERPRINTS = 1 << 21
"""Fingerprints of one table: those that a task scatters at a time."""


@dataclass(frozen=True)
class JoinSettings:
    """How pairs of fingerprints are found.

    Attributes:
        engine: What runs jobs.
        join: ``tasks`` for jobs, ``memory`` for one thread of this process, or ``auto`` for what
            takes less time.
        cores: Threads of this process at a time; by default all that it may use.
    """

    engine: Engine
    join: str = "auto"
    cores: int | None = None

    @property
    def threads(self) -> int:
        """The number of threads of this process."""
        return core_count(self.cores)

    def by_jobs(self, size: int, k: int, sample: Fingerprints) -> bool:
        """Return whether jobs find the pairs of so many distinct fingerprints."""
        if self.join != "auto":
            return self.join == "tasks"
        from mr_dedup.hamming.planner import plan_self

        here = plan_self(size, k, sample=sample).chosen.nanoseconds
        if here <= _MAX_LOCAL_SECONDS * 1e9:
            return False
        spread = plan_self(size, k, sample=sample, partitioned=True).chosen.nanoseconds
        return spread / self.engine.tasks < here


@dataclass(frozen=True)
class FingerprintClusters:
    """The labels of the fingerprints that occur more than once or have neighbours, and counts."""

    labels: Labels
    distinct: int
    pairs: int

    @property
    def counts(self) -> FingerprintSummary:
        """What a summary says of them."""
        return {
            "distinct_fingerprints": self.distinct,
            "fingerprint_pairs": self.pairs,
            "fingerprint_clusters": int(self.labels.roots.sum()),
        }


def cluster_fingerprints(
    values: Fingerprints, k: int, settings: JoinSettings
) -> FingerprintClusters:
    """Return the clusters of fingerprints uint64[n], which may repeat, by pairs within ``k`` bits.

    In memory 32 bytes a fingerprint, and 60 a pair, or where tasks find these, 36 a clustered
    fingerprint. Raises MrDedupError if a task fails, and for a ``k`` that matches too much.
    """
    from mr_dedup.hamming.planner import spread_sample
    from mr_dedup.hamming.self_join import self_join

    ordered = np.sort(values)
    new = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    distinct, repeated = ordered[new], np.unique(ordered[~new])
    del ordered
    if settings.by_jobs(distinct.size, k, spread_sample(distinct)):
        labels, pairs = _by_jobs(distinct, k, settings.engine)
        labels = _with_single(labels, repeated)
    else:
        found = self_join(distinct, k)
        pairs = len(found)
        labels = components(
            np.concatenate([found.left, repeated]), np.concatenate([found.right, repeated])
        )
    return FingerprintClusters(labels, int(distinct.size), pairs)


def _by_jobs(distinct: Fingerprints, k: int, engine: Engine) -> tuple[Labels, int]:
    """Return the labels of fingerprints that have neighbours, and how many pairs there are."""
    from mr_dedup.hamming.planner import plan_self, spread_sample
    from mr_dedup.pipeline.components import connect

    planned = plan_self(distinct.size, k, sample=spread_sample(distinct), partitioned=True)
    with (
        engine.stored(_tables(distinct, engine.tasks)) as fingerprints,
        engine.run(join_job(planned), fingerprints) as output,
        engine.stored(output) as pairs,
    ):
        return connect(pairs, engine).labels, output.counters["pairs"]


def join_job(planned: Plan) -> JoinJob:
    """Return the job by a plan; raises MrDedupError for endless work."""
    from mr_dedup.hamming.planner import DEFAULT_MEMORY_BYTES, parts_for
    from mr_dedup.jobs.join import JoinJob

    size = max(1, planned.corpus_size)
    job = JoinJob(
        k=planned.k,
        design=planned.chosen.design.name,
        bit_order=str(planned.chosen.order),
        expected=size,
        partitions=parts_for(planned.corpus_size, DEFAULT_MEMORY_BYTES),
        ordered=False,
    )
    planned.refuse_explosion(tasks=job.partition_count)
    return job


def _tables(distinct: Fingerprints, tasks: int) -> Iterator[Keyed]:
    """Yield fingerprints under the number of the map task that reads them."""
    size = min(_TASK_FINGERPRINTS, max(1, -(-distinct.size // tasks)))
    for start in range(0, distinct.size, size):
        of_task = distinct[start : start + size]
        for first in range(0, of_task.size, _TABLE_FINGERPRINTS):
            part = of_task[first : first + _TABLE_FINGERPRINTS]
            yield start // size, pa.table({"fingerprint": part})


def _with_single(labels: Labels, nodes: Fingerprints) -> Labels:
    """Return labels with more nodes; those that are new have no neighbours."""
    more = nodes[~np.isin(nodes, labels.nodes)]
    joined = np.concatenate([labels.nodes, more])
    order = np.argsort(joined.view(np.int64))
    return Labels(joined[order], np.concatenate([labels.labels, more])[order])
