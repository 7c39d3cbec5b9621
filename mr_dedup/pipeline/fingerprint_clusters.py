"""Clusters of fingerprints: which ones chains of pairs within k bits join.

By one process, or spread over tasks: the join job finds the pairs, rounds of the components job
their labels. The result is the same; what differs is how long it takes, and whose memory.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.clusters.components import Labels, Ranks, components
from mr_dedup.engines.engine import JobOutput
from mr_dedup.engines.streaming import CLUSTER_RUNNERS, ClusterSettings, Input
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.formats import longs
from mr_dedup.jobs.batches import BatchProtocol, Kind, encode_columns

# what joins fingerprints is imported where they are joined: not all methods have them joined
if TYPE_CHECKING:
    from mr_dedup.hamming.planner import Plan
    from mr_dedup.jobs.join import JoinJob

Fingerprints = NDArray[np.uint64]

_PATIENCE_SECONDS = 60
"""Up to which nothing is sent about; 10 million fingerprints at k = 10 take 38 s by the plan."""

_TASKS_OF_CLUSTER = 16
"""Tasks that a cluster is taken to run at a time if nobody says how many."""

_FILE_FINGERPRINTS = 1 << 23
"""Fingerprints a map task reads, at most: 64 MB."""


@dataclass(frozen=True)
class JoinEngine:
    """What jobs over fingerprints run on, as ``streaming.run`` takes it.

    ``join`` says who finds pairs: ``memory`` for this process, ``tasks``, or ``auto`` for what
    takes less time.
    """

    runner: str
    staging: Path
    cores: int | None = None
    cluster: ClusterSettings | None = None
    join: str = "auto"

    @property
    def threads(self) -> int:
        """How many threads of this process may work at a time."""
        return self.cores or len(os.sched_getaffinity(0))

    @property
    def tasks(self) -> int:
        """How many tasks it is taken to run at a time."""
        if self.runner == "inline":
            return 1
        if self.runner in CLUSTER_RUNNERS:
            return (self.cluster and self.cluster.reducers) or _TASKS_OF_CLUSTER
        return self.threads

    def spreads(self, size: int, k: int, sample: Fingerprints) -> bool:
        """Return whether tasks find the pairs of so many distinct fingerprints."""
        if self.join != "auto":
            return self.join == "tasks"
        from mr_dedup.hamming.planner import plan_self

        here = plan_self(size, k, sample=sample).chosen.nanoseconds
        if here <= _PATIENCE_SECONDS * 1e9:
            return False
        spread = plan_self(size, k, sample=sample, partitioned=True).chosen.nanoseconds
        return spread / self.tasks < here


Stricter = Callable[[Fingerprints, int], tuple[Fingerprints, Fingerprints] | None]
"""Returns pairs of some nodes by rules so many steps stricter, with each and itself among them.

None if there are no such rules.
"""


class ClusterLimit(NamedTuple):
    """How large a cluster may be before it is split: ``bytes`` of different texts together.

    A text counts as at least ``text_bytes``.
    """

    bytes: int
    text_bytes: int = 0


VERIFIED = ClusterLimit(4 << 30, 4 << 10)
"""Of clusters whose texts are compared: a million different texts.

By what 200,000 variants of a page took (111,618 keepers, 16 s, 0.9 GB in a task), a million
similar ones take some 8 minutes and 1.5 GB. Sets of shingles are in a temporary file
where they are many.
"""

UNVERIFIED = ClusterLimit(64 << 20)
"""Of clusters of which all but one document are dropped, whatever their texts are.

The larger one is, the likelier pages are in it that are near by chance alone.
"""

_KNOWN_BYTES = 1 << 17
"""Bytes up to which a text is held whole; of longer ones there is a sample of their shingles."""


@dataclass(frozen=True)
class FingerprintClusters:
    """The labels of the fingerprints that occur more than once or have neighbours, and counts."""

    labels: Labels
    distinct: int
    pairs: int

    @property
    def counts(self) -> dict[str, Any]:
        """What a summary says of them."""
        return {
            "distinct fingerprints": self.distinct,
            "pairs of fingerprints": self.pairs,
            "clusters of fingerprints": int(self.labels.roots.sum()),
        }


def cluster_fingerprints(values: Fingerprints, k: int, engine: JoinEngine) -> FingerprintClusters:
    """Return the clusters of fingerprints within ``k`` bits of one another, uint64[n], repeated.

    In memory 32 bytes a fingerprint, and 60 a pair, or where tasks find these, 36 a clustered
    fingerprint. Raises MrDedupError as ``streaming.run``, and for a ``k`` that matches too much.
    """
    from mr_dedup.hamming.planner import spread_sample
    from mr_dedup.hamming.self_join import self_join

    ordered = np.sort(values)
    new = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    distinct, repeated = ordered[new], np.unique(ordered[~new])
    del ordered
    if engine.spreads(distinct.size, k, spread_sample(distinct)):
        labels, pairs = _by_tasks(distinct, k, engine)
        labels = _with_single(labels, repeated)
    else:
        found = self_join(distinct, k)
        pairs = len(found)
        labels = components(
            np.concatenate([found.left, repeated]), np.concatenate([found.right, repeated])
        )
    return FingerprintClusters(labels, int(distinct.size), pairs)


class Split(NamedTuple):
    """How many clusters were split, and how many documents these have."""

    clusters: int
    documents: int


def split_large(
    labels: Labels,
    values: Fingerprints,
    lengths: NDArray[np.int64],
    stricter: Stricter,
    limit: ClusterLimit = VERIFIED,
) -> tuple[Labels, Split]:
    """Return labels of clusters of up to ``limit``, and what was split for it.

    ``values`` uint64[n] and ``lengths`` int64[n], in bytes, are those of all documents; of two with
    the same fingerprint and length the texts are taken to be equal, as nearly all are. Of a larger
    cluster only pairs count that ``stricter`` finds one step stricter, of what is too large then
    only those two steps, and so on; where there are no stricter rules it may stay larger.

    Documents of a cluster that was split are compared within the parts only, so near-duplicates may
    be kept.
    """
    lengths = np.maximum(lengths, limit.text_bytes)
    places = Ranks(labels.nodes).of(values)
    known = places >= 0
    sizes = np.bincount(places[known], lengths[known], len(labels))
    if not _large(labels.labels, sizes, limit.bytes)[0].any():
        return labels, Split(0, 0)
    # of all texts, equal ones too, it was more
    sizes = _text_bytes(places, lengths, len(labels))
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
        # each is there, with itself, in the order of nodes
        changed[members] = components(*pairs).labels
        if not split.clusters:
            split = Split(int(large.sum()), int(np.isin(places, members).sum()))
    if not split.clusters:
        return labels, split
    _, clusters = np.unique(changed, return_inverse=True)
    documents = np.bincount(clusters[places[known]], minlength=len(labels))
    several = documents[clusters] > 1
    return Labels(labels.nodes[several], changed[several]), split


def _large(
    labels: Fingerprints, sizes: NDArray[np.float64] | NDArray[np.int64], most_bytes: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which clusters of several nodes, of these sizes, are too large; and each node's."""
    roots, clusters, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return (np.bincount(clusters, sizes, roots.size) > most_bytes) & (counts > 1), clusters


def _text_bytes(
    places: NDArray[np.int64], lengths: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Return how many bytes the different texts at each of ``count`` places have."""
    order = np.lexsort((lengths, places))
    order = order[np.searchsorted(places[order], 0) :]
    places, lengths = places[order], np.minimum(lengths[order], _KNOWN_BYTES)
    new = np.ones(order.size, bool)
    new[1:] = (places[1:] != places[:-1]) | (lengths[1:] != lengths[:-1])
    sizes = np.zeros(count, np.int64)
    np.add.at(sizes, places[new], lengths[new])
    return sizes


def _by_tasks(distinct: Fingerprints, k: int, engine: JoinEngine) -> tuple[Labels, int]:
    """Return the labels of fingerprints that have neighbours, and how many pairs there are."""
    from mr_dedup.hamming.planner import plan_self, spread_sample
    from mr_dedup.pipeline.components import connect

    folder = engine.staging / "join"
    folder.mkdir()
    planned = plan_self(distinct.size, k, sample=spread_sample(distinct), partitioned=True)
    join = StreamingEngine(engine.runner, folder, engine.cores, engine.cluster)
    with join.run(_job(planned), _written(distinct, folder, engine.tasks)) as found:
        parts, pairs = _pair_files(found, folder, engine.tasks)
    if not pairs:
        return components(*np.empty((2, 0), np.uint64)), 0
    connected = connect(
        parts, engine.staging,
        runner=engine.runner, cores=engine.cores, cluster=engine.cluster,
    )  # fmt: skip
    return connected.read(), pairs


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


def _pair_files(found: JobOutput, folder: Path, tasks: int) -> tuple[list[Path], int]:
    """Write the pairs that a job left to files, one a map task; return them, and their number."""
    paths = [folder / f"pairs-{number:06}" for number in range(tasks)]
    count = 0
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for number, (key, table) in enumerate(found):
            count += len(table)
            columns = [table[name].to_numpy() for name in ("left", "right")]
            for batch in encode_columns(Kind.MATCHES, columns):
                files[number % tasks].write(BatchProtocol().write(key, batch) + b"\n")
    return [path for path in paths if path.stat().st_size], count


def _written(distinct: Fingerprints, folder: Path, tasks: int) -> Sequence[Input]:
    """Return files of longs, one a map task."""
    size = min(_FILE_FINGERPRINTS, max(1, -(-distinct.size // tasks)))
    inputs = []
    for number, start in enumerate(range(0, max(1, distinct.size), size)):
        path = folder / f"fingerprints-{number:06}.longs"
        with path.open("wb") as file:
            longs.write(file, distinct[start : start + size])
        inputs.append(Input.file(path))
    return inputs


def _with_single(labels: Labels, nodes: Fingerprints) -> Labels:
    """Return labels with those of more nodes, which have no neighbours if they are not there."""
    more = nodes[~np.isin(nodes, labels.nodes)]
    joined = np.concatenate([labels.nodes, more])
    order = np.argsort(joined.view(np.int64))
    return Labels(joined[order], np.concatenate([labels.labels, more])[order])
