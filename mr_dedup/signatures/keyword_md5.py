"""Five rules by one MD5: of how texts begin, or of the words that weigh most in them.

Texts are the same if the MD5 of the first 512 bytes is (rule 1); of the N heaviest words, in order
of weight (rule 2), and with similar weights (rule 3); of these words in order of the alphabet with
similar weights (rule 4), or without regard to weights (rule 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.errors import not_one_of
from mr_dedup.features.document_frequencies import DocumentFrequencies, idf_table_for
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import prepared_batch, table_for
from mr_dedup.features.shingles import scratch_for
from mr_dedup.features.text_batch import text_batch
from mr_dedup.signatures import word_list_kernels as kernels
from mr_dedup.signatures.md5 import md5_signatures
from mr_dedup.signatures.parameters import MethodOfWords, check_range
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

Order = Literal["weight", "alphabet"]
ORDERS: tuple[Order, ...] = get_args(Order)

MAX_KEYWORDS = 256
MAX_ABSTRACT_BYTES = 1 << 20

_LONGEST_CHARACTER = 4


@dataclass(frozen=True)
class Abstract(SignatureMethod):
    """One key: the MD5 of the first bytes of a text, cut at a character (rule 1).

    The bytes are those of the text after leading white space, not normalised.

    Args:
        size_bytes: The number of bytes, 512 by default.

    Raises:
        ValueError: For a size out of range.

    Example:
        >>> texts = pa.array(["  Hello, world", "Hello, all"], pa.large_string())
        >>> one, other = Abstract(size_bytes=6).sign(texts).keys
        >>> bool(one == other)
        True
    """

    TITLE: ClassVar[str] = "abstract"

    size_bytes: int = 512

    def __post_init__(self) -> None:
        check_range("size_bytes", self.size_bytes, _LONGEST_CHARACTER, MAX_ABSTRACT_BYTES)

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null, or one of white space, has none.

        Raises:
            ValueError: For another type of array.
        """
        import pyarrow.compute as pc

        text_batch(texts)
        content, starts, stops = text_batch(pc.utf8_ltrim_whitespace(texts))
        cut = np.minimum(stops, starts + np.uint64(self.size_bytes))
        shorter = cut < stops
        for _ in range(_LONGEST_CHARACTER - 1):
            within = shorter.copy()
            within[shorter] = content[cut[shorter]] & 0xC0 == 0x80
            cut -= within
        return md5_signatures(content, starts, cut)


@dataclass(frozen=True)
class Keywords(MethodOfWords):
    """One key: the MD5 of the ``n`` words that weigh most (rules 2 and 5).

    Words are joined by a space. With ``sim`` (rules 3 and 4) a candidate is a match only if
    SIM = |a - b|**2 / (|a|**2 + |b|**2) <= ``sim``, a and b being the weights of these words in the
    two texts; the similarity is then 1 - SIM.

    Args:
        n: The number of words.
        order: The order in which they are hashed: ``weight`` (rule 2), words of equal weight in the
            order of their bytes; or ``alphabet`` (rule 5), the order of their bytes.
        sim: The largest SIM of a match, from 0 to 1; None to accept every candidate.
        weighting: As in ``FeatureOptions``; by default tf-idf with ``frequencies``, tf without.
        frequencies: Document frequencies of words, for a weighting with idf.
        stop_words, stem, segment, normalize, symbols: As in ``FeatureOptions``.

    Raises:
        ValueError: For a parameter out of range, and for frequencies without a weighting that uses
            them, or the other way round.
        MrDedupError: For frequencies of other features.

    Example:
        >>> texts = pa.array(["the cat and the dog", "the dog and the cat"], pa.large_string())
        >>> one, other = Keywords(n=3).sign(texts).keys
        >>> bool(one == other)
        True
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
        check_range("n", self.n, 1, MAX_KEYWORDS)
        if self.order not in ORDERS:
            raise ValueError(f"order must be {not_one_of(self.order, ORDERS)}")
        if self.sim is not None:
            check_range("sim", self.sim, 0, 1)
        if self.frequencies is None and self.options.uses_idf:
            raise ValueError(f"the weighting {self.weighting} needs document frequencies")
        if self.frequencies is not None:
            if not self.options.uses_idf:
                raise ValueError(f"the weighting {self.weighting} uses no document frequencies")
            self.frequencies.check_features(self.options)

    @property
    def options(self) -> FeatureOptions:
        """What words are, and their weighting."""
        return self.prepared(FeatureOptions("words", 1, self.weighting))  # type: ignore[arg-type]

    @property
    def needs_verification(self) -> bool:
        """Whether sketches decide if a candidate is a match: with ``sim``."""
        return self.sim is not None

    @property
    def sketch_bytes(self) -> int:
        """The size of a sketch: 8 bytes a word, if weights are compared."""
        return 0 if self.sim is None else 8 * self.n

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null, or one without words, has none.

        A sketch is the low halves of the words' XXH3, ascending, then their weights in the same
        order, as float32; padded with 0 at the front. Memory: the words, and the scratch of the
        longest text.

        Raises:
            ValueError: For another type of array.
        """
        options = self.options
        batch = prepared_batch(texts, options)
        columns = 0 if self.sim is None else self.n
        words = np.zeros((len(texts), columns), np.uint32)
        weights = np.zeros((len(texts), columns), np.float32)
        out = np.empty(2 * int(batch.sizes.sum()), np.uint8)
        edges = np.zeros(len(texts) + 1, np.uint64)
        rule = kernels.KeywordRule(
            table_for(options),
            np.append(0, options.steps.cumsum(dtype=np.int64)).astype(np.uint64),
            idf_table_for(options, self.frequencies),
            np.uint64(self.n),
            self.order == "weight",
        )
        kernels.write_keywords(
            batch, rule, scratch_for(batch.longest, options), np.empty(self.n + 1, np.uint32),
            (words, weights), out, edges,
        )  # fmt: skip
        sketches = np.hstack([words.view(np.uint8), weights.view(np.uint8)])
        return md5_signatures(out, edges[:-1], edges[1:], sketches)

    def similarity(
        self, first: NDArray[np.uint8], second: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Return 1 - SIM of each pair, NaN where SIM is above ``sim``; 1 without ``sim``."""
        if self.sim is None:
            return super().similarity(first, second)
        found = np.empty(len(first), np.float64)
        kernels.compare_keywords(*self._read(first), *self._read(second), found)
        # NaN, of texts without words, compares as False
        return np.where(found <= self.sim, 1 - found, np.nan)

    def _read(self, sketches: NDArray[np.uint8]) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        half = 4 * self.n
        words = sketches[:, :half].copy().view(np.uint32)
        return words, sketches[:, half:].copy().view(np.float32)
