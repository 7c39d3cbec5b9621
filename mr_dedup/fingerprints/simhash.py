"""Simhash of texts (Charikar; Manku, Jain, Das Sarma, WWW 2007, section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.document_frequencies import DocumentFrequencies, weighing
from mr_dedup.features.frequency_kernels import IdfTable
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import table_for
from mr_dedup.features.shingles import scratch_for, slices_of
from mr_dedup.features.word_kernels import word_scratch_for
from mr_dedup.fingerprints import kernels

VERSION = 2
"""Another one where a text gets another fingerprint than before, by the same features."""


@dataclass(frozen=True)
class Fingerprints:
    """The fingerprints of n texts, aligned with them.

    ``values`` uint64[n] and ``occurrences`` uint64[n], the shingles that a text has, repeats
    counted. A null has none and no fingerprint: its value is 0 and means nothing.
    """

    values: NDArray[np.uint64]
    occurrences: NDArray[np.uint64]

    @property
    def exist(self) -> NDArray[np.bool_]:
        """Which texts have a fingerprint, bool[n]."""
        return self.occurrences > 0


def simhash(
    texts: pa.LargeStringArray,
    options: FeatureOptions,
    frequencies: DocumentFrequencies | None = None,
) -> Fingerprints:
    """Return the simhash of every text; a null has none.

    Each feature's hash votes with its weight on each bit, and a bit is 1 where the votes for it
    are more than half: a tie is 0. Hundreds of megabytes a second. Memory: that of the longest
    text's scratch. Raises ValueError for another type of array, and as
    ``document_frequencies.weighing``.
    """
    table = weighing(options, frequencies)
    content, starts, stops = slices_of(texts, options)
    longest = int((stops - starts).max(initial=0))
    values, occurrences = np.zeros((2, stops.size), np.uint64)
    if _is_of_few_words(longest, options, table):
        totals = np.append(np.int32(0), options.steps.cumsum(dtype=np.int32))
        kernels.simhash_words(
            content, starts, stops, *table_for(options), totals, word_scratch_for(longest), table,
            values, occurrences,
        )  # fmt: skip
        return Fingerprints(values, occurrences)
    kernels.simhash_texts(
        content, starts, stops, *table_for(options), options.unit == "characters",
        np.uint64(options.length), options.steps, scratch_for(longest, options), table,
        values, occurrences, *scratch_for_bits(),
    )  # fmt: skip
    return Fingerprints(values, occurrences)


def scratch_for_bits() -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return what ``kernels.simhash`` works in."""
    return np.empty(kernels.BITS, np.int64), np.empty(kernels.BITS, np.int32)


def _is_of_few_words(size_bytes: int, options: FeatureOptions, table: IdfTable) -> bool:
    """Return whether features are single words, and a text of that size has few enough of them.

    Half a million times 64 for a text of a megabyte; the limit is one of 67 MB, without idf. There
    is none where a word weighs no more from some occurrence on.
    """
    if options.unit != "words" or options.length != 1:
        return False
    steps = options.steps.astype(np.int64) * max(1, int(table.unknown))
    if steps[-1] == 0 and steps.sum() < kernels.MOST_WEIGHT:
        return True
    return bool((size_bytes // 2 + 1) * steps.max() < kernels.WORD_WEIGHTS)
