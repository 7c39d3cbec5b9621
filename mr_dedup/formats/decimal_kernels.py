# mypy: ignore-errors
"""Print fingerprints as signed decimals."""

from __future__ import annotations

import numpy as np
from numpy import uint8, uint64
from numpy.typing import NDArray

from mr_dedup.kernels.entry import entry

_MAX_BYTES = 21
"""A sign, 19 digits, a separator."""

_ZERO, _MINUS = np.uint8(ord("0")), np.uint8(ord("-"))
_0, _1, _10 = (np.uint64(n) for n in (0, 1, 10))


def signed_decimals(fingerprints: NDArray[np.uint64], separators: NDArray[np.uint8]) -> bytes:
    """Return ``fingerprints`` uint64[n] as signed decimals, each followed by its separator.

    Ten times as fast as ``str``: 10 million numbers take 0.55 s of CPU; ``pyarrow.csv`` takes 0.88,
    Arrow's cast to strings, joined to lines, 1.03.

    Args:
        fingerprints: uint64[n].
        separators: uint8[n], ASCII codes.

    Returns:
        The text; 21 bytes a number of scratch memory are allocated for it.
    """
    out = np.empty(_MAX_BYTES * fingerprints.size, dtype=np.uint8)
    written = _write_decimals(fingerprints, separators, out)
    return out[:written].tobytes()


@entry
def _write_decimals(
    fingerprints: NDArray[np.uint64], separators: NDArray[np.uint8], out: NDArray[np.uint8]
) -> int:
    digits = np.empty(_MAX_BYTES, dtype=np.uint8)
    written = _0
    for i in range(fingerprints.size):
        rest = fingerprints[i]
        if rest >> uint64(63):
            rest = _0 - rest
            out[written] = _MINUS
            written += _1
        count = _0
        while True:
            quotient = rest // _10
            digits[count] = _ZERO + uint8(rest - quotient * _10)
            count += _1
            rest = quotient
            if rest == _0:
                break
        while count != _0:
            count -= _1
            out[written] = digits[count]
            written += _1
        out[written] = separators[i]
        written += _1
    return written
