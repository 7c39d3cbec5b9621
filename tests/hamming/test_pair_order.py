"""Pairs in order, whether they fit the memory or not."""

import tempfile

import numpy as np
import pytest

from mr_dedup.files.spill import Spill
from mr_dedup.hamming import pair_order
from mr_dedup.hamming.pair_order import in_order
from mr_dedup.hamming.pairs import Pairs
from tests.oracles import signed


def random_pairs(rng, size, lefts):
    """Pairs whose left fingerprints are ``lefts`` values; some come twice."""
    left = rng.choice(lefts, size)
    right = rng.integers(0, 2**64, size, dtype=np.uint64)
    again = rng.integers(0, size, size // 10)
    return np.r_[left, left[again]], np.r_[right, right[again]]


LEFTS = {
    "uniform": lambda rng: rng.integers(0, 2**64, 5000, dtype=np.uint64),
    "32 leading bits shared": lambda rng: rng.integers(2**63, 2**63 + 2**32, 5000, dtype=np.uint64),
    "one popular": lambda rng: np.r_[np.zeros(9000), rng.integers(0, 2**60, 1000)].astype(
        np.uint64
    ),
    "only one": lambda rng: np.array([7], dtype=np.uint64),
    "two": lambda rng: np.array([1, 2**64 - 1], dtype=np.uint64),
}


@pytest.mark.parametrize("name", LEFTS)
@pytest.mark.parametrize("memory", [4000, 40_000, 1 << 30])
def test_pairs_ascend_each_once(tmp_path, monkeypatch, name, memory):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spills = []
    monkeypatch.setattr(pair_order, "Spill", lambda **named: spills.append(0) or Spill(**named))
    rng = np.random.default_rng(len(name))
    left, right = random_pairs(rng, 3000, LEFTS[name](rng))
    expected = sorted(
        set(zip(left.tolist(), right.tolist(), strict=True)),
        key=lambda pair: (signed(pair[0]), signed(pair[1])),
    )
    parts = [
        Pairs(some, others)
        for some, others in zip(np.array_split(left, 20), np.array_split(right, 20), strict=True)
    ]
    ordered = list(in_order(parts, memory))
    found = [
        pair
        for part in ordered
        for pair in zip(part.left.tolist(), part.right.tolist(), strict=True)
    ]
    assert found == expected
    assert bool(spills) == (memory < 1 << 30 and name != "only one")
    assert list(tmp_path.iterdir()) == []


def test_no_pairs_are_nothing():
    assert list(in_order([], 1000)) == []
    none = np.empty(0, dtype=np.uint64)
    assert list(in_order([Pairs(none, none)], 1000)) == []


def test_pairs_of_one_fingerprint_are_merged_few_times(monkeypatch):
    """However many there are, as they cannot be spilled by ranges."""
    rows = []
    usual = Pairs.merged
    monkeypatch.setattr(
        pair_order.Pairs, "merged", lambda parts: rows.append(sum(map(len, parts))) or usual(parts)
    )
    part = 100
    parts = [
        Pairs(np.full(part, 7, np.uint64), np.arange(part * n, part * (n + 1), dtype=np.uint64))
        for n in range(300)
    ]
    (found,) = in_order(iter(parts), 40 * 150)
    assert found.right.tolist() == list(range(part * 300))
    assert sum(rows) < 4 * part * 300
