"""Clusters of fingerprints: the connected components of all pairs within k bits.

They are found in memory, or by jobs: the join job finds the pairs, rounds of the components job the
labels. The result is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.components import Labels, Ranks, components
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


StricterJoin = Callable[[Fingerprints, int], tuple[Fingerprints, Fingerprints] | None]
"""Returns the pairs of nodes by rules that are a number of steps stricter; None if there are none.

Each node is paired with itself too.
"""


class ClusterLimit(NamedTuple):
    """The size up to which a cluster is not split: the ``bytes`` of its different texts.

    A text counts as at least ``text_bytes``.
    """

    bytes: int
    text_bytes: int = 0


VERIFIED = ClusterLimit(4 << 30, 4 << 10)
"""Of clusters whose texts are compared: a million different texts.

By what 200,000 variants of a page took (111,618 kept, 16 s, 0.9 GB in a task), a million
similar ones take some 8 minutes and 1.5 GB. Sets of shingles are in a temporary file
where they are many.
"""

UNVERIFIED = ClusterLimit(64 << 20)
"""Of clusters of which all but one document are dropped without comparing texts.

The larger a cluster, the likelier it has pages that are similar by chance.
"""

_KNOWN_BYTES = 1 << 17
"""The size up to which all shingles of a text are stored; of longer ones a sample is."""


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


class Split(NamedTuple):
    """The numbers of clusters that were split, and of their documents."""

    clusters: int
    documents: int


def split_large(
    labels: Labels,
    values: Fingerprints,
    lengths: NDArray[np.int64],
    stricter: StricterJoin,
    limit: ClusterLimit = VERIFIED,
) -> tuple[Labels, Split]:
    """Return the labels of clusters of up to ``limit``, and how many clusters were split.

    In a larger cluster only the pairs count that ``stricter`` finds one step stricter, if that is
    not enough two steps, and so on; without stricter rules a cluster may stay larger. Documents in
    different parts of a split cluster are not compared, so near-duplicates may be kept.

    Args:
        labels: Those of clusters of any size.
        values: uint64[n], the fingerprints of all documents.
        lengths: int64[n], their texts in bytes. Texts of the same length and fingerprint are taken
            to be equal, as nearly all are.
        stricter: Finds pairs by stricter rules.
        limit: The largest size of a cluster.
    """
    lengths = np.maximum(lengths, limit.text_bytes)
    ranks = Ranks(labels.nodes).of(values)
    known = ranks >= 0
    sizes = np.bincount(ranks[known], lengths[known], len(labels))
    if not _large(labels.labels, sizes, limit.bytes)[0].any():
        return labels, Split(0, 0)
    # so far equal texts were counted repeatedly
    sizes = _text_bytes(ranks, lengths, len(labels))
    changed = labels.labels.copy()
    split = Split(0, 0)
    for step in itertools.count(1):
        large, clusters = _large(changed, sizes, limit.bytes)
        if not large.any():
            break
        members = np.flatnonzero(large[clusters])
        pairs = stricter(labels.nodes[members], step)
        if pairs is None:
            break
        # all nodes are in the pairs, so labels are aligned with them
        changed[members] = components(*pairs).labels
        if not split.clusters:
            split = Split(int(large.sum()), int(np.isin(ranks, members).sum()))
    if not split.clusters:
        return labels, split
    _, clusters = np.unique(changed, return_inverse=True)
    documents = np.bincount(clusters[ranks[known]], minlength=len(labels))
    several = documents[clusters] > 1
    return Labels(labels.nodes[several], changed[several]), split


def _large(
    labels: Fingerprints, sizes: NDArray[np.float64] | NDArray[np.int64], max_bytes: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which clusters of several nodes exceed ``max_bytes``, and the cluster of each node."""
    roots, clusters, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return (np.bincount(clusters, sizes, roots.size) > max_bytes) & (counts > 1), clusters


def _text_bytes(
    ranks: NDArray[np.int64], lengths: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Return the bytes of the different texts of each of ``count`` nodes; of rank -1 are none."""
    order = np.lexsort((lengths, ranks))
    order = order[np.searchsorted(ranks[order], 0) :]
    ranks, lengths = ranks[order], np.minimum(lengths[order], _KNOWN_BYTES)
    new = np.ones(order.size, bool)
    new[1:] = (ranks[1:] != ranks[:-1]) | (lengths[1:] != lengths[:-1])
    sizes = np.zeros(count, np.int64)
    np.add.at(sizes, ranks[new], lengths[new])
    return sizes


def _by_jobs(distinct: Fingerprints, k: int, engine: Engine) -> tuple[Labels, int]:
    """Return the labels of fingerprints that have neighbours, and how many pairs there are."""
    from mr_dedup.hamming.planner import plan_self, spread_sample
    from mr_dedup.pipeline.components import connect

    planned = plan_self(distinct.size, k, sample=spread_sample(distinct), partitioned=True)
    with (
        engine.stored(_tables(distinct, engine.tasks)) as fingerprints,
        engine.run(_job(planned), fingerprints) as output,
        engine.stored(output) as pairs,
    ):
        return connect(pairs, engine).labels, output.counters["pairs"]


def _job(planned: Plan) -> JoinJob:
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
