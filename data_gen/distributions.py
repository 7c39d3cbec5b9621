"""How fingerprints are distributed: each distribution is a few parameters and a way to draw.

``prepare(seed)`` draws what all values of a data set share (a prefix, centres, a set of values)
and returns the function that draws the values themselves: ``draw(stream, count)`` is
uint64[count]. What is shared depends on the seed alone, so queries and corpus share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from data_gen.streams import Longs, Stream, block_sizes, flip_masks

Draw: TypeAlias = Callable[[Stream, int], Longs]

# tables of a distribution are held in memory
MAX_TABLE = 1 << 24


class Distribution(Protocol):
    """A distribution of 64-bit fingerprints."""

    def prepare(self, seed: int) -> Draw:
        """Return the function that draws values for the data set of this seed."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Every fingerprint equally likely: what good hashes of unrelated pages give."""

    def prepare(self, seed: int) -> Draw:
        """Return the draw of raw values."""
        return Stream.raw


@dataclass(frozen=True)
class Prefix:
    """Values that share their leading ``prefix_bits``: one bucket of a table keyed by them.

    A share ``prefix_share`` of the values has the prefix (each value by a draw of its own); the
    others are uniform.
    """

    prefix_bits: int = 24
    prefix_share: float = 1.0

    def __post_init__(self) -> None:
        _check_range("prefix_bits", self.prefix_bits, 0, 64)
        _check_range("prefix_share", self.prefix_share, 0, 1)

    def prepare(self, seed: int) -> Draw:
        """Return the draw under a prefix of this seed."""
        free = np.uint64((1 << (64 - self.prefix_bits)) - 1)
        prefix = Stream(seed, "shared prefix").raw(1)[0] & ~free
        limit = np.uint64(self.prefix_share * 2**53)

        def draw(stream: Stream, count: int) -> Longs:
            values = stream.raw(count)
            prefixed = (values & free) | prefix
            return np.where(stream.fractions(count) < limit, prefixed, values)

        return draw


@dataclass(frozen=True)
class Clustered:
    """Values near one of ``clusters`` uniform centres, as in crawls full of near-duplicates.

    A value is its centre with 0 to ``cluster_radius`` bits flipped, each number equally likely.
    """

    clusters: int = 1000
    cluster_radius: int = 3

    def __post_init__(self) -> None:
        _check_range("clusters", self.clusters, 1, MAX_TABLE)
        _check_range("cluster_radius", self.cluster_radius, 0, 64)

    def prepare(self, seed: int) -> Draw:
        """Return the draw around centres of this seed; holds 8 bytes a cluster."""
        centres = _uniform_table(seed, "cluster centres", self.clusters)

        def draw(stream: Stream, count: int) -> Longs:
            values = centres[stream.below(self.clusters, count)]
            values ^= flip_masks(stream, stream.below(self.cluster_radius + 1, count))
            return values

        return draw


@dataclass(frozen=True)
class Zipf:
    """Values from a set of ``zipf_distinct``, the r-th likely as r ** -``zipf_exponent``.

    As the fingerprints of popular pages: the empty page, the error page. The weights are
    rounded to whole multiples of 2**-32 of the first, so that the last digit of a platform's
    power function does not show; with steep exponents the rarest values are never drawn.
    """

    zipf_distinct: int = 100_000
    zipf_exponent: float = 1.0

    def __post_init__(self) -> None:
        _check_range("zipf_distinct", self.zipf_distinct, 1, MAX_TABLE)
        _check_range("zipf_exponent", self.zipf_exponent, 0, 1000)

    def prepare(self, seed: int) -> Draw:
        """Return the draw from a set of this seed; holds 16 bytes a distinct value."""
        values = _uniform_table(seed, "zipf values", self.zipf_distinct)
        ranks = np.arange(1, self.zipf_distinct + 1, dtype=np.float64)
        heaped = np.cumsum(np.rint(2.0**32 * ranks**-self.zipf_exponent))
        limits = (heaped / heaped[-1] * 2.0**53).astype(np.uint64)

        def draw(stream: Stream, count: int) -> Longs:
            return values[np.searchsorted(limits, stream.fractions(count), side="right")]

        return draw


DISTRIBUTIONS: dict[str, type[Uniform | Prefix | Clustered | Zipf]] = {
    "uniform": Uniform,
    "prefix": Prefix,
    "clustered": Clustered,
    "zipf": Zipf,
}


def _uniform_table(seed: int, purpose: str, size: int) -> Longs:
    return np.concatenate(
        [Stream(seed, purpose, block).raw(n) for block, n in enumerate(block_sizes(size))]
    )


def _check_range(name: str, value: float, least: int, most: int) -> None:
    if not least <= value <= most:  # so written, it refuses NaN as well
        raise ValueError(f"{name} must be from {least:,} to {most:,}, not {value}")
