"""What the resolve job counts and shows of the clusters whose documents were decided on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.decisions import Reason, are_kept
from mr_dedup.clusters.suspects import (
    LISTED,
    MIN_DOCUMENTS,
    ClusterMembers,
    template_clusters,
)
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.contract import Counters
from mr_dedup.jobs.order_decisions import smallest_hashes
from mr_dedup.jobs.report_counts import (
    DISTANCE,
    EXAMPLES,
    LARGEST,
    SIMILARITY,
    SIMILARITY_STEPS,
    SIZE,
    TEMPLATE_CLUSTERS,
)
from mr_dedup.jobs.shares import sources

_MIXER = np.uint64(0x9E3779B97F4A7C15)

_SAMPLE = ["chunk", "row", "id", "cluster", "reason", "kept_id", "kept_chunk", "kept_row",
           "distance_bits", "similarity", "order"]  # fmt: skip


def count_decisions(decided: pa.Table, earlier_chunks: int, counters: Counters) -> None:
    """Count the decisions on documents of this run; the first chunks are of earlier ones."""
    reasons = np.bincount(decided["reason"].to_numpy(), minlength=len(Reason))
    for reason in Reason:
        counters[reason.key] += int(reasons[reason])
    of_dropped = decided.filter(decided["kept_id"].is_valid())
    for_earlier = int(np.count_nonzero(of_dropped["kept_chunk"].to_numpy() < earlier_chunks))
    counters["documents_dropped_for_earlier"] += for_earlier
    distances = np.bincount(of_dropped["distance_bits"].to_numpy())
    for bits in np.flatnonzero(distances).tolist():
        counters[f"{DISTANCE}{bits}"] += int(distances[bits])
    similarities = of_dropped["similarity"].drop_null().to_numpy()
    steps = np.round(np.arange(SIMILARITY_STEPS + 1) / SIMILARITY_STEPS, 9)
    counts = np.bincount(np.searchsorted(steps, similarities, "right") - 1)
    for step in np.flatnonzero(counts).tolist():
        counters[f"{SIMILARITY}{step}"] += int(counts[step])


def templates_in(decided: pa.Table, names_below: str, counters: Counters) -> pa.Table:
    """Return the largest clusters of documents of this run that look like templates.

    ``names_below`` is as of ``shares.directories``.
    """
    _, inverse, sizes = np.unique(
        decided["cluster"].to_numpy(), return_inverse=True, return_counts=True
    )
    decided = decided.filter(pa.array(sizes[inverse] >= MIN_DOCUMENTS))
    found = template_clusters(
        ClusterMembers(
            decided["cluster"].to_numpy().view(np.int64),
            sources(one_array(decided["id"]), names_below),
            are_kept(decided["reason"].to_numpy()),
            decided["similarity"].fill_null(np.nan).to_numpy(),
        )
    )
    counters[TEMPLATE_CLUSTERS] += len(found)
    return found.slice(0, LISTED)


def clusters_in(
    decided: pa.Table, new: NDArray[np.bool_], sample: pa.Table, counters: Counters
) -> Iterator[pa.Table]:
    """Yield the clusters, and the largest and those of a sample as a report lists them.

    ``new`` bool[n] are the documents of this run.
    """
    labels = decided["cluster"].to_numpy().view(np.int64)
    kept = are_kept(decided["reason"].to_numpy())
    values, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    documents = np.bincount(inverse, new, values.size).astype(np.int64)
    documents_kept = np.bincount(inverse, new & kept, values.size).astype(np.int64)
    wanted = (sizes >= 2) & (documents >= 1)
    powers, counts = np.unique(_powers(sizes[wanted]), return_counts=True)
    for power, count in zip(powers.tolist(), counts.tolist(), strict=True):
        counters[f"{SIZE}{power}"] += count
    yield pa.table(
        {
            "cluster": values[wanted],
            "documents": documents[wanted],
            "documents_kept": documents_kept[wanted],
            "earlier_documents": (sizes - documents)[wanted],
        }
    )
    order = np.lexsort((values, -sizes))
    of_sample = np.searchsorted(values, sample["cluster"].to_numpy().view(np.int64))
    listed = np.union1d(order[wanted[order]][:LARGEST], of_sample)
    is_listed = np.zeros(values.size, np.bool_)
    is_listed[listed] = True
    rows = np.flatnonzero(new & is_listed[inverse])
    of_rows = decided.select(["chunk", "row"]).take(pa.array(rows))
    rows = rows[np.lexsort((of_rows["row"], of_rows["chunk"], inverse[rows]))]
    begins = np.searchsorted(inverse[rows], listed)
    shown = np.minimum(np.diff(begins, append=rows.size), EXAMPLES)
    edges = np.append(0, np.cumsum(shown))
    firsts = rows[np.arange(edges[-1]) + np.repeat(begins - edges[:-1], shown)]
    similarities = decided["similarity"].fill_null(np.inf).to_numpy()[rows]
    lowest = np.minimum.reduceat(similarities, begins) if rows.size else similarities

    def of_firsts(name: str) -> pa.Array:
        values = one_array(decided[name]).take(pa.array(firsts))
        return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), values)

    described = {
        "cluster": values[listed],
        "size": sizes[listed],
        "documents": documents[listed],
        "documents_kept": documents_kept[listed],
        "similarity": pa.array(lowest, mask=np.isinf(lowest)),
        "examples": of_firsts("id"),
        "reasons": of_firsts("reason"),
    }
    yield pa.table(described)


def _powers(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the smallest n of each size, 2 and more, such that 2^n is not below it."""
    found: NDArray[np.int64] = np.searchsorted(1 << np.arange(63), sizes)
    return found


def sample_of(decided: pa.Table) -> pa.Table:
    """Return dropped documents: those with the smallest hashes of their fingerprints and ids."""
    dropped = decided.filter(decided["kept_id"].is_valid())
    order = dropped["fingerprint"].to_numpy() * _MIXER
    return smallest_hashes(dropped.append_column("order", pa.array(order)).select(_SAMPLE))
