"""The number of bands and rows of min-wise hashes that find the pairs of a similarity.

Texts of similarity J have equal values in a band of r rows with probability J**r, and so share at
least one of b bands with probability 1 - (1 - J**r)**b (Leskovec, Rajaraman, Ullman, Mining of
Massive Datasets, 3.4). Many bands of many rows approach a step at one similarity; fewer are
cheaper, and give more candidates that are less similar.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from mr_dedup.signatures.minwise import MAX_PERMUTATIONS

RECALL = 0.9995
"""The default of the probability that a pair of the given similarity shares a band."""

MIN_SIMILARITY = 0.5
"""Below this, bands are those for it: the number of bands grows as a power of 1 / J."""

_KEY_NANOSECONDS, _HASH_NANOSECONDS = 110.0, 6.0
"""CPU time to make, write, read and link a key; to compute a min-wise hash after the first 100."""

_CANDIDATE_NANOSECONDS = 10.0
"""CPU time of a candidate of a text. Most are not compared, but each makes clusters larger."""

_DOCUMENTS = 1_000_000
_RELATED_SHARE, _RELATED_SIMILARITY = 0.01, 0.1
"""The corpus that the cost model assumes: _DOCUMENTS documents, this share of whose pairs has
shingles in common, with this mean similarity.

Their similarities are assumed to be exponentially distributed. In the sets of docs/quality.md 0.5 %
(Chinese documentation), 2 % (English documentation) and 15 % (licence texts) of pairs are at 0.05
or above.
"""


class Bands(NamedTuple):
    """A number of bands, and of rows, which are min-wise hashes, in each."""

    bands: int
    rows: int


def expected_recall(similarity: float, bands: int, rows: int, min_shared_bands: int = 1) -> float:
    """Return the probability that texts of a similarity share enough bands.

    Args:
        similarity: The Jaccard index of their sets of shingles, from 0 to 1.
        bands: The number of bands.
        rows: Min-wise hashes a band.
        min_shared_bands: The number of bands that must be shared.

    Example:
        >>> round(expected_recall(0.8, 20, 5), 4)
        0.9996
    """
    one = similarity**rows
    fewer = sum(
        math.comb(bands, n) * one**n * (1 - one) ** (bands - n) for n in range(min_shared_bands)
    )
    return 1 - fewer


@functools.lru_cache
def choose_bands(similarity: float, recall: float = RECALL) -> Bands:
    """Return the cheapest bands that find pairs of a similarity with probability ``recall``.

    Args:
        similarity: The smallest Jaccard index of the pairs to find, above 0 and at most 1. Below
            MIN_SIMILARITY the bands are those for that.
        recall: The probability to find such a pair, above 0 and below 1.

    Raises:
        ValueError: For a ``similarity`` or a ``recall`` out of range.

    Example:
        >>> choose_bands(0.8)
        Bands(bands=20, rows=5)
    """
    if not 0 < similarity <= 1:
        raise ValueError(f"similarity must be above 0 and at most 1, not {similarity}")
    if not 0 < recall < 1:
        raise ValueError(f"recall must be above 0 and below 1, not {recall}")
    similarity = max(similarity, MIN_SIMILARITY)
    options = []
    for rows in range(1, MAX_PERMUTATIONS + 1):
        bands = _fewest_bands(similarity, rows, recall)
        if bands * rows > MAX_PERMUTATIONS:
            break
        options.append(Bands(bands, rows))
    return min(options, key=_nanoseconds)


def _fewest_bands(similarity: float, rows: int, recall: float) -> int:
    one = similarity**rows
    if one == 1:
        return 1
    bands = max(math.floor(math.log1p(-recall) / math.log1p(-one)), 1)
    while expected_recall(similarity, bands, rows) < recall:
        bands += 1
    return bands


def _nanoseconds(option: Bands) -> float:
    """Return the CPU time of a document by the cost model."""
    bands, rows = option
    similarities = (np.arange(1000) + 0.5) / 1000
    density = np.exp(-similarities / _RELATED_SIMILARITY)
    found = 1 - (1 - similarities**rows) ** bands
    share = _RELATED_SHARE * float((density * found).sum() / density.sum())
    keys = bands * (_KEY_NANOSECONDS + rows * _HASH_NANOSECONDS)
    return keys + _DOCUMENTS * share * _CANDIDATE_NANOSECONDS
