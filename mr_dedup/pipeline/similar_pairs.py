"""All pairs of near-duplicate documents: signatures, groups of documents, their pairs.

Pairs are within the connected components of shared keys and similar fingerprints. Small components
are compared together. A large one is cut into slices, and every two of these are compared by a
task, so that a task has at most two in memory, and no pair is missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.clusters.components import UnionFind
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.id_text import escape_ids
from mr_dedup.formats.tables import read_table
from mr_dedup.jobs.grouped_rows import WHOLE, GroupedRows
from mr_dedup.jobs.similar_pairs import SimilarPairsJob
from mr_dedup.pipeline.dedup_stages.contract import DedupOptions, RunJob
from mr_dedup.pipeline.dedup_stages.files import REJECTS, ROWS
from mr_dedup.pipeline.dedup_stages.fingerprint import fingerprint_documents, signed_documents
from mr_dedup.pipeline.document_rows import Rows
from mr_dedup.pipeline.fingerprint_clusters import JoinSettings, cluster_fingerprints
from mr_dedup.signatures.candidates import can_be_connected, connecting_edges
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

GROUPED = "grouped.parquet"

_SLICE_BYTES = 16 << 20
"""Bytes of text of small clusters that are compared together, and of a slice of a large one."""

_MAX_SENT_BYTES = 10**11
_MAX_SENT_ROWS = 5 * 10**7
"""The most that is sent of a large cluster, each document once for every slice of the cluster.

In memory 90 bytes a row.
"""

_LINES = 1 << 18
"""Pairs written at a time."""

_DECIMALS = 6
"""Of a similarity; fewer where the last ones are 0."""


@dataclass(frozen=True)
class SimilarPairs:
    """Pairs of documents: numbers first[m] < second[m], ascending, and their ``similarities``.

    ``folder`` has the rows of the documents and the rejects; ``counts`` are those of the run. 24
    bytes a pair.
    """

    folder: Path
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    similarities: NDArray[np.float64]
    counts: dict[str, Any]

    def __len__(self) -> int:
        return int(self.first.size)

    @property
    def rejects(self) -> Path:
        """The directory with the records that could not be read, lines of JSON in parts."""
        return self.folder / REJECTS

    def lines(self) -> Iterator[bytes]:
        """Yield lines ``id TAB id TAB similarity``; in memory the ids of all documents.

        TAB, CR and LF in an id are written as ``id_text.escape_ids`` does.
        """
        column = read_table(self.folder / ROWS, columns=["id"])["id"]
        ids = escape_ids(pa.concat_arrays([pa.array([], pa.large_string()), *column.chunks]))
        tab, end, nothing = (pa.scalar(text, pa.large_string()) for text in ("\t", "\n", ""))
        for start in range(0, len(self), _LINES):
            part = slice(start, start + _LINES)
            one, other = (ids.take(pa.array(side[part])) for side in (self.first, self.second))
            spelled = pa.array(np.round(self.similarities[part], _DECIMALS)).cast(pa.large_string())
            lines = pc.binary_join_element_wise(one, other, spelled, tab)
            _, _, content = pc.binary_join_element_wise(lines, nothing, end).buffers()
            yield content.to_pybytes()


def similar_pairs(folder: Path, options: DedupOptions, run_job: RunJob) -> SimilarPairs:
    """Find the pairs in a directory of temporary files.

    ``keep`` and ``against`` of the options are not used. In memory: 40 bytes a document, the
    signatures of one method, and the pairs. Raises MrDedupError for a cluster that is too large.
    """
    read = fingerprint_documents(folder, options, run_job).counts
    rows = Rows.read(folder / ROWS)
    with run_job.join_settings() as settings:
        numbers, labels = _clustered(folder, rows, options, settings)
    grouped, sliced = group_rows(numbers, labels, rows, _SLICE_BYTES)
    parts: list[pa.Table] = []
    counts = {**read, "clusters_sliced": sliced, "documents_compared": int(numbers.size)}
    if numbers.size:
        grouped.write(folder / GROUPED)
        job = SimilarPairsJob(
            **options.of_features,
            grouped=str(folder / GROUPED),
            methods=tuple(options.method_names),
            keyword_idf=options.keyword_idf,
            verify=None if options.verify is None else options.verify.threshold,
            shingles=options.compared_by,
        )
        with run_job(job, "pairs") as output:
            parts += [table for _, table in output]
    empty = {"first": np.empty(0, np.int64), "second": np.empty(0, np.int64)}
    found = pa.concat_tables([pa.table({**empty, "similarity": np.empty(0)}), *parts])
    first, second = found["first"].to_numpy(), found["second"].to_numpy()
    order = np.lexsort((second, first))
    similarities = found["similarity"].to_numpy()[order]
    return SimilarPairs(folder, first[order], second[order], similarities, counts)


def _clustered(
    folder: Path, rows: Rows, options: DedupOptions, settings: JoinSettings
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of documents in clusters of several, ascending, and their labels."""
    joined = UnionFind()
    for each in signed_documents(folder, options.methods):
        min_shared_keys = _chainable(each.method, each.parts)
        for first, second in connecting_edges(each.parts, min_shared_keys):
            joined.add(first.astype(np.uint64), second.astype(np.uint64))
    if options.k is not None:
        with_fingerprint = np.flatnonzero(rows.has_fingerprint)
        values = rows.fingerprints[with_fingerprint]
        found = cluster_fingerprints(values, options.k, settings).labels
        order = np.argsort(found.nodes)
        nodes, labels = found.nodes[order], found.labels[order]
        ranks = np.minimum(np.searchsorted(nodes, values), max(0, nodes.size - 1))
        known = nodes[ranks] == values if nodes.size else np.zeros(values.size, bool)
        members, labels = with_fingerprint[known].astype(np.uint64), labels[ranks[known]]
        order = np.argsort(labels, kind="stable")
        same = labels[order[1:]] == labels[order[:-1]]
        joined.add(members[order[:-1][same]], members[order[1:][same]])
    all_labels = joined.labels()
    return all_labels.nodes.astype(np.int64), all_labels.labels.astype(np.int64)


def _chainable(method: SignatureMethod, signatures: Sequence[Signatures]) -> int:
    """Return the number of shared keys to connect texts by: the method's, or fewer.

    Fewer if texts have too many subsets of so many keys; clusters are then larger than necessary.
    """
    min_shared_keys = method.min_shared_keys
    while not can_be_connected(signatures, min_shared_keys):
        min_shared_keys -= 1
    return min_shared_keys


def group_rows(
    numbers: NDArray[np.int64],
    labels: NDArray[np.int64],
    rows: Rows,
    limit: int,
    max_sent_bytes: int = _MAX_SENT_BYTES,
    max_sent_rows: int = _MAX_SENT_ROWS,
) -> tuple[GroupedRows, int]:
    """Return which clustered documents are compared with which, and how many clusters are sliced.

    ``numbers`` int64[n] ascend; ``labels`` int64[n] are equal in a cluster. The texts of a group
    have about ``limit`` bytes; of one cluster up to twice that, and two texts. Raises MrDedupError
    if more than ``max_sent_bytes`` or ``max_sent_rows`` would be sent of one cluster.
    """
    lengths = rows.lengths[numbers]
    clusters, cluster = np.unique(labels, return_inverse=True)
    sizes = np.bincount(cluster, lengths, clusters.size).astype(np.int64)
    large = sizes > 2 * limit
    # clusters in their order, until a group is full
    small_ends = np.cumsum(np.where(large, 0, sizes))
    group_of = (small_ends - np.where(large, 0, sizes)) // limit
    chosen = ~large[cluster]
    parts = [(numbers[chosen], group_of[cluster[chosen]], np.full(int(chosen.sum()), WHOLE))]
    free = int(group_of.max(initial=-1)) + 1
    for which in np.flatnonzero(large).tolist():
        members = numbers[cluster == which]
        _refuse_explosion(int(sizes[which]), members.size, limit, max_sent_bytes, max_sent_rows)
        before = np.cumsum(rows.lengths[members]) - rows.lengths[members]
        slices = np.unique(before // limit, return_inverse=True)[1]
        for added in _every_two(members, slices, free):
            parts.append(added)
            free += 1
    all_numbers, keys, sides = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(all_numbers, kind="stable")
    all_numbers = all_numbers[order]
    grouped = GroupedRows(
        all_numbers,
        keys[order],
        sides[order],
        rows.lengths[all_numbers],
        ranges=rows.ranges,
    )
    return grouped, int(large.sum())


def _refuse_explosion(
    size_bytes: int, count: int, limit: int, max_sent_bytes: int, max_sent_rows: int
) -> None:
    """Raise MrDedupError if a cluster is too large to compare every two slices of it."""
    slices = -(-size_bytes // limit)
    sent_bytes, sent_rows = size_bytes * slices, count * slices
    if sent_bytes > max_sent_bytes or sent_rows > max_sent_rows:
        raise MrDedupError(
            f"a cluster has {count:,} documents, {size_bytes:,} bytes: to compare every two of "
            f"them, {slices:,} copies of each would be sent, {sent_rows:.1e} in all, of "
            f"{sent_bytes:.1e} bytes (limits {max_sent_rows:.0e} and {max_sent_bytes:.0e}); "
            "choose stricter methods or a smaller k"
        )


def _every_two(
    members: NDArray[np.int64], slices: NDArray[np.int64], first_key: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield numbers, keys and sides of every two slices, and of each with itself."""
    count = int(slices.max()) + 1
    of_slice: Sequence[NDArray[np.int64]] = [members[slices == n] for n in range(count)]
    key = first_key
    for n in range(count):
        yield of_slice[n], np.full(of_slice[n].size, key), np.full(of_slice[n].size, WHOLE)
        key += 1
        for m in range(n + 1, count):
            both = np.concatenate([of_slice[n], of_slice[m]])
            sides = np.repeat([0, 1], [of_slice[n].size, of_slice[m].size])
            yield both, np.full(both.size, key), sides
            key += 1
