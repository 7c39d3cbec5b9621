"""Candidates of signatures against all pairs, compared one by one."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.signatures import candidates as module
from mr_dedup.signatures.candidates import (
    can_be_connected,
    candidates,
    connecting_edges,
    count_oversized_keys,
    match,
    matches,
)
from mr_dedup.signatures.protocol import Signatures

KEYS = st.lists(st.sets(st.integers(0, 11), max_size=6), max_size=30)


def signatures(sets, sketches=None):
    offsets = np.cumsum([0, *map(len, sets)])
    keys = np.array([key for each in sets for key in sorted(each)], np.uint64)
    # far apart, as hashes are
    keys = keys * np.uint64(0x9E3779B97F4A7C15)
    width = np.zeros((len(sets), 0), np.uint8) if sketches is None else sketches
    return Signatures(offsets.astype(np.int64), keys, width)


def all_pairs(sets, least):
    numbered = itertools.combinations(enumerate(sets), 2)
    return [(i, j) for (i, one), (j, other) in numbered if len(one & other) >= least]


def joined(batches):
    found = [pair for batch in batches for pair in zip(*(c.tolist() for c in batch), strict=True)]
    return sorted(found)


def components_of(size, edges):
    label = list(range(size))
    for a, b in edges:
        old, new = label[a], label[b]
        label = [new if value == old else value for value in label]
    return sorted([i for i in range(size) if label[i] == value] for value in set(label))


@given(KEYS, st.integers(1, 4))
def test_candidates_are_all_pairs_that_share_enough(sets, least):
    found = joined(candidates(signatures(sets), least))
    assert found == all_pairs(sets, least)


@given(KEYS, st.integers(1, 4))
def test_chains_connect_what_pairs_connect(sets, least):
    edges = joined(connecting_edges(signatures(sets), least))
    pairs = all_pairs(sets, least)
    assert components_of(len(sets), edges) == components_of(len(sets), pairs)
    assert all(a != b for a, b in edges)


@pytest.mark.parametrize("range_keys", [1, 7, 1 << 15])
def test_each_text_is_linked_to_the_first_one_with_its_key(range_keys):
    random = np.random.default_rng(2)
    # hashes, numbers that share all their leading bits, and a key that most texts have
    pool = [*random.integers(0, 1 << 64, 400, np.uint64).tolist(), *range(100), *[2**64 - 1] * 50]
    sets = [{5, *(pool[i] for i in random.integers(0, len(pool), 4))} for _ in range(500)]
    keys = np.array([key for each in sets for key in each], np.uint64)
    offsets = np.cumsum([0, *map(len, sets)])
    signed = Signatures(offsets, keys, np.zeros((500, 0), np.uint8))
    edges = joined(connecting_edges(signed, 1, range_keys=range_keys))
    first, expected = {}, []
    for number, each in enumerate(sets):
        expected += [(first[key], number) for key in each if key in first]
        first.update((key, number) for key in each if key not in first)
    assert edges == sorted(expected)


def random_keys(seed, size, values):
    keys = np.random.default_rng(seed).choice(random_numbers(values), size)
    return Signatures(np.arange(size + 1), keys, np.empty((size, 0), np.uint8))


def random_numbers(count):
    return np.random.default_rng(0).integers(0, 1 << 64, count, np.uint64)


@pytest.mark.parametrize("common", [0, 900])
def test_keys_are_linked_in_parts_and_by_threads(common):
    keys = random_keys(1, 2000, 700).keys
    # as of a page that is everywhere, in the last range and in the first
    keys[:common], keys[-common or 2000 :] = (1 << 64) - 1, 0
    signed = Signatures(np.arange(2001), keys, np.empty((2000, 0), np.uint8))
    whole = list(connecting_edges(signed, 1))
    assert len(whole) == 1
    small = {"linked_keys": 200, "range_keys": 50}
    parts = list(connecting_edges(signed, 1, **small))
    assert len(parts) > (1 if common else 8)
    assert len(joined(parts)) == len(joined(whole)) == 2000 - np.unique(keys).size
    assert components_of(2000, joined(parts)) == components_of(2000, joined(whole))
    spread = list(connecting_edges(signed, 1, threads=3, **small))
    for one, other in zip(parts, spread, strict=True):
        assert all(map(np.array_equal, one, other))


def test_tables_stay_small_however_many_keys_there_are(monkeypatch):
    signed = random_keys(3, 1 << 16, 1 << 15)
    slots = []
    usual = module.kernels.link_equal

    def link_equal(*arguments):
        slots.append(arguments[3].size)
        return usual(*arguments)

    monkeypatch.setattr(module.kernels, "link_equal", link_equal)
    list(connecting_edges(signed, 1, linked_keys=1 << 12, range_keys=1 << 6))
    assert len(slots) == 16
    # 2 to 4 a key, and of some 64 keys
    assert max(slots) <= 4 << 7


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("cuts", [[], [0], [7], [1, 1, 30, 200]])
def test_signatures_in_parts_are_as_one(cuts, least):
    rng = random.Random(least)
    sets = [{rng.randrange(40) for _ in range(rng.randrange(5))} for _ in range(200)]
    edges = itertools.pairwise([0, *cuts, 200])
    parts = [signatures(sets[start:stop]) for start, stop in edges]
    found, expected = connecting_edges(parts, least), connecting_edges(signatures(sets), least)
    for one, other in zip(found, expected, strict=True):
        assert all(map(np.array_equal, one, other))
    whole = Signatures.joined(parts)
    for name in ("offsets", "keys", "sketches"):
        assert np.array_equal(getattr(whole, name), getattr(signatures(sets), name))


def test_no_keys_have_no_edges():
    assert list(connecting_edges(signatures([set(), set()]), 1)) == []
    assert list(connecting_edges([], 1)) == []


def test_pairs_come_in_batches():
    sets = [{0, i % 7} for i in range(60)]
    batches = list(candidates(signatures(sets), 1, batch_pairs=100))
    assert len(batches) > 10
    assert joined(batches) == all_pairs(sets, 1)


@given(KEYS, st.integers(1, 3), st.integers(1, 8))
def test_oversized_keys_are_taken_in_slices_and_counted(sets, least, most):
    found = joined(candidates(signatures(sets), least, most))
    assert set(found) <= set(all_pairs(sets, least))
    texts_of = {}
    for i, each in enumerate(sets):
        for key in each:
            texts_of.setdefault(key, []).append(i)
    assert count_oversized_keys(signatures(sets), most) == sum(
        len(t) > most for t in texts_of.values()
    )
    shared = {}
    for texts in texts_of.values():
        for start in range(0, len(texts), most):
            for pair in itertools.combinations(texts[start : start + most], 2):
                shared[pair] = shared.get(pair, 0) + 1
    assert found == sorted(pair for pair, count in shared.items() if count >= least)


class Close:
    """Shares two keys, and sketches within 3 of one another."""

    min_shared_keys = 2
    needs_verification = True

    def similarity(self, first, second):
        apart = np.abs(first[:, 0].astype(float) - second[:, 0])
        return np.where(apart <= 3, 1 - apart / 10, np.nan)


@given(KEYS, st.data())
def test_matches_pass_the_methods_check(sets, data):
    values = data.draw(st.lists(st.integers(0, 9), min_size=len(sets), max_size=len(sets)))
    signed = signatures(sets, np.array(values, np.uint8).reshape(-1, 1))
    expected = [
        (i, j, pytest.approx(1 - abs(values[i] - values[j]) / 10))
        for i, j in all_pairs(sets, 2)
        if abs(values[i] - values[j]) <= 3
    ]
    assert joined(matches(Close(), signed)) == expected
    pairs = np.array(list(itertools.combinations(range(len(sets)), 2)), np.int64).reshape(-1, 2)
    matched = match(Close(), signed, pairs[:, 0], pairs[:, 1])
    assert [tuple(pair) for pair in pairs[matched].tolist()] == [(i, j) for i, j, _ in expected]


def test_too_many_subsets_are_refused():
    signed = signatures([set(range(12))])
    assert not can_be_connected(signed, 4)
    with pytest.raises(ValueError, match="12 keys of a text have more than 128 subsets of 4"):
        list(connecting_edges(signed, 4))


def runs_of(sets, size):
    """The runs of keys of each set, as they follow one another in its signature."""
    ordered = [sorted(each) for each in sets]
    return [
        {tuple((each * 2)[at : at + size]) for at in range(len(each))}
        if len(each) >= size
        else set()
        for each in ordered
    ]


@given(KEYS, st.integers(1, 4))
def test_runs_connect_texts_with_an_equal_run(sets, size):
    edges = joined(connecting_edges(signatures(sets), size, by_runs=True))
    pairs = all_pairs(runs_of(sets, size), 1)
    assert components_of(len(sets), edges) == components_of(len(sets), pairs)


@given(KEYS, st.integers(1, 4), st.booleans())
def test_passes_over_the_keys_make_the_same_edges(sets, size, by_runs):
    def edges(pass_keys, stored_bytes=1 << 20):
        found = connecting_edges(
            signatures(sets), size, by_runs=by_runs, range_keys=2, pass_keys=pass_keys,
            stored_bytes=stored_bytes,
        )  # fmt: skip
        return [pair for batch in found for pair in zip(*map(list, batch), strict=True)]

    whole = edges(1 << 20)
    assert edges(1) == edges(8) == edges(1, stored_bytes=16) == whole


@pytest.mark.parametrize("by_runs", [True, False])
def test_subsets_and_runs_are_made_once_whatever_the_number_of_passes(by_runs, monkeypatch):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 1 << 64, 40_000, np.uint64)
    signed = Signatures(np.arange(0, 40_001, 4), keys, np.empty((10_000, 0), np.uint8))
    name = "_runs" if by_runs else "_subsets"
    derived, made = getattr(module, name), []

    def recorded(signatures, size):
        made.append(len(signatures))
        return derived(signatures, size)

    monkeypatch.setattr(module, name, recorded)
    small = {"range_keys": 1 << 8, "pass_keys": 1 << 12, "stored_bytes": 1 << 14}
    assert list(connecting_edges(signed, 2, by_runs=by_runs, **small)) != []
    assert sum(made) == 10_000


def test_a_pass_over_the_keys_has_few_of_them_in_memory(monkeypatch):
    rng = np.random.default_rng(1)
    offsets = np.arange(0, 20_001 * 20, 20)
    keys = rng.integers(0, 1 << 64, 400_000, np.uint64)
    signed = Signatures(offsets, keys, np.empty((20_000, 0), np.uint8))
    sizes = []
    scattered = module._scattered

    def recorded(parts, *ranges):
        sizes.append(sum(keys.size for _, keys in parts))
        return scattered(parts, *ranges)

    monkeypatch.setattr(module, "_scattered", recorded)
    list(connecting_edges(signed, 1, range_keys=1 << 10, pass_keys=1 << 16))
    assert sum(sizes) == 400_000
    assert len(sizes) == 8
    assert max(sizes) < 1.1 * (1 << 16)
