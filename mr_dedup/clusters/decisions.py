"""Decide which documents of a cluster are kept, and which kept document each other duplicates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters import decision_kernels as kernels
from mr_dedup.clusters.criterion import SIMILAR, Criterion
from mr_dedup.clusters.documents import ClusteredDocuments
from mr_dedup.features.shingle_set_kernels import Criterion as SetCriterion
from mr_dedup.features.shingle_sets import ShingleSets
from mr_dedup.kernels.distances import GROUP

_FEW = 32
"""Kept texts of a cluster up to which each text is compared with all of them."""

_SLICE_HASHES = 1 << 25
"""Hashes of clusters that are decided on, or counted, in one call of a kernel: 256 MB."""


@dataclass(frozen=True)
class Limits:
    """What deciding on one large cluster may take; decisions do not depend on it.

    Attributes:
        index_entries: Entries of the index, 12 bytes each and up to 16 for its chains. Kept
            texts that do not fit are scanned.
        counts: Counts of hashes, 5 bytes each.
        parity_bytes: Bytes of the parities of kept texts; never less than 32 a text.
        work: Kept texts that are scanned in one call of a kernel, 0.5 to 1 ns each; between
            calls signals are handled.
    """

    index_entries: int = 1 << 24
    counts: int = 1 << 24
    parity_bytes: int = 1 << 28
    work: int = 1 << 25

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                value = getattr(self, field.name)
                raise ValueError(f"{field.name} must be at least 1, not {value}")

    @classmethod
    def of(cls, stored_bytes: int) -> Limits:
        """Return the limits beside sets of ``stored_bytes``: the defaults are those of 256 MB."""
        share = min(1.0, stored_bytes / (1 << 28))
        names = "index_entries", "counts", "parity_bytes"
        return cls(**{name: max(1, int(share * getattr(cls, name))) for name in names})


class Reason(IntEnum):
    """Why a document is kept or dropped; ``is_kept`` and ``are_kept`` say which.

    Attributes:
        UNCLUSTERED: Kept: it is in no cluster of several documents.
        FIRST_OF_CLUSTER: Kept: the first document of its cluster, in the order of the policy.
        DISSIMILAR: Kept: its text is similar to that of no kept document of its cluster.
        NEAR_DUPLICATE: Dropped: its text is similar to that of a kept document.
        EXACT_DUPLICATE: Dropped: its text is that of a kept document.
        SAME_CLUSTER: Dropped: texts are not compared, and a document of its cluster is kept.
        AMONG_FIRST: Kept: it would be dropped, but is among the first of its group of duplicates.
        SAMPLED: Kept: it would be dropped, but is in the sample of its group of duplicates.
        CONTAINED: Dropped: its text is contained in that of a kept document.
    """

    UNCLUSTERED = 0
    FIRST_OF_CLUSTER = 1
    DISSIMILAR = 2
    NEAR_DUPLICATE = 3
    EXACT_DUPLICATE = 4
    SAME_CLUSTER = 5
    AMONG_FIRST = 6
    SAMPLED = 7
    CONTAINED = 8

    @property
    def key(self) -> str:
        """The reason in files: ``near_duplicate``."""
        return self.name.lower()

    @property
    def is_kept(self) -> bool:
        """Whether documents are kept for it."""
        return self in _KEPT

    @property
    def is_compared(self) -> bool:
        """Whether documents are dropped for it by comparing texts that are not equal."""
        return self in (Reason.NEAR_DUPLICATE, Reason.CONTAINED)

    @property
    def phrase(self) -> str:
        """The reason in a page or a message: ``near-duplicate``."""
        return _PHRASES[self]


_KEPT = frozenset(
    {
        Reason.UNCLUSTERED,
        Reason.FIRST_OF_CLUSTER,
        Reason.DISSIMILAR,
        Reason.AMONG_FIRST,
        Reason.SAMPLED,
    }
)

_PHRASES = {
    Reason.UNCLUSTERED: "in no cluster",
    Reason.FIRST_OF_CLUSTER: "first of its cluster",
    Reason.DISSIMILAR: "dissimilar to every kept document of its cluster",
    Reason.NEAR_DUPLICATE: "near-duplicate",
    Reason.EXACT_DUPLICATE: "same text",
    Reason.SAME_CLUSTER: "same cluster",
    Reason.AMONG_FIRST: "among the first of its group of duplicates",
    Reason.SAMPLED: "in the sample of its group of duplicates",
    Reason.CONTAINED: "contained in a kept document",
}


def are_kept(reasons: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Return for each of ``reasons`` [n], values of Reason, whether documents are kept for it.

    >>> are_kept(np.array([Reason.DISSIMILAR, Reason.NEAR_DUPLICATE]))
    array([ True, False])
    """
    kept: NDArray[np.bool_] = np.isin(reasons, list(_KEPT))
    return kept


@dataclass(frozen=True)
class Decisions:
    """What is decided on n documents, aligned with them.

    ``kept_rows`` int64[n] is the row of the kept document that each duplicates, its own where it
    is kept. ``distances`` uint8[n] and ``similarities`` float64[n] are those to that document: 0
    and NaN where it is the document itself, and NaN where texts were not compared.
    ``reasons`` uint8[n] are those of :class:`Reason`.
    """

    kept_rows: NDArray[np.int64]
    distances: NDArray[np.uint8]
    similarities: NDArray[np.float64]
    reasons: NDArray[np.uint8]

    def __len__(self) -> int:
        return int(self.kept_rows.size)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which documents are kept, bool[n]."""
        own: NDArray[np.bool_] = self.kept_rows == np.arange(len(self))
        return own

    def table(self, documents: ClusteredDocuments) -> pa.Table:
        """Return the decisions on ``documents`` with the columns id, cluster, kept_id,
        distance_bits, similarity and reason; null is what there is not.
        """  # fmt: skip
        kept = self.kept
        reasons = pa.DictionaryArray.from_arrays(self.reasons, [reason.key for reason in Reason])
        return pa.table(
            {
                "id": documents.ids,
                "cluster": pa.array(documents.clusters, mask=~documents.has_fingerprint),
                "kept_id": documents.ids.take(pa.array(self.kept_rows)),
                "distance_bits": pa.array(self.distances, mask=kept),
                "similarity": pa.array(self.similarities, mask=np.isnan(self.similarities)),
                "reason": reasons,
            }
        )


def resolve(
    documents: ClusteredDocuments,
    order: NDArray[np.int64],
    sets: ShingleSets | None = None,
    criterion: Criterion | None = SIMILAR,
    fixed: NDArray[np.bool_] | None = None,
    limits: Limits = Limits(),
) -> Decisions:
    """Return the decision on every document; the order in which they came does not matter.

    ``order`` int64[n] are the positions of the documents, the best first, as KeepPolicy.rank gives
    them. In this order the first document of a cluster is kept. Each next one is dropped if its
    similarity to the most similar document kept so far (of several, the first) is at least that of
    ``criterion``, and kept otherwise. ``sets`` are the shingles of the texts, one set for each
    number in documents.texts. Documents of one text are decided on together, at the position of the
    first of them: a million copies cost a sort.

    If documents must be contained in kept ones, those with more shingles come before those with
    fewer, whatever the order, and sets must be whole.

    With ``criterion`` None texts are not compared, and all but the first are dropped for it.

    Those that are ``fixed`` bool[n] are kept, however similar they are, and precede all others,
    whatever the order.

    A text of 100 to 300 words costs 0.05 to 0.5 microseconds for each kept text of its cluster;
    from _FEW kept texts on an index excludes most of them, and a text costs 5 to 20 microseconds,
    at worst 0.5 to 1 nanoseconds a kept text. Memory, beside documents and sets: 140 bytes a
    document; for one large cluster at a time 65 bytes a kept text and more for long texts, and up
    to ``limits``.
    Raises ValueError for an ``order`` that is not a permutation, a ``fixed`` of another length or
    type, and texts without sets, or with sets that were cut.
    """
    n = len(documents)
    if order.shape != (n,) or not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError(f"order: expected a permutation of {n} positions")
    fixed = np.zeros(n, bool) if fixed is None else fixed
    if fixed.dtype != bool or fixed.shape != (n,):
        raise ValueError(f"fixed: expected bool[{n}], got {fixed.dtype}{list(fixed.shape)}")
    used = documents.has_fingerprint
    if criterion is not None:
        texts, checked = _checked(documents, sets, criterion)
        used = used & (checked.sizes[texts] > 0)
        if criterion.is_containment:
            order = order[np.argsort(-checked.sizes[texts[order]], kind="stable")]
    order = order[np.argsort(~fixed[order], kind="stable")]
    members = order[used[order]]
    members = members[np.argsort(documents.clusters[members], kind="stable")]
    starts, clusters = _runs(documents.clusters[members])
    kept_rows, similarities = np.arange(n), np.full(n, np.nan)
    if criterion is None:
        kept_rows[members] = members[starts[clusters]]
    else:
        found, values = _verified(
            clusters, texts[members], fixed[members], checked, criterion.for_kernels, limits
        )
        kept_rows[members], similarities[members] = members[found], values
    kept_rows[fixed], similarities[fixed] = np.flatnonzero(fixed), np.nan
    reasons = np.full(n, Reason.UNCLUSTERED, np.uint8)
    reasons[members] = Reason.DISSIMILAR
    reasons[members[starts]] = Reason.FIRST_OF_CLUSTER
    reasons[members[starts[np.bincount(clusters) == 1]]] = Reason.UNCLUSTERED
    dropped = kept_rows != np.arange(n)
    reasons[dropped] = _reason_of(criterion)
    if documents.texts is not None:
        same = dropped & (documents.texts == documents.texts[kept_rows])
        reasons[same], similarities[same] = Reason.EXACT_DUPLICATE, 1.0
    distances = np.bitwise_count(documents.fingerprints ^ documents.fingerprints[kept_rows])
    return Decisions(kept_rows, distances, similarities, reasons)


def _reason_of(criterion: Criterion | None) -> Reason:
    """Return why a document is dropped whose text is not that of the kept one."""
    if criterion is None:
        return Reason.SAME_CLUSTER
    return Reason.CONTAINED if criterion.is_containment else Reason.NEAR_DUPLICATE


def _checked(
    documents: ClusteredDocuments, sets: ShingleSets | None, criterion: Criterion
) -> tuple[NDArray[np.int64], ShingleSets]:
    """Return the number of each document's text, and the sets; ValueError if they do not fit."""
    texts = documents.texts
    if texts is None or sets is None:
        raise ValueError(f"criterion {criterion}: requires documents.texts and sets")
    if criterion.is_containment and (sets.sizes > sets.max_hashes).any():
        raise ValueError(f"sets: expected whole ones, got some cut at {sets.max_hashes}")
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
    criterion: SetCriterion,
    limits: Limits,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return for each of m documents the position of its kept document, and the similarity or NaN.

    ``clusters`` int64[m] are ascending, and each cluster's best documents first. Of one text only
    the first counts as ``fixed``.
    """
    by_text = np.lexsort((texts, clusters))  # stable: of one text, the best first
    starts, runs = _runs(np.stack([clusters, texts], axis=1)[by_text])
    leaders = np.sort(by_text[starts])  # the first document of each text
    found, values = _decided(
        clusters[leaders], texts[leaders], fixed[leaders], sets, criterion, limits
    )
    leader = np.empty_like(texts)
    leader[by_text] = np.searchsorted(leaders, by_text[starts])[runs]
    return leaders[found][leader], values[leader]


def _decided(
    clusters: NDArray[np.int64],
    texts: NDArray[np.int64],
    fixed: NDArray[np.bool_],
    sets: ShingleSets,
    criterion: SetCriterion,
    limits: Limits,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Do the same for texts of which none repeats in its cluster."""
    starts = np.append(_runs(clusters)[0], texts.size).astype(np.uint64)
    stops = np.empty(starts.size - 1, np.uint64)
    kept_rows, similarities = np.where(fixed, np.arange(texts.size), -1), np.full(texts.size, -1.0)
    rows = texts.view(np.uint64)
    lengths = sets.arrays[0][rows + np.uint64(1)] - sets.arrays[0][rows]
    hashes = np.append(np.uint64(0), np.cumsum(lengths))[starts]
    large = np.diff(hashes) > _SLICE_HASHES
    for some in _slices(hashes):
        kernels.decide_few(
            *sets.arrays, rows, starts[some.start : some.stop + 1], large[some], criterion,
            np.empty(_FEW, np.uint64), stops[some], kept_rows, similarities,
        )  # fmt: skip
        sets.release()
    for cluster in np.flatnonzero(stops < starts[1:]):
        run = slice(int(starts[cluster]), int(starts[cluster + 1]))
        _decide_large(sets, rows, run, criterion, kept_rows, similarities, limits)
    return kept_rows, np.where(similarities < 0, np.nan, similarities)


def _slices(ends: NDArray[np.uint64]) -> Iterator[slice]:
    """Yield runs of sets, or groups of them, of up to _SLICE_HASHES hashes, or of a single one.

    ``ends`` uint64[n + 1] is the number of hashes before each, and of all.
    """
    first = 0
    while first < ends.size - 1:
        limit = ends[first] + np.uint64(_SLICE_HASHES)
        stop = max(int(np.searchsorted(ends, limit, side="right")) - 1, first + 1)
        yield slice(first, stop)
        first = stop


def _decide_large(
    sets: ShingleSets,
    rows: NDArray[np.uint64],
    run: slice,
    criterion: SetCriterion,
    kept_rows: NDArray[np.int64],
    similarities: NDArray[np.float64],
    limits: Limits,
) -> None:
    """Decide on the texts of one cluster, rows[run], that are not yet decided on."""
    offsets, sizes, hashes = sets.arrays
    texts = rows[run]
    lengths = offsets[texts + 1] - offsets[texts]
    total = int(lengths.sum())
    bits = min((total - 1).bit_length(), limits.counts.bit_length() - 1)
    counts = np.zeros(1 << bits, np.uint32)
    for some in _slices(np.append(np.uint64(0), np.cumsum(lengths))):
        kernels.count_hashes(offsets, hashes, texts[some], counts)
        sets.release()
    rarities = np.empty(counts.size, np.uint8)
    kernels.classify(counts, rarities)
    del counts
    words = _parity_words(float(lengths.mean()), criterion, limits.parity_bytes // (8 * texts.size))
    scratch = kernels.Scratch(
        np.empty(kernels.RARITIES, np.uint64),
        np.empty(int(lengths.max()), np.uint64),
        np.empty(words, np.uint64),
        np.zeros(texts.size, np.uint8),
        np.empty(texts.size + GROUP, np.uint32),
    )
    looked_up = np.zeros(rarities.size if criterion.is_containment else 1, np.uint8)
    described = kernels.Sets(offsets, sizes, hashes, rarities, looked_up)
    if criterion.is_containment:
        for some in _slices(np.append(np.uint64(0), np.cumsum(lengths))):
            kernels.mark_prefixes(described, texts[some], criterion, scratch)
            sets.release()
    known = _kept_texts(texts.size, words)
    index = _index(lengths, criterion, limits.index_entries)
    progress = kernels.Progress(*np.array([run.start, 0, 0, 0], np.uint64))
    while progress.begin < run.stop:
        # between calls an interrupt is handled
        reached = kernels.decide_many(
            described, rows, np.uint64(run.stop), criterion, index, known, scratch, progress,
            np.uint64(limits.work), kept_rows, similarities,
        )  # fmt: skip
        progress = kernels.Progress(*map(np.uint64, reached))
        sets.release()


def _parity_words(mean_size: float, criterion: SetCriterion, room: int) -> int:
    """Return the number of parity words that separates dissimilar sets: a power of 2 from 4 to 256.

    Of B bits half differ at most, and that must be clearly more than two sets may differ in
    hashes that are similar enough: 2 (1 - threshold) / (1 + threshold) of a size; if one is in the
    other, and both are as large, 2 (1 - threshold). If there is ``room`` for fewer, these, but
    never fewer than 4.
    """
    threshold, is_containment = criterion
    bits = 8 * mean_size * (1 - threshold) / (1 if is_containment else 1 + threshold)
    wanted = 1 << min(max(math.ceil(math.log2(max(bits, 1) / 64)), 2), 8)
    return max(min(wanted, 1 << (max(room, 1).bit_length() - 1)), 4)


def _kept_texts(texts: int, words: int) -> kernels.KeptTexts:
    """Return room for as many kept texts as a cluster has texts; unused memory is not touched."""
    groups = -(-texts // GROUP)
    positions, sizes, alone = np.empty((3, texts), np.uint64)
    return kernels.KeptTexts(
        positions,
        sizes,
        alone,
        np.empty(GROUP * words * groups, np.uint64),
        np.empty(GROUP * groups, np.int32),
    )


def _index(
    lengths: NDArray[np.uint64], criterion: SetCriterion, max_entries: int
) -> kernels.PrefixIndex:
    """Return room to index the prefixes of sets of these lengths, up to ``max_entries``.

    Unused memory is not touched.
    """
    # a prefix has 2 more than this share, at most; of what contains a text all may be looked up
    share = 1.0 if criterion.is_containment else 1 - criterion.threshold
    wanted = int(lengths.sum() * share) + 2 * lengths.size
    entries = min(wanted, max_entries)
    slots = 1 << (entries - 1).bit_length()
    return kernels.PrefixIndex(*np.zeros((2, slots), np.uint32), *np.empty((3, entries), np.uint32))
