"""All of a text in one pass is what is made one after the other."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import MAX_SHINGLES, shingle_sets
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.signatures.combined import Wanted, can_be_combined, combined
from mr_dedup.signatures.minwise import minwise_hashes
from mr_dedup.signatures.winnowing import Winnowing

TEXTS = st.lists(
    st.none()
    | st.text(max_size=30)
    | st.lists(st.sampled_from(["a", "bc", "def", "中", "x" * 300]), max_size=40).map(" ".join),
    max_size=6,
)
OPTIONS = st.builds(
    FeatureOptions,
    st.sampled_from(["words", "characters"]),
    st.sampled_from([1, 3, 5]),
    st.just("tf"),
)


def same(found, texts, permutations, options):
    one_by_one = simhash(texts, options)
    assert np.array_equal(found.fingerprints.values, one_by_one.values)
    assert np.array_equal(found.fingerprints.occurrences, one_by_one.occurrences)
    if not permutations:
        assert found.hashes is None
        return
    hashes = minwise_hashes(texts, permutations, options)
    assert np.array_equal(found.hashes.values, hashes.values)
    assert np.array_equal(found.hashes.occurrences, hashes.occurrences)


@given(TEXTS, st.sampled_from([0, 1, 16, 40]), st.sampled_from([0, 1, 3]), OPTIONS, st.booleans())
def test_it_is_what_is_made_one_after_the_other(texts, permutations, window, options, sets):
    array = pa.array(texts, pa.large_string())
    found = combined(array, options, Wanted(permutations, window, MAX_SHINGLES if sets else 0))
    same(found, array, permutations, options)
    assert (found.winnowed is not None) == (window > 0)
    if found.winnowed is not None:
        signed = Winnowing(window, options.shingles).sign(array)
        assert np.array_equal(found.winnowed.offsets, signed.offsets)
        assert np.array_equal(found.winnowed.keys, signed.keys)
    if not sets:
        assert found.sets is None
        return
    expected = shingle_sets(array, options)
    for name in ("offsets", "sizes", "hashes"):
        assert np.array_equal(getattr(found.sets, name), getattr(expected, name)), name


def test_sets_of_large_texts_are_cut():
    rng = np.random.default_rng(2)
    texts = [" ".join(map(str, rng.integers(0, 1 << 40, n))) for n in (10, 700, 3000, 0, 5)]
    array = pa.array(texts, pa.large_string())
    options = FeatureOptions("words", 3, "tf")
    found = combined(array, options, Wanted(32, 0, 1000))
    same(found, array, 32, options)
    expected = shingle_sets(array, options, max_hashes=1000)
    assert np.array_equal(found.sets.hashes, expected.hashes)
    assert found.sets.sizes.tolist() == expected.sizes.tolist()


def test_features_that_weigh_repeats_otherwise_are_refused():
    for weighting in ("binary", "log-tf", "tf-idf"):
        options = FeatureOptions("words", 3, weighting)
        assert not can_be_combined(options)
        with pytest.raises(ValueError, match="occurrences of different weights"):
            combined(pa.array(["a"], pa.large_string()), options, Wanted(16))
