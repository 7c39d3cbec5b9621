"""The planner: costs that grow as they should, memory that is kept to, choices that make sense."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.hamming.design import designs_for
from mr_dedup.hamming.planner import plan, plan_self, spread_sample
from mr_dedup.hamming.search import Tables
from tests.oracles import hamming

sizes = st.integers(0, 10**10)


@given(sizes, sizes, st.integers(0, 12))
def test_the_chosen_option_is_the_cheapest_of_every_design_on_either_side(corpus, queries, k):
    planned = plan(corpus, queries, k)
    assert len(planned.options) == 2 * len(designs_for(k))
    assert planned.chosen.nanoseconds == min(o.nanoseconds for o in planned.options)
    assert plan(corpus, queries, k) == planned


@given(sizes, sizes, st.integers(10**4, 10**9), st.sampled_from(["queries", "corpus"]))
def test_slices_keep_to_the_memory_and_cover_the_indexed_side(corpus, queries, memory, side):
    planned = plan(corpus, queries, 3, index=side, memory_bytes=memory)
    indexed = queries if side == "queries" else corpus
    assert planned.chosen.index == side
    assert planned.slice_size * planned.chosen.slices >= indexed
    for option in planned.options:
        assert option.memory_bytes <= memory + 1000


def test_what_tables_take_is_what_was_planned():
    values = np.random.default_rng(0).integers(0, 2**64, 300_000, dtype=np.uint64)
    for option in plan(8_388_608, values.size, 3, index="queries").options:
        tables = Tables(values, option.design, option.order)
        assert option.memory_bytes * 0.9 < tables.nbytes < option.memory_bytes * 1.05


def test_the_smaller_side_is_indexed():
    assert plan(8_388_608, 1_000_000, 3).chosen.index == "queries"
    assert plan(1_000_000, 50_000_000, 3).chosen.index == "corpus"


def test_few_tables_until_buckets_are_too_large():
    assert plan(8_388_608, 1_000_000, 3).chosen.design.name == "4-tables"
    roomy = {"memory_bytes": 1 << 40}
    assert plan(100_000_000, 100_000_000, 3, **roomy).chosen.design.name == "6-tables-in-2"
    assert plan(8_388_608, 1, 3).chosen.design.name == "all-pairs"


def test_chance_matches_are_those_of_the_ball():
    """Counted by brute force in a space of 16 live bits, where they are many."""
    rng = np.random.default_rng(5)
    values = rng.choice(2**16, 2000, replace=False).astype(np.uint64)
    one, other = values[:1000], values[1000:]
    found = sum(hamming(x, y) <= 2 for x in one.tolist() for y in other.tolist())
    planned = plan(1000, 1000, 2, corpus_sample=one, query_sample=other)
    assert 0.8 * found < planned.random_matches < 1.2 * found


@pytest.mark.parametrize(
    ("corpus", "queries", "k", "said"),
    [
        (8_388_608, 1_000_000, 24, "pairs match by chance alone"),
        (10**9, 10**9, 7, "compares about"),
    ],
)
def test_what_explodes_is_refused_with_its_numbers(corpus, queries, k, said):
    planned = plan(corpus, queries, k)
    with pytest.raises(MrDedupError, match=said) as raised:
        planned.refuse_explosion()
    assert f"k = {k} over {corpus:,} x {queries:,}" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_popular_value_is_no_explosion():
    """Nine of ten pages are the empty one: a sample of them has few live bits, not few values."""
    rng = np.random.default_rng(0)
    corpus = np.zeros(100_000, dtype=np.uint64)
    corpus[::10] = rng.integers(0, 2**64, 10_000, dtype=np.uint64)
    queries = rng.integers(0, 2**64, 100_000, dtype=np.uint64)
    samples = {"corpus_sample": spread_sample(corpus, 8191), "query_sample": spread_sample(queries)}
    plan(8_388_608, 1_000_000, 3, **samples).refuse_explosion()


def test_a_sample_is_spread_over_all_of_an_array():
    values = np.arange(100_000, dtype=np.uint64)
    sample = spread_sample(values, 1000)
    assert sample.size == 1000
    assert sample[-1] > 98_000
    assert spread_sample(values[:10], 1000).size == 10
    assert spread_sample(values[:0], 1000).size == 0


@given(sizes, st.integers(0, 12), st.integers(10**4, 10**9))
def test_a_self_join_takes_the_cheapest_design_within_the_memory(size, k, memory):
    planned = plan_self(size, k, memory_bytes=memory)
    assert [o.design.name for o in planned.options] == list(designs_for(k))
    assert planned.chosen.nanoseconds == min(o.nanoseconds for o in planned.options)
    assert planned.corpus_size == planned.query_size == size
    for option in planned.options:
        assert option.memory_bytes <= memory + 16
        assert option.slices * option.memory_bytes >= 8 * size


def test_more_tables_as_a_self_join_grows():
    chosen = [plan_self(1 << n, 3, memory_bytes=1 << 50).chosen.design for n in range(4, 40)]
    names = list(dict.fromkeys(design.name for design in chosen))
    assert names[:4] == ["all-pairs", "4-tables", "6-tables-in-2", "8-tables-in-2"]
    tables = [len(design.masks) for design in chosen]
    assert tables == sorted(tables)
    assert plan_self(16_000_000, 3).chosen.design.name == "4-tables"
    assert plan_self(64_000_000, 3).chosen.design.name == "6-tables-in-2"


def test_a_self_join_counts_each_pair_once():
    assert plan_self(1000, 3, design="all-pairs").candidates == 1000 * 500
    rng = np.random.default_rng(5)
    values = rng.choice(2**16, 1500, replace=False).astype(np.uint64)
    found = sum(hamming(x, y) <= 2 for x, y in itertools.combinations(values.tolist(), 2))
    planned = plan_self(values.size, 2, sample=values)
    assert 0.8 * found < planned.random_matches < 1.2 * found


def test_a_skewed_sample_changes_the_plan_of_a_self_join_and_a_uniform_one_does_not():
    uniform = np.random.default_rng(1).integers(0, 2**64, 200_000, dtype=np.uint64)
    assert plan_self(4_000_000, 3, sample=spread_sample(uniform)) == plan_self(4_000_000, 3)
    skewed = plan_self(4_000_000, 3, sample=spread_sample(uniform >> np.uint64(32)))
    assert not skewed.chosen.order.is_natural
    natural = [o.nanoseconds for o in skewed.options if o.order.is_natural]
    assert skewed.chosen.nanoseconds < min(natural) / 3


def test_a_self_join_that_explodes_is_refused():
    with pytest.raises(MrDedupError, match="pairs match by chance alone"):
        plan_self(8_388_608, 24).refuse_explosion()
    with pytest.raises(MrDedupError, match="compares about"):
        plan_self(10**10, 5).refuse_explosion()
    with pytest.raises(ValueError, match="k must be from 0 to 64, not -1"):
        plan_self(10, -1)
    with pytest.raises(ValueError, match="design for k = 3 must be one of"):
        plan_self(10, 3, design="5-tables")
