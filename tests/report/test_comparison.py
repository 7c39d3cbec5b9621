"""Comparisons of methods in memory: too many candidates are cut; each pair is counted once."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import shingle_sets
from mr_dedup.hamming import planner, row_pairs
from mr_dedup.report.compared_methods import KeyMethod, SimhashMethod
from mr_dedup.report.comparison import Comparison, Truth, slice_size
from mr_dedup.signatures.methods import parse_method
from mr_dedup.signatures.protocol import Signatures


def parts_of(texts, size=7):
    return [pa.array(texts[i : i + size], pa.large_string()) for i in range(0, len(texts), size)]


def compared(texts, pairs=(), **options):
    keys = np.array(sorted(n * len(texts) + m for n, m in pairs), np.int64)
    truth = Truth(len(texts), keys, np.ones(keys.size))
    sets = shingle_sets(pa.array(texts, pa.large_string()))
    return Comparison(parts_of(texts), sets, truth, [0.8], 0.8, **options)


def predicted_pairs(method, texts):
    """All pairs that a method yields, in any order."""
    batches = method.pairs(method.sign(parts_of(texts)), None)
    return [
        pair
        for batch in batches
        for pair in zip(batch.first.tolist(), batch.second.tolist(), strict=True)
    ]


def grouped(sizes):
    """Signatures of one key each, with so many texts of each key, in random order."""
    keys = np.repeat(np.arange(len(sizes), dtype=np.uint64) << np.uint64(50), sizes)
    keys = np.random.default_rng(1).permutation(keys)
    return Signatures(np.arange(keys.size + 1), keys, np.empty((keys.size, 0), np.uint8))


def pairs_in_slices(sizes, length):
    return sum(
        len(range(start, min(start + length, size))) * (min(length, size - start) - 1) // 2
        for size in sizes
        for start in range(0, size, length)
    )


@pytest.mark.parametrize("limit", [1, 100, 5000, 60_000, 10**7])
def test_slices_keep_the_pairs_below_a_limit(limit):
    sizes = [1, 2, 300, 5, 4097, 1]
    length = slice_size(grouped(sizes), limit)
    whole = sum(size * (size - 1) // 2 for size in sizes)
    if length is None:
        assert whole <= limit
        return
    assert whole > limit
    assert length == 2 or pairs_in_slices(sizes, length) <= limit
    if length < 1 << 12:
        assert pairs_in_slices(sizes, 2 * length) > limit
    assert slice_size(grouped([]), limit) is None


def test_too_many_candidates_are_cut(monkeypatch):
    texts = ["the same text each time"] * 600 + ["other words here", "other words here"]
    method = KeyMethod(parse_method("exact"))
    whole = compared(texts).measure(method)
    assert (whole.candidates, whole.cut) == (600 * 599 // 2 + 1, "")
    cut = compared(texts, [(600, 601)], max_candidates=5000).measure(method)
    assert cut.cut == "slices of 16"
    assert cut.candidates == pairs_in_slices([600, 2], 16)
    assert (cut.raw[0].true_positives, cut.raw[0].false_negatives) == (1, 0)
    # fingerprints within k bits cannot be sliced
    monkeypatch.setattr(row_pairs, "_TOGETHER", 1000)
    many = [f"one two three four five six {n % 3}" for n in range(300)]
    near = compared(many, max_candidates=5000).measure(SimhashMethod(20, FeatureOptions()))
    assert near.cut.startswith("slices of ")
    assert "; first " in near.cut
    assert 5000 < near.candidates < 6000
    # nothing is cut if the last batch exceeds the limit
    monkeypatch.undo()
    near = compared(many, max_candidates=20_000).measure(SimhashMethod(20, FeatureOptions()))
    assert (near.candidates, near.cut) == (300 * 299 // 2, "")


def test_each_pair_of_fingerprints_is_counted_once():
    rng = np.random.default_rng(3)
    words = [f"w{n}" for n in range(50)]
    texts = [" ".join(rng.choice(words, rng.integers(0, 6))) or None for _ in range(120)]
    method = SimhashMethod(16, FeatureOptions())
    signed = method.sign(parts_of(texts))
    values = dict(zip(np.flatnonzero(signed.has_keys).tolist(), signed.keys.tolist(), strict=True))
    wanted = {
        (n, m)
        for n, m in itertools.combinations(values, 2)
        if (values[n] ^ values[m]).bit_count() <= 16
    }
    got = predicted_pairs(method, texts)
    assert len(got) == len(set(got))
    assert set(got) == wanted
    assert len(wanted) > 30
    assert 0 < len(values) < 120


def test_parts_make_no_difference():
    rng = np.random.default_rng(4)
    words = [f"w{n}" for n in range(9)]
    texts = [" ".join(rng.choice(words, rng.integers(0, 8))) for _ in range(60)]
    for name in (
        "exact",
        "segments:count=4,min_shared_keys=2",
        "minhash:estimate=0.5,shingles=words:1",
    ):
        method = parse_method(name)
        signed = KeyMethod(method).sign(parts_of(texts))
        whole = method.sign(pa.array(texts, pa.large_string()))
        assert np.array_equal(signed.offsets, whole.offsets)
        assert np.array_equal(signed.keys, whole.keys)
        assert np.array_equal(signed.sketches, whole.sketches)


def test_a_distance_that_explodes_is_refused(monkeypatch):
    monkeypatch.setattr(planner, "MAX_CANDIDATES", 1000)
    texts = [f"text {n} {n * n}" for n in range(200)]
    with pytest.raises(MrDedupError, match="choose a smaller k"):
        compared(texts).measure(SimhashMethod(40, FeatureOptions()))
