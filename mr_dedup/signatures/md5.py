"""One key a text: the MD5 of what a method makes of it."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from mr_dedup.signatures.protocol import Signatures

_KEY_BYTES = 8


def md5_signatures(
    content: NDArray[np.uint8],
    starts: NDArray[np.uint64],
    stops: NDArray[np.uint64],
    sketches: NDArray[np.uint8] | None = None,
    exist: NDArray[np.bool_] | None = None,
) -> Signatures:
    """Return as key i the first 8 bytes of the MD5 of ``content[starts[i]:stops[i]]``, big-endian.

    So in hexadecimal a key is what the digest begins with. ``exist`` bool[n] says which slices have
    a key: if not given, those that are not empty. About 1
    microsecond a text, and 600 MB a second. ``sketches`` go with them, none if not given.
    """
    if sketches is None:
        sketches = np.empty((starts.size, 0), np.uint8)
    if exist is None:
        exist = starts < stops
    view = content.data
    digests = [
        hashlib.md5(view[start:stop], usedforsecurity=False).digest()[:_KEY_BYTES]
        for start, stop in zip(starts[exist].tolist(), stops[exist].tolist(), strict=True)
    ]
    offsets = np.zeros(starts.size + 1, np.int64)
    np.cumsum(exist, out=offsets[1:])
    keys = np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)
    return Signatures(offsets, keys, sketches)
