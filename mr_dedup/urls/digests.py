"""Digests: the MD5 of URLs, 128 bits in two halves, which is what stands for a URL everywhere.

The paper calls them fingerprints; here that word is taken. MD5 is no secret any more: who makes
two URLs with one digest hides one of them behind the other. By chance it happens to one pair in
2**128.
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
    """Return the digests of ``urls``, in their order; 0.4 microseconds each."""
    joined = b"".join([md5(url, usedforsecurity=False).digest() for url in urls])
    return from_bytes(joined)


def formed_lines(lines: UrlLines, form: UrlForm) -> tuple[list[bytes], list[bytes]]:
    """Return the URLs among ``lines``, as they are and in ``form``; others are rejected."""
    urls, formed = [], []
    for position, url in zip(lines.positions, lines.urls, strict=True):
        try:
            formed.append(form.of(url))
            urls.append(url)
        except NotAUrlError as error:
            lines.report.reject(position, str(error))
    return urls, formed


def from_bytes(joined: bytes) -> Digests:
    """Return the digests whose bytes follow each other in ``joined``."""
    return np.frombuffer(joined, dtype=">u8").astype(np.uint64).reshape(-1, 2)


def to_bytes(digests: Digests) -> bytes:
    """Return the 16 bytes of each digest, one after the other."""
    return digests.astype(">u8").tobytes()


def keys_of(digests: Digests) -> list[bytes]:
    """Return the 16 bytes of each digest."""
    keys: list[bytes] = np.ascontiguousarray(digests).astype(">u8").view("V16").ravel().tolist()
    return keys


def grouped(digests: Digests) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an order that sorts ``digests``, equal ones as they stood, and where groups begin.

    Both int64: of n, and of as many as there are distinct digests. 0.1 microseconds a digest.
    """
    order = np.argsort(digests[:, 0], kind="stable")
    kernels.sort_equal_halves(digests, order)
    ascending = digests[order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (ascending[1:] != ascending[:-1]).any(axis=1)
    return order, np.flatnonzero(begins)
