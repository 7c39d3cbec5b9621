"""The tables of a segment: permuted copies of its fingerprints, and their layout.

Manku, Jain, Das Sarma, sections 3.1 and 3.2. Table i permutes each fingerprint so that the bits of
its key lead, and sorts the results. The leading bits are then nearly the row number and are not
stored: a directory has the first row of each value of the leading bits, where the paper finds it by
interpolation. Of the other bits the last 32 are in one array, which a query scans, and those
between in another, which it reads only for rows that are within k bits by the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, TableDesign
from mr_dedup.hamming.planner import Option, plan
from mr_dedup.index import kernels

Fingerprints = NDArray[np.uint64]

_MIN_BITS, _MAX_BITS = 16, 24
"""Bits of a directory: from 16 on two bytes suffice for the bits between; 24 take 64 MB."""

_WIDE_FROM = 1 << 27
"""Fingerprints from which a directory of 24 bits costs less than the byte each that it saves."""

# Nanoseconds on one core of a Zen 5; only their ratios matter.
_TABLE = 200.0  # directory and first lines of a bucket, from memory
_CANDIDATE = 0.2  # between 0.05 from the cache and 0.4 from memory
_ROW_BYTES = 6
_QUERIES, _ALL_MEMORY = 10**9, 1 << 62
_BYTE = 500.0  # the price of a byte a fingerprint, on disk and in every merge


@dataclass(frozen=True)
class Permutation:
    """A permutation of bits: the OR of x rotated left by ``rotations[i]`` under ``masks[i]``."""

    rotations: tuple[int, ...]
    masks: tuple[int, ...]

    @classmethod
    def of(cls, design: TableDesign, table: int) -> Permutation:
        """Return the paper's π of a table: its key leads; key and rest keep their order."""
        masks: dict[int, int] = {}
        for rank, source in enumerate(design.permutation(table)):
            position = BITS - 1 - rank
            rotation = (position - source) % BITS
            masks[rotation] = masks.get(rotation, 0) | 1 << position
        return cls(tuple(masks), tuple(masks.values()))

    def leading(self, bits: int) -> int:
        """Return the mask of the bits that are moved to the first ``bits`` positions."""
        wanted = ((1 << bits) - 1) << (BITS - bits)
        mask = 0
        for rotation, target in zip(self.rotations, self.masks, strict=True):
            moved = target & wanted
            mask |= (moved >> rotation | moved << (BITS - rotation)) & ((1 << BITS) - 1)
        return mask


def table_rows(design: TableDesign) -> NDArray[np.uint64]:
    """Return the rows of a design's tables for the kernels, with permutations and no fields yet.

    uint64[tables, FIELDS + 2 * runs], as ``kernels`` describes them.
    """
    found = [Permutation.of(design, table) for table in range(len(design.masks))]
    runs = max(len(each.rotations) for each in found)
    rows = np.zeros((len(found), kernels.FIELDS + 2 * runs), np.uint64)
    for row, each in zip(rows, found, strict=True):
        pairs = row[kernels.FIELDS : kernels.FIELDS + 2 * len(each.masks)]
        pairs[::2], pairs[1::2] = each.rotations, each.masks
    return rows


def directory_bits_for(size: int, key_width: int) -> int:
    """Return the bits of a table's directory over ``size`` fingerprints.

    The width of its key, if that leaves some 16 fingerprints a bucket. A bucket of the directory is
    then no larger than what a query scans, apart from keys of fewer than 16 bits.
    """
    if size >= _WIDE_FROM:
        return _MAX_BITS
    fine = max(1, size // 16).bit_length()
    return max(_MIN_BITS, min(key_width, fine, _MAX_BITS))


def tables_needed(design: TableDesign, k: int) -> int:
    """Return how many of a design's tables, from the first on, suffice for distances up to ``k``.

    k flipped bits change at most k of the keys of tables whose masks are disjoint.
    """
    seen = disjoint = 0
    for mask in design.masks:
        if mask & seen:
            break
        seen |= mask
        disjoint += 1
    return k + 1 if k < disjoint else len(design.masks)


def chosen_design(
    sample: Fingerprints, size: int, k: int, name: str | None = None
) -> tuple[TableDesign, BitOrder]:
    """Return the table design and the bit order for a segment of ``size`` fingerprints.

    The cheapest by the cost of a query and the bytes on disk.

    Args:
        sample: uint64[s], spread over the fingerprints, from which skew is estimated.
        size: the number of fingerprints.
        k: the largest distance of a query.
        name: the design to use instead of the cheapest.

    Raises:
        ValueError: there is no design of that name for ``k``.
    """
    # with so many queries the cost of building does not count
    planned = plan(
        max(1, size), _QUERIES, k, index="corpus", design=name, corpus_sample=sample,
        query_sample=sample, memory_bytes=_ALL_MEMORY,
    )  # fmt: skip
    options = [each for each in planned.options if name or any(each.design.masks)]
    best = min(options or planned.options, key=_cost)
    return best.design, best.order


def _cost(option: Option) -> float:
    """Return what an option costs, in nanoseconds a query."""
    tables = len(option.design.masks)
    return tables * (_TABLE + _ROW_BYTES * _BYTE) + option.candidates_per_probe * _CANDIDATE
