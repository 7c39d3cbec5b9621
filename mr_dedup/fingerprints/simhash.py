"""Simhash of texts (Charikar; Manku, Jain, Das Sarma, WWW 2007, section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.document_frequencies import DocumentFrequencies, idf_table_for
from mr_dedup.features.frequency_kernels import IdfTable
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import prepared_batch, table_for
from mr_dedup.features.shingles import scratch_for, shingle_rule
from mr_dedup.features.word_kernels import WordRule, word_scratch_for
from mr_dedup.fingerprints import kernels

VERSION = 2
"""Raised when a text gets another fingerprint from the same features than before."""


@dataclass(frozen=True)
class Fingerprints:
    """The fingerprints of n texts.

    Attributes:
        values: uint64[n]; 0, without a meaning, of a text without a fingerprint.
        occurrences: uint64[n], the shingles of each text, repeats counted; 0 of a null.
    """

    values: NDArray[np.uint64]
    occurrences: NDArray[np.uint64]

    @property
    def has_fingerprint(self) -> NDArray[np.bool_]:
        """Whether each text has a fingerprint, bool[n]; a null has none."""
        return self.occurrences > 0


def simhash(
    texts: pa.LargeStringArray,
    options: FeatureOptions,
    frequencies: DocumentFrequencies | None = None,
) -> Fingerprints:
    """Return the simhash of every text; a null has none.

    Each feature's hash votes with its weight on each bit, and a bit is 1 where the votes for it
    are more than half: a tie is 0. Hundreds of megabytes a second. Memory: the scratch of the
    longest text.

    Args:
        texts: n texts.
        options: Which features they have, and their weighting.
        frequencies: Document frequencies, for a weighting with idf.

    Raises:
        ValueError: For another type of array, and as :func:`idf_table_for`.
        MrDedupError: As :func:`idf_table_for`.
    """
    idf_table = idf_table_for(options, frequencies)
    batch = prepared_batch(texts, options)
    longest = batch.longest
    values, occurrences = np.zeros((2, len(texts)), np.uint64)
    if _can_count_words(longest, options, idf_table):
        totals = np.append(np.int32(0), options.steps.cumsum(dtype=np.int32))
        rule = WordRule(table_for(options), totals)
        kernels.simhash_words(
            batch, rule, word_scratch_for(longest), idf_table, values, occurrences
        )
    else:
        scratch = scratch_for(longest, options)
        kernels.simhash_texts(batch, shingle_rule(options), scratch, idf_table, values, occurrences)
    return Fingerprints(values, occurrences)


def _can_count_words(size_bytes: int, options: FeatureOptions, idf_table: IdfTable) -> bool:
    """Return whether features are single words whose weights in such a text are small enough.

    The weights of a text of a megabyte are up to half a million times 64; the limit is reached at
    67 MB, without idf. Texts of any size qualify if a word has the same weight however often it
    occurs (``binary``).
    """
    if options.unit != "words" or options.length != 1:
        return False
    steps = options.steps.astype(np.int64) * max(1, int(idf_table.unknown))
    if steps[-1] == 0 and steps.sum() < kernels.MAX_WEIGHT:
        return True
    return bool((size_bytes // 2 + 1) * steps.max() < kernels.MAX_TEXT_WEIGHT)
