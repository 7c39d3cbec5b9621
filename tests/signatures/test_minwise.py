"""Min-wise hashes against an obvious form of them, and what their equality says."""

import math
import random
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features.options import FeatureOptions
from mr_dedup.signatures.minwise import MinwiseHashes, minwise_hashes, minwise_of_hashes

MASK = (1 << 64) - 1


def splitmix(seed):
    """SplitMix64 as published: a state that goes on by a constant, and a mix of it."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        yield mixed ^ (mixed >> 31)


def shingles_of(text, length):
    words = re.findall(r"[a-z0-9]+", text.lower())
    if not words:
        return {text}
    count = max(1, len(words) - length + 1)
    return {" ".join(words[i : i + length]) for i in range(count)}


def least_by(hashes, order, constants):
    """The value of one order, as it is defined: its own ones, its second ones, all others."""

    def images(of, constant):
        flip, factor = constant >> 32, constant & 0xFFFFFFFF | 1
        return [(((h & 0xFFFFFFFF) ^ flip) * factor) % 2**32 for h in of]

    block, place = divmod(order, 128)
    together = min(128, len(constants) - 128 * block)
    multipliers = [1, 2654435761, 2246822507, 3266489909]

    def own(level):
        for h in hashes:
            part = Fraction((h >> 32) * multipliers[(block + level) % 4] % 2**32, 2**32)
            if place <= part * together < place + 1:
                yield h

    first, second = list(own(0)), list(own(1))
    constant = constants[128 * block]
    if first:
        return min(images(first, constant)) // 4
    if second:
        return (2**32 - 1 - max(images(second, constant))) // 4 + 2**30
    return min(images(hashes, constants[order])) // 4 + 2**31


def expected(text, permutations, length=3):
    hashes = [xxhash.xxh3_64_intdigest(s.encode()) for s in shingles_of(text, length)]
    drawn = splitmix(0)
    constants = [next(drawn) for _ in range(permutations)]
    return [least_by(hashes, order, constants) for order in range(permutations)]


def hashed(texts, permutations, **options):
    return minwise_hashes(pa.array(texts, pa.large_string()), permutations, **options)


GOLDEN = [[124286601, 686489879]]
GOLDEN_KEYS = [[2492299429802599986]]


TEXTS = st.lists(st.sampled_from(["a", "Bc", "def", "x" * 20, ".", "9"]), max_size=40).map(" ".join)


@given(st.lists(TEXTS | st.none(), max_size=5), st.integers(1, 40) | st.integers(120, 300))
def test_values_are_the_least_by_each_permutation(texts, permutations):
    found = hashed(texts, permutations)
    assert found.values.shape == (len(texts), permutations)
    for text, values, exists in zip(texts, found.values.tolist(), found.has_shingles, strict=True):
        assert exists == (text is not None)
        if exists:
            assert values == expected(text, permutations)


def test_values_of_other_shingles():
    options = FeatureOptions("words", 1, "tf")
    found = hashed(["one two two three"], 20, options=options)
    assert found.values.tolist() == [expected("one two two three", 20, length=1)]


def test_golden_values():
    """The same text has the same values for ever."""
    found = hashed(["the quick brown fox jumps over the lazy dog"], 2)
    assert found.values.tolist() == [expected("the quick brown fox jumps over the lazy dog", 2)]
    assert found.values.tolist() == GOLDEN
    assert found.band_keys(1, 2).tolist() == GOLDEN_KEYS


def pair(rng, shared, own):
    """Two texts with so many words in common, and so many each of their own."""
    common = [f"c{rng.getrandbits(40):x}" for _ in range(shared)]
    return tuple(
        " ".join([*common, *(f"{name}{rng.getrandbits(40):x}" for _ in range(own))])
        for name in "ab"
    )


@pytest.mark.parametrize("size", [20, 110, 1100])
@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8, 0.9])
def test_the_share_of_equal_values_estimates_the_similarity(similarity, size):
    rng = random.Random(f"{similarity} {size}")
    shared = round(size * 2 * similarity / (1 + similarity))
    own = size - shared
    pairs = [pair(rng, shared, own) for _ in range(400)]
    options = FeatureOptions("words", 1, "binary")
    found = hashed([text for both in pairs for text in both], 128, options=options)
    first = np.arange(0, 800, 2)
    similarity = shared / (shared + 2 * own)
    errors = found.similarity(first, first + 1) - similarity
    standard = math.sqrt(similarity * (1 - similarity) / 128)
    # the mean of 400: four standard errors; their spread is less than that of independent orders,
    # least of all where each order has about one shingle of its own, and in long texts hardly
    assert abs(errors.mean()) < 4 * standard / 20
    assert errors.std() < {20: 0.9, 110: 0.8, 1100: 1.0}[size] * standard


def test_texts_without_words_are_similar_to_copies_and_nulls_to_nothing():
    found = hashed(["", None, "a", "...", "", None], 16)
    assert found.has_shingles.tolist() == [True, False, True, True, True, False]
    first, second = np.array([0, 0, 2, 0, 0, 1]), np.array([1, 2, 2, 3, 4, 5])
    assert found.similarity(first, second).tolist() == [0, 0, 1, 0, 1, 0]


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 100))
def test_a_band_is_shared_by_equal_values_and_by_no_others(bands, rows, seed):
    values = np.random.default_rng(seed).integers(0, 2, (30, bands * rows), dtype=np.uint32)
    keys = MinwiseHashes(values, np.ones(30, np.uint64)).band_keys(bands, rows)
    for band in range(bands):
        of_band = values[:, band * rows : (band + 1) * rows]
        equal = (of_band[:, None] == of_band[None]).all(axis=2)
        assert ((keys[:, band, None] == keys[None, :, band]) == equal).all()
    assert len({key for band in keys.T for key in set(band.tolist())}) == sum(
        len(set(band.tolist())) for band in keys.T
    )


@pytest.mark.parametrize(("bands", "rows"), [(0, 1), (1, 0), (3, 6), (17, 1)])
def test_bands_that_cannot_be(bands, rows):
    with pytest.raises(ValueError, match="bands, rows: expected"):
        hashed(["a"], 16).band_keys(bands, rows)


@pytest.mark.parametrize("permutations", [0, -1, 5000])
def test_permutations_that_cannot_be(permutations):
    with pytest.raises(ValueError, match="permutations must be from 1 to"):
        hashed(["a"], permutations)


@given(st.lists(st.lists(st.integers(0, MASK), max_size=40), max_size=5), st.integers(1, 40))
def test_sets_of_hashes_have_the_hashes_of_their_texts(sets, permutations):
    offsets = np.cumsum([0, *map(len, sets)]).astype(np.int64)
    hashes = np.array([value for each in sets for value in each], np.uint64)
    found = minwise_of_hashes(offsets, hashes, permutations)
    drawn = splitmix(0)
    constants = [next(drawn) for _ in range(permutations)]
    for each, values, exists in zip(sets, found.values.tolist(), found.has_shingles, strict=True):
        assert exists == bool(each)
        if each:
            assert values == [least_by(each, order, constants) for order in range(permutations)]


def test_hundreds_of_orders_and_long_texts():
    rng = random.Random(3)
    text = " ".join(f"w{rng.getrandbits(30):x}" for _ in range(1500))
    options = FeatureOptions("words", 1, "binary")
    assert hashed([text], 700, options=options).values.tolist() == [expected(text, 700, 1)]
    # each 128 are the same however many follow them
    found = [hashed([text], count, options=options).values for count in (128, 129, 256, 700)]
    assert all(np.array_equal(each[:, :128], found[-1][:, :128]) for each in found)
    assert np.array_equal(found[2], found[3][:, :256])


@pytest.mark.parametrize("offsets", [[], [0, 3], [2, 1], [-1, 1]])
def test_offsets_that_cannot_be_are_refused(offsets):
    with pytest.raises(ValueError, match="offsets: expected to ascend from 0 to at most 2"):
        minwise_of_hashes(np.array(offsets, np.int64), np.zeros(2, np.uint64), 3)
