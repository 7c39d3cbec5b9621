"""Profiles of texts: their frequent words with rounded counts, as Nutch's TextProfileSignature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import prepared_batch, table_for
from mr_dedup.features.shingles import scratch_for
from mr_dedup.features.unicode_table import unicode_table
from mr_dedup.signatures import word_list_kernels as kernels
from mr_dedup.signatures.md5 import md5_signatures
from mr_dedup.signatures.parameters import MethodOfWords, check_range
from mr_dedup.signatures.protocol import Signatures

MAX_CHARACTERS = 64

_OUT_BYTES = 5
"""Bytes of a profile that a byte of text makes at most: of 1, twice that if folded, and `` 1`` and
a line end."""


@dataclass(frozen=True)
class TextProfile(MethodOfWords):
    """One key: the MD5 of the profile of a text, its words and counts, ``word count`` a line.

    Words have more than ``over`` characters. Counts are rounded down to multiples of ``rate`` times
    the highest, rounded half up, but of 2 at least; so words that occur once are skipped, unless
    all words do. The highest counts come first, words of equal counts in the order of their bytes.

    Different from Nutch: it leaves the order of equal counts to a hash table; it takes a run of CJK
    characters as one word, where each is a word here, however short; and it gives all texts without
    such words one key, where they have none here.

    Args:
        over: Words with this number of characters or fewer are skipped, from 0 to 64.
        rate: The quantum of counts, as a part of the highest count, from 0 to 1.
        stop_words, stem, segment, normalize, symbols: As in ``FeatureOptions``.

    Raises:
        ValueError: For a parameter out of range.

    Example:
        >>> texts = pa.array(["tic tac tic tac", "tac tic tac, tic!"], pa.large_string())
        >>> one, other = TextProfile().sign(texts).keys
        >>> bool(one == other)
        True
    """

    TITLE: ClassVar[str] = "text-profile"

    over: int = 2
    rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("over", self.over, 0, MAX_CHARACTERS)
        check_range("rate", self.rate, 0, 1)

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null, or one without such words, has none.

        Memory: the profiles, and the scratch of the longest text.

        Raises:
            ValueError: For another type of array.
        """
        options = self.prepared(FeatureOptions())
        batch = prepared_batch(texts, options)
        out = np.empty(_OUT_BYTES * int(batch.sizes.sum()), np.uint8)
        edges = np.zeros(len(texts) + 1, np.uint64)
        rule = kernels.ProfileRule(
            table_for(options), unicode_table(), np.uint64(self.over), self.rate
        )
        kernels.write_profiles(batch, rule, scratch_for(batch.longest, options), out, edges)
        return md5_signatures(out, edges[:-1], edges[1:])
