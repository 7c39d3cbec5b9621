"""Random streams that anyone can make again: raw Philox output, and arithmetic of our own on it.

NumPy promises that the raw output of a bit generator never changes, and promises nothing of the
kind for what its Generator derives from it. So every draw here is spelled out, from
``random_raw`` alone, in integers: one seed gives one set of values, on every platform.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Longs: TypeAlias = NDArray[np.uint64]

# Values are made a block of so many at a time, each block from a stream of its own. The number is
# part of what a seed means: another one gives other data.
BLOCK_LONGS = 1 << 16

_ROUNDS = 6
_CHOICES = 16


class Stream:
    """An endless sequence of uint64, named by (seed, purpose, block): equal names, equal values.

    Philox 4x64-10 under the key (seed, first 8 bytes of SHA-256 of ``purpose``), its 256-bit
    counter starting at ``block`` x 2**192, so that no two streams of a key overlap. ``seed`` and
    ``block`` are below 2**64. Opening one costs 10 microseconds, a value 5 ns.
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

        ``bound`` is one number or one a value, from 1 to 2**32. A value is the upper half of a
        raw one, times its bound, shifted down by 32: no value is likelier than another by more
        than bound / 2**32 of itself.
        """
        halves = self.raw(count)
        halves >>= np.uint64(32)
        halves *= np.uint64(bound) if isinstance(bound, int) else bound
        halves >>= np.uint64(32)
        return halves

    def fractions(self, count: int) -> Longs:
        """Return the next ``count`` values, uniform in 0..2**53 - 1, as uint64[count].

        Compared with a probability times 2**53, which a float64 holds exactly.
        """
        values = self.raw(count)
        values >>= np.uint64(11)
        return values


@functools.lru_cache(maxsize=64)
def _purpose_word(purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")


class Choices:
    """Single draws of a stream, as Python numbers: 0.1 microseconds each, not some as arrays."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._drawn: list[int] = []

    def below(self, bound: int) -> int:
        """Return a number in 0..bound - 1, all as likely as ``Stream.below`` has them."""
        if not self._drawn:
            self._drawn = self._stream.raw(_CHOICES).tolist()
        return ((self._drawn.pop() >> 32) * bound) >> 32

    def shuffled(self, size: int) -> list[int]:
        """Return 0..size - 1 in any order but the ascending one; ``size`` is 2 or more."""
        order = list(range(size))
        while order == sorted(order):
            for last in range(size - 1, 0, -1):  # Fisher and Yates
                other = self.below(last + 1)
                order[last], order[other] = order[other], order[last]
        return order


def block_sizes(total: int) -> list[int]:
    """Return the sizes of the blocks of ``total`` values: all BLOCK_LONGS, but for the last."""
    whole, rest = divmod(total, BLOCK_LONGS)
    return [BLOCK_LONGS] * whole + [rest] * (rest > 0)


def flip_masks(stream: Stream, flips: Longs) -> Longs:
    """Return a mask for each value of ``flips``, of exactly so many bits: uint64[n] both.

    The set of bits is uniform among all sets of its size (Floyd's sampling: to choose m of 64,
    draw t from 0..j for j = 64 - m .. 63, and take t, or j where t is taken already). ``flips``
    is from 0 to 64; costs its maximum times 20 ns a value.
    """
    one, last_bit = np.uint64(1), np.uint64(63)
    masks = np.zeros_like(flips)
    for step in range(int(flips.max(initial=0))):
        # a row that has all its bits draws too, idly, which keeps the rows of a step aligned
        newest = np.minimum(np.uint64(64 + step) - flips, last_bit)
        bits = one << stream.below(newest + one, flips.size)
        bits = np.where(masks & bits, one << newest, bits)
        masks |= np.where(flips > step, bits, np.uint64(0))
    return masks


@dataclass(frozen=True)
class Permutation:
    """A pseudorandom order of 0..size - 1, of which any part can be had alone, either way.

    A Feistel network over the next even number of bits, walked on from values outside until one
    is inside: nothing of length ``size`` is ever held. ``size`` is from 1 to 2**62. Costs about
    0.1 microseconds a value.
    """

    keys: Longs
    size: int

    @classmethod
    def drawn(cls, stream: Stream, size: int) -> Permutation:
        """Return a permutation of 0..size - 1, by the next values of ``stream``."""
        return cls(stream.raw(_ROUNDS), size)

    def images(self, values: Longs) -> Longs:
        """Return what the permutation makes of each of uint64[n] values in 0..size - 1."""
        return self._walked(values, self.keys, backwards=False)

    def preimages(self, values: Longs) -> Longs:
        """Return what the permutation makes each of uint64[n] values in 0..size - 1 of."""
        return self._walked(values, self.keys[::-1], backwards=True)

    def _walked(self, values: Longs, keys: Longs, *, backwards: bool) -> Longs:
        half_bits = max(1, (self.size.bit_length() + 1) // 2)
        walked = _feistel(values, keys, half_bits, backwards=backwards)
        # a Feistel network is a bijection of its domain, so a walk from inside ends inside, and
        # no two walks meet; the domain is at most four times as large, so walks are short
        while (outside := np.flatnonzero(walked >= np.uint64(self.size))).size:
            walked[outside] = _feistel(walked[outside], keys, half_bits, backwards=backwards)
        return walked


def scattered(stream: Stream, size: int, count: int) -> Longs:
    """Return ``count`` distinct positions in 0..size - 1, spread evenly: uint64[count].

    They are the images of 0..count - 1 under a pseudorandom permutation of 0..size - 1, so that
    count = size gives every position once. ``size`` is at most 2**62 and at least ``count``;
    costs about 0.1 microseconds a position.
    """
    permutation = Permutation.drawn(stream, size)
    positions = np.arange(count, dtype=np.uint64)
    for start in range(0, count, BLOCK_LONGS):  # a block at a time: small temporaries
        block = positions[start : start + BLOCK_LONGS]
        positions[start : start + BLOCK_LONGS] = permutation.images(block)
    return positions


def _feistel(values: Longs, keys: Longs, half_bits: int, *, backwards: bool) -> Longs:
    """Return the images of ``values`` under a permutation of 0..2**(2 half_bits) - 1.

    ``backwards`` undoes it, if ``keys`` are those of the way there, the last one first.
    """
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = values >> shift, values & mask
    for key in keys:
        if backwards:
            left, right = right ^ (_mixed(left + key) & mask), left
        else:
            left, right = right, left ^ (_mixed(right + key) & mask)
    return (left << shift) | right


def _mixed(values: Longs) -> Longs:
    """Return ``values`` with every bit of each depending on all of its bits (splitmix64's)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
