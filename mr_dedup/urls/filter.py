"""The IMP-CB filter (Wu et al. 2018): has this URL been seen? Exact, mostly from memory, able to
forget.

Counters stand before a store of digests. A URL one of whose counters is 0 is certainly new; for
any other the store decides. A URL that is new raises its counters, one that is forgotten lowers
them; visits of a known one only raise its reference count in the store. A counter that is full
cannot be lowered: its segment is filled anew with the digests that the store has there. So every
counter is at any time what the store says, the number of its uses or 2**n - 1 if there are more,
whatever the history.

Batches are worked on as sets of distinct digests in ascending order, which is the order of the
counters and of the store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.folders import FolderFile
from mr_dedup.urls.canonical import UrlForm
from mr_dedup.urls.counters import StoreCounters
from mr_dedup.urls.counting_bloom import BloomShape, CountingBloom
from mr_dedup.urls.digests import Digests, digests_of, grouped
from mr_dedup.urls.store import MAX_COUNT, Change, Counts, DigestStore

Flags = NDArray[np.bool_]


@dataclass
class Lookups:
    """How many distinct URLs of batches were looked up since the opening, and where.

    ``false_positives`` are those looked up in the store that it did not have.
    """

    asked: int = 0
    in_store: int = 0
    false_positives: int = 0


class UrlFilter:
    """The URLs seen so far, in ``store``, behind counters. ``opening.open_filter`` makes one.

    Takes the counters' memory, 10 bytes a URL of the capacity at the paper's shape, and what the
    store takes. What a method returned from is kept if the process is killed at any moment. Not
    to be used by two threads at once, nor on both sides of a fork. Methods that are given URLs
    raise NotAUrlError for what is none, before anything is changed, and all of them MrDedupError
    where the store fails.
    """

    def __init__(
        self,
        store: DigestStore,
        form: UrlForm,
        shape: BloomShape | None = None,
        counters_file: FolderFile | None = None,
        on_close: Callable[[], object] = lambda: None,
    ) -> None:
        """Stand before ``store``, with the counters in ``counters_file``, or else of ``shape``.

        URLs are brought to ``form`` before their digests are taken. The filter owns the store,
        and calls ``on_close`` after it has closed it.
        """
        self.form = form
        self.lookups = Lookups()
        self._store = store
        self._on_close = contextlib.ExitStack()
        self._on_close.callback(on_close)
        self._on_close.callback(store.close)
        try:
            self._counters = StoreCounters(store, shape, counters_file)
        except BaseException:
            self._on_close.close()
            raise
        self._on_close.callback(self._counters.close)

    # URLs

    def add(self, url: str | bytes) -> bool:
        """See ``url``; return whether it is new."""
        return bool(self.add_many([url])[0])

    def add_many(self, urls: Iterable[str | bytes]) -> Flags:
        """See ``urls``, one after the other; return for each whether it is new."""
        return self.add_digests(self.digests_of(urls))

    def remove(self, url: str | bytes) -> bool:
        """Forget ``url`` and all its visits; return whether it was known."""
        return bool(self.remove_many([url])[0])

    def remove_many(self, urls: Iterable[str | bytes]) -> Flags:
        """Forget ``urls``, one after the other; return for each whether it was known."""
        return self.remove_digests(self.digests_of(urls))

    def count(self, url: str | bytes) -> int:
        """Return how often ``url`` was seen; 0 if never, or forgotten since."""
        return int(self.counts(self.digests_of([url]))[0])

    def __contains__(self, url: str | bytes) -> bool:
        return self.count(url) > 0

    def __len__(self) -> int:
        return self._store.state().size

    def digests_of(self, urls: Iterable[str | bytes]) -> Digests:
        """Return the digests of ``urls`` in the filter's form."""
        encoded = [url.encode() if isinstance(url, str) else url for url in urls]
        return digests_of(self.form.of_each(encoded))

    # digests

    def add_digests(
        self, digests: Digests, deliver: Callable[[Flags], object] = lambda flags: None
    ) -> Flags:
        """See the URLs of ``digests``, one after the other; return for each whether it is new.

        They are kept in batches of up to ``max_batch`` of the store. ``deliver`` is called with
        the flags of each batch, in order: before it is kept, so that what is handed on is never
        lost if the process ends, but may come again; where the store is shared after it, so that
        it comes once, to one process, but may be lost. Raises ValueError for other arrays.
        """
        digests = _checked(digests)
        is_new = np.zeros(len(digests), dtype=bool)
        for part in self._batches(digests):
            order, begins = grouped(digests[part])
            firsts = order[begins]
            visits = (np.append(begins[1:], len(order)) - begins).astype(np.uint64)

            def after(before: Counts, visits: NDArray[np.uint64] = visits) -> Counts:
                counts: Counts = np.minimum(before + visits, MAX_COUNT).astype(np.uint32)
                return counts

            def handed_on(
                before: Counts, flags: Flags = is_new[part], firsts: NDArray[np.int64] = firsts
            ) -> None:
                flags[firsts[before == 0]] = True
                deliver(flags)

            self._change(digests[part][firsts], after, handed_on)
        return is_new

    def add_whole(self, digests: Digests, visits: Counts) -> Flags:
        """See the URLs of distinct ``digests`` so often each; return for each whether it is new.

        As one change, whatever their number: all of them are kept, or none. Takes some 150 bytes
        of memory for each meanwhile. Raises ValueError for other arrays, for digests that are not
        distinct, for visits that are not from 1 on, and where the store is shared: others would
        have to wait.
        """
        digests = _checked(digests)
        if self._store.shared:
            raise ValueError("digests: a store that others share takes them in batches only")
        if visits.shape != (len(digests),) or not visits.all():
            raise ValueError("visits must be from 1 on, as many as digests")
        order, begins = grouped(digests)
        if len(begins) != len(order):
            raise ValueError("digests must be distinct")
        ascending_visits = visits[order].astype(np.uint64)

        def after(before: Counts) -> Counts:
            counts: Counts = np.minimum(before + ascending_visits, MAX_COUNT).astype(np.uint32)
            return counts

        is_new = np.empty(len(digests), dtype=bool)
        is_new[order] = self._change(digests[order], after) == 0
        return is_new

    def remove_digests(self, digests: Digests) -> Flags:
        """Forget the URLs of ``digests``, one after the other; return whether they were known."""
        digests = _checked(digests)
        was_known = np.zeros(len(digests), dtype=bool)
        for part in self._batches(digests):
            order, begins = grouped(digests[part])
            firsts = order[begins]
            before = self._change(digests[part][firsts], np.zeros_like)
            was_known[part][firsts[before > 0]] = True
        return was_known

    def counts(self, digests: Digests) -> Counts:
        """Return how often the URLs of ``digests`` were seen, uint32[n]."""
        digests = _checked(digests)
        self._be_ready(reading=True)
        return self._looked_up(digests)

    # counters

    @property
    def bloom(self) -> CountingBloom:
        """The counters, at what the store says; not to be changed."""
        self._be_ready(reading=True)
        return self._counters.bloom

    @property
    def rebuilt(self) -> str | None:
        """Why all of the store had to be read at the opening; None if it had not to be."""
        return self._counters.rebuilt

    def rebuild(self, shape: BloomShape | None = None) -> None:
        """Fill all counters anew from the store, in another ``shape`` if one is given.

        One that is too small for what the store holds is widened. 0.5 microseconds a URL, and no
        more memory than the counters'.
        """
        self._counters.catch_up()
        self._counters.rebuild(shape or self._counters.bloom.shape)

    def save(self) -> None:
        """Save the counters, so that the next opening has little to do."""
        self._counters.save()

    def close(self) -> None:
        """Save the counters, and let go of the store; a second call does nothing."""
        self._on_close.close()

    def __enter__(self) -> UrlFilter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _batches(self, digests: Digests) -> Iterator[slice]:
        size = self._store.max_batch
        return (slice(start, start + size) for start in range(0, len(digests), size))

    def _be_ready(self, *, reading: bool = False) -> None:
        """Have counters that a change may be decided by, or, ``reading``, an answer."""
        self._counters.settle()
        # a change decided by what others made outdated is refused, an answer is not
        if (reading or not self._store.shared) and (
            self._store.state().generation != self._counters.generation
        ):
            self._counters.catch_up()

    def _looked_up(self, digests: Digests) -> Counts:
        """Return the reference counts of ``digests``, asking the store where it must be asked."""
        in_store = self._counters.may_know(digests)
        counts = np.zeros(len(digests), dtype=np.uint32)
        found = self._store.counts(digests[in_store])
        counts[in_store] = found
        self.lookups.asked += len(digests)
        self.lookups.in_store += len(found)
        self.lookups.false_positives += int(np.count_nonzero(found == 0))
        return counts

    def _change(
        self,
        digests: Digests,
        after: Callable[[Counts], Counts],
        handed_on: Callable[[Counts], object] = lambda before: None,
    ) -> Counts:
        """Give distinct, ascending ``digests`` the counts ``after`` theirs; return those before."""
        self._be_ready()
        while True:
            before = self._looked_up(digests)
            if not self._store.shared:
                handed_on(before)
            counts = after(before)
            changed = counts != before
            if not self._store.shared and not changed.any():
                break
            if self._counters.commit(Change(digests[changed], before[changed], counts[changed])):
                break
            self._counters.catch_up()
        if self._store.shared:
            handed_on(before)
        return before


def _checked(digests: Digests) -> Digests:
    """Return ``digests`` as kernels want them; ValueError unless they are uint64[n, 2]."""
    if digests.dtype != np.uint64 or digests.ndim != 2 or digests.shape[1] != 2:
        raise ValueError(f"digests must be uint64[n, 2], not {digests.dtype}{list(digests.shape)}")
    return np.ascontiguousarray(digests)
