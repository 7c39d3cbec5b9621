"""Simhash of texts (Charikar; Manku, Jain, Das Sarma, WWW 2007, section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.shingles import FeatureOptions, scratch_for
from mr_dedup.features.unicode_table import unicode_table
from mr_dedup.fingerprints import kernels


@dataclass(frozen=True)
class Fingerprints:
    """The fingerprints of n texts, aligned with them.

    ``values`` uint64[n] and ``occurrences`` uint64[n], the shingles that a text has, repeats
    counted. A text without any has no fingerprint: its value is 0 and means nothing.
    """

    values: NDArray[np.uint64]
    occurrences: NDArray[np.uint64]

    @property
    def exist(self) -> NDArray[np.bool_]:
        """Which texts have a fingerprint, bool[n]."""
        return self.occurrences > 0


def simhash(texts: pa.LargeStringArray, options: FeatureOptions) -> Fingerprints:
    """Return the simhash of every text; a null is a text without features.

    Each feature's hash votes with its weight on each bit, and a bit is 1 where the votes for it
    are more than half: a tie is 0. Hundreds of megabytes a second. Memory: that of the longest
    text's scratch. Raises ValueError for another type of array.
    """
    if not isinstance(texts, pa.LargeStringArray):
        raise ValueError(f"texts must be a pyarrow LargeStringArray, not {type(texts).__name__}")
    count = len(texts)
    _, offsets, content = texts.buffers()
    starts = np.zeros(1, np.uint64)
    if count:
        starts = np.frombuffer(offsets, np.uint64, count + 1, 8 * texts.offset)
    data = np.frombuffer(content or b"", np.uint8)
    if texts.null_count:
        # what lies under a null is not defined
        stops = np.where(texts.is_null().to_numpy(zero_copy_only=False), starts[:-1], starts[1:])
    else:
        stops = starts[1:]
    longest = int((stops - starts[:-1]).max(initial=0))
    values, occurrences = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    kernels.simhash_texts(
        data, starts, stops, *unicode_table(), options.unit == "characters",
        np.uint64(options.length), options.steps, scratch_for(longest, options),
        values, occurrences,
    )  # fmt: skip
    return Fingerprints(values, occurrences)
