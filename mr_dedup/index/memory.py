"""An index in memory: for tests, and for some hundred thousand documents."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.index.hits import QUERY_BUFFERS, QueryBuffers
from mr_dedup.index.protocol import Checked, Fingerprints, IndexMatches
from mr_dedup.index.snapshot import Snapshot
from mr_dedup.index.state import Batch, State, checked


class MemoryIndex:
    """An index that ends with its process; methods are those of ``protocol.FingerprintIndex``.

    A query compares each document, 0.2 ns each.

    Args:
        k: the largest distance of a query, 0 to 63.
        named: whether documents have ids; without, each fingerprint is its own document.
        buffers: how much a query buffers.

    Raises:
        ValueError: ``k`` is out of range.

    >>> index = MemoryIndex(k=3)
    >>> index.add(np.array([5, 1 << 40], np.uint64), ["a", "b"])
    2
    >>> [tuple(match) for match in index.query(np.array([7], np.uint64))]
    [('a', 5, 1)]
    >>> index.remove(["a", "c"]).tolist()
    [True, False]
    """

    def __init__(
        self, k: int = 3, *, named: bool = True, buffers: QueryBuffers = QUERY_BUFFERS
    ) -> None:
        if not 0 <= k < 64:
            raise ValueError(f"k must be from 0 to 63, not {k}")
        self.k, self.named = k, named
        self._state = State(k, named, buffers=buffers)
        self._changing = threading.RLock()

    def __len__(self) -> int:
        return len(self._state.current)

    def add(self, fingerprints: Fingerprints, ids: Sequence[str] | pa.Array | None = None) -> int:
        """Add documents; return how many were not in the index before."""
        batch = Batch.of(fingerprints, ids, self.named)
        with self._changing:
            return self._state.add(batch, self._state.look_up(batch))

    def remove(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Remove documents; return which were in the index, bool[n]."""
        with self._changing:
            return self._state.remove(self._state.look_up(Batch.to_remove(ids, self.named)))

    def query(
        self, fingerprints: Fingerprints, k: int | None = None, *, limit: int | None = None
    ) -> IndexMatches:
        """Return the documents within ``k`` bits."""
        return self._state.current.query(fingerprints, k, limit=limit)

    def check_and_add(
        self,
        fingerprints: Fingerprints,
        ids: Sequence[str] | None = None,
        k: int | None = None,
        *,
        limit: int | None = None,
        only_new: bool = False,
    ) -> Checked:
        """Query and add documents one after another, as one change."""
        Batch.of(fingerprints, ids, self.named)
        with self._changing:
            found = checked(self._state.current, fingerprints, ids, k, limit, only_new)
            self.add(fingerprints[found.added], found.added_ids(ids))
            return found

    def snapshot(self) -> Snapshot:
        """Return the documents of this moment, to be queried while the index changes."""
        return self._state.current

    def close(self) -> None:
        """Do nothing: memory is released with the process."""
