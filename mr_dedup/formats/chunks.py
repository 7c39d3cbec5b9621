"""Chunks: what one map task reads, a whole fingerprint file or a part of one.

On a cluster a task is handed a copy of a file. On one machine it is handed a description of a
part of a file instead, a few bytes of JSON, and reads that part where it is: nothing is copied,
a large file is shared out among the cores, and odd names never reach a shell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.formats.fingerprint_files import FingerprintFile

CHUNK_FINGERPRINTS = 8_388_608
"""Fingerprints a part of a file has at most: 64 MB of longs, the paper's chunk (section 3.3)."""

DESCRIPTION_SUFFIX = ".chunk.json"

_MAX_DESCRIPTION_BYTES = 1 << 16


@dataclass(frozen=True)
class Chunk:
    """The fingerprints ``start`` to ``stop`` of a file; all of them where ``stop`` is None."""

    file: FingerprintFile
    start: int = 0
    stop: int | None = None

    def blocks(self, max_count: int) -> Iterator[NDArray[np.uint64]]:
        """Yield the fingerprints, uint64 arrays of at most ``max_count``."""
        if self.stop is None and self.start == 0:
            return self.file.blocks(max_count=max_count)
        return self.file.blocks(self.start, self.stop, max_count=max_count)

    def approximate_size(self) -> int:
        """Return how many fingerprints there are; a guess of 8 bytes each for compressed text."""
        if self.stop is not None:
            return self.stop - self.start
        count = self.file.count()
        return count if count is not None else self.file.path.stat().st_size // 8

    def sample(self, size: int) -> NDArray[np.uint64]:
        """Return about ``size`` fingerprints from all over the chunk, uint64[s].

        From its beginning where it cannot be read in parts.
        """
        if not self.file.splittable:
            return next(self.file.blocks(max_count=size), np.empty(0, np.uint64))
        count = self.approximate_size()
        if count <= size:
            return np.concatenate([np.empty(0, np.uint64), *self.blocks(size)])
        starts = self.start + np.linspace(0, count - size // 64, 64).astype(np.int64)
        runs = [
            block
            for start in starts.tolist()
            for block in self.file.blocks(start, start + size // 64, max_count=size)
        ]
        return np.concatenate(runs)

    def describe(self) -> str:
        """Return the description that :func:`read_chunk` understands."""
        return json.dumps(
            {
                "path": str(self.file.path.resolve()),
                "format": self.file.format,
                "compression": self.file.compression,
                "byte_order": self.file.byte_order,
                "start": self.start,
                "stop": self.stop,
            }
        )


def cut_into_chunks(file: FingerprintFile, size: int = CHUNK_FINGERPRINTS) -> list[Chunk]:
    """Return the chunks of a file, of at most ``size`` fingerprints where it can be split."""
    count = file.count() if file.splittable else None
    if count is None or count <= size:
        return [Chunk(file)]
    # equal parts, so that no task is left with a sliver
    parts = -(-count // size)
    edges = [count * part // parts for part in range(parts + 1)]
    return [Chunk(file, edges[part], edges[part + 1]) for part in range(parts)]


def read_chunk(path: Path) -> Chunk:
    """Return the chunk described in ``path``.

    Raises FormatError if the description is damaged. It is only ever read from a task's own
    input, which the runner wrote.
    """
    try:
        with path.open("rb") as stream:
            fields = json.loads(stream.read(_MAX_DESCRIPTION_BYTES))
        described = FingerprintFile(
            path=Path(fields["path"]),
            format=fields["format"],
            compression=fields["compression"],
            byte_order=fields["byte_order"],
        )
        return Chunk(described, fields["start"], fields["stop"])
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(path, None, f"is no description of a chunk: {error}") from error
