"""Each distribution against its description, and what it refuses."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from data_gen.distributions import (
    DISTRIBUTIONS,
    MAX_TABLE,
    Clustered,
    Distribution,
    Prefix,
    Uniform,
    Zipf,
)
from data_gen.streams import Stream


def drawn(distribution: Distribution, count: int, seed: int = 1, purpose: str = "x") -> list[int]:
    values = distribution.prepare(seed)(Stream(seed, purpose), count)
    assert values.dtype == np.uint64
    assert values.shape == (count,)
    return values.tolist()


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_draws_follow_from_seed_and_stream(kind: str) -> None:
    distribution = DISTRIBUTIONS[kind]()
    assert drawn(distribution, 100) == drawn(distribution, 100)
    assert drawn(distribution, 100) != drawn(distribution, 100, seed=2)
    assert drawn(distribution, 100) != drawn(distribution, 100, purpose="y")
    assert drawn(distribution, 0) == []


def test_uniform_sets_every_bit_half_of_the_time() -> None:
    values = drawn(Uniform(), 40_000)
    for bit in range(64):
        assert abs(sum(value >> bit & 1 for value in values) - 20_000) < 500
    assert len(set(values)) == 40_000


@pytest.mark.parametrize("bits", [0, 1, 24, 63, 64])
def test_prefix_is_shared_by_all_streams_of_a_seed_and_by_no_more_bits(bits: int) -> None:
    values = drawn(Prefix(bits), 300) + drawn(Prefix(bits), 300, purpose="y")
    assert len({value >> (64 - bits) for value in values}) == 1
    if bits < 64:
        assert len({value >> (63 - bits) for value in values}) == 2
    if 0 < bits < 64:
        others = {drawn(Prefix(bits), 1, seed=seed)[0] >> (64 - bits) for seed in range(30)}
        assert len(others) == min(30, 2**bits)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.9, 1.0])
def test_prefix_share(share: float) -> None:
    count = 40_000
    prefix = drawn(Prefix(24), 1)[0] >> 40
    having = [value >> 40 == prefix for value in drawn(Prefix(24, share), count)]
    assert abs(sum(having) - share * count) < (500 if 0 < share < 1 else 1)
    if share == 0.25:  # scattered, not in a run
        assert abs(sum(having[:10_000]) - 2_500) < 250


@pytest.mark.parametrize("radius", [0, 1, 5, 64])
def test_clustered_values_lie_around_their_centres(radius: int) -> None:
    centres = set(drawn(Clustered(7, 0), 1000))
    assert len(centres) == 7
    values = drawn(Clustered(7, radius), 7_000)
    distances = [min((value ^ centre).bit_count() for centre in centres) for value in values]
    assert max(distances) <= radius
    if radius <= 5:  # nearest centre is the value's own: they are uniform, so 32 bits apart
        nearest = Counter(min(centres, key=lambda c, v=v: (v ^ c).bit_count()) for v in values)
        assert all(abs(nearest[centre] - 1_000) < 200 for centre in centres)
        counts = Counter(distances)
        expected = 7_000 / (radius + 1)
        assert all(abs(counts[d] - expected) < 200 for d in range(radius + 1))


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 2.0])
def test_zipf_frequencies_fall_as_the_power_of_the_rank(exponent: float) -> None:
    count, distinct = 200_000, 20
    found = [n for _, n in Counter(drawn(Zipf(distinct, exponent), count)).most_common()]
    weights = [rank**-exponent for rank in range(1, distinct + 1)]
    expected = [count * weight / sum(weights) for weight in weights]
    assert len(found) == distinct
    for n, mean in zip(found, expected, strict=True):
        assert abs(n - mean) < 5 * math.sqrt(mean) + 1


def test_zipf_values_come_from_one_set() -> None:
    values = set(drawn(Zipf(50, 0), 5_000))
    assert len(values) == 50
    assert set(drawn(Zipf(50, 1.5), 5_000, purpose="y")) <= values
    assert drawn(Zipf(1, 1.0), 10) == [drawn(Zipf(1, 0.0), 1)[0]] * 10


def test_steep_zipf_is_one_value() -> None:
    assert len(set(drawn(Zipf(1000, 1000), 10_000))) == 1


def test_large_tables_span_several_blocks_without_repeats() -> None:
    values = drawn(Clustered(200_000, 0), 300_000)
    assert len(set(values)) > 150_000
    ordered = sorted(set(values))
    assert min(b - a for a, b in pairwise(ordered)) > 0
    assert max(b - a for a, b in pairwise(ordered)) < 2**52


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (Prefix, "prefix_bits", -1),
        (Prefix, "prefix_bits", 65),
        (Prefix, "prefix_share", -0.1),
        (Prefix, "prefix_share", 1.1),
        (Prefix, "prefix_share", math.nan),
        (Clustered, "clusters", 0),
        (Clustered, "clusters", MAX_TABLE + 1),
        (Clustered, "cluster_radius", -1),
        (Clustered, "cluster_radius", 65),
        (Zipf, "zipf_distinct", 0),
        (Zipf, "zipf_distinct", MAX_TABLE + 1),
        (Zipf, "zipf_exponent", -0.5),
        (Zipf, "zipf_exponent", math.inf),
        (Zipf, "zipf_exponent", math.nan),
    ],
)
def test_refuses_by_name_and_value(
    kind: type[Prefix | Clustered | Zipf], field: str, value: float
) -> None:
    with pytest.raises(ValueError, match=rf"^{field} must be from .*, not {value}$"):
        kind(**{field: value})
