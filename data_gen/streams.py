"""Reproducible random streams: integer arithmetic on the raw output of Philox.

NumPy guarantees that the raw output of a bit generator never changes, but not that of Generator.
So all draws are defined here, by integer arithmetic on ``random_raw``: a seed gives the same values
on every platform.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Longs: TypeAlias = NDArray[np.uint64]

# values are generated in blocks, each from a stream of its own; another size gives other data
BLOCK_LONGS = 1 << 16

_ROUNDS = 6
_CHOICES = 16


class Stream:
    """An infinite sequence of uint64, determined by (seed, purpose, block).

    Philox 4x64-10 under the key (seed, first 8 bytes of SHA-256 of ``purpose``), its 256-bit
    counter starting at ``block`` x 2**192, so that streams of a key do not overlap. ``seed`` and
    ``block`` are below 2**64. Takes 10 microseconds to open, and 5 ns a value.
    """

    def __init__(self, seed: int, purpose: str, block: int = 0) -> None:
        self._bits = np.random.Philox(
            key=np.array([seed, _purpose_word(purpose)], dtype=np.uint64),
            counter=np.array([0, 0, 0, block], dtype=np.uint64),
        )

    def raw(self, count: int) -> Longs:
        """Return the next ``count`` values, uniform over all of uint64."""
        return self._bits.random_raw(count)

    def below(self, bound: int | Longs, count: int) -> Longs:
        """Return the next ``count`` values, uniform in 0..bound - 1, as uint64[count].

        ``bound`` is one number, or one for each value, from 1 to 2**32. A value is the upper half
        of a raw one times its bound, shifted right by 32: the relative difference of two
        probabilities is at most bound / 2**32.
        """
        halves = self.raw(count)
        halves >>= np.uint64(32)
        halves *= np.uint64(bound) if isinstance(bound, int) else bound
        halves >>= np.uint64(32)
        return halves

    def fractions(self, count: int) -> Longs:
        """Return the next ``count`` values, uniform in 0..2**53 - 1, as uint64[count].

        To be compared with a probability times 2**53, which is exact in a float64.
        """
        values = self.raw(count)
        values >>= np.uint64(11)
        return values


@functools.lru_cache(maxsize=64)
def _purpose_word(purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")


class Choices:
    """Single draws of a stream as Python integers, 0.1 microseconds each."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._drawn: list[int] = []

    def below(self, bound: int) -> int:
        """Return a number in 0..bound - 1, with the probabilities of ``Stream.below``."""
        if not self._drawn:
            self._drawn = self._stream.raw(_CHOICES).tolist()
        return ((self._drawn.pop() >> 32) * bound) >> 32

    def shuffled(self, size: int) -> list[int]:
        """Return 0..size - 1 in a random order other than ascending; ``size`` is at least 2."""
        order = list(range(size))
        while order == sorted(order):
            for last in range(size - 1, 0, -1):  # Fisher and Yates
                other = self.below(last + 1)
                order[last], order[other] = order[other], order[last]
        return order


def block_sizes(total: int) -> list[int]:
    """Return the sizes of the blocks of ``total`` values: BLOCK_LONGS, except for the last."""
    whole, rest = divmod(total, BLOCK_LONGS)
    return [BLOCK_LONGS] * whole + [rest] * (rest > 0)


def flip_masks(stream: Stream, flips: Longs) -> Longs:
    """Return masks, uint64[n], with ``flips`` uint64[n] bits set, from 0 to 64 each.

    The set of bits is uniform among all sets of its size (Floyd's sampling: to choose m of 64,
    draw t from 0..j for j = 64 - m .. 63, and take t, or j if t is already taken). Takes 20 ns a
    value times the maximum of ``flips``.
    """
    one, last_bit = np.uint64(1), np.uint64(63)
    masks = np.zeros_like(flips)
    for step in range(int(flips.max(initial=0))):
        # rows that are complete draw as well, so that all rows have the same number of draws
        newest = np.minimum(np.uint64(64 + step) - flips, last_bit)
        bits = one << stream.below(newest + one, flips.size)
        bits = np.where(masks & bits, one << newest, bits)
        masks |= np.where(flips > step, bits, np.uint64(0))
    return masks


@dataclass(frozen=True)
class Permutation:
    """A pseudorandom permutation of 0..size - 1, computed value by value in both directions.

    A Feistel network over the next even number of bits, applied again to values outside the range
    (cycle walking): no array of length ``size`` is needed. ``size`` is from 1 to 2**62. Takes about
    0.1 microseconds a value.
    """

    keys: Longs
    size: int

    @classmethod
    def drawn(cls, stream: Stream, size: int) -> Permutation:
        """Return a permutation of 0..size - 1 with keys from ``stream``."""
        return cls(stream.raw(_ROUNDS), size)

    def images(self, values: Longs) -> Longs:
        """Return the images of uint64[n] values in 0..size - 1."""
        return self._walk(values, self.keys, backwards=False)

    def preimages(self, values: Longs) -> Longs:
        """Return the preimages of uint64[n] values in 0..size - 1."""
        return self._walk(values, self.keys[::-1], backwards=True)

    def _walk(self, values: Longs, keys: Longs, *, backwards: bool) -> Longs:
        half_bits = max(1, (self.size.bit_length() + 1) // 2)
        walked = _feistel(values, keys, half_bits, backwards=backwards)
        # a Feistel network is a bijection of its domain, so a walk from inside ends inside, and no
        # two walks meet; the domain is at most four times as large, so walks are short
        while (outside := np.flatnonzero(walked >= np.uint64(self.size))).size:
            walked[outside] = _feistel(walked[outside], keys, half_bits, backwards=backwards)
        return walked


def scattered(stream: Stream, size: int, count: int) -> Longs:
    """Return ``count`` distinct random positions in 0..size - 1, uint64[count].

    They are the images of 0..count - 1 under a pseudorandom permutation of 0..size - 1: every
    position once for count = size. ``size`` is at most 2**62 and at least ``count``. Takes about
    0.1 microseconds a position.
    """
    permutation = Permutation.drawn(stream, size)
    positions = np.arange(count, dtype=np.uint64)
    for start in range(0, count, BLOCK_LONGS):  # in blocks, for small temporary arrays
        block = positions[start : start + BLOCK_LONGS]
        positions[start : start + BLOCK_LONGS] = permutation.images(block)
    return positions


def _feistel(values: Longs, keys: Longs, half_bits: int, *, backwards: bool) -> Longs:
    """Return the images of ``values`` under a permutation of 0..2**(2 half_bits) - 1.

    With ``backwards`` and reversed keys: the preimages.
    """
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = values >> shift, values & mask
    for key in keys:
        if backwards:
            left, right = right ^ (_mix(left + key) & mask), left
        else:
            left, right = right, left ^ (_mix(right + key) & mask)
    return (left << shift) | right


def _mix(values: Longs) -> Longs:
    """Return the values of splitmix64's finalizer: every bit depends on all bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
