"""Parts and chunks of fingerprint files, in fingerprints: read in batches, sampled, cut to size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.batches import regrouped
from mr_dedup.formats.chunks import Chunk, Part, grouped
from mr_dedup.formats.fingerprint_files import FingerprintFile

Fingerprints = NDArray[np.uint64]

CHUNK_FINGERPRINTS = 8_388_608
"""The largest chunk: 64 MB of longs, the paper's chunk (section 3.3)."""

_MIN_COST = 1 << 18
"""Below this a task takes longer to start, 25 ms, than to search."""

_LONG_COST = 1 << 22
"""From this on starting a task is a tenth of its time, a third if values are skewed."""

_TASKS_PER_CORE = 4
"""Tasks of large work, so that no core waits long for the last task of another."""

_FILE_COST = 1 << 11
"""Fingerprints that are searched in the time that opening a file takes, some 90 microseconds."""

_SAMPLE_RUNS = 64
"""Runs of consecutive fingerprints in a sample."""

_PARQUET_RUNS = 8
"""Runs in a Parquet file, where everything in a row group before a run is decoded.

64 runs took as long as reading 4 million rows; in groups of a million rows 5 times as long as
reading 8 million.
"""

_NO_FINGERPRINTS = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class FingerprintPart(Part[FingerprintFile]):
    """Fingerprints ``start`` to ``stop`` of a file, by rank.

    ``size`` is their number, of Parquet the number of rows; of a file that must be read to count
    them its bytes / 8, an upper bound but for highly compressed files.
    """

    size: int = 0

    @classmethod
    def whole(cls, file: FingerprintFile) -> FingerprintPart:
        """Return all of a file; raises as ``FingerprintFile.count``."""
        count = file.count()
        return cls(file, size=file.path.stat().st_size // 8 if count is None else count)

    @property
    def name(self) -> str:
        """The file, with the range if the part is not all of it."""
        return self.file.name + ("" if self.stop is None else f" [{self.start}:{self.stop}]")

    @property
    def cost(self) -> int:
        """What searching the part costs, in fingerprints."""
        return self.size + _FILE_COST

    def cut(self, size: int) -> list[FingerprintPart]:
        """Return parts of at most ``size`` fingerprints; itself if the file is not splittable."""
        if self.size <= size or not self.file.splittable:
            return [self]
        # equal parts, so that no task is left with a small rest
        parts = -(-self.size // size)
        edges = [self.start + self.size * part // parts for part in range(parts + 1)]
        return [
            FingerprintPart(self.file, start, stop, stop - start)
            for start, stop in itertools.pairwise(edges)
        ]

    def batches(self, max_count: int) -> Iterator[Fingerprints]:
        """Yield the fingerprints, uint64 arrays of at most ``max_count``."""
        if self.stop is None and self.start == 0:
            return self.file.batches(max_count=max_count)
        return self.file.batches(self.start, self.stop, max_count=max_count)

    def sample(self, runs: int, length: int) -> Iterator[Fingerprints]:
        """Yield ``runs`` runs of ``length`` fingerprints at equal distances, or fewer at the end.

        Of Parquet fewer and longer runs; of a file that is not splittable its beginning.
        """
        if not self.file.splittable:
            yield next(self.file.batches(max_count=runs * length), _NO_FINGERPRINTS)
            return
        if self.file.format == "parquet" and runs > _PARQUET_RUNS:
            length, runs = runs * length // _PARQUET_RUNS, _PARQUET_RUNS
        last = max(0, self.size - length)
        for offset in np.linspace(0, last, runs).astype(np.int64).tolist():
            start = self.start + offset
            stop = self.start + min(offset + length, self.size)
            yield from self.file.batches(start, stop, max_count=length)


@dataclass(frozen=True)
class FingerprintChunk(Chunk[FingerprintPart]):
    """What one map task reads of fingerprint files."""

    file_type = FingerprintFile
    part_type = FingerprintPart

    @property
    def size(self) -> int:
        """How many fingerprints there are, as far as that is known without reading them."""
        return sum(part.size for part in self.parts)

    def batches(self, max_count: int) -> Iterator[Fingerprints]:
        """Yield the fingerprints, uint64 arrays of at most ``max_count``, those of files joined.

        In memory: up to twice ``max_count`` fingerprints, once if there is one part.
        """
        if len(self.parts) == 1:
            return self.parts[0].batches(max_count)
        return regrouped((b for part in self.parts for b in part.batches(max_count)), max_count)

    def sample(self, size: int) -> Fingerprints:
        """Return at most ``size`` fingerprints from all over the chunk, uint64[s].

        Of a file that is not splittable, from its beginning.
        """
        if self.size <= size:
            runs: list[Fingerprints] = []
            for batch in self.batches(size):
                runs.append(batch)
                if sum(run.size for run in runs) >= size:
                    break
        else:
            ends = np.cumsum([part.size for part in self.parts])
            ranks = np.linspace(0, self.size - 1, _SAMPLE_RUNS).astype(np.int64)
            numbers, counts = np.unique(
                np.searchsorted(ends, ranks, side="right"), return_counts=True
            )
            runs = [
                run
                for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
                for run in self.parts[number].sample(count, size // _SAMPLE_RUNS)
            ]
        return np.concatenate([_NO_FINGERPRINTS, *runs])[:size]


def cut_into_chunks(parts: Sequence[FingerprintPart], size: int) -> list[FingerprintChunk]:
    """Return chunks of the same fingerprints in the same order, each of at most ``size``.

    Larger parts are cut if their files are splittable; consecutive parts whose costs add up to
    less share a chunk.
    """
    pieces = itertools.chain.from_iterable(part.cut(size) for part in parts)
    groups = grouped(((part, part.cost) for part in pieces), size)
    return [FingerprintChunk(number, group) for number, group in enumerate(groups)]


def chunk_size(parts: Sequence[FingerprintPart], cores: int, min_size: int = 0) -> int:
    """Return the size of chunks that use all ``cores`` and are worth a task.

    One task a core; several where tasks would be long. With 2 cores, 8 million fingerprints in 2
    tasks took 0.15 s, in 8 tasks 0.27 s; of skewed values, which cost more to plan for, 0.4 and
    0.65 s.

    Args:
        parts: what is read.
        cores: how many tasks run at a time.
        min_size: the smallest size, for what each task repeats.

    Returns:
        The size in fingerprints, at most CHUNK_FINGERPRINTS.
    """
    work = sum(part.cost for part in parts)
    size = max(
        _MIN_COST, min_size, min(_LONG_COST, work // cores), work // (_TASKS_PER_CORE * cores)
    )
    return min(CHUNK_FINGERPRINTS, size + 1)
