"""Rows of URLs between tasks: digest, number of visits, first position, and the URL itself."""

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
    """n distinct URLs. 48 bytes a URL besides the URL itself.

    Attributes:
        digests: Of the form of the URLs.
        visits: uint64[n], how often each was seen.
        positions: uint64[n, 2], where each was seen first: the number of the chunk, and of the URL
            in it.
        urls: As they were seen first.
    """

    digests: Digests
    visits: NDArray[np.uint64]
    positions: NDArray[np.uint64]
    urls: pa.LargeBinaryArray

    @classmethod
    def seen(cls, urls: Sequence[bytes], digests: Digests, chunk: int, first: int) -> UrlRows:
        """Return the rows of URLs of a chunk that follow each other, from its ``first`` on."""
        positions = np.empty((len(urls), 2), np.uint64)
        positions[:, 0] = chunk
        positions[:, 1] = np.arange(first, first + len(urls), dtype=np.uint64)
        return cls(
            digests, np.ones(len(urls), np.uint64), positions, pa.array(urls, pa.large_binary())
        )

    def __len__(self) -> int:
        return len(self.digests)

    def take(self, rows: NDArray[np.int64]) -> UrlRows:
        """Return some rows, in the order given."""
        urls = self.urls.take(pa.array(rows))
        return UrlRows(self.digests[rows], self.visits[rows], self.positions[rows], urls)

    def between(self, start: int, stop: int) -> UrlRows:
        """Return the rows from ``start`` to ``stop``, without a copy."""
        these = slice(start, stop)
        return UrlRows(
            self.digests[these], self.visits[these], self.positions[these], self.urls[these]
        )

    def by_position(self) -> UrlRows:
        """Return the rows in the order in which their URLs were seen first."""
        return self.take(np.lexsort((self.positions[:, 1], self.positions[:, 0])))


def joined(rows: Sequence[UrlRows]) -> UrlRows:
    """Return all rows, one after the other."""
    return UrlRows(
        np.concatenate([each.digests for each in rows]),
        np.concatenate([each.visits for each in rows]),
        np.concatenate([each.positions for each in rows]),
        pa.concat_arrays([each.urls for each in rows]),
    )


def merged(rows: Sequence[UrlRows]) -> UrlRows:
    """Return a row for each digest, ascending: all its visits, and the URL that came first."""
    every = joined(rows).by_position()
    order, begins = grouped(every.digests)
    firsts = every.take(order[begins])
    if not len(firsts):
        return firsts
    visits = np.add.reduceat(every.visits[order], begins)
    return UrlRows(firsts.digests, visits, firsts.positions, firsts.urls)


def to_table(rows: UrlRows) -> pa.Table:
    """Return rows as a table, of the columns of ``from_table``."""
    return pa.table(
        {
            "digest_high": rows.digests[:, 0],
            "digest_low": rows.digests[:, 1],
            "visits": rows.visits,
            "chunk": rows.positions[:, 0],
            "number": rows.positions[:, 1],
            "url": rows.urls,
        }
    )


def from_table(table: pa.Table) -> UrlRows:
    """Return the rows of a table of ``to_table``."""
    names = ("digest_high", "digest_low", "visits", "chunk", "number")
    high, low, visits, chunk, number = (table[name].to_numpy() for name in names)
    urls = one_array(table["url"])
    return UrlRows(np.column_stack([high, low]), visits, np.column_stack([chunk, number]), urls)
