"""Table designs: which bits of a fingerprint the tables of a Hamming search are keyed by.

Manku, Jain, Das Sarma (WWW 2007), section 3: cut the 64 bits into r blocks; two fingerprints
within k bits of one another agree in at least r - k whole blocks; so with a table for every
choice of r - k blocks, keyed by their bits, some table has the two under one key. Choosing
again among the bits that a table leaves free (nesting) trades tables for key width.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BITS = 64
"""The width of a fingerprint."""

_FOLD = 33
"""The right shift between the two multiplications of Hashing.

Over the keys of every design that chooses among k + 1 to k + 4 blocks, for k = 0, 1, 3 and 6, 33
came within 1.2 % of perfect spreading, 32 within 18 %, and others within 60 %.
"""


@dataclass(frozen=True)
class TableDesign:
    """A set of tables that together find every pair within ``k`` bits.

    ``masks`` has a 64-bit mask a table: the bits it is keyed by. Use the named constructors,
    whose guarantee follows from their construction; raises ValueError for a k outside 0 to 64
    or a mask that is no 64-bit number.
    """

    name: str
    k: int
    masks: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.k <= BITS:
            raise ValueError(f"k must be from 0 to {BITS}, not {self.k}")
        if not self.masks:
            raise ValueError(f"design {self.name} has no tables")
        for mask in self.masks:
            if not 0 <= mask < 1 << BITS:
                raise ValueError(f"mask {mask:#x} of design {self.name} is not a {BITS}-bit number")

    @classmethod
    def choose(cls, k: int, chosen: int) -> TableDesign:
        """Return the design of ``k + chosen`` blocks with a table for every ``chosen`` of them.

        C(k + chosen, chosen) tables with keys of about 64 chosen / (k + chosen) bits. For k = 3 the
        paper's designs with 4, 10 and 20 tables choose 1, 2 and 3 blocks.
        """
        if chosen < 1:
            raise ValueError(f"chosen must be at least 1, not {chosen}")
        if not 0 <= k <= BITS - chosen:
            raise ValueError(f"k must be from 0 to {BITS - chosen} with {chosen} chosen, not {k}")
        blocks = cut(range(BITS), k + chosen)
        masks = tuple(
            mask_of(itertools.chain.from_iterable(combination))
            for combination in itertools.combinations(blocks, chosen)
        )
        return cls(f"{len(masks)}-tables", k, masks)

    @classmethod
    def nested(cls, k: int) -> TableDesign:
        """Return the design that chooses a block of k + 1, then one of k + 1 in the other bits.

        (k + 1)² tables. The paper's 16-table design is the one for k = 3.
        """
        if not 1 <= k < BITS // 2:
            raise ValueError(f"k of a nested design must be from 1 to {BITS // 2 - 1}, not {k}")
        masks = []
        for outer in cut(range(BITS), k + 1):
            rest = [bit for bit in range(BITS) if bit not in outer]
            masks += [mask_of([*outer, *inner]) for inner in cut(rest, k + 1)]
        return cls(f"{len(masks)}-tables-nested", k, tuple(masks))

    @classmethod
    def grouped(cls, k: int, groups: int, chosen: int) -> TableDesign:
        """Return the design that chooses within each of ``groups`` groups of bits.

        k flipped bits leave at most k // groups in some group; so it is enough to choose
        ``chosen`` of k // groups + chosen blocks inside each. Not in the paper: for k = 3 two
        groups give 6 tables of 21 bits and 8 of 24, between its 4 of 16 and its 10 of 25.
        """
        if not 2 <= groups <= k:
            raise ValueError(f"groups must be from 2 to k = {k}, not {groups}")
        blocks = k // groups + chosen
        if chosen < 1 or blocks > BITS // groups:
            raise ValueError(
                f"chosen must be from 1 to {BITS // groups - k // groups}, not {chosen}"
            )
        masks = tuple(
            mask_of(itertools.chain.from_iterable(combination))
            for group in cut(range(BITS), groups)
            for combination in itertools.combinations(cut(group, blocks), chosen)
        )
        return cls(f"{len(masks)}-tables-in-{groups}", k, masks)

    @classmethod
    def all_pairs(cls, k: int) -> TableDesign:
        """Return the design with one table and no key: every pair is a candidate, for any k."""
        return cls("all-pairs", k, (0,))

    @property
    def key_widths(self) -> tuple[int, ...]:
        """The number of key bits of each table, the paper's p_i."""
        return tuple(mask.bit_count() for mask in self.masks)

    def permutation(self, table: int) -> tuple[int, ...]:
        """Return the paper's π_i: bit positions, leading first, with the table's key leading.

        Position 63 is a fingerprint's leading bit. Within key and rest the order stays.
        """
        mask = self.masks[table]
        leading = [bit for bit in range(BITS - 1, -1, -1) if mask >> bit & 1]
        return (*leading, *(bit for bit in range(BITS - 1, -1, -1) if not mask >> bit & 1))

    def hashing(self, table: int, directory_bits: int) -> Hashing:
        """Return the hash function of a table with at most 2**directory_bits buckets."""
        mask = self.masks[table]
        width = mask.bit_count()
        # a shift by 64 is undefined in machine code: a directory has at least two buckets
        shift = BITS - max(1, min(directory_bits, width))
        lowest = (mask & -mask).bit_length() - 1
        if width == 0 or width == BITS or mask >> lowest != (1 << width) - 1:
            return Hashing.of(mask, _golden(BITS), _FOLD, _golden(BITS), shift)
        # A key in one run of bits: multiplied within its own width, free of collisions where
        # there are as many buckets as keys (hashing 2**16 keys into as many buckets doubles the
        # candidates), and with one multiplication, which makes a scan a sixth faster.
        return Hashing.of(mask, _golden(width) << (BITS - lowest - width), None, 1, shift)


class Hashing(NamedTuple):
    """How a table hashes a fingerprint x to a bucket.

    With h = (x & mask) * first, to bucket ((h ^ h >> fold) * second) >> shift, or h >> shift where
    ``fold`` is None; all modulo 2**64. Kernels take it as it is.
    """

    mask: np.uint64
    first: np.uint64
    fold: np.uint64 | None
    second: np.uint64
    shift: np.uint64

    @classmethod
    def of(cls, mask: int, first: int, fold: int | None, second: int, shift: int) -> Hashing:
        """Return the hash function of these numbers, each below 2**64."""
        u64 = np.uint64
        return cls(
            u64(mask), u64(first), None if fold is None else u64(fold), u64(second), u64(shift)
        )

    @property
    def bits(self) -> int:
        """The number of bits of a bucket."""
        return BITS - int(self.shift)

    def buckets(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the bucket of each of ``fingerprints`` uint64[n], uint64[n]."""
        mixed = (fingerprints & self.mask) * self.first
        if self.fold is not None:
            mixed = (mixed ^ mixed >> self.fold) * self.second
        return mixed >> self.shift

    def digits(self, leading: int, bits: int) -> Hashing:
        """Return the hash function whose buckets are the ``bits`` bits after the ``leading`` ones.

        ``bits`` is from 1 on. Past those that a key fills, all bits are 0.
        """
        shift, start = np.uint64(BITS - bits), np.uint64(leading)
        if self.fold is None:
            return self._replace(first=self.first << start, shift=shift)
        return self._replace(second=self.second << start, shift=shift)


def _golden(width: int) -> int:
    """Return the odd multiplier that spreads ``width``-bit keys over leading bits (Knuth 6.4)."""
    # in integers: a float would leave the last 11 bits of a 64-bit multiplier empty
    return (math.isqrt(5 << 2 * width) - (1 << width)) >> 1 | 1


def cut(bits: Sequence[int], parts: int) -> list[Sequence[int]]:
    """Return ``bits`` cut from the leading end into runs whose lengths differ by at most one.

    The longer runs come first, as in the paper's 13, 13, 13, 13, 12.
    """
    ordered = sorted(bits, reverse=True)
    length, longer = divmod(len(ordered), parts)
    edges = [0, *itertools.accumulate(length + (part < longer) for part in range(parts))]
    return [ordered[start:stop] for start, stop in itertools.pairwise(edges)]


def mask_of(bits: Iterable[int]) -> int:
    """Return the number with exactly the given bit positions set."""
    return functools.reduce(lambda mask, bit: mask | 1 << bit, bits, 0)


MAX_TABLES = 256
"""The most tables a considered design has: more cost more to build than they save."""


def designs_for(k: int) -> dict[str, TableDesign]:
    """Return the designs worth considering for distance k, by name, fewest tables first.

    One with as many tables as another and no wider keys is not among them.
    """
    designs = [TableDesign.all_pairs(k)]
    for chosen in range(1, 5):
        if k <= BITS - chosen and math.comb(k + chosen, chosen) <= MAX_TABLES:
            designs.append(TableDesign.choose(k, chosen))
        if k == 0:
            break  # more blocks of an exact match cut the same key
    if k >= 1 and (k + 1) ** 2 <= MAX_TABLES:
        designs.append(TableDesign.nested(k))
    for groups in range(2, k + 1):
        errors = k // groups
        for chosen in range(2, 5):
            fits = errors + chosen <= BITS // groups
            if fits and groups * math.comb(errors + chosen, chosen) <= MAX_TABLES:
                designs.append(TableDesign.grouped(k, groups, chosen))
    worthwhile: dict[str, TableDesign] = {}
    widest = -1
    for design in sorted(designs, key=lambda d: (len(d.masks), -min(d.key_widths))):
        if min(design.key_widths) > widest:
            widest = min(design.key_widths)
            worthwhile[design.name] = design
    return worthwhile
