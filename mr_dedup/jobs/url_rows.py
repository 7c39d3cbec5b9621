"""Rows of URLs between tasks: what stands for each, how often it was seen, where it came first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.tables import one_array
from mr_dedup.urls.digests import Digests, grouped


@dataclass(frozen=True)
class UrlRows:
    """n URLs: ``digests`` of their form, and ``urls`` as they stood where they were seen first.

    ``visits`` uint64[n] are how often they were seen, ``places`` uint64[n, 2] where first: the
    number of the chunk, and of the URL in it. 48 bytes a URL besides the URL itself.
    """

    digests: Digests
    visits: NDArray[np.uint64]
    places: NDArray[np.uint64]
    urls: pa.LargeBinaryArray

    @classmethod
    def seen(cls, urls: Sequence[bytes], digests: Digests, chunk: int, first: int) -> UrlRows:
        """Return the rows of URLs of a chunk that follow each other, from its ``first`` on."""
        places = np.empty((len(urls), 2), np.uint64)
        places[:, 0] = chunk
        places[:, 1] = np.arange(first, first + len(urls), dtype=np.uint64)
        return cls(
            digests, np.ones(len(urls), np.uint64), places, pa.array(urls, pa.large_binary())
        )

    def __len__(self) -> int:
        return len(self.digests)

    def take(self, rows: NDArray[np.int64]) -> UrlRows:
        """Return some rows, in the order given."""
        urls = self.urls.take(pa.array(rows))
        return UrlRows(self.digests[rows], self.visits[rows], self.places[rows], urls)

    def between(self, start: int, stop: int) -> UrlRows:
        """Return the rows from ``start`` to ``stop``, without a copy."""
        these = slice(start, stop)
        return UrlRows(
            self.digests[these], self.visits[these], self.places[these], self.urls[these]
        )

    def by_place(self) -> UrlRows:
        """Return the rows in the order in which their URLs were seen first."""
        return self.take(np.lexsort((self.places[:, 1], self.places[:, 0])))


def joined(rows: Sequence[UrlRows]) -> UrlRows:
    """Return all rows, one after the other."""
    return UrlRows(
        np.concatenate([each.digests for each in rows]),
        np.concatenate([each.visits for each in rows]),
        np.concatenate([each.places for each in rows]),
        pa.concat_arrays([each.urls for each in rows]),
    )


def merged(rows: Sequence[UrlRows]) -> UrlRows:
    """Return a row for each digest, ascending: all its visits, and the URL that came first."""
    every = joined(rows).by_place()
    order, begins = grouped(every.digests)
    firsts = every.take(order[begins])
    if not len(firsts):
        return firsts
    visits = np.add.reduceat(every.visits[order], begins)
    return UrlRows(firsts.digests, visits, firsts.places, firsts.urls)


def to_table(rows: UrlRows) -> pa.Table:
    """Return rows as a table, of the columns of ``from_table``."""
    return pa.table(
        {
            "digest_high": rows.digests[:, 0],
            "digest_low": rows.digests[:, 1],
            "visits": rows.visits,
            "chunk": rows.places[:, 0],
            "number": rows.places[:, 1],
            "url": rows.urls,
        }
    )


def from_table(table: pa.Table) -> UrlRows:
    """Return the rows of a table of ``to_table``."""
    names = ("digest_high", "digest_low", "visits", "chunk", "number")
    high, low, visits, chunk, number = (table[name].to_numpy() for name in names)
    urls = one_array(table["url"])
    return UrlRows(np.column_stack([high, low]), visits, np.column_stack([chunk, number]), urls)
