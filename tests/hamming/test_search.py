"""The search against brute force: every design, both sides, every kind of skew we know of."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import binding
from numba import types

from mr_dedup.errors import MrDedupError
from mr_dedup.hamming import search as search_module
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import Hashing, TableDesign, designs_for
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.kernels import Groups, Table
from mr_dedup.hamming.planner import SIDES, plan, spread_sample
from mr_dedup.hamming.search import Tables, probe, search
from mr_dedup.kernels.compiler import jit
from tests.oracles import flipped, hamming, neighbour, pairs_within
from tests.strategies import FINGERPRINTS

MAX = (1 << 64) - 1


def as_array(values):
    return np.array(list(values), dtype=np.uint64)


def as_pairs(matches):
    pairs = list(zip(matches.left.tolist(), matches.right.tolist(), strict=True))
    assert len(pairs) == len(set(pairs)), "a pair came out twice"
    return set(pairs)


def planted(seed, k, queries=60, corpus=900):
    """Queries, and a corpus with neighbours of each at every distance from 0 to k + 2."""
    rng = random.Random(seed)
    wanted = [rng.getrandbits(64) for _ in range(queries)]
    values = [rng.getrandbits(64) for _ in range(corpus)]
    values += [neighbour(rng, x, d) for x in wanted for d in range(k + 3)]
    rng.shuffle(values)
    return values, wanted


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("k", "design"), [(k, name) for k in range(7) for name in designs_for(k)])
def test_every_design_and_side_equals_brute_force(k, design, side):
    corpus, queries = planted(k, k)
    found = probe(as_array(corpus), as_array(queries), k, design=design, index=side)
    assert as_pairs(found) == pairs_within(corpus, queries, k)


def blockwise_neighbours(k):
    """Neighbours of 0 with the differing bits in every combination of the 4, 5 and 6 blocks."""
    corpus = {0}
    for blocks in (4, 5, 6):
        for combination in itertools.combinations_with_replacement(range(blocks), k):
            for low in (0, 3):
                bits = {
                    (block * 64 // blocks + low + 2 * i) % 64 for i, block in enumerate(combination)
                }
                corpus.add(flipped(0, bits))
    return sorted(corpus)


ADVERSARIAL = {
    "all zeros": ([0] * 500, [0, 0, 1]),
    "all ones": ([MAX] * 500, [MAX, MAX - 1, 0]),
    "many equal": ([5] * 300 + [7] * 300 + [1 << 40], [5, 5, 6, 1 << 41]),
    "blocks": (blockwise_neighbours(3), [0, 1 << 20]),
    "shared leading bits": (
        [0xABCDEF0123 << 24 | i * 7 % (1 << 24) for i in range(3000)],
        [0xABCDEF0123 << 24 | i * 11 % (1 << 24) for i in range(300)],
    ),
    "shared trailing bits": (
        [i * 40503 % (1 << 24) << 40 | 0xBEEF for i in range(3000)],
        [i * 30011 % (1 << 24) << 40 | 0xBEEF for i in range(300)],
    ),
    "halves equal": (
        [(i * 2654435761 % (1 << 32)) * 0x100000001 for i in range(3000)],
        [(i * 2654435761 % (1 << 32)) * 0x100000001 ^ 6 for i in range(0, 3000, 17)],
    ),
    "one ball": ([flipped(0, c) for c in itertools.combinations(range(64), 2)], [0, 1, 3]),
    "no corpus": ([], [1, 2]),
    "no queries": ([1, 2], []),
    "one of each": ([1], [1]),
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_values_equal_brute_force(name, side):
    corpus, queries = ADVERSARIAL[name]
    for k in (0, 1, 3, 5):
        expected = pairs_within(corpus, queries, k)
        # left to itself the planner compares all pairs of so few: two keyed designs as well
        for design in [None, *list(designs_for(k))[1:3]]:
            found = probe(as_array(corpus), as_array(queries), k, index=side, design=design)
            assert as_pairs(found) == expected, (k, design)


@given(
    st.lists(FINGERPRINTS, max_size=80),
    st.lists(FINGERPRINTS, max_size=30),
    st.lists(st.sets(st.integers(0, 63), max_size=8), max_size=20),
    st.integers(0, 8),
    st.sampled_from(SIDES),
    st.integers(0, 3),
)
def test_any_values_equal_brute_force(corpus, queries, flips, k, side, choice):
    corpus = corpus + [flipped(q, bits) for q, bits in zip(queries, flips, strict=False)]
    design = [None, *designs_for(k)][choice % (1 + len(designs_for(k)))]
    found = probe(as_array(corpus), as_array(queries), k, index=side, design=design)
    assert as_pairs(found) == pairs_within(corpus, queries, k)


def brute_force_arrays(corpus, queries, k):
    """The oracle for sizes that plain Python is too slow for: one query at a time, by numpy."""
    pairs = set()
    for query in queries:
        near = corpus[np.bitwise_count(corpus ^ query) <= k]
        pairs.update((int(query), x) for x in near.tolist())
    return pairs


@pytest.mark.parametrize("shared_bits", [24, 40, 48])
def test_two_hundred_thousand_that_share_leading_bits(shared_bits):
    """Large buckets are split, the bits permuted; the answer stays brute force's."""
    rng = np.random.default_rng(shared_bits)
    free = 64 - shared_bits
    prefix = np.uint64(rng.integers(0, 2**shared_bits)) << np.uint64(free)
    corpus = prefix | rng.integers(0, 2**free, 200_000, dtype=np.uint64)
    chosen = rng.choice(corpus, 150, replace=False) ^ np.uint64(1 << 62)
    queries = np.concatenate([chosen[:50], rng.choice(corpus, 100) ^ np.uint64(5)])
    for side in SIDES:
        found = probe(corpus, queries, 3, index=side)
        assert as_pairs(found) == brute_force_arrays(corpus, queries, 3)


def two_clusters(seed, size):
    """Two clusters that share different bits, so that no order of bits serves both, and noise."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 2**28, size, dtype=np.uint64)
    high = rng.integers(0, 2**28, size, dtype=np.uint64) << np.uint64(36)
    uniform = rng.integers(0, 2**64, size, dtype=np.uint64)
    queries = [rng.choice(part, size // 4) ^ np.uint64(1 << 13) for part in (low, high, uniform)]
    return distinct(np.concatenate([low, high, uniform])), distinct(np.concatenate(queries))


def probed(tables, stream):
    """Return all pairs (of the stream, indexed), with repeats if there are any."""
    return [
        pair
        for found, indexed in tables.probe(stream)
        for pair in zip(found.tolist(), indexed.tolist(), strict=True)
    ]


@pytest.mark.parametrize("probes", [1, 1 << 30])
@pytest.mark.parametrize("memory", [1, 1 << 20, 1 << 30])
def test_oversized_buckets_lose_nothing_whether_split_or_scanned(monkeypatch, probes, memory):
    monkeypatch.setattr(search_module, "_OVERSIZED_BUCKET", 64)
    monkeypatch.setattr(search_module, "_OVERSIZED_PROBES", probes)
    corpus, queries = two_clusters(3, 6000)
    tables = Tables(corpus, TableDesign.choose(3, 1), BitOrder.natural(), memory)
    assert max(table.largest for table in tables._tables) > 64
    pairs = probed(tables, queries)
    assert sorted(pairs) == sorted(brute_force_arrays(corpus, queries, 3))
    assert sorted(probed(tables, queries)) == sorted(pairs), "a second probe finds the same"
    split = any(finer for table in tables._tables for finer in table.finer.values())
    assert split == (probes == 1 and memory > 1 << 20)


@pytest.mark.parametrize(
    "memory", [3 << 20, 6 << 20, pytest.param(40 << 20, marks=pytest.mark.slow)]
)
def test_tables_of_oversized_buckets_stay_within_the_memory(monkeypatch, memory):
    """All tables that are kept, and those of one bucket more, fit the memory that was given."""
    monkeypatch.setattr(search_module, "_OVERSIZED_BUCKET", 64)
    monkeypatch.setattr(search_module, "_OVERSIZED_PROBES", 1)
    alive, sizes = [], []

    class Watched(Tables):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            alive.append(self)
            sizes.append(sum(table.nbytes for table in alive))

        def __del__(self):
            alive.remove(self)

    corpus, queries = two_clusters(4, 12_000)
    tables = Tables(corpus, TableDesign.choose(3, 1), BitOrder.natural(), memory)
    base = tables.nbytes
    monkeypatch.setattr(search_module, "Tables", Watched)
    assert sorted(probed(tables, queries)) == sorted(brute_force_arrays(corpus, queries, 3))
    assert base + max(sizes, default=0) <= memory
    assert bool(sizes) == (memory > 3 << 20), "with room there are some"


@pytest.mark.parametrize("flush", [1, 2, 7, 64])
@pytest.mark.parametrize("design", list(designs_for(4)))
def test_a_flood_of_candidates_is_flushed_in_blocks(monkeypatch, design, flush):
    """More candidate groups than fit the buffer: at a bucket's start, inside it, at its end."""
    monkeypatch.setattr(search_module, "_FLUSH", flush)
    dense = [i * 0x9E3779B1 % 2048 for i in range(512)]
    sparse, queries = planted(11, 4)
    corpus, queries = dense + sparse, dense[:30] + queries
    found = probe(as_array(corpus), as_array(queries), 4, design=design, index="corpus")
    assert as_pairs(found) == pairs_within(corpus, queries, 4)


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("side", SIDES)
def test_splits_and_slices_give_one_result(monkeypatch, parts, slices, side):
    corpus, queries = planted(5, 3)
    wanted = distinct(as_array(queries))
    indexed = wanted.size if side == "queries" else len(corpus)
    chosen = plan(len(corpus), wanted.size, 3, index=side, design="4-tables",
                  memory_bytes=44 * -(-indexed // slices))  # fmt: skip
    assert chosen.chosen.slices == slices
    blocks = np.array_split(as_array(corpus), parts)
    found = list(search(lambda: iter(blocks), wanted, chosen))
    pairs = {pair for m in found for pair in zip(m.left.tolist(), m.right.tolist(), strict=True)}
    assert pairs == pairs_within(corpus, queries, 3)


@pytest.mark.parametrize("design", list(designs_for(3))[1:])
def test_partitioned_streams_find_the_same(monkeypatch, design):
    monkeypatch.setattr(search_module, "_PARTITION_FROM", 16)
    monkeypatch.setattr(search_module, "_PART_SIZE", 16)
    partitions = []
    partition = search_module.kernels.partition

    def watched(*arguments):
        partition(*arguments)
        stream, ends, out = arguments[0], arguments[-2], arguments[-1]
        partitions.append(ends.size)
        assert sorted(out.tolist()) == sorted(stream.tolist())

    monkeypatch.setattr(search_module.kernels, "partition", watched)
    corpus, queries = planted(9, 3)
    for side in SIDES:
        found = probe(as_array(corpus), as_array(queries), 3, index=side, design=design)
        assert as_pairs(found) == pairs_within(corpus, queries, 3)
    assert min(partitions) > 3


def test_more_than_a_partition_holds_end_to_end():
    """The sizes at which streams are partitioned unasked; every query has a planted neighbour."""
    rng = np.random.default_rng(12)
    queries = rng.integers(0, 2**64, 200_000, dtype=np.uint64)
    corpus = queries[::-1] ^ np.uint64(1 << 40 | 1 << 3)
    tables = Tables(distinct(queries), TableDesign.choose(3, 1), BitOrder.natural())
    found = [(indexed, stream) for stream, indexed in probed(tables, corpus)]
    flip = 1 << 40 | 1 << 3
    assert sorted(found) == sorted((query, query ^ flip) for query in queries.tolist())


def test_repeated_blocks_are_collapsed_before_they_are_probed():
    block = np.zeros(100_000, dtype=np.uint64)
    assert search_module._collapsed(block).size == 1
    different = np.arange(100_000, dtype=np.uint64)
    assert search_module._collapsed(different) is different


def test_matches_are_ascending_as_signed_numbers_and_know_their_distances():
    corpus, queries = planted(2, 3)
    found = probe(as_array(corpus), as_array(queries), 3)
    pairs = list(
        zip(found.left.view(np.int64).tolist(), found.right.view(np.int64).tolist(), strict=True)
    )
    assert pairs == sorted(pairs)
    expected = [hamming(q & MAX, c & MAX) for q, c in pairs]
    assert found.distances.tolist() == expected


def test_kernels_use_vector_instructions_where_the_processor_has_them():
    """The scan is only fast if LLVM made one vector operation of each lane operation."""
    features = binding.get_host_cpu_features()
    u64, u32 = types.uint64, types.uint32
    fresh = jit(search_module.kernels.scan_table)
    hashing = types.NamedTuple((u64, u64, types.none, u64, u64), Hashing)
    table = types.NamedTuple((u32[::1], u32[::1], u32[::1]), Table)
    groups = types.NamedTuple((u64[::1], u32[::1], u32[::1]), Groups)
    fresh.compile((u64[::1], u64, hashing, table, u32, groups))
    assembly = "".join(fresh.inspect_asm().values())
    if features.get("avx2"):
        assert "ymm" in assembly or "zmm" in assembly
        assert "vpopcntd" in assembly or "vpshufb" in assembly
    else:
        assert assembly


def test_misuse_is_named():
    good = as_array([1])
    with pytest.raises(ValueError, match=r"corpus must be uint64\[n\], not int64\[1\]"):
        probe(good.astype(np.int64), good, 3)
    with pytest.raises(ValueError, match="queries must be"):
        probe(good, good.reshape(1, 1), 3)
    with pytest.raises(ValueError, match="k must be from 0 to 64, not 65"):
        probe(good, good, 65)
    with pytest.raises(ValueError, match="index must be"):
        probe(good, good, 3, index="both")
    with pytest.raises(ValueError, match="design for k = 3"):
        probe(good, good, 3, design="7-tables")


def test_work_that_explodes_is_refused_before_it_starts():
    huge = plan(8_000_000_000, 1_000_000_000, 20)
    with pytest.raises(MrDedupError, match="choose a smaller k"):
        huge.refuse_explosion()
    plan(8_388_608, 1_000_000, 3).refuse_explosion()


def test_a_skewed_sample_changes_the_plan_and_a_uniform_one_does_not():
    rng = np.random.default_rng(1)
    uniform = rng.integers(0, 2**64, 200_000, dtype=np.uint64)
    sample = spread_sample(uniform)
    same = plan(8_388_608, 1_000_000, 3, corpus_sample=sample, query_sample=sample[::-1])
    assert same.chosen == plan(8_388_608, 1_000_000, 3).chosen
    prefix = spread_sample(uniform >> np.uint64(32))
    skewed = plan(8_388_608, 1_000_000, 3, corpus_sample=prefix, query_sample=prefix)
    assert not skewed.chosen.order.is_natural
    natural = [o for o in skewed.options if o.order.is_natural]
    assert skewed.chosen.nanoseconds < min(o.nanoseconds for o in natural) / 3


def test_bit_orders_are_permutations_that_undo_themselves():
    rng = np.random.default_rng(4)
    values = rng.integers(0, 2**64, 500, dtype=np.uint64)
    order = BitOrder.spread(values >> np.uint64(20))
    moved = order.apply(values)
    assert (order.undo(moved) == values).all()
    assert (np.bitwise_count(moved) == np.bitwise_count(values)).all()
    expected = [
        sum((x >> source & 1) << position for position, source in enumerate(order.sources))
        for x in values.tolist()
    ]
    assert moved.tolist() == expected
    # 44 live bits: every 16-bit block gets 11 of them
    live = {position for position, source in enumerate(order.sources) if source < 44}
    assert {len(live & set(range(b, b + 16))) for b in (0, 16, 32, 48)} == {11}
    with pytest.raises(ValueError, match="permutation"):
        BitOrder((0,) * 64)
