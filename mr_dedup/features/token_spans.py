"""Where the tokens of texts are: their hashes, and offsets in the texts as they were read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features import normalisation_kernels, token_span_kernels
from mr_dedup.features.normalisation import normalised
from mr_dedup.features.normalisation_table import NormalisationTable, normalisation_table
from mr_dedup.features.text_batch import TextBatch, text_batch
from mr_dedup.features.token_kernels import Tokens
from mr_dedup.features.unicode_table import unicode_table


@dataclass(frozen=True)
class TokenSpans:
    """The tokens of n texts, m in all.

    Those of text i are ``offsets[i]`` to ``offsets[i + 1]``; 16 bytes a token.

    Attributes:
        offsets: int64[n + 1].
        hashes: uint64[m], the 64-bit XXH3 of each token, normalised and case-folded: the feature
            that ``words:1`` makes of it.
        starts: uint32[m], where a token begins, in bytes of UTF-8 from the beginning of its text
            as it was read.
        stops: uint32[m], where it ends.
    """

    offsets: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    starts: NDArray[np.uint32]
    stops: NDArray[np.uint32]

    def __len__(self) -> int:
        return self.offsets.size - 1


def token_spans(texts: pa.LargeStringArray, normalize: str = "nfkc") -> TokenSpans:
    """Return the tokens of every text, and where it has them; a null has none.

    Tokens are those of ``FeatureOptions("words")``. Starts ascend, and stops do. A span begins and
    ends where a grapheme cluster does. It covers all characters that a token is made of, those that
    normalisation drops among them, so spans overlap where one character becomes several tokens
    (½ becomes 1⁄2).

    Takes twice the time of finding tokens, and 10 ns a character of texts that normalisation
    changes. Memory: the tokens, and twice the longest text.

    Args:
        texts: n texts, each of less than 2 GB.
        normalize: As in ``FeatureOptions``.

    Raises:
        ValueError: For another type of array, or a longer text.

    Example:
        >>> texts = pa.array(["Stra\\u00dfe 7, e\\ufb03cient."], pa.large_string())
        >>> spans = token_spans(texts)
        >>> read = texts[0].as_py().encode()
        >>> [read[i:j].decode() for i, j in zip(spans.starts, spans.stops)]
        ['Straße', '7', 'eﬃcient']
    """
    source = text_batch(texts)
    if source.longest >= 1 << 31:
        raise ValueError(f"texts must have less than 2 GB each, not {source.longest} bytes")
    normal_texts = texts if normalize == "none" else normalised(texts, normalize)
    normal = text_batch(normal_texts)
    found = _space_for(normal)
    table = unicode_table()
    scratch = Tokens.allocate(normal.longest)
    token_span_kernels.find_in_normal(normal, table, scratch, found)
    if normalize != "none" and normal_texts is not texts:
        rules = normalisation_table(normalize)
        rows = _changed_rows(source, rules)
        _, max_characters = normalisation_kernels.max_sizes(source, rows, rules)
        space = normalisation_kernels.Characters.allocate(int(max_characters))
        token_span_kernels.move_to_source(source, rows, rules, space, found)
    token_span_kernels.widen_to_graphemes(source, table, found)
    count = int(found.edges[-1])
    for column in (found.hashes, found.starts, found.stops):
        column.resize(count, refcheck=False)
    return TokenSpans(found.edges, found.hashes, found.starts, found.stops)


def _space_for(batch: TextBatch) -> token_span_kernels.FoundTokens:
    """Return space for all tokens; what is not touched takes addresses, no memory."""
    # between two tokens of a byte is one; others have more bytes
    max_tokens = int((batch.sizes // 2 + 1).sum())
    return token_span_kernels.FoundTokens(
        np.empty(len(batch.starts) + 1, np.int64),
        np.empty(max_tokens, np.uint64),
        np.empty(max_tokens, np.uint32),
        np.empty(max_tokens, np.uint32),
    )


def _changed_rows(batch: TextBatch, table: NormalisationTable) -> NDArray[np.int64]:
    rows = np.empty(batch.starts.size, np.int64)
    changed = normalisation_kernels.find_changed(batch, table, rows)
    return rows[:changed]
