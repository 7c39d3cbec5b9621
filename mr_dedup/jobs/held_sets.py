"""What one process holds of documents from the fingerprint job to the resolve and the keep job.

So it need not decode them again: sets of shingles instead of texts, and what else is to be known.
Sets stay where they are until they are compared: to hand them from map to reduce copied them twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.options import FeatureOptions

if TYPE_CHECKING:
    from mr_dedup.clusters.verification import ShingleSets
    from mr_dedup.formats.documents.batch import DocumentBatch


@dataclass(frozen=True)
class HeldBatchOfSets:
    """Of n documents their ids, fields, hashes of texts uint64[n, 2], sizes and sets."""

    ids: pa.LargeStringArray
    fields: pa.Table | None
    hashes: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    sets: ShingleSets

    @classmethod
    def of(cls, batch: DocumentBatch, sets: ShingleSets) -> HeldBatchOfSets:
        """Return what is held of a batch."""
        from mr_dedup.clusters.verification import text_hashes

        lengths = np.diff(batch.text_bytes()[0])
        return cls(batch.ids, batch.fields, text_hashes(batch.texts), lengths, sets)


@dataclass
class HeldSets:
    """The sets by ``shingles``, and ``fields``, of the documents of each chunk, by its number.

    ``places`` says of those whose records are lines which file each is of, and where it begins.
    ``parts`` are sets that tasks of the resolve job refer to, by the numbers that ``put`` gives.
    """

    shingles: FeatureOptions
    fields: Sequence[str]
    chunks: dict[int, list[HeldBatchOfSets]] = field(default_factory=dict)
    places: dict[int, list[tuple[pa.DictionaryArray, NDArray[np.int64]]]] = field(
        default_factory=dict
    )
    parts: dict[int, ShingleSets] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def put(self, sets: ShingleSets) -> int:
        """Hold sets until the job ends; return their number. Threads may do so at once."""
        number = next(self._numbers)
        self.parts[number] = sets
        return number

    def gathered(self, parts: NDArray[np.int64], rows: NDArray[np.int64]) -> ShingleSets:
        """Return the sets rows[m] of the parts of these numbers, in their order; a copy."""
        from mr_dedup.clusters.verification import ShingleSets

        numbers, inverse = np.unique(parts, return_inverse=True)
        return ShingleSets.gathered([self.parts[part] for part in numbers.tolist()], inverse, rows)
