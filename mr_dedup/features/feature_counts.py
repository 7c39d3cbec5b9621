"""Count in how many documents each feature occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features import frequency_kernels as kernels
from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import table_for
from mr_dedup.features.shingles import scratch_for, slices_of
from mr_dedup.features.word_kernels import word_scratch_for

Counts = tuple[NDArray[np.uint64], NDArray[np.uint64]]
"""Hashes of features, strictly ascending, and in how many documents each is."""

MAX_FEATURES = 3 << 20
"""Features that are counted before they are handed on: 200 MB at most, while that is done."""

_FIRST_SLOTS = 1 << 16


def count_features(
    batches: Iterable[pa.LargeStringArray],
    options: FeatureOptions,
    max_features: int = MAX_FEATURES,
) -> Iterator[Counts]:
    """Yield how many of the texts each feature occurs in; ``merged`` adds up what is yielded.

    When ``max_features`` are counted they are yielded, after the text that is being counted,
    and counting starts anew. 10 to 30 ns a token; in memory 32 to 64 bytes for each feature, and
    the scratch of the longest text.
    """
    table, used, before = _empty(_FIRST_SLOTS), 0, 0
    for texts in batches:
        count = _counting(texts, options)
        done = 0
        while done < len(texts):
            done, used = count(
                np.uint64(done), np.uint64(before), table, np.uint64(used), np.uint64(max_features)
            )
            if 2 * used == table.keys.size:
                table = _grown(table)
            elif used >= max_features:
                yield _counts(table)
                table, used = _empty(_FIRST_SLOTS), 0
        before += len(texts)
    yield _counts(table)


def _counting(texts: pa.LargeStringArray, options: FeatureOptions) -> Callable[..., Any]:
    """Return the kernel that counts the features of these texts, told of all but the state."""
    content, starts, stops = slices_of(texts, options)
    longest = int((stops - starts).max(initial=0))
    where = (content, starts, stops, *table_for(options))
    # weights are not looked at: any will do
    if options.unit == "words" and options.length == 1:
        totals = np.array([0, 1], np.int32)
        return partial(kernels.count_words, *where, totals, word_scratch_for(longest))
    return partial(
        kernels.count_texts, *where, options.unit == "characters", np.uint64(options.length),
        np.ones(1, np.int32), scratch_for(longest, options),
    )  # fmt: skip


def merged(parts: Sequence[Counts]) -> Counts:
    """Return the sums of counts, each feature once."""
    hashes = np.concatenate([hashes for hashes, _ in parts])
    # stable: it merges runs that are in order
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    starts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: hashes.size])
    counts = np.concatenate([counts for _, counts in parts])[order]
    return hashes[starts], np.add.reduceat(counts, starts) if starts.size else counts


def document_frequencies(
    batches: Iterable[pa.LargeStringArray], options: FeatureOptions, minimum: int = 2
) -> DocumentFrequencies:
    """Return the frequencies of features that ``minimum`` or more of the texts have.

    A null is a document without features. In memory all features, also those that fewer have.
    """
    documents = 0

    def counted() -> Iterator[pa.LargeStringArray]:
        nonlocal documents
        for texts in batches:
            documents += len(texts)
            yield texts

    hashes, counts = merged(list(count_features(counted(), options)))
    kept = counts >= minimum
    return DocumentFrequencies(options.unweighted, documents, minimum, hashes[kept], counts[kept])


def _empty(slots: int) -> kernels.CountTable:
    # zeros cost nothing until they are touched
    return kernels.CountTable(
        np.empty(slots, np.uint64), np.zeros(slots, np.uint32), np.zeros(slots, np.uint32)
    )


def _grown(table: kernels.CountTable) -> kernels.CountTable:
    larger = _empty(2 * table.keys.size)
    kernels.move(table, larger)
    return larger


def _counts(table: kernels.CountTable) -> Counts:
    taken = np.flatnonzero(table.counts)
    hashes = table.keys[taken]
    order = np.argsort(hashes)
    return hashes[order], table.counts[taken][order].astype(np.uint64)
