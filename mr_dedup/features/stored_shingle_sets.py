"""Sets of shingles that are gathered piece by piece: in memory, or of many in a temporary file."""

from __future__ import annotations

import mmap
import tempfile
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.features.shingle_sets import MAX_SHINGLES, ShingleSets
from mr_dedup.files.outputs import write_fully


@dataclass(frozen=True)
class MappedSets(ShingleSets):
    """Sets whose hashes are mapped from a file: read when they are used, and released again.

    Released pages stay in the system's cache as long as there is room; they no longer count as
    memory of the process, by which some clusters end tasks.
    """

    mapped: mmap.mmap

    def release(self) -> None:
        """Have the system take the pages that were read off this process."""
        self.mapped.madvise(mmap.MADV_DONTNEED)


class StoredSets:
    """Gathers sets of shingles, ``memory_bytes`` of hashes in memory.

    More are written to a temporary file in TMPDIR, which has no name and goes with the process. A
    context manager. Raises MrDedupError, naming the directory, where the system has no room.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._limit = MAX_SHINGLES
        self._sizes: list[NDArray[np.int64]] = []
        self._hashes: list[NDArray[np.uint64]] = []
        self._bytes = 0
        self._file: BinaryIO | None = None

    def __enter__(self) -> StoredSets:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, sets: ShingleSets) -> None:
        """Add sets after those that are there; ValueError if they are cut at another size."""
        if self._sizes and sets.max_hashes != self._limit:
            raise ValueError(f"sets: expected sets cut at {self._limit}, got {sets.max_hashes}")
        self._limit = sets.max_hashes
        # a copy: as a column of a table it would keep the memory of all that were read with it
        self._sizes.append(sets.sizes.copy())
        self._hashes.append(sets.hashes)
        self._bytes += sets.hashes.nbytes
        if self._file is not None or self._bytes > self._memory_bytes:
            self._write()

    def joined(self) -> ShingleSets:
        """Return all sets, in the order in which they were added; good until the block ends."""
        sizes = np.concatenate([np.empty(0, np.int64), *self._sizes])
        if self._file is None:
            hashes = np.concatenate([np.empty(0, np.uint64), *self._hashes])
            self._hashes.clear()
            return ShingleSets.of_sizes(sizes, hashes, self._limit)
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        offsets = np.zeros(sizes.size + 1, np.int64)
        np.cumsum(np.minimum(sizes, self._limit), out=offsets[1:])
        return MappedSets(offsets, sizes, np.frombuffer(mapped, np.uint64), self._limit, mapped)

    def _write(self) -> None:
        """Write the hashes that are in memory to the file."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (__exit__ closes it)
            for hashes in filter(len, self._hashes):
                write_fully(self._file, hashes.data)
        except OSError as error:
            folder = tempfile.gettempdir()
            raise MrDedupError(
                f"temporary directory {folder}: {error.strerror or error}"
            ) from error
        self._hashes.clear()
