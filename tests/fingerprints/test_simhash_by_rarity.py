"""Simhash with weights that depend on document frequencies, against a slow oracle."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.feature_counts import document_frequencies
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingles import features_of
from mr_dedup.fingerprints.simhash import simhash
from tests.features import frequency_oracle, text_oracle
from tests.strategies import shingles_of, words_of

BY_RARITY = ("tf-idf", "log-tf-idf")


def oracle(text, options, counts, documents, minimum=2):
    """The paper's definition: each feature adds its weight where its bit is 1, else takes it."""
    votes = [0] * 64
    features = frequency_oracle.weighted(
        text, options.unit, options.length, options.weighting, counts, documents, minimum
    )
    for feature, weight in features.items():
        value = frequency_oracle.hashed(feature)
        votes = [v + weight if value >> bit & 1 else v - weight for bit, v in enumerate(votes)]
    return sum(1 << bit for bit, v in enumerate(votes) if v > 0) if features else None


def fingerprints(texts, options, frequencies):
    found = simhash(pa.array(texts, pa.large_string()), options, frequencies)
    pairs = zip(found.values.tolist(), found.has_fingerprint.tolist(), strict=True)
    return [value if exists else None for value, exists in pairs]


WORDS = ["the", "cat", "dog", "中", "文", "of", "rare", "longer words", "é", "…"]
uses_idf = st.sampled_from(BY_RARITY)
texts = st.none() | words_of(WORDS, 30)


@given(
    st.lists(texts, max_size=6),
    st.lists(texts, max_size=6),
    shingles_of(3, uses_idf),
    st.integers(1, 3),
)
def test_any_texts_equal_the_oracle(texts, collection, options, minimum):
    found = document_frequencies([pa.array(collection, pa.large_string())], options, minimum)
    counts = frequency_oracle.frequencies(collection, options.unit, options.length, minimum)
    assert fingerprints(texts, options, found) == [
        oracle(text, options, counts, len(collection), minimum) for text in texts
    ]


@pytest.mark.parametrize("weighting", BY_RARITY)
def test_long_texts_of_heavy_features_equal_the_oracle(weighting):
    """The heaviest weights that there are, in numbers that overflow what they are summed in."""
    rng = random.Random(7)
    vocabulary = [f"w{n}" for n in range(3000)]
    every = [" ".join(rng.choices(vocabulary, k=60_000)), "same " * 70_000, "x" * 50_000]
    every += ["中文" * 9000 + " ".join(vocabulary)]
    documents = (1 << 63) - 1
    counts = {frequency_oracle.hashed(f"w{n}"): 1 << n % 63 for n in range(500)}
    hashes = np.array(sorted(counts), np.uint64)
    found = DocumentFrequencies(
        "words:1, normalize nfkc",
        documents,
        1,
        hashes,
        np.array([counts[h] for h in hashes.tolist()], np.uint64),
    )
    options = FeatureOptions(weighting=weighting)
    expected = [oracle(text, options, counts, documents, 1) for text in every]
    assert fingerprints(every, options, found) == expected
    assert [fingerprints([text], options, found)[0] for text in every] == expected


def test_thousands_of_heavy_words_do_not_overflow():
    """Each is as heavy as a word may be, and the bits of all go into sums of 32 bits."""
    names = [f"w{n}" for n in range(4500)]
    times = {name: 300 + n % 2 for n, name in enumerate(names)}
    text = " ".join(" ".join([name] * count) for name, count in times.items())
    nothing = DocumentFrequencies(
        "words:1, normalize nfkc", (1 << 63) - 1, 2, np.empty(0, np.uint64), np.empty(0, np.uint64)
    )
    for weighting in BY_RARITY:
        votes = [0] * 64
        for name, count in times.items():
            weight = text_oracle.weight(count, weighting.removesuffix("-idf"))
            value = frequency_oracle.hashed(name)
            votes = [v + weight if value >> bit & 1 else v - weight for bit, v in enumerate(votes)]
        expected = sum(1 << bit for bit, v in enumerate(votes) if v > 0)
        assert fingerprints([text], FeatureOptions(weighting=weighting), nothing) == [expected]


def test_without_any_known_feature_only_occurrences_count():
    """All are equally rare, whatever that is."""
    nothing = DocumentFrequencies(
        "words:1, normalize nfkc", 99, 2, np.empty(0, np.uint64), np.empty(0, np.uint64)
    )
    texts = ["the cat, the dog", "a", "中文"]
    for weighting in BY_RARITY:
        plain = FeatureOptions(weighting=weighting.removesuffix("-idf"))
        assert fingerprints(texts, FeatureOptions(weighting=weighting), nothing) == fingerprints(
            texts, plain, None
        )


COLLECTION = [
    "the quick brown fox",
    "the lazy dog",
    "the end; the end?",
    "敏捷的棕色狐狸",
    "懒狗",
    "fox and dog",
]
GOLDEN_TEXTS = ["The quick brown fox jumps over the lazy dog.", "敏捷的棕色狐狸跳过了懒狗。", "End"]
GOLDEN = {
    ("words", 1, "tf-idf"): [0x8212868318D29267, 0x51EB63A28A839E50, 0xF66D8CC5D275F416],
    ("words", 1, "log-tf-idf"): [0x8612868318D29263, 0x51EB63A28A839E50, 0xF66D8CC5D275F416],
    ("words", 2, "log-tf-idf"): [0x12BF80024A210544, 0x707D0CBEFDB1E813, 0xF66D8CC5D275F416],
    ("characters", 3, "log-tf-idf"): [
        0xA23EC554685F346C,
        0xE01FF08285030B4F,
        0xF66D8CC5D275F416,
    ],
}


@pytest.mark.parametrize("key", GOLDEN)
def test_fingerprints_are_those_of_every_version_and_machine(key):
    """If this fails, fingerprints that users have kept no longer match: do not mend the values."""
    options = FeatureOptions(*key)
    frequencies = document_frequencies([pa.array(COLLECTION, pa.large_string())], options)
    assert fingerprints(GOLDEN_TEXTS, options, frequencies) == GOLDEN[key]


def test_what_most_documents_have_in_common_counts_for_less():
    """What it is for: pages whose boilerplate outweighs them are distinguished."""
    boilerplate = " ".join(f"navigation{n}" for n in range(60))
    pages = [f"{boilerplate} {' '.join(f'page{p}word{n}' for n in range(20))}" for p in range(50)]
    options = FeatureOptions(weighting="log-tf-idf")
    frequencies = document_frequencies([pa.array(pages, pa.large_string())], options, 1)
    uses_idf = fingerprints(pages, options, frequencies)
    plain = fingerprints(pages, FeatureOptions(weighting="log-tf"), None)

    def mean_distance(values):
        pairs = [(a, b) for a in values for b in values if a != b]
        return sum((a ^ b).bit_count() for a, b in pairs) / len(pairs)

    assert mean_distance(uses_idf) > 1.5 * mean_distance(plain)


def test_misuse_is_named():
    texts = pa.array(["a"], pa.large_string())
    some = document_frequencies([texts], FeatureOptions(), 1)
    with pytest.raises(ValueError, match="frequencies: the weighting tf-idf needs document freq"):
        simhash(texts, FeatureOptions(weighting="tf-idf"))
    with pytest.raises(ValueError, match="frequencies: the weighting log-tf does not use them"):
        simhash(texts, FeatureOptions(), some)
    with pytest.raises(MrDedupError, match=r"of words:1, .* cannot weigh words:2, "):
        simhash(texts, FeatureOptions("words", 2, "tf-idf"), some)


def test_weights_of_one_text_and_its_fingerprint_agree():
    options = FeatureOptions("words", 2, "log-tf-idf")
    frequencies = document_frequencies([pa.array(COLLECTION, pa.large_string())], options, 1)
    features = features_of(GOLDEN_TEXTS[0], options, frequencies)
    votes = [
        features.weights[features.hashes >> np.uint64(bit) & np.uint64(1) == 1].sum()
        for bit in range(64)
    ]
    half = features.weights.sum() / 2
    value = sum(1 << bit for bit, vote in enumerate(votes) if vote > half)
    assert fingerprints(GOLDEN_TEXTS[:1], options, frequencies) == [value]
