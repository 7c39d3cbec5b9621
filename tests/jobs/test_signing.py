"""Fingerprints, signatures and sets are the same, made in one pass or one after the other."""

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import shingle_sets
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.jobs import signing as module
from mr_dedup.jobs.signing import signing
from mr_dedup.signatures.columns import columns_of
from mr_dedup.signatures.exact import Exact
from mr_dedup.signatures.minhash import MinHash
from mr_dedup.signatures.winnowing import Winnowing

TEXTS = pa.array(
    ["one two three four five", None, "", "One, two! three", "x " * 700, "a b c d " * 40],
    pa.large_string(),
)
WORDS = FeatureOptions("words", 3, "tf")
METHODS = [[], [Exact()], [MinHash(shingles="words:3")], [Winnowing(4, "words:3")],
           [Exact(), Winnowing(4, "words:3"), MinHash(shingles="words:3")],
           [MinHash(shingles="words:2")]]  # fmt: skip


@pytest.mark.parametrize("methods", METHODS)
@pytest.mark.parametrize("weighting", ["tf", "binary", "log-tf"])
@pytest.mark.parametrize(
    "shingles", [None, WORDS, FeatureOptions("words", 2, "tf"), FeatureOptions("characters", 3)]
)
def test_what_is_signed_is_what_is_made_one_after_the_other(methods, weighting, shingles):
    options = FeatureOptions("words", 3, weighting)
    prints, columns, sets = signing(options, None, methods, shingles, 50)(TEXTS)
    expected = simhash(TEXTS, options)
    assert np.array_equal(prints.values, expected.values)
    assert np.array_equal(prints.occurrences, expected.occurrences)
    by_each = columns_of(methods, [method.sign(TEXTS) for method in methods])
    assert list(columns) == list(by_each)
    assert all(columns[name].equals(by_each[name]) for name in by_each)
    if shingles is None:
        assert sets is None
        return
    other = shingle_sets(TEXTS, shingles, 50)
    for name in ("offsets", "sizes", "hashes"):
        assert np.array_equal(getattr(sets, name), getattr(other, name)), name


@pytest.mark.parametrize("methods", [[], [Exact()]])
def test_shingles_of_fingerprints_and_sets_are_found_once(methods, monkeypatch):
    monkeypatch.delattr(module, "shingle_sets")
    assert signing(WORDS, None, methods, WORDS)(TEXTS)[2] is not None
