"""Profiles of texts: their frequent words with rounded counts, as Nutch's TextProfileSignature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import table_for
from mr_dedup.features.shingles import scratch_for, slices_of
from mr_dedup.features.unicode_table import unicode_table
from mr_dedup.signatures import word_list_kernels as kernels
from mr_dedup.signatures.md5 import md5_signatures
from mr_dedup.signatures.parameters import MethodOfWords, check_range
from mr_dedup.signatures.protocol import Signatures

MOST_CHARACTERS = 64

_OUT_BYTES = 5
"""A byte of text makes at most so many of a profile: of 1, twice that if folded, and `` 1`` and
a line end."""


@dataclass(frozen=True)
class TextProfile(MethodOfWords):
    """The MD5 of words and their counts, rounded down, the highest first, ``word count`` a line.

    Words have more than ``over`` characters. Counts are multiples of ``rate`` times the highest,
    rounded half up, but of 2 at least, so words that occur once are left out; unless all do: then
    they are all there. Where Nutch leaves the order of equal counts to a hash table, they are in
    that of their bytes. Where it takes a run of CJK characters for one word, each is a word here,
    however short. And a text without such words has no key, where Nutch gives all of them one.
    """

    TITLE: ClassVar[str] = "text-profile"

    over: int = 2
    rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("over", self.over, 0, MOST_CHARACTERS)
        check_range("rate", self.rate, 0, 1)

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null, or one without such words, has none.

        Memory: the profiles, and the longest text's scratch. Raises ValueError for another type of
        array.
        """
        options = self.prepared(FeatureOptions())
        content, starts, stops = slices_of(texts, options)
        sizes = stops - starts
        out = np.empty(_OUT_BYTES * int(sizes.sum()), np.uint8)
        edges = np.zeros(starts.size + 1, np.uint64)
        kernels.write_profiles(
            content, starts, stops, *table_for(options), *unicode_table(), np.uint64(self.over),
            self.rate, scratch_for(int(sizes.max(initial=0)), options), out, edges,
        )  # fmt: skip
        return md5_signatures(out, edges[:-1], edges[1:])
