"""The result of the URLs job in the order in which URLs were first seen, and the store of URLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from mr_dedup.formats.table_store import TableStore
from mr_dedup.jobs.contract import Keyed
from mr_dedup.jobs.url_rows import UrlRows, from_table, joined
from mr_dedup.jobs.urls import REJECTS_KEY
from mr_dedup.urls.canonical import UrlForm
from mr_dedup.urls.counting_bloom import BloomShape
from mr_dedup.urls.digests import NO_DIGESTS, grouped
from mr_dedup.urls.filter import Flags, UrlFilter
from mr_dedup.urls.opening import DEFAULT_CAPACITY, contains_store, open_filter
from mr_dedup.urls.store import MAX_COUNT

_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


class DistinctUrls:
    """The result of the URLs job, in the order in which its URLs were first seen.

    A context manager. In memory: ``memory_bytes`` of tables, beyond that they are in a temporary
    file.
    """

    def __init__(self, tables: Iterable[Keyed], memory_bytes: int = 256 << 20) -> None:
        """Read ``tables``, the output of the job."""
        self._store = TableStore(memory_bytes)
        for key, table in tables:
            self._store.add(key, table)

    def __enter__(self) -> DistinctUrls:
        return self

    def __exit__(self, *exception: object) -> None:
        self._store.__exit__()

    def rejects(self) -> Iterator[pa.Table]:
        """Yield the tables of rejects, in the order of the lists."""
        for key in self._store.sorted_keys():
            if key >= REJECTS_KEY:
                yield from self._store.take(key)

    def by_position(self) -> Iterator[UrlRows]:
        """Yield all rows in the order in which their URLs were first seen, some thousands a time.

        In memory besides: a table of each range of digests, 256 of them, some 150 MB.
        """
        keys = [key for key in self._store.sorted_keys() if key < REJECTS_KEY]
        ranges = [_Range(self._store.take(key)) for key in keys]
        while ranges := [each for each in ranges if each.begin()]:
            # no URL that is still to be read was seen before the last of any batch
            horizon = min(each.last for each in ranges)
            yield joined([each.take_to(horizon) for each in ranges]).by_position()


class _Range:
    """The URLs of a range of digests, ascending by position; the rest of a table is buffered."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self._tables = tables
        self._rows: UrlRows | None = None

    def begin(self) -> bool:
        """Buffer rows; return False at the end."""
        if self._rows is None:
            table = next(self._tables, None)
            self._rows = None if table is None else from_table(table)
        return self._rows is not None

    @property
    def last(self) -> tuple[int, int]:
        """The position of the last buffered row."""
        assert self._rows is not None
        chunk, number = self._rows.positions[-1].tolist()
        return chunk, number

    def take_to(self, horizon: tuple[int, int]) -> UrlRows:
        """Remove and return the buffered rows up to a position."""
        assert self._rows is not None
        rows, (chunk, number) = self._rows, horizon
        chunks = rows.positions[:, 0]
        first, end = (int(np.searchsorted(chunks, np.uint64(chunk), side)) for side in _SIDES)
        of_chunk = rows.positions[first:end, 1]
        stop = first + int(np.searchsorted(of_chunk, np.uint64(number), "right"))
        self._rows = rows.between(stop, len(rows)) if stop < len(rows) else None
        return rows.between(0, stop)


class StoreUpdate:
    """The store that URLs are looked up in, and then added to.

    Without a directory all URLs are new. In memory: 20 bytes a URL, besides the filter. The store
    is open from the first lookup on, and other processes cannot write to it.
    """

    def __init__(self, folder: Path | None, form: UrlForm) -> None:
        """Use the store in ``folder``, which need not exist yet, for URLs of ``form``."""
        self._folder = folder
        self._form = form
        self._filter: UrlFilter | None = None
        self._digests = [NO_DIGESTS]
        self._visits = [np.empty(0, np.uint32)]

    def __enter__(self) -> StoreUpdate:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._filter is not None:
            self._filter.close()

    def are_new(self, rows: UrlRows) -> Flags:
        """Return for each of ``rows`` whether it is not in the store; adds nothing."""
        if self._folder is None:
            return np.ones(len(rows), dtype=bool)
        self._digests.append(rows.digests)
        self._visits.append(np.minimum(rows.visits, MAX_COUNT).astype(np.uint32))
        if self._filter is None and not contains_store(self._folder):
            return np.ones(len(rows), dtype=bool)
        order, _ = grouped(rows.digests)
        are_new = np.empty(len(rows), dtype=bool)
        are_new[order] = self._opened().counts(rows.digests[order]) == 0
        return are_new

    def add(self) -> int:
        """Add all rows that were looked up as one change.

        Returns the number of URLs in the store, 0 without a directory. Raises as
        ``UrlFilter.add_whole``.
        """
        if self._folder is None:
            return 0
        url_filter = self._opened()
        digests, visits = np.concatenate(self._digests), np.concatenate(self._visits)
        url_filter.add_whole(digests, visits)
        return len(url_filter)

    def _opened(self) -> UrlFilter:
        assert self._folder is not None
        if self._filter is None:
            urls = sum(map(len, self._digests))
            shape = BloomShape.of_paper(max(DEFAULT_CAPACITY, urls))
            self._filter = open_filter(self._folder, form=self._form, shape=shape)
        return self._filter
