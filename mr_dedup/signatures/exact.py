"""Texts that are equal once they are normalised: folded, and cut into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import table_for
from mr_dedup.features.shingles import slices_of
from mr_dedup.kernels.byte_blocks import COPY_BYTES
from mr_dedup.signatures import word_list_kernels as kernels
from mr_dedup.signatures.md5 import md5_signatures
from mr_dedup.signatures.parameters import MethodOfWords
from mr_dedup.signatures.protocol import Signatures


@dataclass(frozen=True)
class Exact(MethodOfWords):
    """The MD5 of the normalised text, as FeatureOptions says what that is.

    Of a text without words, such as an empty one or ``-----``, the MD5 of the text as it is.
    """

    TITLE: ClassVar[str] = "exact"

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null has none.

        Memory: up to the texts twice over. Raises ValueError for another type of array.
        """
        options = self.prepared(FeatureOptions())
        content, starts, stops = slices_of(texts, options)
        sizes = stops - starts
        token_starts, token_stops = np.empty((2, int(sizes.max(initial=0)) // 2 + 2), np.uint32)
        out = np.empty(2 * int(sizes.sum()) + 2 * COPY_BYTES, np.uint8)
        edges = np.zeros(starts.size + 1, np.uint64)
        kernels.write_normalised(
            content, starts, stops, *table_for(options), token_starts, token_stops, out, edges
        )
        valid = texts.is_valid().to_numpy(zero_copy_only=False)
        return md5_signatures(out, edges[:-1], edges[1:], exist=valid)
