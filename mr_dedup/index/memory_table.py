"""The memory table: the documents added last, in their order, compared one by one.

65,536 fingerprints are gone through in 5 to 15 µs, 32 at a time: less than it would take to keep
tables of them that grow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mr_dedup.index import kernels
from mr_dedup.kernels.distances import LANES

Fingerprints = NDArray[np.uint64]
Key = bytes | int
"""What names a document: its id in UTF-8, or where there are no ids its fingerprint."""

_ALIVE = np.uint64((1 << 64) - 1)
_LEAST = 1 << 10
_MATCHES_AT_ONCE = 1 << 8


class MemoryTable:
    """Documents by slot; a slot is used once. One thread changes it, others may scan.

    A scan is of a number of slots at a sequence number, so that it sees what was done up to then
    and nothing later. Grows by doubling; 16 bytes a document, with an id some 150 more.
    """

    def __init__(self) -> None:
        self.count = 0
        """Slots in use, those of removed documents among them."""
        self.slots: dict[Key, int] = {}
        """The slot of each document that is held."""
        self.keys: list[Key] = []
        """What is in each slot, also of removed ones."""
        self.values = np.zeros(_LEAST + LANES, np.uint64)
        self.died = np.full(_LEAST, _ALIVE)

    def add(self, fingerprints: Fingerprints, keys: Sequence[Key]) -> None:
        """Append documents whose keys are not held."""
        end = self.count + len(fingerprints)
        if end > len(self.died):
            self._grow(end)
        self.values[self.count : end] = fingerprints
        self.slots.update(zip(keys, range(self.count, end), strict=True))
        self.keys += keys
        self.count = end

    def remove(self, key: Key, sequence: int) -> bool:
        """Remove a document, for scans from ``sequence`` on; return whether it was held."""
        slot = self.slots.pop(key, None)
        if slot is None:
            return False
        self.died[slot] = sequence
        return True

    def held(self) -> NDArray[np.int64]:
        """Return the slots of the documents that are held, in the order of adding."""
        return np.flatnonzero(self.died[: self.count] == _ALIVE)

    def scan(
        self, queries: Fingerprints, k: int, count: int, sequence: int, enough: int
    ) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]] | None, int]:
        """Return positions of the first queries and slots within ``k`` bits, aligned.

        None for no match; and of how many queries: all, or those after which there were ``enough``
        matches, one query at least.
        """
        # those that a growing table leaves behind stay as they were for their scans
        values, died = self.values, self.died
        size, begin, matches = _MATCHES_AT_ONCE, 0, 0
        parts = []
        while begin < len(queries) and matches < enough:
            out_queries, out_slots = np.empty((2, size), np.int64)
            written, begin = kernels.scan(
                queries, begin, np.uint64(k), values, np.uint64(count), died, np.uint64(sequence),
                out_queries, out_slots,
            )  # fmt: skip
            if written:
                parts.append((out_queries[:written], out_slots[:written]))
                matches += written
            size *= 2
        if not parts:
            return None, begin
        found, slots = zip(*parts, strict=True)
        return (np.concatenate(found), np.concatenate(slots)), begin

    def _grow(self, least: int) -> None:
        size = max(least, 2 * len(self.died))
        values, died = np.zeros(size + LANES, np.uint64), np.full(size, _ALIVE)
        values[: self.count] = self.values[: self.count]
        died[: self.count] = self.died[: self.count]
        # values last: who sees more of them also sees when they died
        self.died, self.values = died, values
