"""Digests of URLs: MD5, 128 bits in two halves. Everything but lists of URLs works on digests.

The paper calls them fingerprints. MD5 is broken: an attacker can make two URLs with one digest, of
which one is then taken for the other. By chance that happens to one pair in 2**128.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mr_dedup.urls import counting_bloom_kernels as kernels
from mr_dedup.urls.canonical import NotAUrlError, UrlForm

if TYPE_CHECKING:
    from mr_dedup.formats.url_lines import UrlLines

Digests = NDArray[np.uint64]
"""uint64[n, 2]: a row is an MD5, its first and its last 8 bytes as big-endian numbers."""

DIGEST_BYTES = 16
NO_DIGESTS: Digests = np.empty((0, 2), dtype=np.uint64)


def digests_of(urls: Iterable[bytes]) -> Digests:
    """Return the digests of ``urls``, uint64[n, 2]; 0.4 microseconds each.

    >>> [f"{half:x}" for half in digests_of([b""])[0].tolist()]
    ['d41d8cd98f00b204', 'e9800998ecf8427e']
    """
    joined = b"".join([md5(url, usedforsecurity=False).digest() for url in urls])
    return from_bytes(joined)


def formed_lines(lines: UrlLines, form: UrlForm) -> tuple[list[bytes], list[bytes]]:
    """Return the URLs of ``lines``, as they are and in ``form``; reject the other lines."""
    urls, formed = [], []
    for position, url in zip(lines.positions, lines.urls, strict=True):
        try:
            formed.append(form.of(url))
            urls.append(url)
        except NotAUrlError as error:
            lines.report.reject(position, str(error))
    return urls, formed


def from_bytes(joined: bytes) -> Digests:
    """Return the digests whose bytes are concatenated in ``joined``."""
    return np.frombuffer(joined, dtype=">u8").astype(np.uint64).reshape(-1, 2)


def to_bytes(digests: Digests) -> bytes:
    """Return the bytes of digests, concatenated, 16 each."""
    return digests.astype(">u8").tobytes()


def keys_of(digests: Digests) -> list[bytes]:
    """Return the 16 bytes of each digest."""
    keys: list[bytes] = np.ascontiguousarray(digests).astype(">u8").view("V16").ravel().tolist()
    return keys


def grouped(digests: Digests) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows that sort ``digests`` stably, and the first of each group of equal ones.

    Both int64: of n, and of the number of distinct digests. 0.1 microseconds a digest.

    >>> order, begins = grouped(digests_of([b"b", b"a", b"b"]))
    >>> order.tolist(), begins.tolist()
    ([1, 0, 2], [0, 1])
    """
    order = np.argsort(digests[:, 0], kind="stable")
    kernels.sort_equal_halves(digests, order)
    ascending = digests[order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (ascending[1:] != ascending[:-1]).any(axis=1)
    return order, np.flatnonzero(begins)
