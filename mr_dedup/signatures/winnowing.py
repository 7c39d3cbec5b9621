"""Keys of the passages of a text, so that a text shares keys with all that contain a part of it.

Winnowing (Schleimer, Wilkerson, Aiken, Winnowing: local algorithms for document fingerprinting,
SIGMOD 2003) selects the smallest hash of each window of w consecutive shingles. What it selects
depends on the window alone, so a passage has the same selected shingles wherever it is. Unlike the
smallest hashes of a whole text, or those of a fixed rate as of FracMinHash (Irber and others,
2022), they are never far apart: of any w shingles one is selected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import prepared_batch
from mr_dedup.features.shingles import max_shingles, scratch_for, shingle_rule
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.kernels.arrays import uninitialised, written
from mr_dedup.signatures import winnowing_kernels as kernels
from mr_dedup.signatures.parameters import MethodOfWords, check_range
from mr_dedup.signatures.protocol import Signatures

MAX_WINDOW = 1 << 12

_WINDOWS = (4, 6)
"""The smallest and the largest window that is chosen for a threshold."""


@dataclass(frozen=True)
class Winnowing(MethodOfWords):
    """A key for each two shingles that winnowing selects one after another.

    Two texts that have 2 ``window`` consecutive shingles in common share a key, wherever these are
    in each, and whatever the lengths of the texts. A text of n random shingles has about
    2 n / (``window`` + 1) keys. One too short for two selected shingles has a key of all its
    shingles in their order, so that it is a candidate of its copies alone.

    Args:
        window: Consecutive shingles of which one is selected at least.
        shingles: ``words:N``, ``characters:N`` or ``auto``, as ``FeatureOptions.parse`` reads it.
        stop_words, stem, segment, normalize, symbols: As in ``FeatureOptions``.

    Raises:
        ValueError: For a parameter out of range.

    Example:
        >>> page = " ".join(f"word{n}" for n in range(300))
        >>> part = " ".join(f"word{n}" for n in range(200, 230))
        >>> whole, short = np.split(*(lambda it: (it.keys, [it.offsets[1]]))(
        ...     Winnowing(window=6).sign(pa.array([page, part], pa.large_string()))
        ... ))
        >>> bool(np.isin(short, whole).all())
        True
    """

    TITLE: ClassVar[str] = "winnowing"

    window: int = 6
    shingles: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shingles", self.options.shingles)
        check_range("window", self.window, 1, MAX_WINDOW)

    @property
    def options(self) -> FeatureOptions:
        """Which shingles are hashed."""
        return self.prepared(FeatureOptions.parse(self.shingles, "binary"))

    @classmethod
    def defaults_for(cls, similarity: float) -> dict[str, int]:
        """Return the window to find texts by that have this share of their shingles in another.

        If changed words, each in 3 shingles, are a share 1 - t of these, then of n shingles n / 30
        are changed words at t = 0.9, and some unchanged passage has 27 n / (n + 30) shingles or
        more: 12, two windows of 6, from n = 24 on. For lower t the window is shorter.

        >>> [Winnowing.defaults_for(t)["window"] for t in (0.5, 0.8, 0.85, 0.9, 1)]
        [4, 4, 5, 6, 6]
        """
        low, high = _WINDOWS
        wanted = high if similarity >= 1 else round(0.8 / (1 - similarity), 6)
        return {"window": int(min(high, max(low, wanted)))}

    @property
    def has_common_keys(self) -> bool:
        """Whether many keys are of passages that many texts have: yes."""
        return True

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null has none.

        Memory: the keys, and the scratch of the longest text.

        Raises:
            ValueError: For another type of array.
        """
        options = self.options
        batch = prepared_batch(texts, options)
        keys = space_for_keys(batch, options)
        ends = np.zeros(len(texts) + 1, np.uint64)
        kernels.sign_winnowed(
            batch, shingle_rule(options, weighted=False), scratch_for(batch.longest, options),
            np.uint64(self.window), ends, keys,
        )  # fmt: skip
        return signatures_of(ends, keys)


def space_for_keys(batch: TextBatch, options: FeatureOptions) -> NDArray[np.uint64]:
    """Return space for the keys of texts: what is not written takes addresses, no memory."""
    size = int(np.sum(max_shingles(batch.sizes.astype(np.int64), options)))
    return uninitialised(size, np.uint64)


def signatures_of(ends: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Signatures:
    """Return signatures with the written ones of ``keys``, of which all others are released."""
    offsets = ends.view(np.int64)
    keys = written(keys, int(offsets[-1]))
    return Signatures(offsets, keys, np.empty((offsets.size - 1, 0), np.uint8))
