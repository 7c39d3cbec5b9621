"""The self-join against brute force, and at sizes past that against the search by tables."""

import itertools
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import binding
from numba import types

from mr_dedup.errors import MrDedupError
from mr_dedup.hamming import self_join as self_join_module
from mr_dedup.hamming.design import Hashing, TableDesign, designs_for
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.kernels import Table
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.planner import plan_self, spread_sample
from mr_dedup.hamming.search import probe
from mr_dedup.hamming.self_join import Buffer, join_table, pairs_within, self_join
from mr_dedup.kernels.compiler import jit
from tests.oracles import flipped, neighbour, pairs_among, signed
from tests.strategies import FINGERPRINTS

MAX = (1 << 64) - 1


def as_array(values):
    return np.array(list(values), dtype=np.uint64)


def as_list(pairs):
    return list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))


def in_order(pairs):
    return sorted(pairs, key=lambda pair: (signed(pair[0]), signed(pair[1])))


def families(seed, k, count=40, others=300):
    """Fingerprints, and neighbours of some, and of those, at every distance from 1 to k + 2."""
    rng = random.Random(seed)
    values = {rng.getrandbits(64) for _ in range(others)}
    for _ in range(count):
        x = rng.getrandbits(64)
        values |= {x, *(neighbour(rng, x, distance) for distance in range(1, k + 3))}
        values.add(neighbour(rng, x, max(1, k // 2)))
    return sorted(values, key=lambda _: rng.random())


@pytest.mark.parametrize(("k", "design"), [(k, name) for k in range(9) for name in designs_for(k)])
def test_every_design_equals_brute_force(k, design):
    values = families(k, k)
    found = self_join(as_array(values), k, design=design)
    assert as_list(found) == in_order(pairs_among(values, k))


@pytest.fixture
def small(monkeypatch):
    """Limits so small that little data has many parts, oversized buckets and full buffers."""
    monkeypatch.setattr(self_join_module, "_PART_SIZE", 8)
    monkeypatch.setattr(self_join_module, "_OVERSIZED_BUCKET", 32)
    monkeypatch.setattr(self_join_module, "_MEMBERS_A_SAMPLE", 1)
    monkeypatch.setattr(self_join_module, "_CANDIDATES", 256)
    monkeypatch.setattr(self_join_module, "_PERMUTED_AT_ONCE", 100)


@pytest.mark.parametrize("memory", [1, 1000, 3000])
@pytest.mark.parametrize(("k", "design"), [(k, name) for k in (1, 3, 6) for name in designs_for(k)])
def test_parts_and_passes_lose_nothing(small, k, design, memory):
    values = families(k, k)
    found = self_join(as_array(values), k, design=design, memory_bytes=memory)
    assert as_list(found) == in_order(pairs_among(values, k))


ADVERSARIAL = {
    "nothing": [],
    "one": [7],
    "two": [7, 6],
    "the ends": [0, 1, MAX, MAX - 1, 1 << 63, (1 << 63) - 1],
    "repeats": [5] * 300 + [7] * 300 + [1 << 40, 1 << 40],
    "shared leading bits": [0xABCDEF0123 << 24 | i * 7919 % (1 << 24) for i in range(400)],
    "shared trailing bits": [i * 40503 % (1 << 24) << 40 | 0xBEEF for i in range(400)],
    "halves equal": [(i * 2654435761 % (1 << 32)) * 0x100000001 for i in range(400)],
    "a ball": [flipped(0, bits) for bits in itertools.combinations(range(30), 2)],
    "a ball's middle too": [0, *(1 << bit for bit in range(64))],
    "a dense run": list(range(400)),
    "two dense runs": [*range(200), *(i << 50 for i in range(200))],
}


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("k", [0, 1, 3, 7])
def test_adversarial_values_equal_brute_force(small, name, k):
    values = ADVERSARIAL[name]
    expected = in_order(pairs_among(values, k))
    # left to itself the planner compares all pairs of so few: two keyed designs as well
    for design in [None, *list(designs_for(k))[1:3]]:
        assert as_list(self_join(as_array(values), k, design=design)) == expected, design


@given(
    st.lists(FINGERPRINTS, max_size=80),
    st.lists(st.sets(st.integers(0, 63), max_size=8), max_size=40),
    st.integers(0, 8),
    st.integers(0, 3),
    st.sampled_from([1, 500, 1 << 20]),
)
def test_any_values_equal_brute_force(values, flips, k, choice, memory):
    values = values + [flipped(x, bits) for x, bits in zip(values, flips, strict=False)]
    design = [None, *designs_for(k)][choice % (1 + len(designs_for(k)))]
    found = self_join(as_array(values), k, design=design, memory_bytes=memory)
    assert as_list(found) == in_order(pairs_among(values, k))


def by_probing(values, k):
    """The other engine's answer: every pair comes out twice, and each value with itself."""
    found = probe(values, values, k)
    smaller = found.left.view(np.int64) < found.right.view(np.int64)
    return Pairs(found.left[smaller], found.right[smaller])


def assert_same(one, other):
    assert np.array_equal(one.left, other.left)
    assert np.array_equal(one.right, other.right)


def noise(rng, size, bits=64):
    return rng.integers(0, 2**bits, size, dtype=np.uint64)


def clusters(rng, count, shared_bits, size):
    """Clusters of ``size`` that share ``shared_bits`` leading bits each, and no others."""
    free = np.uint64(64 - shared_bits)
    prefixes = np.repeat(noise(rng, count) >> free << free, size)
    return prefixes | noise(rng, prefixes.size, int(free))


SKEWED = {
    "uniform": lambda rng: noise(rng, 150_000),
    "24 leading bits shared": lambda rng: clusters(rng, 1, 24, 100_000),
    "32 leading bits shared": lambda rng: clusters(rng, 1, 32, 100_000),
    "40 leading bits shared": lambda rng: clusters(rng, 1, 40, 50_000),
    "a cluster in noise": lambda rng: np.r_[clusters(rng, 1, 36, 40_000), noise(rng, 100_000)],
    "16 clusters": lambda rng: clusters(rng, 16, 32, 20_000),
    "2,000 clusters": lambda rng: clusters(rng, 2000, 40, 50),
    "two that share other bits": lambda rng: np.r_[
        noise(rng, 50_000, 28), noise(rng, 50_000, 28) << np.uint64(36)
    ],
    "clusters of near-duplicates": lambda rng: (
        np.repeat(noise(rng, 60), 1000)
        ^ np.uint64(1) << noise(rng, 60_000, 6)
        ^ np.uint64(1) << noise(rng, 60_000, 6)
    ),
}


@pytest.mark.parametrize("name", SKEWED)
def test_skewed_values_equal_the_search_by_tables(name):
    rng = np.random.default_rng(len(name))
    values = SKEWED[name](rng)
    values = distinct(np.r_[values, values[:500] ^ np.uint64(1 << 63 | 1 << 20 | 1 << 3)])
    rng.shuffle(values)
    found = self_join(values, 3)
    assert len(found) >= 500
    assert_same(found, by_probing(values, 3))


def test_oversized_buckets_get_tables_of_their_own(monkeypatch):
    """Without an order of bits, a cluster is a bucket of each table whose block it shares."""
    values = distinct(clusters(np.random.default_rng(3), 5, 32, 20_000))
    planned = []

    def watched(*arguments, **options):
        planned.append(plan_self(*arguments, **options))
        return planned[-1]

    monkeypatch.setattr(self_join_module, "plan_self", watched)
    design = TableDesign.choose(3, 1)
    parts = [
        Pairs.unordered(*found)
        for number in range(4)
        for found in join_table(lambda: [values], values.size, design, number, 1 << 30, Buffer())
    ]
    assert_same(Pairs.merged(parts), by_probing(values, 3))
    assert sum(map(len, parts)) == len(Pairs.merged(parts)), "no pair comes out twice"
    assert len(planned) == 2 * 5
    assert {plan.chosen.design.name for plan in planned} == {"4-tables"}
    assert max(plan.corpus_size for plan in planned) <= 20_000


@pytest.mark.parametrize("name", ["uniform", "24 leading bits shared", "16 clusters"])
@pytest.mark.parametrize("share", [2, 8])
def test_what_it_takes_beside_the_fingerprints_is_bounded(name, share):
    values = distinct(SKEWED[name](np.random.default_rng(7)))
    expected = self_join(values, 3)
    memory = values.nbytes // share
    planned = plan_self(values.size, 3, memory_bytes=memory, sample=spread_sample(values))
    tracemalloc.start()
    parts = []
    for part in pairs_within(values, planned):
        parts.append(part)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_same(Pairs.merged(parts), expected)
    # the pairs themselves, buffers of candidates, a batch whose bits are moved
    kept = sum(part.left.nbytes + part.right.nbytes for part in parts)
    assert peak < memory + kept + (6 << 20)


def test_the_result_follows_no_order_of_the_input():
    values = as_array(families(5, 3))
    found = self_join(values, 3)
    assert_same(self_join(values[::-1], 3), found)
    assert_same(self_join(np.r_[values, values[:100]], 3), found)
    signed_left = found.left.view(np.int64)
    assert (signed_left < found.right.view(np.int64)).all()
    assert (np.diff(signed_left) >= 0).all()


def test_exact_at_sizes_of_many_parts():
    """Every second fingerprint has a planted neighbour; by chance there is none."""
    rng = np.random.default_rng(12)
    values = noise(rng, 400_000)
    flip = np.uint64(1 << 40 | 1 << 3 | 1 << 63)
    near = values[::2] ^ flip
    found = self_join(np.r_[values, near], 3)
    assert_same(found, Pairs.merged([Pairs.unordered(values[::2], near)]))


def test_misuse_is_named():
    good = as_array([1])
    with pytest.raises(ValueError, match=r"fingerprints must be uint64\[n\], not int64\[1\]"):
        self_join(good.astype(np.int64), 3)
    with pytest.raises(ValueError, match="fingerprints must be"):
        self_join(good.reshape(1, 1), 3)
    with pytest.raises(ValueError, match="k must be from 0 to 64, not 65"):
        self_join(good, 65)
    with pytest.raises(ValueError, match="design for k = 3"):
        self_join(good, 3, design="7-tables")


def test_work_that_explodes_is_refused():
    values = noise(np.random.default_rng(0), 1 << 18, 18)
    with pytest.raises(MrDedupError, match="choose a smaller k"):
        self_join(values, 16)


@pytest.mark.parametrize("number", [types.uint32, types.uint64])
def test_the_kernel_uses_vector_instructions_where_the_processor_has_them(number):
    features = binding.get_host_cpu_features()
    u64, u32 = types.uint64, types.uint32
    fresh = jit(self_join_module.self_join_kernels.join_parts)
    hashing = types.NamedTuple((u64, u64, types.none, u64, u64), Hashing)
    table = types.NamedTuple((u32[::1], number[::1], u32[::1]), Table)
    arrays = (u64[::1], u64[::1], u64[::1])
    fresh.compile((*arrays, hashing, table, u64, *arrays))
    assembly = "".join(fresh.inspect_asm().values())
    if features.get("avx2"):
        assert "ymm" in assembly or "zmm" in assembly
        assert "vpopcnt" in assembly or "vpshufb" in assembly
    else:
        assert assembly
