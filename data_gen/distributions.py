"""Distributions of fingerprints.

``prepare(seed)`` draws what all values of a data set have in common (a prefix, centres, a set of
values) and returns a function that draws values: ``draw(stream, count)`` is uint64[count]. What
they have in common depends on the seed only: it is the same for queries and corpus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from data_gen.streams import Longs, Stream, block_sizes, flip_masks

Draw: TypeAlias = Callable[[Stream, int], Longs]

# tables of a distribution are in memory
MAX_TABLE = 1 << 24


class Distribution(Protocol):
    """A distribution of 64-bit fingerprints."""

    def prepare(self, seed: int) -> Draw:
        """Return the function that draws values for the data set of this seed."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Uniformly distributed fingerprints, as good hashes of unrelated pages are."""

    def prepare(self, seed: int) -> Draw:
        """Return the function that draws uniform values."""
        return Stream.raw


@dataclass(frozen=True)
class Prefix:
    """Values with the same ``prefix_bits`` leading bits: one bucket of a table keyed by them.

    Each value has the prefix with probability ``prefix_share``, and is uniform otherwise.
    """

    prefix_bits: int = 24
    prefix_share: float = 1.0

    def __post_init__(self) -> None:
        check_range("prefix_bits", self.prefix_bits, 0, 64)
        check_range("prefix_share", self.prefix_share, 0, 1)

    def prepare(self, seed: int) -> Draw:
        """Return the function that draws values with the prefix of this seed."""
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
    """Values around ``clusters`` uniform centres, as in crawls full of near-duplicates.

    A value is a centre with 0 to ``cluster_radius`` bits flipped, each number equally likely.
    """

    clusters: int = 1000
    cluster_radius: int = 3

    def __post_init__(self) -> None:
        check_range("clusters", self.clusters, 1, MAX_TABLE)
        check_range("cluster_radius", self.cluster_radius, 0, 64)

    def prepare(self, seed: int) -> Draw:
        """Return the function that draws values; it takes 8 bytes a cluster in memory."""
        centres = _uniform_table(seed, "cluster centres", self.clusters)

        def draw(stream: Stream, count: int) -> Longs:
            values = centres[stream.below(self.clusters, count)]
            values ^= flip_masks(stream, stream.below(self.cluster_radius + 1, count))
            return values

        return draw


@dataclass(frozen=True)
class Zipf:
    """``zipf_distinct`` distinct values, the r-th with a frequency like r ** -``zipf_exponent``.

    As the fingerprints of popular pages: the empty page, the error page. With large exponents the
    rarest values are never drawn.
    """

    zipf_distinct: int = 100_000
    zipf_exponent: float = 1.0

    def __post_init__(self) -> None:
        check_range("zipf_distinct", self.zipf_distinct, 1, MAX_TABLE)
        check_range("zipf_exponent", self.zipf_exponent, 0, 1000)

    def prepare(self, seed: int) -> Draw:
        """Return the function that draws values; it takes 16 bytes a distinct value in memory."""
        values = _uniform_table(seed, "zipf values", self.zipf_distinct)
        limits = zipf_limits(self.zipf_distinct, self.zipf_exponent)

        def draw(stream: Stream, count: int) -> Longs:
            return values[np.searchsorted(limits, stream.fractions(count), side="right")]

        return draw


DISTRIBUTIONS: dict[str, type[Uniform | Prefix | Clustered | Zipf]] = {
    "uniform": Uniform,
    "prefix": Prefix,
    "clustered": Clustered,
    "zipf": Zipf,
}


def zipf_limits(size: int, exponent: float) -> Longs:
    """Return the upper limit of each rank, in units of 2**-53, for draws by Zipf's law.

    Weights are rounded to multiples of 2**-32 of the first one, so that the result does not depend
    on the last digit of a platform's power function.
    """
    ranks = np.arange(1, size + 1, dtype=np.float64)
    cumulative = np.cumsum(np.rint(2.0**32 * ranks**-exponent))
    limits: Longs = (cumulative / cumulative[-1] * 2.0**53).astype(np.uint64)
    return limits


def _uniform_table(seed: int, purpose: str, size: int) -> Longs:
    return np.concatenate(
        [Stream(seed, purpose, block).raw(n) for block, n in enumerate(block_sizes(size))]
    )


def check_range(name: str, value: float, minimum: float, maximum: float) -> None:
    """Raise ValueError if a parameter is not in minimum..maximum, or NaN."""
    if not minimum <= value <= maximum:  # false for NaN as well
        raise ValueError(f"{name} must be from {minimum:,} to {maximum:,}, not {value}")
