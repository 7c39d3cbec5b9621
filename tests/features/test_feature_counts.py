"""In how many documents each feature occurs, against a Counter."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features.feature_counts import count_features, document_frequencies, sum_counts
from mr_dedup.features.options import FeatureOptions
from tests.features import frequency_oracle
from tests.strategies import shingles_of, words_of

texts = st.none() | words_of(["the", "cat", "DOG", "中", "文", "of", "Straße", "…"], 20)
options = shingles_of(3, st.just("binary"))


def arrays(batches):
    return [pa.array(batch, pa.large_string()) for batch in batches]


def counted(batches, options, **how):
    """The sums of all that is yielded, by feature, each in order."""
    parts = list(count_features(arrays(batches), options, **how))
    for hashes, counts in parts:
        assert (hashes.dtype, counts.dtype) == (np.uint64, np.uint64)
        assert np.all(hashes[1:] > hashes[:-1])
    hashes, counts = sum_counts(parts)
    return dict(zip(hashes.tolist(), counts.tolist(), strict=True)), len(parts)


@given(st.lists(st.lists(texts, max_size=6), max_size=4), options, st.integers(1, 40))
def test_any_batches_equal_the_oracle(batches, options, max_features):
    every = [text for batch in batches for text in batch]
    expected = frequency_oracle.frequencies(every, options.unit, options.length, 1)
    assert counted(batches, options)[0] == expected
    assert counted(batches, options, max_features=max_features)[0] == expected


@pytest.mark.parametrize("max_features", [1, 10, 1000, 1 << 20])
def test_many_features_grow_the_table_and_are_yielded_in_parts(max_features):
    rng = random.Random(max_features)
    vocabulary = [f"w{n}" for n in range(5000)]
    batches = [
        [" ".join(rng.choices(vocabulary, k=rng.randrange(60))) for _ in range(100)]
        for _ in range(4)
    ]
    every = [text for batch in batches for text in batch]
    chosen = FeatureOptions(weighting="binary")
    found, parts = counted(batches, chosen, max_features=max_features, first_slots=4)
    assert found == frequency_oracle.frequencies(every, "words", 1, 1)
    assert (parts > 1) == (max_features < 1 << 20)


def test_a_text_larger_than_the_limit_is_counted_once():
    text = " ".join(f"w{n}" for n in [*range(3000), *range(3000)])
    found, parts = counted(
        [[text, "w1 w2"], [text]], FeatureOptions(), max_features=10, first_slots=2
    )
    # each such text ends a part, the last of which is empty
    assert parts == 3
    assert found == {frequency_oracle.hashed(f"w{n}"): 3 if n in (1, 2) else 2 for n in range(3000)}


@given(st.lists(texts, max_size=8), st.integers(0, 8), options, st.integers(1, 4))
def test_frequencies_are_the_same_however_the_texts_come(batch, cut, options, minimum):
    whole = document_frequencies(arrays([batch]), options, minimum)
    parts = document_frequencies(arrays([batch[:cut], [], batch[cut:]]), options, minimum)
    expected = frequency_oracle.frequencies(batch, options.unit, options.length, minimum)
    for found in (whole, parts):
        assert (found.documents, found.minimum) == (len(batch), minimum)
        shingles = "auto:2" if options.unit == "auto" else f"{options.unit}:{options.length}"
        assert found.features == f"{shingles}, normalize nfkc"
        assert dict(zip(found.hashes.tolist(), found.counts.tolist(), strict=True)) == expected
    assert whole.digest == parts.digest


def test_texts_are_prepared_as_for_fingerprints():
    asked = {"stop_words": "en", "stem": "english", "segment": "zh"}
    every = ["The dogs and 中国人民", "a dog, 中国", None]
    found = document_frequencies(arrays([every]), FeatureOptions("words", 1, **asked), 1)
    expected = frequency_oracle.frequencies(every, "words", 1, 1, **asked)
    assert dict(zip(found.hashes.tolist(), found.counts.tolist(), strict=True)) == expected
    assert found.features == ("words:1, stop words en, stem english, segment zh, normalize nfkc")


def test_the_weighting_makes_no_difference():
    batch = arrays([["a a b", "b c"]])
    digests = {
        document_frequencies(batch, FeatureOptions("words", 1, weighting)).digest
        for weighting in ("binary", "tf", "log-tf-idf")
    }
    assert len(digests) == 1


def test_other_arrays_are_refused():
    with pytest.raises(ValueError, match="LargeStringArray, not StringArray"):
        list(count_features([pa.array(["x"])], FeatureOptions()))
