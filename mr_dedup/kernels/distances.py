"""Vectorised tests of Hamming distances: one fingerprint or signature against many.

Plain LLVM vector code, so that each processor gets its own form: two 512-bit registers and a
vector population count where there is one, shuffles or four-register code elsewhere. Nothing here
checks an index: the caller pads arrays that are read past their end.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mr_dedup.kernels.entry import intrinsic

_LLVM = "mr_dedup.kernels.llvm.distances"

N = TypeVar("N", np.uint32, np.uint64)
LANES = 32
"""Signatures tested by one call of :func:`lanes_within`; arrays carry this much padding."""

PROBES = 8
"""Fingerprints tested by one call of :func:`probes_within`: one 512-bit register."""

_PAIRS = PROBES // 2

ALL_PAIRS = (1 << _PAIRS) - 1
"""The result of :func:`probes_within` that rules out no fingerprint."""

ROWS = 8
"""Neighbouring signatures tested by one call of :func:`rows_within`."""

GROUP = 8
"""Rows of bits compared by one call of :func:`group_within`, each a lane of a 512-bit register."""


@intrinsic(_LLVM)
def lanes_within(signatures: NDArray[N], start: np.uint64, probe: N, k: N) -> np.uint32:
    """Return a uint32 whose bit j is set if signatures[start + j] is within k bits of probe.

    ``signatures`` uint32[n] or uint64[n], contiguous; ``start`` uint64; ``probe`` and ``k`` of the
    signatures' type. Reads LANES elements from ``start`` on.

    The scalar loop that numba vectorises by itself needs a second pass to find which lanes
    matched, and took 1.5 times as long.
    """
    raise NotImplementedError


@intrinsic(_LLVM)
def probes_within(
    stream: NDArray[np.uint64],
    start: np.uint64,
    hashing: Any,
    starts: NDArray[np.uint32],
    signatures: NDArray[np.uint32],
    k: np.uint32,
) -> np.uint32:
    """Return a uint32 whose bit p is set if stream[start + 2p] or the next one may match.

    A fingerprint may match if one of the LANES signatures from its bucket's start on is within k
    bits of its own. All _PAIRS bits are set if one of the PROBES buckets has more than LANES
    fingerprints. Reads stream[start : start + PROBES]; ``hashing`` is hamming.design.Hashing, and
    buckets and signatures are those of hamming.kernels.bucket_of and signature_of.

    No branch: the minimum over two fingerprints' distances is compared once. A probe of four
    tables of a million took 0.65 to 0.7 of the time of one bucket after another; with a bit for
    each fingerprint 0.72 to 0.78, with sixteen fingerprints a call 0.85.
    """
    raise NotImplementedError


@intrinsic(_LLVM)
def rows_within(signatures: NDArray[N], row: np.uint64, offset: np.uint64, k: N) -> np.uint32:
    """Return a uint32 that is not 0 if one of ROWS signatures is within k bits of a later one.

    Each signatures[row + r] is compared with the LANES from signatures[row + r + offset] on.
    ``signatures`` uint32[n] or uint64[n], contiguous; ``row`` and ``offset`` uint64, ``k`` of the
    signatures' type.

    One comparison for all rows: 256 pairs of 32 bits in 4 to 5 ns. To load the same LANES once for
    all rows takes 0.9 of that, but would compare the rows with themselves.
    """
    raise NotImplementedError


@intrinsic(_LLVM)
def group_within(
    columns: NDArray[np.uint64],
    start: np.uint64,
    probe: NDArray[np.uint64],
    limits: NDArray[np.int32],
    at: np.uint64,
    limit: np.int64,
) -> np.uint8:
    """Return a uint8 whose bit j is set if row j of a group differs in few enough bits.

    That is in at most ``limits[at + j] + limit`` bits from ``probe`` uint64[w]. ``columns``
    uint64[n] has word i of row j at ``start`` + GROUP i + j, ``limits`` int32[m]; ``start`` and
    ``at`` uint64, ``limit`` int64. Reads GROUP w words and GROUP limits. Rows of 4 words take 0.5
    to 1 ns each.
    """
    raise NotImplementedError
