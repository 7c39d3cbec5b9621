"""Clusters of documents: the connected components of the candidate pairs of all methods.

Nodes are the fingerprints of documents, whatever the methods are, so documents with one fingerprint
are one node, and a cluster has the same label by all methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.components import Forest, Labels
from mr_dedup.clusters.splitting import VERIFIED, ClusterLimit, split_large
from mr_dedup.engines.engine import Engine
from mr_dedup.jobs.contract import Keyed
from mr_dedup.jobs.signatures import SignaturesJob
from mr_dedup.pipeline.fingerprint_clusters import Fingerprints, JoinSettings, cluster_fingerprints
from mr_dedup.pipeline.summary import ClusterSummary, FingerprintSummary
from mr_dedup.signatures.candidates import can_be_connected, count_oversized_keys, key_rows
from mr_dedup.signatures.linking import MAX_MEMBERS, MethodSignatures, StricterRules, edges
from mr_dedup.signatures.protocol import Signatures

_MAX_KEYS = 1 << 27
"""Keys up to which this process links documents, in some 3 s and, with signatures, 3 GB."""

_TASK_KEYS, _PARTITION_KEYS = 1 << 23, 1 << 22
"""Keys that a map task reads, 64 MB, and that a reducer sorts at a time."""


def cluster_documents(
    values: Fingerprints,
    lengths: NDArray[np.int64],
    k: int | None,
    signed: Callable[[], Iterator[MethodSignatures]],
    settings: JoinSettings,
    limit: ClusterLimit = VERIFIED,
) -> tuple[Labels, ClusterSummary]:
    """Return the clusters of documents by all methods, those of several documents, and counts.

    In memory: what ``cluster_fingerprints`` takes, 40 bytes a document, 100 MB of the keys of one
    method, and the pages of its signatures that the system leaves there.

    Args:
        values: uint64[n], the fingerprints of the documents.
        lengths: int64[n], the sizes of the texts in bytes.
        k: The largest distance of candidates; None without simhash.
        signed: Yields the signatures of each other method.
        settings: How pairs of fingerprints are found.
        limit: The size of a cluster above which it is split, as by ``split_large``.
    """
    nodes, repeated = _distinct(values)
    joined = Forest(nodes)
    counts: FingerprintSummary
    if k is not None:
        found = cluster_fingerprints(values, k, settings)
        joined.add(found.labels.nodes, found.labels.labels)
        counts = found.counts
    else:
        counts = {"distinct_fingerprints": nodes.size, "fingerprint_clusters": 0}
    links = oversized = 0
    for each in signed():
        oversized += _oversized_keys(each)
        if _is_for_jobs(each, settings):
            labels, found_links = _by_jobs(each, values, settings.engine)
            joined.add(labels.nodes, labels.labels)
            links += found_links
            continue
        for first, second in edges(each, each.method.min_shared_keys, settings.threads):
            joined.add(values[first], values[second])
            links += first.size
    labels = joined.labels()
    several = joined.connected() | repeated
    labels = Labels(nodes[several], labels.labels[several])
    del joined, nodes, repeated, several
    labels, split = split_large(
        labels, values, lengths, StricterRules(values, k, signed, settings.threads), limit
    )
    return labels, {
        **counts,
        "fingerprint_clusters": int(labels.roots.sum()),
        "shared_key_links": links,
        "oversized_keys": oversized,
        "clusters_split": split.clusters,
        "documents_in_split_clusters": split.documents,
    }


def _distinct(values: Fingerprints) -> tuple[Fingerprints, NDArray[np.bool_]]:
    """Return the different ``values`` uint64[n], ascending as signed numbers, and which repeat."""
    ordered = np.sort(values.view(np.int64))
    is_first = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    is_last = np.append(is_first[1:], True)[: ordered.size]
    return ordered[is_first].view(np.uint64), ~is_last[is_first]


def _is_for_jobs(signed: MethodSignatures, settings: JoinSettings) -> bool:
    """Return whether jobs link documents with equal keys; not if pairs need verification."""
    method, parts = signed.method, signed.parts
    if settings.join == "memory" or method.needs_verification:
        return False
    if not can_be_connected(parts, method.min_shared_keys):
        return False
    return settings.join == "tasks" or sum(part.keys.size for part in parts) > _MAX_KEYS


def _by_jobs(signed: MethodSignatures, values: Fingerprints, engine: Engine) -> tuple[Labels, int]:
    """Return the labels of documents that share enough keys with others, and how many links."""
    from mr_dedup.pipeline.components import connect

    method = signed.method
    keys = key_rows(signed.signatures, method.min_shared_keys)[0].size
    partitions = max(engine.tasks, keys // _PARTITION_KEYS)
    job = SignaturesJob(method=method.name, partitions=partitions)
    with (
        engine.stored(_tables(signed.signatures, values, engine.tasks)) as tables,
        engine.run(job, tables) as output,
        engine.stored(output) as found,
    ):
        return connect(found, engine).labels, output.counters["shared_key_links"]


def _tables(signatures: Signatures, values: Fingerprints, tasks: int) -> Iterator[Keyed]:
    """Yield nodes and keys under the number of the map task that reads them."""
    count = max(tasks, -(-signatures.keys.size // _TASK_KEYS))
    for number, rows in enumerate(np.array_split(np.arange(len(signatures)), count)):
        some = signatures.take(rows)
        lists = pa.LargeListArray.from_arrays(some.offsets, pa.array(some.keys))
        yield number, pa.table({"fingerprint": values[rows], "keys_0": lists})


def _oversized_keys(signed: MethodSignatures) -> int:
    """Return how many keys have more texts than are compared with one another."""
    method = signed.method
    if not method.needs_verification and can_be_connected(signed.parts, method.min_shared_keys):
        return 0
    return count_oversized_keys(signed.signatures, MAX_MEMBERS)
