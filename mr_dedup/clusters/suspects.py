"""Clusters and sources that a user should look at: what was dropped may not be duplicates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MIN_DOCUMENTS = 20
"""Documents of a cluster, or of a source, from which on it is looked at."""

MAX_TEMPLATE_SIMILARITY = 0.95
"""Mean similarity of dropped documents below which a large cluster looks like a template."""

LISTED = 20
"""How many clusters, and how many sources, are listed."""

TEMPLATES = pa.schema(
    [
        pa.field("cluster", pa.int64()),
        pa.field("host", pa.large_string()),
        pa.field("documents", pa.int64()),
        pa.field("documents_kept", pa.int64()),
        pa.field("mean_similarity", pa.float64()),
    ]
)
"""The columns of clusters that look like templates."""

SOURCES = pa.schema(
    [
        pa.field("field", pa.string()),
        pa.field("value", pa.large_string()),
        pa.field("documents", pa.int64()),
        pa.field("dropped", pa.int64()),
    ]
)
"""The columns of sources that lose most of their documents."""


@dataclass(frozen=True)
class ClusterMembers:
    """n documents of whole clusters, in any order.

    Attributes:
        clusters: int64[n].
        hosts: The hosts of their ids; null for an id that is not a URL.
        is_kept: bool[n].
        similarities: float64[n], of dropped documents to the kept ones; else NaN.
    """

    clusters: NDArray[np.int64]
    hosts: pa.LargeStringArray
    is_kept: NDArray[np.bool_]
    similarities: NDArray[np.float64]


def template_clusters(members: ClusterMembers) -> pa.Table:
    """Return the clusters that look like pages of one template with other data, as TEMPLATES.

    They have at least MIN_DOCUMENTS documents, all of one host, and the mean similarity of those
    that are dropped is below MAX_TEMPLATE_SIMILARITY: they are neither copies nor recrawls. In
    the order of ``largest``.
    """
    values, inverse, sizes = np.unique(members.clusters, return_inverse=True, return_counts=True)
    encoded = members.hosts.dictionary_encode()
    hosts = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    lowest = np.full(values.size, np.iinfo(np.int64).max)
    highest = np.full(values.size, -1)
    np.minimum.at(lowest, inverse, hosts)
    np.maximum.at(highest, inverse, hosts)
    compared = ~np.isnan(members.similarities)
    counts = np.bincount(inverse[compared], minlength=values.size)
    sums = np.bincount(inverse[compared], members.similarities[compared], minlength=values.size)
    means = np.divide(sums, counts, out=np.full(values.size, np.nan), where=counts > 0)
    found = np.flatnonzero(
        (sizes >= MIN_DOCUMENTS)
        & (lowest == highest)
        & (lowest >= 0)
        & (means < MAX_TEMPLATE_SIMILARITY)
    )
    kept = np.bincount(inverse, members.is_kept, minlength=values.size).astype(np.int64)
    columns = [
        values[found],
        encoded.dictionary.take(pa.array(lowest[found])),
        sizes[found],
        kept[found],
        np.round(means[found], 4),
    ]
    return largest(pa.table(columns, names=TEMPLATES.names).cast(TEMPLATES))


def largest(templates: pa.Table) -> pa.Table:
    """Return clusters as TEMPLATES, those of most documents first, then by their numbers."""
    keys = [("documents", "descending"), ("cluster", "ascending")]
    return templates.take(pc.sort_indices(templates, sort_keys=keys))


def losing_sources(field: str, counts: pa.Table) -> pa.Table:
    """Return the values of a field that lose more than half of their documents, as SOURCES.

    ``counts`` are the ``documents`` of each ``value``, and how many are ``dropped``. Those of
    MIN_DOCUMENTS count. In the order of ``most_dropped``.

    >>> counts = {"value": ["a", "b", "c"], "documents": [19, 20, 20], "dropped": [19, 10, 11]}
    >>> losing_sources("host", pa.table(counts))["value"].to_pylist()
    ['c']
    """
    documents, dropped = (counts[name].to_numpy() for name in ("documents", "dropped"))
    losing = (documents >= MIN_DOCUMENTS) & (2 * dropped > documents)
    found = counts.filter(pa.array(losing)).select(SOURCES.names[1:])
    named = found.add_column(0, "field", pa.repeat(field, len(found)))
    return most_dropped(named.cast(SOURCES))


def most_dropped(sources: pa.Table) -> pa.Table:
    """Return sources as SOURCES, those that lose most documents first, then by field and value."""
    keys = [("dropped", "descending"), ("field", "ascending"), ("value", "ascending")]
    return sources.take(pc.sort_indices(sources, sort_keys=keys))
