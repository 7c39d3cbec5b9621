"""Segment signatures: texts are cut into segments, and are the same if they share enough of them.

Shivakumar and Garcia-Molina, Finding near-replicas of documents on the web, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa

from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import table_for
from mr_dedup.features.shingles import scratch_for, slices_of
from mr_dedup.signatures import segment_kernels as kernels
from mr_dedup.signatures.parameters import MethodOfWords, check_range
from mr_dedup.signatures.protocol import Signatures

Cut = Literal["lines", "sentences", "content"]
CUTS: tuple[Cut, ...] = get_args(Cut)

COUNT = 8
"""Segments of a text, unless something else is said."""

MOST_SEGMENTS = 1 << 12
LONGEST = 1 << 20


@dataclass(frozen=True)
class Segments(MethodOfWords):
    """The XXH3 of each segment, normalised; ``least`` different ones are shared.

    A text is cut into ``count`` segments, or with ``length`` in place of that into however many of
    that length it has. Segments are runs of lines or of sentences: as many in each as can be, or
    ``length``. A line or sentence that is put in or left out moves all cuts behind it. Cuts by
    ``content`` stay: they are before those 3 words whose hashes are the lowest of the text, or low
    enough to make segments of ``length`` words on average; a segment goes on to the end of the
    words before which the next begins.

    Sentences end with one of .!? before white space, with one of 。！？, and at an empty line.
    Lines and sentences without words are left out.

    A text of fewer different segments than ``least`` shares that many keys with texts of the same
    words, in the same lines or sentences, alone.
    """

    TITLE: ClassVar[str] = "segments"

    by: Cut = "content"
    count: int | None = None
    length: int | None = None
    least: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in CUTS:
            raise ValueError(f"by must be one of {', '.join(CUTS)}, not {self.by!r}")
        if self.by != "content" and (self.stop_words or self.stem):
            raise ValueError(f"by must be content with stop_words or stem, not {self.by!r}")
        if self.length is None:
            if self.count is None:
                object.__setattr__(self, "count", COUNT)
            check_range("count", self._count, 1, MOST_SEGMENTS)
            check_range("least", self.least, 1, self._count)
            return
        if self.count is not None:
            raise ValueError(f"count and length cannot both be given: {self.count}, {self.length}")
        check_range("length", self.length, 1, LONGEST)
        check_range("least", self.least, 1, MOST_SEGMENTS)

    @property
    def _count(self) -> int:
        return self.count or 0

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null, or one without words, has none.

        Memory: the keys twice over, and the longest text's scratch. Raises ValueError for another
        type of array.
        """
        options = self.prepared(FeatureOptions())
        content, starts, stops = slices_of(texts, options)
        sizes = stops - starts
        longest = int(sizes.max(initial=0))
        unit_starts, unit_stops = np.empty((2, longest // 2 + 2), np.uint32)
        # no text has more segments than words; what is not written to costs nothing
        most = int(np.minimum(sizes // 2 + 1, self._count or LONGEST * MOST_SEGMENTS).sum())
        keys = np.empty(most + self.least * starts.size, np.uint64)
        ends = np.zeros(starts.size + 1, np.uint64)
        kernels.sign_segments(
            content, starts, stops, *table_for(options), _KERNEL_CUTS[self.by],
            np.uint64(self._count), np.uint64(self.length or 0), np.uint64(self.least),
            scratch_for(longest, options), unit_starts, unit_stops,
            np.empty(self._count, np.uint64), keys, ends,
        )  # fmt: skip
        offsets = ends.view(np.int64)
        return Signatures(offsets, keys[: offsets[-1]].copy(), np.empty((starts.size, 0), np.uint8))


_KERNEL_CUTS = {
    "lines": kernels.LINES,
    "sentences": kernels.SENTENCES,
    "content": kernels.CONTENT,
}
