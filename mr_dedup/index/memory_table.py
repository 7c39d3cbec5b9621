"""The memory table: the documents added last, which a query compares one by one.

To scan 65,536 fingerprints takes 5 to 15 µs, 32 at a time: less than to maintain growing tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mr_dedup.index import kernels
from mr_dedup.kernels.distances import LANES

Fingerprints = NDArray[np.uint64]
Key = bytes | int
"""The key of a document: its id in UTF-8, or its fingerprint in an index without ids."""

_ALIVE = np.uint64((1 << 64) - 1)
_MIN_SLOTS = 1 << 10


class MemoryTable:
    """Documents by slot; a slot is used once. One thread changes it, others may scan.

    A scan is of the first slots at a change number, so that it sees the changes up to that one and
    no later ones. Grows by doubling; 16 bytes a document, with an id some 150 more.
    """

    def __init__(self) -> None:
        self.count = 0
        """Slots in use, including those of removed documents."""
        self.slots: dict[Key, int] = {}
        """The slot of each living document."""
        self.keys: list[Key] = []
        """The key of each slot, also of removed documents."""
        self.values = np.zeros(_MIN_SLOTS + LANES, np.uint64)
        self.died = np.full(_MIN_SLOTS, _ALIVE)

    def add(self, fingerprints: Fingerprints, keys: Sequence[Key]) -> None:
        """Append documents whose keys are not in the table."""
        end = self.count + len(fingerprints)
        if end > len(self.died):
            self._grow(end)
        self.values[self.count : end] = fingerprints
        self.slots.update(zip(keys, range(self.count, end), strict=True))
        self.keys += keys
        self.count = end

    def remove(self, key: Key, sequence: int) -> bool:
        """Remove a document, for scans from ``sequence`` on; return whether it was there."""
        slot = self.slots.pop(key, None)
        if slot is None:
            return False
        self.died[slot] = sequence
        return True

    def living(self) -> NDArray[np.int64]:
        """Return the slots of the living documents, in the order in which they were added."""
        return np.flatnonzero(self.died[: self.count] == _ALIVE)

    def scan(
        self,
        queries: Fingerprints,
        k: int,
        count: int,
        sequence: int,
        stop_after: int,
        buffered: int,
    ) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]] | None, int]:
        """Return the documents within ``k`` bits of the first of ``queries`` uint64[n].

        Args:
            queries: the fingerprints to compare with.
            k: the largest distance.
            count: the number of slots to scan.
            sequence: the change after which documents have to be alive.
            stop_after: the number of matches after which no further query is processed.
            buffered: the number of matches that the first buffer has room for.

        Returns:
            The matches as two columns, rows of queries and slots, None if there are none; and the
            number of queries that were processed.
        """
        # a growing table leaves these arrays as they are for their scans
        values, died = self.values, self.died
        size, begin, matches = buffered, 0, 0
        parts = []
        while begin < len(queries) and matches < stop_after:
            out = np.empty((2, size), np.int64)
            written, begin = kernels.scan(
                queries, begin, np.uint64(k), values, np.uint64(count), died, np.uint64(sequence),
                out,
            )  # fmt: skip
            if written:
                parts.append((out[0, :written], out[1, :written]))
                matches += written
            size *= 2
        if not parts:
            return None, begin
        found, slots = zip(*parts, strict=True)
        return (np.concatenate(found), np.concatenate(slots)), begin

    def _grow(self, min_slots: int) -> None:
        size = max(min_slots, 2 * len(self.died))
        values, died = np.zeros(size + LANES, np.uint64), np.full(size, _ALIVE)
        values[: self.count] = self.values[: self.count]
        died[: self.count] = self.died[: self.count]
        # values last: a scan that sees the new ones sees their ``died`` too
        self.died, self.values = died, values
