"""Clusters of documents: the connected components of the candidate pairs of all methods.

Nodes are the fingerprints of documents, whatever the methods are, so documents with one fingerprint
are one node, and a cluster has the same label by all methods.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.components import Labels, UnionFind
from mr_dedup.engines.engine import Engine
from mr_dedup.jobs.contract import Keyed
from mr_dedup.jobs.signatures import SignaturesJob
from mr_dedup.pipeline.fingerprint_clusters import (
    VERIFIED,
    ClusterLimit,
    Fingerprints,
    JoinSettings,
    cluster_fingerprints,
    split_large,
)
from mr_dedup.pipeline.summary import ClusterSummary, FingerprintSummary
from mr_dedup.signatures.candidates import (
    can_be_connected,
    candidates,
    connecting_edges,
    count_oversized_keys,
    key_rows,
    match,
    matches,
    max_keys,
)
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

MAX_MEMBERS = 1 << 12
"""Texts of one key up to which all are compared with one another; more are cut into slices."""


_MAX_KEYS = 1 << 27
"""Keys up to which this process links documents, in some 3 s and, with signatures, 3 GB."""

_TASK_KEYS, _PARTITION_KEYS = 1 << 23, 1 << 22
"""Keys that a map task reads, 64 MB, and that a reducer sorts at a time."""


@dataclass(frozen=True)
class MethodSignatures:
    """The signatures of all documents by one method, in parts, one at least, in their order."""

    method: SignatureMethod
    parts: Sequence[Signatures]

    @functools.cached_property
    def signatures(self) -> Signatures:
        """The parts joined; a copy, if there are several."""
        return Signatures.joined(self.parts)


def cluster_documents(
    values: Fingerprints,
    lengths: NDArray[np.int64],
    k: int | None,
    signed: Callable[[], Iterator[MethodSignatures]],
    settings: JoinSettings,
    limit: ClusterLimit = VERIFIED,
) -> tuple[Labels, ClusterSummary]:
    """Return the clusters of documents by all methods, those of several documents, and counts.

    In memory: what ``cluster_fingerprints`` takes, the signatures of one method, and 110 bytes a
    clustered document.

    Args:
        values: uint64[n], the fingerprints of the documents.
        lengths: int64[n], the sizes of the texts in bytes.
        k: The largest distance of candidates; None without simhash.
        signed: Yields the signatures of each other method.
        settings: How pairs of fingerprints are found.
        limit: The size of a cluster above which it is split, as by ``split_large``.
    """
    joined = UnionFind()
    counts: FingerprintSummary
    if k is not None:
        found = cluster_fingerprints(values, k, settings)
        joined.add(found.labels.nodes, found.labels.labels)
        counts = found.counts
    else:
        ordered = np.sort(values)
        new = np.ones(ordered.size, bool)
        np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
        joined.add(ordered[~new], ordered[~new])
        counts = {"distinct_fingerprints": int(new.sum()), "fingerprint_clusters": 0}
    links = oversized = 0
    for each in signed():
        oversized += _oversized_keys(each)
        if _is_for_jobs(each, settings):
            labels, found_links = _by_jobs(each, values, settings.engine)
            joined.add(labels.nodes, labels.labels)
            links += found_links
            continue
        for first, second in _edges(each, each.method.min_shared_keys, settings.threads):
            joined.add(values[first], values[second])
            links += first.size
    labels = joined.labels()
    labels, split = split_large(
        labels, values, lengths, _StricterJoin(values, k, signed, settings.threads), limit
    )
    return labels, {
        **counts,
        "fingerprint_clusters": int(labels.roots.sum()),
        "shared_key_links": links,
        "oversized_keys": oversized,
        "clusters_split": split.clusters,
        "documents_in_split_clusters": split.documents,
    }


def method_names(
    names: Sequence[str],
    distances: NDArray[np.uint8],
    k: int | None,
    signed: Callable[[], Iterator[MethodSignatures]],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> pa.StringArray:
    """Return the methods by which first[m] and second[m] are candidates; null for none."""
    rules = [] if k is None else [distances <= k]
    rules += [match(each.method, each.signatures, first, second) for each in signed()]
    indices = np.zeros(first.size, np.int64)
    texts = [""]
    for name, rule in zip(names, rules, strict=True):
        # combinations of the methods so far, without and with this one
        texts += [f"{text}; {name}" if text else name for text in texts]
        indices[rule] += len(texts) // 2
        used, indices = np.unique(indices, return_inverse=True)
        texts = [texts[index] for index in used.tolist()]
    return pa.array([text or None for text in texts], pa.string()).take(pa.array(indices))


class _StricterJoin:
    """A ``StricterJoin``: fewer bits and more shared keys than the methods."""

    def __init__(
        self,
        values: Fingerprints,
        k: int | None,
        signed: Callable[[], Iterator[MethodSignatures]],
        threads: int,
    ) -> None:
        self._values = values
        self._k = k
        self._signed = signed
        self._threads = threads

    def __call__(self, nodes: Fingerprints, step: int) -> tuple[Fingerprints, Fingerprints] | None:
        """Return pairs of ``nodes`` by rules ``step`` steps stricter; None if there are none."""
        left, right = [nodes], [nodes]
        any_rule = False
        if self._k is not None and self._k >= step:
            any_rule = True
            from mr_dedup.hamming.self_join import self_join

            pairs = self_join(nodes, self._k - step)
            left.append(pairs.left)
            right.append(pairs.right)
        rows = None
        for each in self._signed():
            min_shared_keys = each.method.min_shared_keys + step
            if max_keys(each.parts) < min_shared_keys:
                continue
            any_rule = True
            if rows is None:
                rows = np.flatnonzero(np.isin(self._values, nodes))
            some = MethodSignatures(each.method, [each.signatures.take(rows)])
            for first, second in _edges(some, min_shared_keys, self._threads):
                left.append(self._values[rows[first]])
                right.append(self._values[rows[second]])
        return (np.concatenate(left), np.concatenate(right)) if any_rule else None


def _edges(
    signed: MethodSignatures, min_shared_keys: int, threads: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs of texts that connect all that share enough keys and pass the check."""
    method = signed.method
    if method.needs_verification:
        found = matches(method, signed.signatures, min_shared_keys, MAX_MEMBERS)
        yield from ((first, second) for first, second, _ in found)
    elif can_be_connected(signed.parts, min_shared_keys):
        yield from connecting_edges(signed.parts, min_shared_keys, threads=threads)
    else:
        yield from candidates(signed.signatures, min_shared_keys, MAX_MEMBERS)


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

    minimum = signed.method.min_shared_keys
    keys = key_rows(signed.signatures, minimum)[0].size
    partitions = max(engine.tasks, keys // _PARTITION_KEYS)
    job = SignaturesJob(min_shared_keys=minimum, partitions=partitions)
    with (
        engine.stored(_tables(signed.signatures, values, engine.tasks)) as tables,
        engine.run(job, tables) as output,
        engine.stored(output) as edges,
    ):
        return connect(edges, engine).labels, output.counters["shared_key_links"]


def _tables(signatures: Signatures, values: Fingerprints, tasks: int) -> Iterator[Keyed]:
    """Yield nodes and keys under the number of the map task that reads them."""
    count = max(tasks, -(-signatures.keys.size // _TASK_KEYS))
    for number, rows in enumerate(np.array_split(np.arange(len(signatures)), count)):
        some = signatures.take(rows)
        lists = pa.LargeListArray.from_arrays(some.offsets, pa.array(some.keys))
        yield number, pa.table({"node": values[rows], "keys": lists})


def _oversized_keys(signed: MethodSignatures) -> int:
    """Return how many keys have more texts than are compared with one another."""
    method = signed.method
    if not method.needs_verification and can_be_connected(signed.parts, method.min_shared_keys):
        return 0
    return count_oversized_keys(signed.signatures, MAX_MEMBERS)
