"""Five rules by one MD5: of how texts begin, or of the words that weigh most in them.

Texts are the same if the MD5 of the first 512 bytes is (rule 1); of the N heaviest words, in order
of weight (rule 2), and with weights alike (rule 3); of these words in order of the alphabet with
weights alike (rule 4), or whatever they weigh (rule 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.document_frequencies import DocumentFrequencies, weighing
from mr_dedup.features.normalisation import slices
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import table_for
from mr_dedup.features.shingles import scratch_for, slices_of
from mr_dedup.signatures import word_list_kernels as kernels
from mr_dedup.signatures.md5 import md5_signatures
from mr_dedup.signatures.parameters import MethodOfWords, ParameterisedMethod, check_range
from mr_dedup.signatures.protocol import Signatures

Order = Literal["weight", "alphabet"]
ORDERS: tuple[Order, ...] = get_args(Order)

MOST_KEYWORDS = 256
MOST_ABSTRACT_BYTES = 1 << 20

_LONGEST_CHARACTER = 4


@dataclass(frozen=True)
class Abstract(ParameterisedMethod):
    """The MD5 of the first ``size_bytes`` of what shows of a text, cut at a character: rule 1.

    White space at its beginning does not show. The bytes are those of the text as it is, not
    normalised.
    """

    TITLE: ClassVar[str] = "abstract"

    size_bytes: int = 512

    def __post_init__(self) -> None:
        check_range("size_bytes", self.size_bytes, _LONGEST_CHARACTER, MOST_ABSTRACT_BYTES)

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null, or one of white space, has none.

        Raises ValueError for another type of array.
        """
        import pyarrow.compute as pc

        slices(texts)
        content, starts, stops = slices(pc.utf8_ltrim_whitespace(texts))
        cut = np.minimum(stops, starts + np.uint64(self.size_bytes))
        shorter = cut < stops
        for _ in range(_LONGEST_CHARACTER - 1):
            within = shorter.copy()
            within[shorter] = content[cut[shorter]] & 0xC0 == 0x80
            cut -= within
        return md5_signatures(content, starts, cut)


@dataclass(frozen=True)
class Keywords(MethodOfWords):
    """The MD5 of the ``n`` words that weigh most: rules 2 (by weight) and 5 (by the alphabet).

    With a space between words, which none has, so that ``ab c`` is not ``a bc``. Words of equal
    weight are in order of their bytes, as the alphabet is. With ``sim``, rules 3 and 4, texts must
    also have SIM = |a - b|**2 / (|a|**2 + |b|**2) <= ``sim`` by the weights of these words; they
    are then 1 - SIM alike.

    ``weighting`` is as in FeatureOptions, by default tf-idf with ``frequencies`` and tf without.
    """

    TITLE: ClassVar[str] = "keywords"

    n: int = 10
    order: Order = "weight"
    sim: float | None = None
    weighting: str | None = None
    frequencies: DocumentFrequencies | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weighting is None:
            object.__setattr__(self, "weighting", "tf" if self.frequencies is None else "tf-idf")
        check_range("n", self.n, 1, MOST_KEYWORDS)
        if self.order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, not {self.order!r}")
        if self.sim is not None:
            check_range("sim", self.sim, 0, 1)
        if self.frequencies is None and self.options.uses_idf:
            raise ValueError(f"the weighting {self.weighting} needs document frequencies")
        if self.frequencies is not None:
            if not self.options.uses_idf:
                raise ValueError(f"the weighting {self.weighting} takes no document frequencies")
            self.frequencies.refuse_others(self.options)

    @property
    def options(self) -> FeatureOptions:
        """What words are, and weigh."""
        return self.prepared(FeatureOptions("words", 1, self.weighting))  # type: ignore[arg-type]

    @property
    def checks(self) -> bool:
        """Whether a candidate may be no match: with ``sim``."""
        return self.sim is not None

    @property
    def sketch_bytes(self) -> int:
        """How long a sketch is: 8 bytes a word, if weights are compared."""
        return 0 if self.sim is None else 8 * self.n

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null, or one without words, has none.

        A sketch has the low halves of the words' XXH3, ascending, then their weights in the same
        order, as float32; 0 in front where there are fewer words. Memory: the words, and the
        longest text's scratch. Raises ValueError for another type of array.
        """
        options = self.options
        content, starts, stops = slices_of(texts, options)
        sizes = stops - starts
        columns = 0 if self.sim is None else self.n
        words = np.zeros((starts.size, columns), np.uint32)
        weights = np.zeros((starts.size, columns), np.float32)
        out = np.empty(2 * int(sizes.sum()), np.uint8)
        edges = np.zeros(starts.size + 1, np.uint64)
        totals = np.append(0, options.steps.cumsum(dtype=np.int64)).astype(np.uint64)
        kernels.write_keywords(
            content, starts, stops, *table_for(options), totals,
            weighing(options, self.frequencies), np.uint64(self.n), self.order == "weight",
            scratch_for(int(sizes.max(initial=0)), options), np.empty(self.n + 1, np.uint32),
            words, weights, out, edges,
        )  # fmt: skip
        sketches = np.hstack([words.view(np.uint8), weights.view(np.uint8)])
        return md5_signatures(out, edges[:-1], edges[1:], sketches)

    def similarity(
        self, first: NDArray[np.uint8], second: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Return 1 - SIM of every two sketches, NaN where SIM is above ``sim``; else 1."""
        if self.sim is None:
            return super().similarity(first, second)
        found = np.empty(len(first), np.float64)
        kernels.compare_keywords(*self._read(first), *self._read(second), found)
        # of what is NaN, texts without words, nothing holds
        return np.where(found <= self.sim, 1 - found, np.nan)

    def _read(self, sketches: NDArray[np.uint8]) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        half = 4 * self.n
        words = sketches[:, :half].copy().view(np.uint32)
        return words, sketches[:, half:].copy().view(np.float32)
