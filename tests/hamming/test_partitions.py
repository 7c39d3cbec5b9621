"""Partitions joined one by one: together every pair exactly once, whatever fits."""

import itertools
import random
import tempfile
import tracemalloc

import numpy as np
import pytest

from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import TableDesign, designs_for
from mr_dedup.hamming.partitions import Partitioning, PartitionJoin, Side
from mr_dedup.hamming.search import probe
from mr_dedup.hamming.self_join import self_join
from tests.oracles import flipped, neighbour, pairs_among, pairs_within

MAX = (1 << 64) - 1


def as_array(values):
    return np.array(list(values), dtype=np.uint64)


def shuffled(seed, k, count=40, others=300):
    """Fingerprints, some repeated, with neighbours of some at every distance from 1 to k + 2."""
    rng = random.Random(seed)
    values = [rng.getrandbits(64) for _ in range(others)]
    for _ in range(count):
        x = rng.getrandbits(64)
        values += [x, *(neighbour(rng, x, distance) for distance in range(1, k + 3))]
    values += values[:50]
    rng.shuffle(values)
    return values


def joined(partitioning, tasks, memory=1 << 30, two_corpora=False):
    """Partition (side, fingerprints) of map tasks and join; return the pairs and the join."""
    partitions = {}
    for side, fingerprints in tasks:
        for key, part in partitioning.partition(fingerprints):
            partitions.setdefault(key, []).append((side, part.copy()))
    join = PartitionJoin(partitioning, two_corpora=two_corpora, memory_bytes=memory)
    pairs = [
        pair
        for key, batches in partitions.items()
        for found in join.join(key, iter(batches))
        for pair in zip(found.left.tolist(), found.right.tolist(), strict=True)
    ]
    assert len(pairs) == len(set(pairs)), "a pair came out twice"
    return set(pairs), join


def of_one(values, splits):
    return [(Side.LEFT, part) for part in np.array_split(as_array(values), splits)]


def of_two(left, right, splits):
    """Map tasks of two corpora, those of one among those of the other."""
    tasks = of_one(left, splits)
    tasks += [(Side.RIGHT, part) for part in np.array_split(as_array(right), splits)]
    return tasks[::2] + tasks[1::2]


ORDERS = {
    "natural": BitOrder.natural(),
    "reversed": BitOrder(tuple(reversed(range(64)))),
    "interleaved": BitOrder.spread(np.empty(0, dtype=np.uint64)),
}


DESIGNS = [(k, name) for k in (0, 1, 3, 6) for name in designs_for(k)]


@pytest.mark.parametrize(
    ("k", "design", "parts"),
    # every number of parts where there are not too many partitions, two of them elsewhere
    [
        (k, name, parts)
        for k, name in DESIGNS
        for parts in (1, 2, 7, 64)
        if parts in (1, 7) or len(designs_for(k)[name].masks) < 10
    ],
)
def test_every_design_and_number_of_parts_equals_brute_force(k, design, parts):
    values = shuffled(k, k, count=20, others=150)
    order = list(ORDERS.values())[parts % 3]
    partitioning = Partitioning(designs_for(k)[design], order, parts)
    found, join = joined(partitioning, of_one(values, 3))
    assert found == pairs_among(values, k)
    assert (join.splits, join.oversized_keys) == (0, 0)
    others = [flipped(x, {3, 40}) for x in values[:40]] + values[40:150]
    found, _ = joined(partitioning, of_two(values, others, 2), two_corpora=True)
    # the oracle's pairs begin with a query
    assert found == pairs_within(others, values, k)


@pytest.mark.parametrize(("memory", "splits"), [(3000, 1), (8000, 5)])
@pytest.mark.parametrize("name", ["4-tables", "6-tables-in-2", "all-pairs"])
def test_what_does_not_fit_is_split_and_nothing_is_lost(
    tmp_path, monkeypatch, name, memory, splits
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    values, others = shuffled(1, 3), shuffled(1, 3)[::2] + shuffled(2, 3)
    partitioning = Partitioning(designs_for(3)[name], ORDERS["natural"], 2)
    found, join = joined(partitioning, of_one(values, splits), memory)
    assert found == pairs_among(values, 3)
    assert join.splits > 0 or name == "all-pairs"
    assert join.oversized_keys == (1 if name == "all-pairs" else 0)
    found, join = joined(partitioning, of_two(values, others, splits), memory, two_corpora=True)
    assert found == pairs_within(others, values, 3)
    assert list(tmp_path.iterdir()) == []


HOT = {
    "one key": lambda: [0xBEEF << 48 | i * 40503 % (1 << 20) for i in range(500)],
    "one key among others": lambda: [
        *(0xBEEF << 48 | i * 40503 % (1 << 20) for i in range(400)), *shuffled(3, 3, others=400)
    ],
    "two keys": lambda: [(i % 2) << 60 | i * 40503 % (1 << 20) for i in range(500)],
    "a page in every task": lambda: [MAX] * 5000 + shuffled(4, 3),
    "all equal": lambda: [0] * 5000,
}  # fmt: skip


@pytest.mark.parametrize("name", HOT)
@pytest.mark.parametrize("memory", [6000])
def test_hot_keys_lose_nothing(name, memory):
    values = HOT[name]()
    partitioning = Partitioning(TableDesign.choose(3, 1), ORDERS["natural"], 3)
    found, join = joined(partitioning, of_one(values, 4), memory)
    assert found == pairs_among(values, 3)
    assert (join.oversized_keys > 0) == ("key" in name)
    right = [flipped(x, {1, 50}) for x in values[::3]] + values[::7]
    found, _ = joined(partitioning, of_two(values, right, 4), memory, two_corpora=True)
    assert found == pairs_within(right, values, 3)


def test_partitions_have_equal_shares_and_the_keys_of_their_tables():
    values = np.random.default_rng(1).integers(0, 2**64, 70_000, dtype=np.uint64)
    design = TableDesign.choose(3, 1)
    for parts in (1, 2, 7, 64):
        partitioning = Partitioning(design, ORDERS["interleaved"], parts)
        partitions = [(key, part.copy()) for key, part in partitioning.partition(values)]
        assert [key for key, _ in partitions] == list(range(4 * parts))
        for table in range(4):
            mine = [part for key, part in partitions if key // parts == table]
            moved = np.sort(ORDERS["interleaved"].apply(values))
            assert np.array_equal(np.sort(np.concatenate(mine)), moved)
            keys = [set((part & np.uint64(design.masks[table])).tolist()) for part in mine]
            assert not any(a & b for a, b in itertools.combinations(keys, 2))
            sizes = [part.size for part in mine]
            assert max(sizes) < 1.25 * len(values) / parts
    assert list(partitioning.partition(values[:0])) == []


def test_at_sizes_of_many_buckets_it_equals_the_joins_in_memory():
    rng = np.random.default_rng(2)
    uniform = rng.integers(0, 2**64, 60_000, dtype=np.uint64)
    skewed = rng.integers(0, 2**24, 10_000, dtype=np.uint64) | np.uint64(0xABCDE << 40)
    values = np.r_[uniform, skewed, uniform[:3000] ^ np.uint64(1 << 63 | 1 << 5)]
    rng.shuffle(values)
    partitioning = Partitioning(TableDesign.choose(3, 1), ORDERS["natural"], 4)
    expected = self_join(values, 3)
    pairs = set(zip(expected.left.tolist(), expected.right.tolist(), strict=True))
    for memory in (1 << 18, 1 << 30):
        found, join = joined(partitioning, of_one(values, 3), memory)
        assert found == pairs
        assert (join.splits > 0) == (memory == 1 << 18)
    left, right = values[:40_000], values[35_000:]
    expected = probe(right, left, 3)
    pairs = set(zip(expected.left.tolist(), expected.right.tolist(), strict=True))
    for memory in (1 << 18, 1 << 30):
        found, _ = joined(partitioning, of_two(left, right, 2), memory, two_corpora=True)
        assert found == pairs


@pytest.mark.parametrize("size", [1000, 10_000])
def test_one_key_in_memory_is_planned_for_and_equals_the_search(size):
    """As a table it would be one bucket, to be compared with all of the other side."""
    rng = np.random.default_rng(4)
    left = rng.integers(0, 2**32, size, dtype=np.uint64)
    right = np.r_[left[::3] ^ np.uint64(5), rng.integers(0, 2**32, size, dtype=np.uint64)]
    partitioning = Partitioning(TableDesign.choose(3, 1), ORDERS["natural"], 2)
    expected = probe(right, left, 3)
    found, join = joined(partitioning, of_two(left, right, 2), two_corpora=True)
    assert found == set(zip(expected.left.tolist(), expected.right.tolist(), strict=True))
    assert join.oversized_keys == 0


@pytest.mark.parametrize("two_corpora", [False, True])
@pytest.mark.parametrize("skewed", [False, True])
def test_a_join_keeps_to_its_memory(two_corpora, skewed):
    """Of a partition of 8 MB, of which every batch is made when it is asked for."""
    memory = 6 << 20
    partitioning = Partitioning(TableDesign.choose(3, 1), ORDERS["natural"], 1)

    def batches():
        rng = np.random.default_rng(3)
        for number in range(16):
            values = rng.integers(0, 2**64, 1 << 16, dtype=np.uint64)
            if skewed:
                values >>= np.uint64(16)
            yield Side(number % 2 if two_corpora else 0), values

    def peak():
        join = PartitionJoin(partitioning, two_corpora=two_corpora, memory_bytes=memory)
        tracemalloc.start()
        try:
            for _ in join.join(0, batches()):
                pass
            assert join.splits + join.oversized_keys > 0
            assert (join.oversized_keys > 0) == skewed
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Of several runs the least: compiled code, and the interpreter's table of interned strings
    # (megabytes each time that it grows), are not the join's.
    assert min(peak() for _ in range(3)) < memory + (8 << 20)


def test_misuse_is_named():
    with pytest.raises(ValueError, match="parts must be at least 1, not 0"):
        Partitioning(TableDesign.choose(3, 1), BitOrder.natural(), 0)
