"""Split clusters that are too large for one task, by stricter rules for pairs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.clusters.components import Labels, Ranks

Fingerprints = NDArray[np.uint64]

StricterJoin = Callable[[Fingerprints, int], Labels | None]
"""Returns the labels of nodes by rules that are a number of steps stricter; None without rules."""


class ClusterLimit(NamedTuple):
    """The size up to which a cluster is not split: the ``bytes`` of its different texts.

    A text counts as at least ``text_bytes``. Small parts of a split cluster are ``joined`` again,
    up to the limit: not where all but one document of each are dropped without comparing them.
    """

    bytes: int
    text_bytes: int = 0
    joined: bool = False


VERIFIED = ClusterLimit(4 << 30, 4 << 10, joined=True)
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
    not enough two steps, and so on. Without stricter rules a cluster may stay larger, unless parts
    are joined: then each of its nodes is a part. Documents in different parts of a split cluster
    are not compared, so near-duplicates may be kept: of n copies of a template with other data at
    most one for each part that the joined ones make.

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
        found = stricter(labels.nodes[members], step)
        if found is None and not limit.joined:
            break
        changed[members] = labels.nodes[members] if found is None else found.labels
        if not split.clusters:
            split = Split(int(large.sum()), int(np.isin(ranks, members).sum()))
        if found is None:
            break
    if not split.clusters:
        return labels, split
    if limit.joined:
        changed = _joined(labels, changed, sizes, limit.bytes)
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


def _joined(
    labels: Labels, parts: Fingerprints, sizes: NDArray[np.int64], max_bytes: int
) -> Fingerprints:
    """Return the labels ``parts`` of nodes after parts of one cluster were joined to larger ones.

    Those of up to half of ``max_bytes``, in the order of their labels, as long as these ranges of
    half as much last in which they end: none gets more than ``max_bytes``.
    """
    roots, inverse = np.unique(parts.view(np.int64), return_inverse=True)
    of_parts = np.bincount(inverse, sizes, roots.size).astype(np.int64)
    clusters = np.zeros(roots.size, np.int64)
    clusters[inverse] = labels.labels.view(np.int64)
    small = np.flatnonzero(of_parts <= max_bytes // 2)
    small = small[np.argsort(clusters[small], kind="stable")]
    first = np.append(True, clusters[small][1:] != clusters[small][:-1])[: small.size]
    before = np.cumsum(of_parts[small]) - of_parts[small]
    ends = before + of_parts[small] - np.maximum.accumulate(np.where(first, before, 0))
    ranges = (ends - 1) // max(1, max_bytes // 2)
    first[1:] |= ranges[1:] != ranges[:-1]
    # of each range the first part has the smallest label
    joined = roots.copy()
    joined[small] = roots[small[np.maximum.accumulate(np.where(first, np.arange(small.size), 0))]]
    return joined[inverse].view(np.uint64)


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
