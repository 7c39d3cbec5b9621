"""Rows of URLs between tasks: what stands for each, how often it was seen, where it came first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.jobs.batches import Kind, decode_bytes, encode_bytes
from mr_dedup.urls.digests import Digests, grouped

_NUMBERS = 5
"""Columns of a batch: the two halves of digests, visits, the two halves of places."""


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


def encode_urls(rows: UrlRows, rows_a_batch: int) -> Iterator[bytes]:
    """Yield rows as batches of Kind.URLS, of at most so many, in order."""
    for start in range(0, len(rows), rows_a_batch):
        part = rows.between(start, start + rows_a_batch)
        numbers = np.column_stack([part.digests, part.visits, part.places]).T
        offsets, content = _content(part.urls)
        payload = [
            numbers.astype("<u8").tobytes(), np.diff(offsets).astype("<u4").tobytes(), content
        ]  # fmt: skip
        packed = zstandard.ZstdCompressor(level=1).compress(b"".join(payload))
        yield encode_bytes(Kind.URLS, len(part), packed)


def decode_urls(batch: bytes) -> UrlRows:
    """Return the rows of one batch; raises MrDedupError if it is damaged."""
    count, packed = decode_bytes(Kind.URLS, batch)
    try:
        payload = zstandard.ZstdDecompressor().decompress(packed)
        numbers = np.frombuffer(payload, "<u8", _NUMBERS * count).astype(np.uint64)
        at = numbers.nbytes
        lengths = np.frombuffer(payload, "<u4", count, at)
    except (zstandard.ZstdError, ValueError) as error:
        raise MrDedupError(f"a batch between tasks is damaged: {error}") from error
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    content = pa.py_buffer(payload)[at + lengths.nbytes :]
    if content.size != offsets[-1]:
        raise MrDedupError("a batch between tasks is damaged: its length differs")
    columns = numbers.reshape(_NUMBERS, count)
    urls = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [None, pa.py_buffer(offsets), content]
    )
    return UrlRows(
        np.ascontiguousarray(columns[:2].T), columns[2], np.ascontiguousarray(columns[3:].T), urls
    )


def _content(urls: pa.LargeBinaryArray) -> tuple[NDArray[np.int64], bytes]:
    """Return where the URLs begin and end, int64[n + 1], and the bytes that these count in."""
    _, offsets, content = urls.buffers()
    edges = np.frombuffer(offsets, np.int64)[urls.offset : urls.offset + len(urls) + 1]
    return edges, content[edges[0] : edges[-1]].to_pybytes()
