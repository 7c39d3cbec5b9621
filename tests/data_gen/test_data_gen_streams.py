"""Streams against Philox written out in Python; flips and positions against their definitions."""

import hashlib
import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_gen.streams import (
    BLOCK_LONGS,
    Choices,
    Permutation,
    Stream,
    block_sizes,
    flip_masks,
    scattered,
)

WORD = 2**64


def philox(seed: int, purpose: str, block: int, count: int) -> list[int]:
    """Philox 4x64-10, as Salmon et al. (2011) define it, in plain integers."""
    word = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")
    values: list[int] = []
    low = 0
    while len(values) < count:
        low += 1  # the counter steps before each use
        keys, counter = [seed, word], [low, 0, 0, block]
        for _ in range(10):
            first = 0xD2E7470EE14C6C93 * counter[0]
            third = 0xCA5A826395121157 * counter[2]
            counter = [
                third // WORD ^ counter[1] ^ keys[0],
                third % WORD,
                first // WORD ^ counter[3] ^ keys[1],
                first % WORD,
            ]
            keys = [(keys[0] + 0x9E3779B97F4A7C15) % WORD, (keys[1] + 0xBB67AE8584CAA73B) % WORD]
        values += counter
    return values[:count]


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
@pytest.mark.parametrize("purpose", ["filler", "queries"])
@pytest.mark.parametrize("block", [0, 1, 2**40])
def test_raw_values_are_philox_under_seed_purpose_and_block(
    seed: int, purpose: str, block: int
) -> None:
    assert Stream(seed, purpose, block).raw(11).tolist() == philox(seed, purpose, block, 11)


def test_a_stream_continues_where_it_stopped() -> None:
    stream = Stream(5, "filler", 3)
    parts = [*stream.raw(3).tolist(), *stream.raw(0).tolist(), *stream.raw(8).tolist()]
    assert parts == philox(5, "filler", 3, 11)


def test_bounded_draws_are_scaled_upper_halves() -> None:
    raw = philox(9, "filler", 0, 50)
    assert Stream(9, "filler").below(7, 50).tolist() == [(v >> 32) * 7 >> 32 for v in raw]
    bounds = np.arange(1, 51, dtype=np.uint64) * np.uint64(2**32 // 50)
    expected = [(v >> 32) * b >> 32 for v, b in zip(raw, bounds.tolist(), strict=True)]
    assert Stream(9, "filler").below(bounds, 50).tolist() == expected
    assert Stream(9, "filler").fractions(50).tolist() == [v >> 11 for v in raw]


def test_bounded_draws_are_uniform() -> None:
    counts = np.bincount(Stream(1, "filler").below(65, 650_000).astype(np.int64), minlength=65)
    assert counts.size == 65
    assert np.abs(counts - 10_000).max() < 500  # five standard deviations


@pytest.mark.parametrize("total", [0, 1, BLOCK_LONGS - 1, BLOCK_LONGS, BLOCK_LONGS + 1])
def test_blocks_add_up(total: int) -> None:
    sizes = block_sizes(total)
    assert sum(sizes) == total
    assert set(sizes[:-1]) <= {BLOCK_LONGS}
    assert all(0 < size <= BLOCK_LONGS for size in sizes)


@given(st.lists(st.integers(0, 64), max_size=200), st.integers(0, WORD - 1))
def test_masks_have_the_given_number_of_bits(flips: list[int], seed: int) -> None:
    masks = flip_masks(Stream(seed, "flips"), np.array(flips, dtype=np.uint64))
    assert [mask.bit_count() for mask in masks.tolist()] == flips


def floyd(choices: list[int], flips: int) -> int:
    taken: set[int] = set()
    for newest, choice in zip(range(64 - flips, 64), choices, strict=True):
        taken.add(newest if choice in taken else choice)
    return sum(1 << bit for bit in taken)


def test_masks_are_floyds_sample_of_the_stream() -> None:
    flips = [0, 64, 3, 5, 1, 64, 2, 40]
    raw = philox(3, "flips", 0, 64 * len(flips))
    expected = []
    for row, count in enumerate(flips):
        draws = raw[row :: len(flips)][:count]
        bounds = range(65 - count, 65)
        choices = [(v >> 32) * b >> 32 for v, b in zip(draws, bounds, strict=True)]
        expected.append(floyd(choices, count))
    masks = flip_masks(Stream(3, "flips"), np.array(flips, dtype=np.uint64))
    assert masks.tolist() == expected


def test_every_bit_and_every_pair_of_bits_flips_equally_often() -> None:
    count = 201_600
    masks = flip_masks(Stream(7, "flips"), np.full(count, 2, dtype=np.uint64))
    pairs = Counter(masks.tolist())
    assert len(pairs) == 64 * 63 // 2
    assert all(abs(n - 100) < 55 for n in pairs.values())
    bits = [int((masks >> np.uint64(bit) & np.uint64(1)).sum()) for bit in range(64)]
    assert all(abs(n - count / 32) < 400 for n in bits)


@pytest.mark.parametrize("size", [*range(1, 40), 63, 64, 65, 255, 256, 257, 70_000, 262_144])
def test_all_positions(size: int) -> None:
    positions = scattered(Stream(size, "positions"), size, size)
    assert sorted(positions.tolist()) == list(range(size))


@given(st.integers(1, 2**62), st.integers(0, 300), st.integers(0, WORD - 1))
def test_positions_are_distinct_and_inside(size: int, count: int, seed: int) -> None:
    count = min(count, size)
    positions = scattered(Stream(seed, "positions"), size, count).tolist()
    assert len(set(positions)) == len(positions) == count
    assert all(position < size for position in positions)


def test_fewer_positions_are_the_first_of_more() -> None:
    more = scattered(Stream(4, "positions"), 10**9, BLOCK_LONGS + 10)
    assert np.array_equal(scattered(Stream(4, "positions"), 10**9, 10), more[:10])


def test_no_positions() -> None:
    assert scattered(Stream(0, "positions"), 0, 0).size == 0


@pytest.mark.parametrize("size", [5, 10, 33])
def test_an_item_is_equally_often_at_each_position(size: int) -> None:
    rounds = 400 * size
    firsts, steps = Counter[int](), Counter[int]()
    for seed in range(rounds):
        first, second = scattered(Stream(seed, "positions"), size, 2).tolist()
        firsts[first] += 1
        steps[(second - first) % size] += 1
    assert all(abs(firsts[position] - 400) < 110 for position in range(size))
    assert steps[0] == 0
    assert all(abs(steps[step] - rounds / (size - 1)) < 120 for step in range(1, size))


def test_positions_are_spread_over_the_whole_range() -> None:
    positions = scattered(Stream(11, "positions"), 10**9, 100_000)
    tenths = np.bincount((positions // np.uint64(10**8)).astype(np.int64))
    assert tenths.size == 10
    assert np.abs(tenths - 10_000).max() < 500


# orders, of which any part can be had


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 63, 64, 65, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_a_permutation_and_its_inverse(size: int, seed: int) -> None:
    permutation = Permutation.drawn(Stream(seed, "order"), size)
    values = np.arange(size, dtype=np.uint64)
    images = permutation.images(values)
    assert sorted(images.tolist()) == list(range(size))
    assert permutation.preimages(images).tolist() == list(range(size))
    assert permutation.images(permutation.preimages(values)).tolist() == list(range(size))
    assert images.tolist() == scattered(Stream(seed, "order"), size, size).tolist()


@given(st.integers(1, 2**62), st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**62 - 1)))
def test_permutations_of_any_size(size: int, seed: int, some: list[int]) -> None:
    permutation = Permutation.drawn(Stream(seed, "order"), size)
    values = np.array([value % size for value in some], dtype=np.uint64)
    images = permutation.images(values)
    assert (images < np.uint64(size)).all()
    assert permutation.preimages(images).tolist() == values.tolist()
    assert values.tolist() == [value % size for value in some]


def test_choices_are_bounded_draws_one_at_a_time() -> None:
    choices = Choices(Stream(4, "choices"))
    raw = philox(4, "choices", 0, 48)
    expected = [(value >> 32) * 1000 >> 32 for value in raw]
    drawn = [choices.below(1000) for _ in range(48)]
    assert drawn == [v for i in range(0, 48, 16) for v in reversed(expected[i : i + 16])]


def test_choices_are_uniform() -> None:
    choices = Choices(Stream(4, "choices"))
    counts = Counter(choices.below(5) for _ in range(10_000))
    assert set(counts) == set(range(5))
    assert all(abs(count - 2000) < 200 for count in counts.values())
    assert choices.below(1) == 0
    assert 0 <= choices.below(2**32) < 2**32


def test_all_orders_but_the_ascending_one_are_equally_likely() -> None:
    choices = Choices(Stream(4, "choices"))
    counts = Counter(tuple(choices.shuffled(3)) for _ in range(5000))
    assert set(counts) == set(itertools.permutations(range(3))) - {(0, 1, 2)}
    assert all(abs(count - 1000) < 150 for count in counts.values())
    assert choices.shuffled(2) == [1, 0]
