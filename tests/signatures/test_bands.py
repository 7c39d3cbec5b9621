"""Bands against drawing them, and against every other choice."""

import itertools
import random

import pytest

from mr_dedup.features.options import FeatureOptions
from mr_dedup.signatures.bands import (
    MIN_SIMILARITY,
    RECALL,
    Bands,
    choose_bands,
    expected_recall,
)
from mr_dedup.signatures.methods import parse_method
from mr_dedup.signatures.minwise import MAX_PERMUTATIONS

SIMILARITIES = [0.5, 0.55, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0]


def by_all_outcomes(similarity, bands, rows, least):
    """The probability, added up over which bands are shared."""
    one = 1.0
    for _ in range(rows):
        one *= similarity
    total = 0.0
    for shared in itertools.product([False, True], repeat=bands):
        if sum(shared) >= least:
            probability = 1.0
            for each in shared:
                probability *= one if each else 1 - one
            total += probability
    return total


@pytest.mark.parametrize("similarity", [0.0, 0.1, 0.5, 0.8, 1.0])
@pytest.mark.parametrize(("bands", "rows", "least"), [(1, 1, 1), (8, 3, 1), (6, 14, 2), (7, 2, 7)])
def test_the_expected_recall_is_that_of_all_outcomes(similarity, bands, rows, least):
    expected = by_all_outcomes(similarity, bands, rows, least)
    assert expected_recall(similarity, bands, rows, least) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("recall", [0.9, 0.998, RECALL, 0.9999])
def test_what_is_chosen_is_enough_and_with_a_band_less_it_is_not(similarity, recall):
    bands, rows = choose_bands(similarity, recall)
    assert expected_recall(similarity, bands, rows) >= recall
    assert bands * rows <= MAX_PERMUTATIONS
    if similarity < 1:
        assert expected_recall(similarity, bands - 1, rows) < recall
    else:
        assert bands == 1


def test_what_is_chosen():
    chosen = {similarity: choose_bands(similarity) for similarity in (0.5, 0.6, 0.7, 0.8, 0.9)}
    assert chosen == {
        0.5: Bands(57, 3), 0.6: Bands(55, 4), 0.7: Bands(28, 4), 0.8: Bands(20, 5), 0.9: Bands(9, 5)
    }  # fmt: skip
    # below that they would grow without end
    assert choose_bands(0.01) == choose_bands(MIN_SIMILARITY)
    assert choose_bands(0.8, 0.998) == (16, 5)


def test_values_drawn_at_random_share_bands_as_often_as_expected():
    rng = random.Random(1)
    bands, rows = choose_bands(0.6, 0.9)
    found = sum(
        any(all(rng.random() < 0.6 for _ in range(rows)) for _ in range(bands))
        for _ in range(20_000)
    )
    assert found / 20_000 == pytest.approx(expected_recall(0.6, bands, rows), abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((0.0,), "similarity must be above 0 and at most 1, not 0.0"),
        ((1.1,), "similarity must be above 0 and at most 1, not 1.1"),
        ((0.8, 1.0), "recall must be above 0 and below 1, not 1.0"),
        ((0.8, 0.0), "recall must be above 0 and below 1, not 0.0"),
    ],
)
def test_misuse_is_named(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        choose_bands(*arguments)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("minhash", "minhash:bands=57,rows=3,min_shared_keys=1,shingles=auto"),
        ("minhash:shingles=words:5", "minhash:bands=57,rows=3,min_shared_keys=1,shingles=words:5"),
        # of what is given none is changed
        ("minhash:rows=4", "minhash:bands=20,rows=4,min_shared_keys=1,shingles=auto"),
        ("minhash:min_shared_keys=2", "minhash:bands=20,rows=5,min_shared_keys=2,shingles=auto"),
        ("super-shingles", "super-shingles:bands=6,rows=14,min_shared_keys=2,shingles=auto"),
        ("exact", "exact"),
    ],
)
def test_a_similarity_chooses_the_bands_of_methods(text, name):
    assert parse_method(text, similarity=0.5).name == name


def test_methods_say_what_they_find():
    auto = FeatureOptions("auto", weighting="binary")

    def recall(name, similarity, shingles=auto):
        return parse_method(name).expected_recall(similarity, shingles)

    assert recall("minhash", 0.8) == expected_recall(0.8, 20, 5)
    assert recall("super-shingles", 0.9) == expected_recall(0.9, 6, 14, 2)
    assert recall("exact", 0.8) is None
    # of other shingles than texts are compared by, and where estimates decide, nobody knows
    words = FeatureOptions("words", 3, "binary")
    assert recall("minhash", 0.8, words) is None
    assert recall("minhash:shingles=words:3", 0.8, words) == expected_recall(0.8, 20, 5)
    assert recall("minhash:normalize=nfc", 0.8) is None
    assert recall("minhash:estimate=0.8", 0.8) is None
