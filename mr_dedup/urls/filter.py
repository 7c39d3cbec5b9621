"""The IMP-CB filter (Wu et al. 2018): has this URL been seen? Exact, mostly from memory, removable.

A counting Bloom filter stands before a store of digests. A URL with a counter of 0 is new; for any
other the store decides. A new URL increments its counters, a removed one decrements them; further
visits of a URL only increment its reference count in the store. A saturated counter cannot be
decremented: its segment is recounted from the digests of the store. So a counter is at any time the
number of its uses in the store, or 2**n - 1 if there are more, whatever the history.

Batches are processed as distinct digests in ascending order, the order of counters and store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.files.folders import FolderFile
from mr_dedup.urls.canonical import NotAUrlError, UrlForm
from mr_dedup.urls.counters import UNSAVED_DIGESTS, StoreCounters
from mr_dedup.urls.counting_bloom import BloomShape, CountingBloom
from mr_dedup.urls.digests import Digests, digests_of, grouped
from mr_dedup.urls.store import MAX_COUNT, Change, Counts, DigestStore

Flags = NDArray[np.bool_]


@dataclass
class Lookups:
    """Lookups since the filter was opened, of the distinct URLs of each batch.

    Args:
        urls: that were looked up.
        in_store: of them, those that were looked up in the store.
        false_positives: of these, those that the store does not have.
    """

    urls: int = 0
    in_store: int = 0
    false_positives: int = 0


class UrlFilter:
    """The URLs seen so far: a store of digests behind counters. ``opening.open_filter`` makes one.

    Takes the memory of the counters, 10 bytes a URL of the capacity at the paper's shape, and of
    the store. A change survives the end of the process when the method that makes it has returned.
    Not to be used by two threads at once, nor on both sides of a fork. Methods that take URLs raise
    NotAUrlError for what is not a URL, before anything is changed, and all methods MrDedupError if
    the store fails.

    Args:
        store: of the digests; the filter owns it.
        form: that URLs are brought to before their digests are computed.
        shape: of new counters, by default the paper's for the size of the store.
        counters_file: the file of the counters; without one they are not saved.
        on_close: called after the store is closed.
        max_count: where reference counts stop.
        unsaved_digests: added and removed digests after which the counters are saved.

    Raises:
        MrDedupError: the store fails.

    >>> import tempfile
    >>> from mr_dedup.urls.opening import open_filter
    >>> with tempfile.TemporaryDirectory() as folder, open_filter(folder) as urls:
    ...     urls.add_many(["http://example.org/", "HTTP://example.org:80", "http://b.org/"]).tolist()
    ...     urls.count("http://example.org"), len(urls)
    ...     urls.remove("http://example.org"), "http://example.org" in urls
    [True, False, True]
    (2, 2)
    (True, False)
    """

    def __init__(
        self,
        store: DigestStore,
        form: UrlForm,
        shape: BloomShape | None = None,
        counters_file: FolderFile | None = None,
        on_close: Callable[[], object] = lambda: None,
        *,
        max_count: int = MAX_COUNT,
        unsaved_digests: int = UNSAVED_DIGESTS,
    ) -> None:
        self.form = form
        self.lookups = Lookups()
        self._store = store
        self._max_count = max_count
        self._on_close = contextlib.ExitStack()
        self._on_close.callback(on_close)
        self._on_close.callback(store.close)
        try:
            self._counters = StoreCounters(store, shape, counters_file, unsaved_digests)
        except BaseException:
            self._on_close.close()
            raise
        self._on_close.callback(self._counters.close)

    # URLs

    def add(self, url: str | bytes) -> bool:
        """Add ``url``; return whether it is new."""
        return bool(self.add_many([url])[0])

    def add_many(self, urls: Iterable[str | bytes]) -> Flags:
        """Add ``urls``, one after another; return which are new, bool[n]."""
        return self.add_digests(self.digests_of(urls))

    def remove(self, url: str | bytes) -> bool:
        """Remove ``url`` and its reference count; return whether it was in the filter."""
        return bool(self.remove_many([url])[0])

    def remove_many(self, urls: Iterable[str | bytes]) -> Flags:
        """Remove ``urls``, one after another; return which were in the filter, bool[n]."""
        return self.remove_digests(self.digests_of(urls))

    def count(self, url: str | bytes) -> int:
        """Return how often ``url`` was added; 0 if never, or removed since."""
        return int(self.counts(self.digests_of([url]))[0])

    def __contains__(self, url: str | bytes) -> bool:
        return self.count(url) > 0

    def __len__(self) -> int:
        return self._store.state().size

    def digests_of(self, urls: Iterable[str | bytes]) -> Digests:
        """Return the digests of ``urls`` in the filter's form.

        Raises TypeError for one URL instead of several, whose elements are characters.
        """
        if isinstance(urls, str | bytes):
            raise TypeError("urls: expected a sequence of URLs, got a text; pass [url]")
        encoded = [_encoded(url) if isinstance(url, str) else url for url in urls]
        return digests_of(self.form.of_each(encoded))

    # digests

    def add_digests(
        self, digests: Digests, deliver: Callable[[Flags], object] = lambda flags: None
    ) -> Flags:
        """Add the URLs of ``digests``, one after another, in batches of the store's ``max_batch``.

        Args:
            digests: uint64[n, 2].
            deliver: called with the flags of each batch, in order: before the batch is stored, so
                that nothing is lost if the process ends, but may be delivered again; if the store
                is shared after it, so that a new URL is delivered once, to one process, but may be
                lost.

        Returns:
            Which are new, bool[n].

        Raises:
            ValueError: ``digests`` is another array.
        """
        digests = _checked(digests)
        is_new = np.zeros(len(digests), dtype=bool)
        for part in self._batches(digests):
            order, begins = grouped(digests[part])
            firsts = order[begins]
            visits = (np.append(begins[1:], len(order)) - begins).astype(np.uint64)

            def after(before: Counts, visits: NDArray[np.uint64] = visits) -> Counts:
                counts: Counts = np.minimum(before + visits, self._max_count).astype(np.uint32)
                return counts

            def deliver_batch(
                before: Counts, flags: Flags = is_new[part], firsts: NDArray[np.int64] = firsts
            ) -> None:
                flags[firsts[before == 0]] = True
                deliver(flags)

            self._change(digests[part][firsts], after, deliver_batch)
        return is_new

    def add_whole(self, digests: Digests, visits: Counts) -> Flags:
        """Add the URLs of distinct ``digests`` as one change, all of them or none.

        Takes some 150 bytes of memory for each meanwhile.

        Args:
            digests: uint64[n, 2], distinct.
            visits: uint32[n], how often each is added, 1 or more.

        Returns:
            Which are new, bool[n].

        Raises:
            ValueError: the arguments are not as above, or the store is shared: others would have to
                wait.
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
            counts: Counts = np.minimum(before + ascending_visits, self._max_count).astype(
                np.uint32
            )
            return counts

        is_new = np.empty(len(digests), dtype=bool)
        is_new[order] = self._change(digests[order], after) == 0
        return is_new

    def remove_digests(self, digests: Digests) -> Flags:
        """Remove the URLs of ``digests``; return which were in the filter, bool[n]."""
        digests = _checked(digests)
        was_known = np.zeros(len(digests), dtype=bool)
        for part in self._batches(digests):
            order, begins = grouped(digests[part])
            firsts = order[begins]
            before = self._change(digests[part][firsts], np.zeros_like)
            was_known[part][firsts[before > 0]] = True
        return was_known

    def counts(self, digests: Digests) -> Counts:
        """Return how often the URLs of ``digests`` were added, uint32[n]."""
        digests = _checked(digests)
        self._prepare_counters(reading=True)
        return self._looked_up(digests)

    # counters

    @property
    def bloom(self) -> CountingBloom:
        """The counters, at the store's generation; not to be changed."""
        self._prepare_counters(reading=True)
        return self._counters.bloom

    @property
    def rebuilt(self) -> str | None:
        """Why the counters had to be rebuilt from the store when it was opened; None if not."""
        return self._counters.rebuilt

    def rebuild(self, shape: BloomShape | None = None) -> None:
        """Rebuild all counters from the store, in another ``shape`` if one is given.

        A shape with a smaller capacity than the size of the store is widened. 0.5 microseconds a
        URL, and no more memory than the counters'.
        """
        self._counters.catch_up()
        self._counters.rebuild(shape or self._counters.bloom.shape)

    def save(self) -> None:
        """Save the counters, which makes the next opening faster."""
        self._counters.save()

    def close(self) -> None:
        """Save the counters and close the store; a second call does nothing."""
        self._on_close.close()

    def __enter__(self) -> UrlFilter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _batches(self, digests: Digests) -> Iterator[slice]:
        size = self._store.max_batch
        return (slice(start, start + size) for start in range(0, len(digests), size))

    def _prepare_counters(self, *, reading: bool = False) -> None:
        """Bring the counters up to date for a change or, if ``reading``, for a result."""
        self._counters.settle()
        # the store refuses a change of outdated counters; nothing would refuse a result
        if (reading or not self._store.shared) and (
            self._store.state().generation != self._counters.generation
        ):
            self._counters.catch_up()

    def _looked_up(self, digests: Digests) -> Counts:
        """Return the reference counts of ``digests``; the store is read only where it has to be."""
        in_store = self._counters.may_know(digests)
        counts = np.zeros(len(digests), dtype=np.uint32)
        found = self._store.counts(digests[in_store])
        counts[in_store] = found
        self.lookups.urls += len(digests)
        self.lookups.in_store += len(found)
        self.lookups.false_positives += int(np.count_nonzero(found == 0))
        return counts

    def _change(
        self,
        digests: Digests,
        after: Callable[[Counts], Counts],
        deliver: Callable[[Counts], object] = lambda before: None,
    ) -> Counts:
        """Set the counts of distinct, ascending ``digests`` by ``after``; return those before."""
        self._prepare_counters()
        while True:
            before = self._looked_up(digests)
            if not self._store.shared:
                deliver(before)
            counts = after(before)
            changed = counts != before
            if not self._store.shared and not changed.any():
                break
            if self._counters.commit(Change(digests[changed], before[changed], counts[changed])):
                break
            self._counters.catch_up()
        if self._store.shared:
            deliver(before)
        return before


def _encoded(url: str) -> bytes:
    try:
        return url.encode()
    except UnicodeEncodeError as error:
        raise NotAUrlError("has half of a surrogate pair, which is not a character") from error


def _checked(digests: Digests) -> Digests:
    """Return ``digests`` contiguous, for the kernels; ValueError unless they are uint64[n, 2]."""
    if digests.dtype != np.uint64 or digests.ndim != 2 or digests.shape[1] != 2:
        raise ValueError(f"digests must be uint64[n, 2], not {digests.dtype}{list(digests.shape)}")
    return np.ascontiguousarray(digests)
