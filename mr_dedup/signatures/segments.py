"""Segment signatures: near-duplicates share enough of the segments that texts are split into.

Shivakumar and Garcia-Molina, Finding near-replicas of documents on the web, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa

from mr_dedup.errors import not_one_of
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import prepared_batch, table_for
from mr_dedup.features.token_kernels import Tokens
from mr_dedup.features.unit_kernels import LINES, SENTENCES
from mr_dedup.signatures import segment_kernels as kernels
from mr_dedup.signatures.parameters import MethodOfWords, check_range
from mr_dedup.signatures.protocol import Signatures

Cut = Literal["lines", "sentences", "content"]
CUTS: tuple[Cut, ...] = get_args(Cut)

COUNT = 8
"""The default number of segments of a text."""

MAX_SEGMENTS = 1 << 12
MAX_LENGTH = 1 << 20


@dataclass(frozen=True)
class Segments(MethodOfWords):
    """A key for each segment of a text, the XXH3 of its normalised words.

    Segments are runs of lines or of sentences, as even as possible or of ``length`` each; then a
    line that is inserted or removed moves all boundaries behind it. Boundaries by ``content`` stay:
    a segment starts at each 3 words whose hash is among the lowest of the text, or low enough to
    make segments of ``length`` words on average, and ends with the 3 words that start the next one.

    Sentences end with one of .!? before white space, with one of 。！？, and at an empty line.
    Lines and sentences without words are skipped. A text with fewer distinct segments than
    ``min_shared_keys`` gets further keys, which only texts of the same words, in the same lines or
    sentences, share.

    Args:
        by: ``lines``, ``sentences`` or ``content``.
        count: The number of segments of a text, 8 if neither this nor ``length`` is given.
        length: The lines, sentences or words of a segment, in place of ``count``.
        min_shared_keys: The number of distinct segments that near-duplicates share.
        stop_words, stem, segment, normalize, symbols: As in ``FeatureOptions``; stop words and
            stems with ``content`` alone, symbols not with ``sentences``.

    Raises:
        ValueError: For a parameter out of range, or that cannot be combined with another.

    Example:
        >>> Segments(by="lines", length=2, min_shared_keys=1).name
        'segments:by=lines,length=2,min_shared_keys=1'
    """

    TITLE: ClassVar[str] = "segments"

    by: Cut = "content"
    count: int | None = None
    length: int | None = None
    min_shared_keys: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in CUTS:
            raise ValueError(f"by must be {not_one_of(self.by, CUTS)}")
        if self.by == "sentences":
            # marks would hide where sentences end
            object.__setattr__(self, "symbols", None)
        if self.by != "content" and (self.stop_words or self.stem):
            raise ValueError(f"by must be content with stop_words or stem, not {self.by!r}")
        if self.length is None:
            if self.count is None:
                object.__setattr__(self, "count", COUNT)
            check_range("count", self._count, 1, MAX_SEGMENTS)
            check_range("min_shared_keys", self.min_shared_keys, 1, self._count)
            return
        if self.count is not None:
            raise ValueError(f"count and length cannot both be given: {self.count}, {self.length}")
        check_range("length", self.length, 1, MAX_LENGTH)
        check_range("min_shared_keys", self.min_shared_keys, 1, MAX_SEGMENTS)

    @property
    def _count(self) -> int:
        return self.count or 0

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null, or one without words, has none.

        Memory: the keys twice, and the scratch of the longest text.

        Raises:
            ValueError: For another type of array.
        """
        options = self.prepared(FeatureOptions())
        batch = prepared_batch(texts, options)
        # no text has more segments than words; what is not written takes no memory
        max_segments = np.minimum(batch.sizes // 2 + 1, self._count or MAX_LENGTH * MAX_SEGMENTS)
        keys = np.empty(int(max_segments.sum()) + self.min_shared_keys * len(texts), np.uint64)
        ends = np.zeros(len(texts) + 1, np.uint64)
        rule = kernels.SegmentRule(
            _KERNEL_CUTS[self.by],
            *map(np.uint64, (self._count, self.length or 0, self.min_shared_keys)),
        )
        kernels.sign_segments(
            batch, table_for(options), rule, self._scratch(batch.longest), keys, ends
        )
        offsets = ends.view(np.int64)
        sketches = np.empty((len(texts), 0), np.uint8)
        return Signatures(offsets, keys[: offsets[-1]].copy(), sketches)

    def _scratch(self, size_bytes: int) -> kernels.SegmentScratch:
        max_tokens = size_bytes // 2 + 2
        starts, stops = np.empty((2, max_tokens), np.uint32)
        return kernels.SegmentScratch(
            Tokens.allocate(size_bytes),
            starts,
            stops,
            np.empty(max_tokens, np.uint64),
            np.empty(self._count, np.uint64),
        )


_KERNEL_CUTS = {
    "lines": LINES,
    "sentences": SENTENCES,
    "content": kernels.CONTENT,
}
