"""Chunks: what one map task reads, a fingerprint file, a part of one, or several small ones.

On a cluster a task is handed a copy of a file. On one machine it is handed a description of parts
of files instead, some JSON, and reads those parts where they are: nothing is copied, a large file
is shared out among the cores, thousands of tiny files share a task, and odd names never reach a
shell.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.formats.fingerprint_files import FingerprintFile

Fingerprints = NDArray[np.uint64]

CHUNK_FINGERPRINTS = 8_388_608
"""Fingerprints a chunk has at most: 64 MB of longs, the paper's chunk (section 3.3)."""

_LEAST_COST = 1 << 18
"""Below this a task takes longer to start, 25 ms, than to search."""

_LONG_COST = 1 << 22
"""From this on a task pays well: starting it is a tenth of it, a third if values are skewed."""

_TASKS_A_CORE = 4
"""Tasks that a core has of large work, so that none waits long for the last task of another."""

_FILE_COST = 1 << 11
"""Fingerprints that are searched in the time it takes to open a file, some 90 microseconds."""

DESCRIPTION_SUFFIX = ".chunk.json"

_SAMPLE_RUNS = 64
"""Places from which a sample is read."""

_PARQUET_RUNS = 8
"""Those in a Parquet file, where all is decoded that is before a place in its row group.

From 64 places a sample took as long as reading 4 million rows, in groups of a million rows 5 times
as long as reading 8 million.
"""

_NO_FINGERPRINTS = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class Part:
    """The fingerprints ``start`` to ``stop`` of a file; all of them where ``stop`` is None.

    ``size`` is how many there are, of Parquet with the rows that have none; or, of a file that
    must be read to count them, its bytes / 8: more than there are but in highly compressed files.
    """

    file: FingerprintFile
    size: int
    start: int = 0
    stop: int | None = None

    @classmethod
    def whole(cls, file: FingerprintFile) -> Part:
        """Return all of a file; raises as ``FingerprintFile.count``."""
        count = file.count()
        return cls(file, file.path.stat().st_size // 8 if count is None else count)

    @property
    def cost(self) -> int:
        """What it takes to search the part, in fingerprints."""
        return self.size + _FILE_COST

    @property
    def name(self) -> str:
        """The file, and of a part of one its range."""
        return f"{self.file.path}" + ("" if self.stop is None else f" [{self.start}:{self.stop}]")

    def cut(self, size: int) -> list[Part]:
        """Return parts of at most ``size`` fingerprints; itself where the file cannot be split."""
        if self.size <= size or not self.file.splittable:
            return [self]
        # equal parts, so that no task is left with a sliver
        parts = -(-self.size // size)
        edges = [self.start + self.size * part // parts for part in range(parts + 1)]
        return [
            Part(self.file, edges[part + 1] - edges[part], edges[part], edges[part + 1])
            for part in range(parts)
        ]

    def batches(self, max_count: int) -> Iterator[Fingerprints]:
        """Yield the fingerprints, uint64 arrays of at most ``max_count``."""
        if self.stop is None and self.start == 0:
            return self.file.batches(max_count=max_count)
        return self.file.batches(self.start, self.stop, max_count=max_count)

    def sample(self, runs: int, length: int) -> Iterator[Fingerprints]:
        """Yield ``runs`` runs of ``length`` fingerprints, evenly spaced, or fewer where it ends.

        Of Parquet fewer and longer ones. From its beginning where the file cannot be read in parts.
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
class Chunk:
    """What one map task reads: at least one part of a file, in order."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """How many fingerprints there are, as far as that is known without reading them."""
        return sum(part.size for part in self.parts)

    @property
    def name(self) -> str:
        """What messages call the chunk: its first file, and how many others there are."""
        others = len(self.parts) - 1
        return self.parts[0].name + (f" and {others:,} more" if others else "")

    def batches(self, max_count: int) -> Iterator[Fingerprints]:
        """Yield the fingerprints, uint64 arrays of at most ``max_count``, small ones joined.

        In memory: up to twice ``max_count`` fingerprints, once if there is one part.
        """
        waiting: list[Fingerprints] = []
        held = 0
        for part in self.parts:
            for batch in part.batches(max_count):
                if held + batch.size > max_count:
                    yield _joined(waiting)
                    waiting, held = [], 0
                waiting.append(batch)
                held += batch.size
                if held == max_count:
                    yield _joined(waiting)
                    waiting, held = [], 0
        if held:
            yield _joined(waiting)

    def sample(self, size: int) -> Fingerprints:
        """Return at most ``size`` fingerprints from all over the chunk, uint64[s].

        Of a file that cannot be read in parts, from its beginning.
        """
        if self.size <= size:
            runs: list[Fingerprints] = []
            for batch in self.batches(size):
                runs.append(batch)
                if sum(run.size for run in runs) >= size:
                    break
        else:
            ends = np.cumsum([part.size for part in self.parts])
            places = np.linspace(0, self.size - 1, _SAMPLE_RUNS).astype(np.int64)
            numbers, counts = np.unique(
                np.searchsorted(ends, places, side="right"), return_counts=True
            )
            runs = [
                run
                for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
                for run in self.parts[number].sample(count, size // _SAMPLE_RUNS)
            ]
        return _joined([_NO_FINGERPRINTS, *runs])[:size]

    def describe(self) -> str:
        """Return the description that :func:`read_chunk` understands."""
        parts = [
            {
                "path": str(part.file.path.absolute()),
                "format": part.file.format,
                "compression": part.file.compression,
                "byte_order": part.file.byte_order,
                "size": part.size,
                "start": part.start,
                "stop": part.stop,
            }
            for part in self.parts
        ]
        return json.dumps({"parts": parts})


def cut_into_chunks(parts: Sequence[Part], size: int) -> list[Chunk]:
    """Return chunks of the same fingerprints in the same order, each of at most ``size``.

    Larger parts are cut, where their files can be split; consecutive ones whose costs add up to
    less share a chunk.
    """
    chunks: list[Chunk] = []
    waiting: list[Part] = []
    cost = 0
    for part in itertools.chain.from_iterable(part.cut(size) for part in parts):
        if waiting and cost + part.cost > size:
            chunks.append(Chunk(tuple(waiting)))
            waiting, cost = [], 0
        waiting.append(part)
        cost += part.cost
    return [*chunks, Chunk(tuple(waiting))] if waiting else chunks


def chunk_size(parts: Sequence[Part], cores: int, least: int = 0) -> int:
    """Return the size of chunks that keep ``cores`` busy with ``parts``, and are worth a task.

    A task a core; of work that makes these long, several. At least ``least``, which is for what
    each task does anew, and at most CHUNK_FINGERPRINTS. With 2 cores, 8 million fingerprints in
    2 tasks took 0.15 s, in 8 tasks 0.27 s; of skewed values, which are dearer to plan for, 0.4
    and 0.65 s.
    """
    work = sum(part.cost for part in parts)
    size = max(_LEAST_COST, least, min(_LONG_COST, work // cores), work // (_TASKS_A_CORE * cores))
    return min(CHUNK_FINGERPRINTS, size + 1)


def read_chunk(path: Path) -> Chunk:
    """Return the chunk described in ``path``.

    Raises FormatError if the description is damaged. It is only ever read from a task's own
    input, which the runner wrote.
    """
    try:
        fields = json.loads(path.read_bytes())
        parts = tuple(
            Part(
                FingerprintFile(
                    path=Path(part["path"]),
                    format=part["format"],
                    compression=part["compression"],
                    byte_order=part["byte_order"],
                ),
                part["size"],
                part["start"],
                part["stop"],
            )
            for part in fields["parts"]
        )
        if not parts:
            raise ValueError("no parts")
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(path, None, f"is no description of a chunk: {error}") from error
    return Chunk(parts)


def _joined(batches: Sequence[Fingerprints]) -> Fingerprints:
    return batches[0] if len(batches) == 1 else np.concatenate(batches)
