"""An index in memory, of the same state as one on disk, but without its files."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.index.hits import QUERY_BUFFERS, QueryBuffers
from mr_dedup.index.protocol import CheckAndAddResult, Fingerprints, IndexMatches
from mr_dedup.index.snapshot import Snapshot
from mr_dedup.index.state import Batch, State, checked


class MemoryIndex:
    """An index that ends with its process; methods are those of ``HammingIndex``."""

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
        batch = Batch.of(fingerprints, ids, self.named)
        with self._changing:
            return self._state.add(batch, self._state.look_up(batch))

    def remove(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        with self._changing:
            return self._state.remove(self._state.look_up(Batch.to_remove(ids, self.named)))

    def query(
        self, fingerprints: Fingerprints, k: int | None = None, *, limit: int | None = None
    ) -> IndexMatches:
        return self._state.current.query(fingerprints, k, limit=limit)

    def check_and_add(
        self,
        fingerprints: Fingerprints,
        ids: Sequence[str] | None = None,
        k: int | None = None,
        *,
        limit: int | None = None,
        only_new: bool = False,
    ) -> CheckAndAddResult:
        Batch.of(fingerprints, ids, self.named)
        with self._changing:
            found = checked(self._state.current, fingerprints, ids, k, limit, only_new)
            self.add(fingerprints[found.added], found.added_ids(ids))
            return found

    def snapshot(self) -> Snapshot:
        return self._state.current

    def close(self) -> None:
        pass
