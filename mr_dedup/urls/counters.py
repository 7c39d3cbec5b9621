"""The counters of a store, which follow it through changes, interrupts and restarts.

Counters are of one generation of the store, and are saved with its number now and then. Later
changes are replayed from the store's journal at the next opening; if the journal begins later, all
digests are read. In the same way counters follow a store that other processes change. Segments
whose counters are not right are marked as stale until they are recounted from the store.
"""

from __future__ import annotations

import contextlib

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.folders import FolderFile
from mr_dedup.urls import counting_bloom
from mr_dedup.urls.counting_bloom import BloomShape, CountingBloom
from mr_dedup.urls.digests import Digests
from mr_dedup.urls.store import Change, DigestStore, Entry

UNSAVED_DIGESTS = 1 << 20
"""Digests added and removed after which counters are saved: to replay them takes a second."""

_SAVED_SHARE = 4
"""Counters are also not saved before capacity / _SAVED_SHARE changes, so that saving writes at most
40 bytes a URL."""


class StoreCounters:
    """A counting Bloom filter over a store, and the generation of the store that it counts.

    Args:
        store: the store.
        shape: of new counters, by default the paper's for the size of the store; widened if the
            store has more digests than its capacity.
        file: of the counters; without one they are not saved.
        unsaved_digests: added and removed digests after which the counters are saved.
    """

    def __init__(
        self,
        store: DigestStore,
        shape: BloomShape | None,
        file: FolderFile | None,
        unsaved_digests: int = UNSAVED_DIGESTS,
    ) -> None:
        self._store = store
        self._file = file
        self._unsaved_digests = unsaved_digests
        self._unsaved = 0
        self.generation, self.size = store.state()
        loaded, self.rebuilt = self._loaded()
        """Why the counters had to be rebuilt from the store; None if they were loaded."""
        self.bloom = loaded or CountingBloom(shape or BloomShape.of_paper(max(1, self.size)))
        self._stale = np.full(self.bloom.shape.segments, loaded is None)
        if loaded is not None and not self._replay():
            self.rebuilt = f"{file and file.path} was not of the last changes"
        self._widen()
        if loaded is None:
            self.save()

    def may_know(self, digests: Digests) -> NDArray[np.bool_]:
        """Return which of ``digests`` the store may have, bool[n]; it has no others."""
        return self.bloom.may_know(digests)

    def settle(self) -> None:
        """Recount stale segments; changes by others are not looked for."""
        if self._stale.any():
            self._recount()

    def catch_up(self) -> None:
        """Bring the counters to the store's generation."""
        self._replay()
        self._recount()

    def commit(self, change: Change) -> bool:
        """Apply ``change`` to the store and count it; False if others changed the store first.

        If the counters cannot be saved then, the change stands, and they are saved by a later one.
        """
        if not self._store.commit(change, self.generation):
            return False
        self._count(Entry(self.generation + 1, change.added, change.removed))
        self._recount()
        is_full = self.size > self.bloom.shape.capacity
        if is_full:
            self._start(self.bloom.shape)
            self._widen()
        if is_full or self._unsaved >= max(
            self._unsaved_digests, self.bloom.shape.capacity // _SAVED_SHARE
        ):
            self.settle()
            with contextlib.suppress(MrDedupError):
                self._write()
        return True

    def rebuild(self, shape: BloomShape) -> None:
        """Rebuild the counters in ``shape``, widened for the size of the store, and save them."""
        self._start(shape)
        self._widen()
        self.save()

    def save(self) -> None:
        """Save the counters; does nothing without a file."""
        self.settle()
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            self.bloom.save(self._file, self._store.id, self.generation)
            self._store.trim(self.generation)
        self._unsaved = 0

    def close(self) -> None:
        """Save the counters, unless an interrupt left some stale, or their directory was moved.

        The next opening rebuilds them then.
        """
        moved = self._file is not None and not self._file.folder.is_at_path()
        if self._unsaved and not self._stale.any() and not moved:
            self.save()

    def _loaded(self) -> tuple[CountingBloom | None, str | None]:
        """Return the counters that were saved, or None and why they cannot be used."""
        if self._file is None:
            return None, None
        path = self._file.path
        if self._file.stat() is None:
            new = not self.generation
            return None, None if new else f"{path} was missing"
        try:
            saved = counting_bloom.load(self._file)
        except FormatError as error:
            return None, str(error)
        if saved.store_id != self._store.id:
            return None, f"{path} was of another store"
        if saved.generation > self.generation:
            return None, f"{path} was of later changes than the store has"
        self.generation = saved.generation
        return saved.bloom, None

    def _start(self, shape: BloomShape) -> None:
        """Replace the counters by stale ones of ``shape``."""
        self.bloom = CountingBloom(shape)
        self._stale = np.ones(shape.segments, dtype=bool)

    def _replay(self) -> bool:
        """Count the changes after the generation; False if the journal does not have them.

        Then all counters are stale. Raises MrDedupError if the store was replaced.
        """
        state = self._store.state()
        if state.generation < self.generation:
            raise MrDedupError("the store of URLs was replaced while it was open")
        entries = self._store.journal(self.generation)
        if entries is None:
            self._stale[:] = True
        for entry in entries or ():
            self._count(entry)
        # changes of reference counts alone are not in the journal
        self.generation = max(self.generation, state.generation)
        later = [entry for entry in entries or () if entry.generation > state.generation]
        self.size = state.size + sum(len(each.added) - len(each.removed) for each in later)
        return entries is not None

    def _count(self, entry: Entry) -> None:
        """Count what a change added and removed, but for stale segments."""
        added, removed = entry.added, entry.removed
        if self._stale.any():
            added, removed = self._in_fresh(added), self._in_fresh(removed)
        try:
            self.bloom.raise_(added)
            if len(removed):
                self._stale[self.bloom.lower(removed)] = True
            self.generation = entry.generation
            self.size += len(entry.added) - len(entry.removed)
            self._unsaved += len(entry.added) + len(entry.removed)
        except BaseException:
            # it is not known which counters were changed
            self._stale[:] = True
            raise

    def _in_fresh(self, digests: Digests) -> Digests:
        fresh: Digests = digests[~self._stale[self.bloom.segments_of(digests)]]
        return fresh

    def _recount(self) -> None:
        """Recount the stale segments from the store, all at one generation."""
        while self._stale.any():
            for segment in np.flatnonzero(self._stale).tolist():
                first, stop = self.bloom.prefixes_of(segment)
                digests = self._store.between(first, stop, self.generation)
                if digests is None:
                    # others changed the store: count that in the segments that are done
                    self._replay()
                    break
                self.bloom.fill(segment, digests)
                self._stale[segment] = False

    def _widen(self) -> None:
        """Widen the counters to the size of the store, and recount them."""
        shape = self.bloom.shape
        while shape.capacity < self.size:
            shape = shape.wider()
        if shape != self.bloom.shape:
            self._start(shape)
        self._recount()
