"""Pairs of rows: brute force over fingerprints of which many are equal."""

import itertools
import random
import tracemalloc

import numpy as np
import pytest

from mr_dedup.hamming import row_pairs
from mr_dedup.hamming.row_pairs import row_pairs_within
from tests.oracles import neighbour


@pytest.mark.parametrize("together", [1, 7, 1 << 20])
@pytest.mark.parametrize("k", [0, 1, 3, 8])
def test_rows_equal_brute_force(monkeypatch, together, k):
    monkeypatch.setattr(row_pairs, "_TOGETHER", together)
    rng = random.Random(k)
    values = [rng.getrandbits(64) for _ in range(20)]
    values += [neighbour(rng, value, bits) for value in values for bits in range(9)]
    values += rng.choices(values, k=100)
    rng.shuffle(values)
    found = [
        pair
        for first, second in row_pairs_within(np.array(values, np.uint64), k)
        for pair in zip(first.tolist(), second.tolist(), strict=True)
    ]
    assert len(found) == len(set(found))
    assert set(found) == {
        (n, m)
        for n, m in itertools.combinations(range(len(values)), 2)
        if 1 <= (values[n] ^ values[m]).bit_count() <= k
    }


@pytest.mark.parametrize("middle", [0, 2**64 - 1])
def test_rows_of_one_fingerprint_are_no_flood(monkeypatch, middle):
    """Whichever side they are of: a fingerprint that 20,000 rows share, near 64 others."""
    monkeypatch.setattr(row_pairs, "_TOGETHER", 1 << 12)
    values = np.repeat(np.uint64(middle), 20_000)
    values = np.append(values, np.uint64(middle) ^ (np.uint64(1) << np.arange(64, dtype=np.uint64)))
    list(row_pairs_within(values[-64:], 1))
    found = 0
    tracemalloc.start()
    for first, _ in row_pairs_within(values, 1):
        assert first.size <= 1 << 12
        found += first.size
    _, max_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == 64 * 20_000
    # all pairs of rows would be 20 MB, and the left ones of these with their places as much
    assert max_bytes < 3 << 20


def test_no_rows():
    assert list(row_pairs_within(np.empty(0, np.uint64), 3)) == []
