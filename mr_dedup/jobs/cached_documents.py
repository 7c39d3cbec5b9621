"""What a process keeps of documents between jobs: sets of shingles, and where records begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.verification import ShingleSets, text_hashes
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.jobs.part_cache import PartCache

_SETS, _OFFSETS = "sets of shingles", "offsets of records"

_OFFSETS_SHARE = 8
"""Of a cache, one part in so many is for offsets: sets would fill it, and save less a byte."""


@dataclass(frozen=True)
class CachedBatch:
    """Of n documents the ids, fields, hashes of texts uint64[n, 2], sizes and sets of shingles."""

    ids: pa.LargeStringArray
    fields: pa.Table | None
    hashes: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    sets: ShingleSets

    @property
    def size_bytes(self) -> int:
        """Bytes of memory, about."""
        fields = 0 if self.fields is None else self.fields.nbytes
        arrays = (self.hashes, self.lengths, self.sets.hashes, self.sets.sizes, self.sets.offsets)
        return int(self.ids.nbytes + fields + sum(array.nbytes for array in arrays))


@dataclass
class CachedDocuments:
    """The documents of a chunk, gathered batch by batch until they exceed what a cache has free."""

    batches: list[CachedBatch] = field(default_factory=list)
    size_bytes: int = 0
    fits: bool = True

    def add(self, batch: DocumentBatch, sets: ShingleSets, cache: PartCache) -> None:
        """Add a batch, unless the chunk is too large by now."""
        if not self.fits:
            return
        lengths = np.diff(batch.text_bytes()[0])
        cached = CachedBatch(batch.ids, batch.fields, text_hashes(batch.texts), lengths, sets)
        self.size_bytes += cached.size_bytes
        self.batches.append(cached)
        if self.size_bytes + cache.memory_bytes // _OFFSETS_SHARE > cache.free_bytes:
            self.fits = False
            self.batches.clear()

    def put(self, cache: PartCache, number: int) -> None:
        """Keep the documents of chunk ``number``, if the cache has room for all of them."""
        if self.fits:
            left_bytes = cache.memory_bytes // _OFFSETS_SHARE
            cache.put(_SETS, number, self.batches, self.size_bytes, left_bytes)

    @staticmethod
    def take(cache: PartCache | None, number: int) -> list[CachedBatch] | None:
        """Return the documents of a chunk, None if they are not cached."""
        found: list[CachedBatch] | None = cache.take(_SETS, number) if cache is not None else None
        return found


Offsets = Sequence[tuple[pa.DictionaryArray, NDArray[np.int64]]]
"""For runs of documents the file of each, and the offset at which its record begins."""


@dataclass
class CachedOffsets:
    """Where the records of a chunk begin, so that kept ones can be copied without decoding."""

    runs: list[tuple[pa.DictionaryArray, NDArray[np.int64]]] = field(default_factory=list)

    def add(self, batch: DocumentBatch) -> None:
        """Add the records of a batch."""
        self.runs.append((batch.files, batch.offsets))

    def put(self, cache: PartCache, number: int) -> None:
        """Keep the offsets of chunk ``number``, if there is room."""
        size = sum(int(files.nbytes + offsets.nbytes) for files, offsets in self.runs)
        cache.put(_OFFSETS, number, self.runs, size)

    @staticmethod
    def take(cache: PartCache | None, number: int) -> Offsets | None:
        """Return the offsets of the records of a chunk, None if they are not cached."""
        found: Offsets | None = cache.take(_OFFSETS, number) if cache is not None else None
        return found
