"""Texts that are equal once they are normalised: case-folded and split into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import prepared_batch, table_for
from mr_dedup.features.token_kernels import Tokens
from mr_dedup.kernels.byte_blocks import COPY_BYTES
from mr_dedup.signatures import word_list_kernels as kernels
from mr_dedup.signatures.md5 import md5_signatures
from mr_dedup.signatures.parameters import MethodOfWords
from mr_dedup.signatures.protocol import Signatures


@dataclass(frozen=True)
class Exact(MethodOfWords):
    """One key: the MD5 of the tokens of a text, joined as by ``FeatureOptions``.

    A text without words, such as an empty one or ``-----``, has the MD5 of its bytes.

    Args:
        stop_words, stem, segment, normalize, symbols: As in ``FeatureOptions``.

    Example:
        >>> texts = pa.array(["One, two!", "one two", "two one"], pa.large_string())
        >>> first, second, third = Exact().sign(texts).keys.tolist()
        >>> first == second, second == third
        (True, False)
    """

    TITLE: ClassVar[str] = "exact"

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null has none.

        Memory: up to the texts twice.

        Raises:
            ValueError: For another type of array.
        """
        options = self.prepared(FeatureOptions())
        batch = prepared_batch(texts, options)
        space = Tokens.allocate(batch.longest)
        out = np.empty(2 * int(batch.sizes.sum()) + 2 * COPY_BYTES, np.uint8)
        edges = np.zeros(len(texts) + 1, np.uint64)
        kernels.write_normalised(batch, table_for(options), space._replace(text=out), edges)
        valid = texts.is_valid().to_numpy(zero_copy_only=False)
        return md5_signatures(out, edges[:-1], edges[1:], has_key=valid)
