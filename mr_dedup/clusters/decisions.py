"""Decide which documents of a cluster are kept, and for whom the others are dropped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters import decision_kernels as kernels
from mr_dedup.clusters.documents import ClusteredDocuments
from mr_dedup.clusters.verification import ShingleSets, shingle_sets
from mr_dedup.errors import MrDedupError

THRESHOLD = 0.8
"""The similarity from which on two documents are near-duplicates, by default."""

_FEW = 32
"""Keepers of a cluster up to which each text is compared with all of them."""

_MOST_COUNTS = 1 << 22
"""Counts of hashes in a crowded cluster, at most: 16 MB."""

_FIRST_ENTRIES = 1 << 12
"""Entries that the index of a crowded cluster starts with."""


class Reason(IntEnum):
    """Why a document is kept or dropped."""

    ALONE = 0
    FIRST = 1
    UNLIKE = 2
    WITHOUT_FEATURES = 3
    NEAR_DUPLICATE = 4
    SAME_TEXT = 5
    SAME_CLUSTER = 6

    @property
    def text(self) -> str:
        """The reason, as it is told."""
        return _TEXTS[self]


_TEXTS = {
    Reason.ALONE: "kept: alone",
    Reason.FIRST: "kept: first of its cluster",
    Reason.UNLIKE: "kept: unlike every keeper of its cluster",
    Reason.WITHOUT_FEATURES: "kept: without features",
    Reason.NEAR_DUPLICATE: "dropped: near-duplicate",
    Reason.SAME_TEXT: "dropped: same text",
    Reason.SAME_CLUSTER: "dropped: same cluster",
}


@dataclass(frozen=True)
class Decisions:
    """What is decided on n documents, aligned with them.

    ``keepers`` int64[n] are positions among the documents; that of one which is kept is its own.
    Of one that is dropped, ``distances`` uint8[n] and ``similarities`` float64[n] are those to its
    keeper, the similarity NaN if texts were not compared; of one that is kept they are 0 and NaN.
    ``reasons`` uint8[n] are those of :class:`Reason`.
    """

    keepers: NDArray[np.int64]
    distances: NDArray[np.uint8]
    similarities: NDArray[np.float64]
    reasons: NDArray[np.uint8]

    def __len__(self) -> int:
        return int(self.keepers.size)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which documents are kept, bool[n]."""
        own: NDArray[np.bool_] = self.keepers == np.arange(len(self))
        return own

    def table(self, documents: ClusteredDocuments) -> pa.Table:
        """Return the decisions on ``documents`` with the columns id, cluster, keeper (an id),
        distance, similarity and reason; null is what there is not.
        """  # fmt: skip
        kept = self.kept
        reasons = pa.DictionaryArray.from_arrays(self.reasons, [reason.text for reason in Reason])
        without = self.reasons == Reason.WITHOUT_FEATURES
        return pa.table(
            {
                "id": documents.ids,
                "cluster": pa.array(documents.clusters, mask=without),
                "keeper": documents.ids.take(pa.array(self.keepers)),
                "distance": pa.array(self.distances, mask=kept),
                "similarity": pa.array(self.similarities, mask=np.isnan(self.similarities)),
                "reason": reasons,
            }
        )


def resolve(
    documents: ClusteredDocuments,
    order: NDArray[np.int64],
    sets: ShingleSets | None = None,
    threshold: float | None = THRESHOLD,
    fixed: NDArray[np.bool_] | None = None,
) -> Decisions:
    """Return the decision on every document; the order in which they came does not matter.

    ``order`` int64[n] are the positions of the documents, the best first, as KeepPolicy.rank gives
    them. In this order the first document of a cluster is kept; each next one is dropped for the
    most similar of the keepers so far (of several, the first) if its Jaccard similarity to it is
    at least ``threshold``, and kept if there is none such. ``sets`` are the shingles of the texts,
    one set for each number in documents.texts. Documents of one text are as one, which stands
    where the first of them stands: a million copies cost a sort.

    With ``threshold`` None texts are not compared, and all but the first are dropped for it.

    Those that are ``fixed`` bool[n] are kept, however like each other they are, and come before all
    others, whatever the order.

    A text of 100 to 300 words costs 0.05 to 0.5 microseconds for each keeper of its cluster; from
    _FEW keepers on an index rules most of them out, and a text costs 5 to 20 microseconds, at
    worst 3 to 7 nanoseconds a keeper. Memory, beside documents and sets: 140 bytes a document; for
    one crowded cluster at a time 20 to 40 bytes for each of 1 - threshold of its keepers' hashes.
    Raises ValueError for a threshold that is not above 0 and at most 1, an ``order`` that is no
    permutation, a ``fixed`` of another length or type, and texts without sets.
    """
    n = len(documents)
    if order.shape != (n,) or not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError(f"order: expected a permutation of {n} positions")
    fixed = np.zeros(n, bool) if fixed is None else fixed
    if fixed.dtype != bool or fixed.shape != (n,):
        raise ValueError(f"fixed: expected bool[{n}], got {fixed.dtype}{list(fixed.shape)}")
    order = order[np.argsort(~fixed[order], kind="stable")]
    exist = documents.exist
    if threshold is not None:
        texts, checked = _checked(documents, sets, threshold)
        exist = exist & (checked.sizes[texts] > 0)
    members = order[exist[order]]
    members = members[np.argsort(documents.clusters[members], kind="stable")]
    starts, clusters = _runs(documents.clusters[members])
    keepers, similarities = np.arange(n), np.full(n, np.nan)
    if threshold is None:
        keepers[members] = members[starts[clusters]]
    else:
        found, values = _verified(
            clusters, texts[members], fixed[members], checked, float(threshold)
        )
        keepers[members], similarities[members] = members[found], values
    keepers[fixed], similarities[fixed] = np.flatnonzero(fixed), np.nan
    reasons = np.full(n, Reason.WITHOUT_FEATURES, np.uint8)
    reasons[members] = Reason.UNLIKE
    reasons[members[starts]] = Reason.FIRST
    reasons[members[starts[np.bincount(clusters) == 1]]] = Reason.ALONE
    dropped = keepers != np.arange(n)
    reasons[dropped] = Reason.SAME_CLUSTER if threshold is None else Reason.NEAR_DUPLICATE
    if documents.texts is not None:
        same = dropped & (documents.texts == documents.texts[keepers])
        reasons[same], similarities[same] = Reason.SAME_TEXT, 1.0
    distances = np.bitwise_count(documents.fingerprints ^ documents.fingerprints[keepers])
    return Decisions(keepers, distances, similarities, reasons)


def warm_up() -> None:
    """Compile every kernel, or load it from numba's cache: once, before processes are forked."""
    n = _FEW + 2
    sets = shingle_sets(pa.array([f"text {number}" for number in range(n)], pa.large_string()))
    zeros, numbers = np.zeros(n, np.uint64), np.arange(n)
    documents = ClusteredDocuments(
        ids=pa.array([""] * n, pa.large_string()),
        files=numbers,
        places=numbers,
        text_bytes=numbers,
        clusters=zeros,
        fingerprints=zeros,
        exist=np.ones(n, bool),
        texts=numbers,
    )
    resolve(documents, numbers, sets)
    _Index.of(1).grown(0)
    sets.jaccard(numbers, numbers)


def _checked(
    documents: ClusteredDocuments, sets: ShingleSets | None, threshold: float
) -> tuple[NDArray[np.int64], ShingleSets]:
    """Return the number of each document's text, and the sets; ValueError if they do not fit."""
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must be above 0 and at most 1, not {threshold}")
    texts = documents.texts
    if texts is None or sets is None:
        raise ValueError(f"threshold {threshold}: to verify takes documents.texts and sets")
    if texts.size and not 0 <= texts.min() <= texts.max() < len(sets):
        raise ValueError(f"texts: expected numbers of {len(sets)} sets, got up to {texts.max()}")
    return texts, sets


def _runs(values: NDArray[np.generic]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each run of equal ``values`` [n] or [n, columns] starts, and each one's run."""
    new = np.ones(len(values), bool)
    changed = values[1:] != values[:-1]
    new[1:] = changed if changed.ndim == 1 else changed.any(axis=1)
    return np.flatnonzero(new), np.cumsum(new) - 1


def _verified(
    clusters: NDArray[np.int64],
    texts: NDArray[np.int64],
    fixed: NDArray[np.bool_],
    sets: ShingleSets,
    threshold: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return for each of m documents the position of its keeper, and their similarity or NaN.

    ``clusters`` int64[m] are ascending, and each cluster's best documents first. Of one text only
    the first counts as ``fixed``.
    """
    by_text = np.lexsort((texts, clusters))  # stable: of one text, the best first
    starts, runs = _runs(np.stack([clusters, texts], axis=1)[by_text])
    leaders = np.sort(by_text[starts])  # the one that stands for its text
    found, values = _decided(clusters[leaders], texts[leaders], fixed[leaders], sets, threshold)
    leader = np.empty_like(texts)
    leader[by_text] = np.searchsorted(leaders, by_text[starts])[runs]
    return leaders[found][leader], values[leader]


def _decided(
    clusters: NDArray[np.int64],
    texts: NDArray[np.int64],
    fixed: NDArray[np.bool_],
    sets: ShingleSets,
    threshold: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Do the same for texts of which none repeats in its cluster."""
    starts = np.append(_runs(clusters)[0], texts.size).astype(np.uint64)
    stops = np.empty(starts.size - 1, np.uint64)
    keepers, similarities = np.where(fixed, np.arange(texts.size), -1), np.full(texts.size, -1.0)
    rows = texts.view(np.uint64)
    kernels.decide_few(
        *sets.arrays, rows, starts, threshold, np.empty(_FEW, np.uint64), stops,
        keepers, similarities,
    )  # fmt: skip
    for cluster in np.flatnonzero(stops < starts[1:]):
        run = slice(int(starts[cluster]), int(starts[cluster + 1]))
        _decide_crowded(sets, rows, run, threshold, keepers, similarities)
    return keepers, np.where(similarities < 0, np.nan, similarities)


def _decide_crowded(
    sets: ShingleSets,
    rows: NDArray[np.uint64],
    run: slice,
    threshold: float,
    keepers: NDArray[np.int64],
    similarities: NDArray[np.float64],
) -> None:
    """Decide on the texts of one cluster, rows[run], that are not yet decided on."""
    offsets, sizes, hashes = sets.arrays
    texts = rows[run]
    lengths = offsets[texts + 1] - offsets[texts]
    wanted = min(int(lengths.sum()), _MOST_COUNTS)
    counts = np.zeros(1 << (wanted - 1).bit_length(), np.uint32)
    kernels.count_hashes(offsets, hashes, texts, counts)
    rarities = np.empty(counts.size, np.uint8)
    kernels.classify(counts, rarities)
    del counts
    longest = int(lengths.max())
    tallies, prefix = np.empty(kernels.RARITIES, np.uint64), np.empty(longest, np.uint64)
    held, held_sizes = np.empty_like(texts), np.empty_like(texts)
    words = _parity_words(float(lengths.mean()), threshold)
    parities = np.empty((texts.size + 1, words), np.uint64)
    seen, candidates = np.zeros(texts.size, np.uint8), np.empty(texts.size + 1, np.uint32)
    index = _Index.of(max(_FIRST_ENTRIES, longest))
    begin, used, count = run.start, 0, 0
    while True:
        begin, used, count = kernels.decide_many(
            offsets, sizes, hashes, rows, np.uint64(begin), np.uint64(run.stop), threshold,
            rarities, tallies, prefix, index.heads, index.keys, index.keepers, index.links,
            np.uint64(used), held, held_sizes, parities, np.uint64(count), seen, candidates,
            keepers, similarities,
        )  # fmt: skip
        if begin == run.stop:
            return
        index = index.grown(used)


def _parity_words(mean_size: float, threshold: float) -> int:
    """Return how many words of parity tell unlike sets apart: 4 to 256, a power of 2.

    Of B bits half differ at most, and that must be clearly more than two sets may differ in
    hashes that are similar enough: 2 (1 - threshold) / (1 + threshold) of a size.
    """
    bits = 8 * mean_size * (1 - threshold) / (1 + threshold)
    return 1 << min(max(math.ceil(math.log2(max(bits, 1) / 64)), 2), 8)


@dataclass(frozen=True)
class _Index:
    """The index of decision_kernels.decide_many: 20 to 28 bytes an entry."""

    heads: NDArray[np.uint32]
    keys: NDArray[np.uint64]
    keepers: NDArray[np.uint32]
    links: NDArray[np.uint32]

    @classmethod
    def of(cls, entries: int) -> _Index:
        """Return an empty index for so many entries."""
        if entries >= 1 << 32:
            raise MrDedupError(f"a cluster is too crowded to verify: {entries:,} hashes to index")
        return cls(
            np.zeros(1 << (entries - 1).bit_length(), np.uint32),
            np.empty(entries, np.uint64),
            np.empty(entries, np.uint32),
            np.empty(entries, np.uint32),
        )

    def grown(self, used: int) -> _Index:
        """Return one of twice the size with the first ``used`` entries of this one."""
        index = _Index.of(2 * self.keys.size)
        index.keys[:used], index.keepers[:used] = self.keys[:used], self.keepers[:used]
        kernels.relink(index.heads, index.keys, index.links, np.uint64(used))
        return index
