"""The tables of a segment: permuted copies of its fingerprints, and how they are laid out.

Manku, Jain, Das Sarma, sections 3.1 and 3.2. The bits of table i's key are moved to the front of
each fingerprint, and the results sorted. What leads is then nearly the number of the row, and is
not kept: a directory says where those with the same leading bits begin, so that a place is looked
up, where the paper interpolates. Of the other bits the last 32 are in one array, which a query
goes through, and those between in another, which it looks at for what is near by the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, TableDesign
from mr_dedup.hamming.planner import Option, plan

Fingerprints = NDArray[np.uint64]

_LEAST_BITS, _MOST_BITS = 16, 24
"""Bits of a directory: at least so many that two bytes hold the bits between, at most 64 MB."""

_WIDE_FROM = 1 << 27
"""Fingerprints from which a directory of 24 bits costs less than the byte each that it saves."""

# One core of a Zen 5, nanoseconds; what they weigh against each other is what matters.
_TABLE = 200.0  # directory and first lines of a bucket, from memory
_CANDIDATE = 0.2  # between 0.05 from the cache and 0.4 from memory
_ROW_BYTES = 6
_QUERIES, _ALL_MEMORY = 10**9, 1 << 62
_BYTE = 500.0  # what a byte a fingerprint is held to be worth, on disk and in every merge


@dataclass(frozen=True)
class Permutation:
    """Moves bits: those that are turned by ``rotations[i]`` end up in the mask ``targets[i]``."""

    rotations: tuple[int, ...]
    targets: tuple[int, ...]

    @classmethod
    def of(cls, design: TableDesign, table: int) -> Permutation:
        """Return the paper's π of a table: its key leads, and within key and rest order stays."""
        targets: dict[int, int] = {}
        for rank, source in enumerate(design.permutation(table)):
            position = BITS - 1 - rank
            rotation = (position - source) % BITS
            targets[rotation] = targets.get(rotation, 0) | 1 << position
        return cls(tuple(targets), tuple(targets.values()))

    def leading(self, bits: int) -> int:
        """Return the mask of the bits that it moves to the first ``bits`` places."""
        wanted = ((1 << bits) - 1) << (BITS - bits)
        mask = 0
        for rotation, target in zip(self.rotations, self.targets, strict=True):
            moved = target & wanted
            mask |= (moved >> rotation | moved << (BITS - rotation)) & ((1 << BITS) - 1)
        return mask


def permutations(design: TableDesign) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return rotations and targets of all tables as the kernels take them, uint64[tables, runs]."""
    found = [Permutation.of(design, table) for table in range(len(design.masks))]
    runs = max(len(each.rotations) for each in found)
    rotations, targets = np.zeros((2, len(found), runs), np.uint64)
    for table, each in enumerate(found):
        rotations[table, : len(each.rotations)] = each.rotations
        targets[table, : len(each.targets)] = each.targets
    return rotations, targets


def directory_bits_for(size: int, key_width: int) -> int:
    """Return the bits of a table's directory over ``size`` fingerprints.

    As many as its key has, if that leaves some 16 to a bucket; one bucket of the directory is never
    more than what a query looks at, apart from keys that are shorter than 16 bits.
    """
    if size >= _WIDE_FROM:
        return _MOST_BITS
    fine = max(1, size // 16).bit_length()
    return max(_LEAST_BITS, min(key_width, fine, _MOST_BITS))


def tables_needed(design: TableDesign, k: int) -> int:
    """Return how many of a design's tables, from the first on, find every pair within ``k`` bits.

    k flipped bits touch at most k of the tables whose masks have no bit in common.
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
    """Return the design, and the order of bits, for a segment of ``size`` fingerprints.

    The cheapest by what a query takes and by what tables take on disk; ``name`` says which design
    it has to be. ``sample`` uint64[s], from all over them, tells of skew. Raises ValueError for a
    name that is no design for ``k``.
    """
    # so many queries that to build is nothing
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
