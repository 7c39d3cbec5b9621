"""Pairs of rows: brute force over fingerprints of which many are equal."""

import itertools
import random

import numpy as np
import pytest

from mr_dedup.hamming import row_pairs
from mr_dedup.hamming.row_pairs import near_rows
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
        for first, second in near_rows(np.array(values, np.uint64), k)
        for pair in zip(first.tolist(), second.tolist(), strict=True)
    ]
    assert len(found) == len(set(found))
    assert set(found) == {
        (n, m)
        for n, m in itertools.combinations(range(len(values)), 2)
        if 1 <= (values[n] ^ values[m]).bit_count() <= k
    }


def test_no_rows():
    assert list(near_rows(np.empty(0, np.uint64), 3)) == []
