"""The counters of a store, kept at what the store says through changes, interrupts and ends.

Counters are of one generation of the store. They are saved with it now and then; what the store
has beyond that is taken from its journal at the next opening, or by reading all of the store where
the journal does not go back so far. The same brings them up to date with a store that others
change too. Segments that are not what the store says are marked until they are filled from it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.folders import FolderFile
from mr_dedup.urls import counting_bloom
from mr_dedup.urls.counting_bloom import BloomShape, CountingBloom
from mr_dedup.urls.digests import Digests
from mr_dedup.urls.store import Change, DigestStore, Entry

_LEAST_SAVED = 1 << 20
"""Digests added and removed from which counters are saved again: their replay takes a second."""

_SAVED_SHARE = 4
"""Nor before as many as the capacity divided by this: so saving costs a URL 40 bytes at most."""


class StoreCounters:
    """A counting Bloom filter over a store, and the generation of the store that it counts.

    ``rebuilt`` is why all of the store had to be read at the opening, None if it had not to be.
    """

    def __init__(
        self, store: DigestStore, shape: BloomShape | None, file: FolderFile | None
    ) -> None:
        """Take the counters from ``file``, if they are of use, or fill those of ``shape``.

        ``shape`` is the paper's for what the store holds if None; it is widened where the store
        holds more than its capacity. Without ``file`` counters are not saved.
        """
        self._store = store
        self._file = file
        self._unsaved = 0
        self.generation, self.size = store.state()
        loaded, self.rebuilt = self._loaded()
        self.bloom = loaded or CountingBloom(shape or BloomShape.of_paper(max(1, self.size)))
        self._stale = np.full(self.bloom.shape.segments, loaded is None)
        if loaded is not None and not self._replay():
            self.rebuilt = f"{file and file.path} was not of the last changes"
        self._fit()
        if loaded is None:
            self.save()

    def may_know(self, digests: Digests) -> NDArray[np.bool_]:
        """Return for each of ``digests`` whether the store may have it; it has not where False."""
        return self.bloom.may_know(digests)

    def settle(self) -> None:
        """Be at what the store says, as far as that is known without asking it."""
        if self._stale.any():
            self._fill()

    def catch_up(self) -> None:
        """Be at the store's generation."""
        self._replay()
        self._fill()

    def commit(self, change: Change) -> bool:
        """Make ``change`` in the store and count it; False, and nothing, if others were first."""
        if not self._store.commit(change, self.generation):
            return False
        self._take(Entry(self.generation + 1, change.added, change.removed))
        self._fill()
        if self.size > self.bloom.shape.capacity:
            self.rebuild(self.bloom.shape)
        elif self._unsaved >= max(_LEAST_SAVED, self.bloom.shape.capacity // _SAVED_SHARE):
            self.save()
        return True

    def rebuild(self, shape: BloomShape) -> None:
        """Fill all counters anew, of ``shape``, widened for what the store holds; save them."""
        self._begin(shape)
        self._fit()
        self.save()

    def save(self) -> None:
        """Save the counters, so that the next opening has little to do; nothing without a file."""
        self.settle()
        self._unsaved = 0
        if self._file is not None:
            self.bloom.save(self._file, self._store.id, self.generation)
            self._store.trim(self.generation)

    def close(self) -> None:
        """Save what was not saved yet; not counters that an interrupt left half-made.

        Nor if their folder was moved: the next opening makes them anew.
        """
        moved = self._file is not None and not self._file.folder.is_at_path()
        if self._unsaved and not self._stale.any() and not moved:
            self.save()

    def _loaded(self) -> tuple[CountingBloom | None, str | None]:
        """Return the counters that were saved, or None and why they are of no use."""
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

    def _begin(self, shape: BloomShape) -> None:
        """Have counters of ``shape``, all of them to be filled."""
        self.bloom = CountingBloom(shape)
        self._stale = np.ones(shape.segments, dtype=bool)

    def _replay(self) -> bool:
        """Take what the store has beyond the generation; False if all of it must be read for that.

        Then all counters are stale. Raises MrDedupError if the store is another one now.
        """
        state = self._store.state()
        if state.generation < self.generation:
            raise MrDedupError("the store of URLs was replaced while it was open")
        entries = self._store.journal(self.generation)
        if entries is None:
            self._stale[:] = True
        for entry in entries or ():
            self._take(entry)
        # changes of reference counts alone are not in the journal
        self.generation = max(self.generation, state.generation)
        later = [entry for entry in entries or () if entry.generation > state.generation]
        self.size = state.size + sum(len(each.added) - len(each.removed) for each in later)
        return entries is not None

    def _take(self, entry: Entry) -> None:
        """Count what a change added and no longer what it removed, but in stale segments."""
        added, removed = entry.added, entry.removed
        if self._stale.any():
            added, removed = self._in_sound(added), self._in_sound(removed)
        try:
            self.bloom.raise_(added)
            if len(removed):
                self._stale[self.bloom.lower(removed)] = True
            self.generation = entry.generation
            self.size += len(entry.added) - len(entry.removed)
            self._unsaved += len(entry.added) + len(entry.removed)
        except BaseException:
            # who knows how far that came
            self._stale[:] = True
            raise

    def _in_sound(self, digests: Digests) -> Digests:
        sound: Digests = digests[~self._stale[self.bloom.segments_of(digests)]]
        return sound

    def _fill(self) -> None:
        """Fill stale segments with what the store has there, all of them of one generation."""
        while self._stale.any():
            for segment in np.flatnonzero(self._stale).tolist():
                first, stop = self.bloom.prefixes_of(segment)
                digests = self._store.between(first, stop, self.generation)
                if digests is None:
                    # others were faster; what they changed in segments already filled is taken
                    self._replay()
                    break
                self.bloom.fill(segment, digests)
                self._stale[segment] = False

    def _fit(self) -> None:
        """Widen the counters until they are for what the store holds, and fill them."""
        shape = self.bloom.shape
        while shape.capacity < self.size:
            shape = shape.wider()
        if shape != self.bloom.shape:
            self._begin(shape)
        self._fill()
