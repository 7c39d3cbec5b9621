"""The memory form of an index: for tests, and for some hundred thousand documents."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.index.ids import Ids
from mr_dedup.index.protocol import Checked, Fingerprints, IndexMatches
from mr_dedup.index.snapshot import Snapshot
from mr_dedup.index.state import Batch, State, checked, parsed_fingerprints

_NO_FINGERPRINTS = np.empty(0, np.uint64)


class MemoryIndex:
    """An index that ends with its process. A query looks at each document, 0.2 ns."""

    def __init__(self, k: int = 3, *, named: bool = True) -> None:
        """Make an empty index for distances up to ``k``, of documents with ids or without."""
        if not 0 <= k < 64:
            raise ValueError(f"k must be from 0 to 63, not {k}")
        self.k, self.named = k, named
        self._state = State(k, named)
        self._changing = threading.RLock()

    def __len__(self) -> int:
        return len(self._state.current)

    def add(self, fingerprints: Fingerprints, ids: Sequence[str] | pa.Array | None = None) -> int:
        """Add documents; return how many were not held before."""
        batch = Batch.of(fingerprints, ids, self.named)
        with self._changing:
            return self._state.add(batch, self._state.look_up(batch))

    def remove(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Remove documents; return which were held."""
        with self._changing:
            if self.named:
                batch = Batch(_NO_FINGERPRINTS, Ids.of(ids))
            else:
                batch = Batch(parsed_fingerprints(ids), None)
            return self._state.remove(self._state.look_up(batch))

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
        """Query and add, with nothing in between."""
        Batch.of(fingerprints, ids, self.named)
        with self._changing:
            found = checked(self._state.current, fingerprints, ids, k, limit, only_new)
            self.add(fingerprints[found.added], found.chosen(ids))
            return found

    def snapshot(self) -> Snapshot:
        """Return what is held now, to be queried while the index changes."""
        return self._state.current

    def close(self) -> None:
        """Do nothing: memory goes with the process."""
