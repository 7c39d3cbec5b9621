"""Sets of shingles and their similarity against Python's sets of strings."""

import dataclasses
import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features import shingle_sets as module
from mr_dedup.features.options import SHINGLES, FeatureOptions
from mr_dedup.features.preparation import prepared_batch
from mr_dedup.features.shingle_sets import MAX_SHINGLES, ShingleSets, shingle_sets
from mr_dedup.features.shingles import max_shingles
from mr_dedup.features.text_hashes import number_texts, text_hashes
from tests.clusters.sketch_oracle import estimate
from tests.features import text_oracle
from tests.strategies import TEXTS, shingles_of

options = shingles_of(5)


def array(texts):
    return pa.array(texts, pa.large_string())


def hashes_of(text, chosen):
    shingles = text_oracle.shingles(text, chosen.unit, chosen.length)
    return sorted({xxhash.xxh3_64_intdigest(shingle.encode()) for shingle in shingles})


def as_lists(sets):
    edges = itertools.pairwise(sets.offsets.tolist())
    return [sets.hashes[start:stop].tolist() for start, stop in edges]


def sets_of(lists, most=MAX_SHINGLES):
    """ShingleSets of lists of numbers, cut where they are longer than ``most``."""
    kept = [sorted(numbers)[:most] for numbers in lists]
    flat = [number for numbers in kept for number in numbers]
    return ShingleSets(
        np.cumsum([0, *map(len, kept)], dtype=np.int64),
        np.array([len(numbers) for numbers in lists], np.int64),
        np.array(flat, np.uint64),
        most,
    )


def all_pairs(sets):
    rows, columns = np.divmod(np.arange(len(sets) ** 2), max(1, len(sets)))
    return sets.jaccard(rows, columns).reshape(len(sets), len(sets)).tolist()


@given(st.lists(st.one_of(st.none(), TEXTS), max_size=8), options, st.integers(1, 30))
def test_any_texts_have_the_sets_of_the_oracle(texts, chosen, most):
    found = shingle_sets(array(texts), chosen, most)
    expected = [hashes_of(text, chosen) for text in texts]
    assert found.sizes.tolist() == [len(hashes) for hashes in expected]
    assert as_lists(found) == [hashes[:most] for hashes in expected]


@given(st.lists(TEXTS, max_size=8), options)
def test_any_texts_are_as_similar_as_sets_of_strings(texts, chosen):
    sets = [set(text_oracle.shingles(text, chosen.unit, chosen.length)) for text in texts]
    expected = [[len(a & b) / len(a | b) if a and b else 0 for b in sets] for a in sets]
    assert all_pairs(shingle_sets(array(texts), chosen)) == expected


def test_a_few_texts():
    chosen = FeatureOptions("words", 3)
    sets = shingle_sets(
        array(["a b c d", "A, B - c; d!", "b c d e", "a b", "a B", None, "我们 是", "我们是"]),
        chosen,
    )
    assert sets.sizes.tolist() == [2, 2, 2, 1, 1, 0, 1, 1]
    pairs = {(0, 1): 1, (0, 2): 1 / 3, (0, 3): 0, (3, 4): 1, (0, 5): 0, (5, 5): 0, (6, 7): 1}
    first, second = np.array(list(pairs)).T
    assert sets.jaccard(first, second).tolist() == list(pairs.values())


def test_by_default_scripts_decide():
    assert SHINGLES.unweighted == "auto:2, normalize nfkc"
    assert shingle_sets(array(["a b c d", "我们是中国人", "我们是", ""])).sizes.tolist() == [
        2,
        2,
        1,
        1,
    ]


def test_alone_and_among_others_a_text_has_one_set():
    words = " ".join(f"w{n}" for n in range(400))
    chinese = "".join(map(chr, range(0x4E00, 0x4E00 + 400)))
    texts = [words, chinese, words + chinese, words[:500] + chinese[:5] + words[500:], "ไทย " * 40]
    together = shingle_sets(array(texts))
    by_length = [shingle_sets(array(texts), FeatureOptions("words", n)) for n in (3, 5)]
    for row, text in enumerate(texts):
        alone = shingle_sets(array([text]))
        assert alone.hashes.tolist() == set_of(together, row)
    assert set_of(together, 0) == set_of(by_length[0], 0)
    assert set_of(together, 1) == set_of(by_length[1], 1)
    # each part has its own, and two runs have words and characters
    sets = [set(set_of(together, row)) for row in range(3)]
    assert sets[0] | sets[1] < sets[2]
    assert len(sets[2]) == len(sets[0]) + len(sets[1]) + 2
    # five characters in a text of words are no other text
    assert together.jaccard(np.array([0]), np.array([3]))[0] > 0.97


def set_of(sets, row):
    return sets.hashes[sets.offsets[row] : sets.offsets[row + 1]].tolist()


def test_texts_may_be_a_slice_with_nulls():
    texts = ["zero", None, "a b c d", None, "b c d", ""]
    found = shingle_sets(array(texts)[2:5])
    assert as_lists(found) == [hashes_of(text, SHINGLES) for text in texts[2:5]]


def test_repeats_are_one_shingle_however_many():
    rng = random.Random(1)
    for words in (["a"], ["a", "b"], [f"w{i}" for i in range(50)]):
        text = " ".join(rng.choices(words, k=20_000))
        found = shingle_sets(array([text]), FeatureOptions("words", 2))
        assert as_lists(found) == [hashes_of(text, FeatureOptions("words", 2))]


@given(st.lists(TEXTS, max_size=20), options, st.integers(1, 50))
def test_there_is_space_for_any_sets(texts, chosen, most):
    """Kernels write unchecked: whatever the texts are, what is made of them fits."""
    batch = prepared_batch(array(texts), chosen)
    shingles = [text_oracle.shingles(text, chosen.unit, chosen.length) for text in texts]
    limits = max_shingles(batch.sizes.astype(np.int64), chosen).tolist()
    assert all(len(each) <= limit for each, limit in zip(shingles, limits, strict=True))
    space = module.space_for_sets(batch, chosen, most).size
    assert sum(min(len(each), most) for each in shingles) <= space


@pytest.mark.parametrize("size", [*range(1, 20), 63, 64, 65, 500])
@pytest.mark.parametrize("spread", [1, 2, 10, 1 << 40])
def test_numbers_of_every_density_are_compared_as_sets(size, spread):
    """The merge goes from both ends, some steps at a time: every way for the ends to meet."""
    rng = random.Random(size * spread)
    lists = [
        rng.sample(range(2 * size * spread), rng.randint(max(1, size // 2), size))
        for _ in range(12)
    ]
    expected = [[len({*a} & {*b}) / len({*a} | {*b}) for b in lists] for a in lists]
    assert all_pairs(sets_of(lists)) == expected


@given(st.lists(st.frozensets(st.integers(0, 40), max_size=30), max_size=6), st.integers(1, 12))
def test_cut_sets_are_compared_as_far_as_they_are_known(sets, most):
    expected = [[estimate(a, b, most) for b in sets] for a in sets]
    assert all_pairs(sets_of(sets, most)) == expected


def overlapping(rng, first, second, common):
    """Two sets of random hashes of these sizes, with so many in common."""
    hashes = rng.integers(0, 2**64, first + second - common, dtype=np.uint64).tolist()
    return hashes[:first], hashes[first - common :]


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        (20_000, 20_000, 17_778),  # 0.8
        (20_000, 16_000, 16_000),  # 0.8, one within the other
        (10_000, 10_000, 6_667),  # 0.5
        (2_250, 2_000, 1_900),  # 0.81, one whole
        (40_000, 38_000, 37_800),  # 0.94
        (15_000, 15_000, 0),
    ],
)
def test_estimates_are_within_their_bound(first, second, common):
    """One of 20 pairs is this far off with a probability of at most one in a million."""
    rng = np.random.default_rng(common)
    most = 2048
    truth = common / (first + second - common)
    pairs = [overlapping(rng, first, second, common) for _ in range(20)]
    sets = sets_of([numbers for pair in pairs for numbers in pair], most)
    found = sets.jaccard(np.arange(0, 40, 2), np.arange(1, 40, 2))
    errors = found - truth
    assert np.abs(errors).max() < np.sqrt(np.log(2 * 20 * 1e6) / (2 * most))
    standard_error = np.sqrt(truth * (1 - truth) / most)
    assert np.sqrt((errors**2).mean()) <= 1.4 * standard_error
    # never above what the sizes allow
    assert found.max() <= min(first, second) / max(first, second)


def test_long_texts_are_estimated_within_their_bound():
    rng = random.Random(3)
    words = [str(rng.randrange(10**6)) for _ in range(60_000)]
    changed = [word if rng.random() > 0.03 else "changed" for word in words]
    pair = [" ".join(words), " ".join(changed)]
    sets = [set(text_oracle.shingles(text, "words", 3)) for text in pair]
    truth = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
    cut = shingle_sets(array(pair))
    assert np.diff(cut.offsets).tolist() == [MAX_SHINGLES] * 2
    (found,) = cut.jaccard(np.array([0]), np.array([1]))
    assert 0 < abs(found - truth) < 0.02
    whole = shingle_sets(array(pair), SHINGLES, 1 << 20)
    assert whole.jaccard(np.array([0]), np.array([1])) == [truth]


@given(st.lists(st.sets(st.integers(0, 99), max_size=9), max_size=9), st.data())
def test_sets_are_joined_and_gathered(sets, data):
    found = sets_of(sets, 6)
    cut = data.draw(st.integers(0, len(sets)))
    parts = [sets_of(sets[:cut], 6), sets_of(sets[cut:], 6)]
    joined = ShingleSets.joined(parts)
    assert (as_lists(joined), joined.sizes.tolist()) == (as_lists(found), found.sizes.tolist())
    rows = data.draw(st.lists(st.integers(0, len(sets) - 1), max_size=9)) if sets else []
    which = np.array([row >= cut for row in rows], np.int64)
    gathered = ShingleSets.gathered(parts, which, np.array(rows, np.int64) - cut * which)
    expected = sets_of([sets[row] for row in rows], 6)
    assert as_lists(gathered) == as_lists(expected)
    assert gathered.sizes.tolist() == expected.sizes.tolist()
    are_empty = data.draw(st.lists(st.booleans(), min_size=len(sets), max_size=len(sets)))
    emptied = found.emptied(np.array(are_empty, bool))
    left = [set() if empty else each for each, empty in zip(sets, are_empty, strict=True)]
    assert as_lists(emptied) == as_lists(sets_of(left, 6))
    assert emptied.sizes.tolist() == sets_of(left, 6).sizes.tolist()


def test_texts_are_numbered_by_their_bytes():
    texts = ["b", "a", None, "b", "", "a ", "b", "中"]
    hashes = text_hashes(array(texts))
    digests = [xxhash.xxh3_128_intdigest((text or "").encode()) for text in texts]
    assert [high << 64 | low for high, low in hashes.tolist()] == digests
    numbers, firsts = number_texts(hashes)
    assert [texts[i] for i in firsts[numbers]] == ["b", "a", None, "b", None, "a ", "b", "中"]
    assert sorted(firsts) == [0, 1, 2, 5, 7]
    assert [part.tolist() for part in number_texts(text_hashes(array([])))] == [[], []]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30))
def test_hashes_are_told_apart_by_both_halves(pairs):
    numbers, firsts = number_texts(np.array(pairs, np.uint64).reshape(-1, 2))
    assert [pairs[i] for i in firsts[numbers]] == pairs
    assert sorted(firsts) == sorted({pair: pairs.index(pair) for pair in pairs}.values())


def test_misuse_is_named():
    sets = sets_of([[1, 2], [3]])
    with pytest.raises(ValueError, match="texts must be a pyarrow LargeStringArray"):
        shingle_sets(pa.array(["a"]))
    with pytest.raises(ValueError, match="max_hashes must be at least 1, not 0"):
        shingle_sets(array(["a"]), max_hashes=0)
    with pytest.raises(ValueError, match=r"parts: expected sets cut at one size, got \[5, 6\]"):
        ShingleSets.joined([sets_of([], 5), sets_of([], 6)])
    with pytest.raises(ValueError, match="second: expected rows from 0 to 1"):
        sets.jaccard(np.array([0]), np.array([2]))
    with pytest.raises(ValueError, match="first: expected rows from 0 to 1"):
        sets.jaccard(np.array([-1]), np.array([1]))
    with pytest.raises(ValueError, match=r"second: expected int64\[m\], got int64\[2\]"):
        sets.jaccard(np.array([0]), np.array([1, 1]))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("offsets", np.array([0, 1, 3]), "offsets: expected sums of sizes"),
        ("offsets", np.array([0, 2]), "offsets: expected sums of sizes"),
        ("sizes", np.array([2.0, 1.0]), r"sizes: expected int64\[n\], got float64"),
        ("hashes", np.zeros(2, np.uint64), "hashes: expected 3, got 2"),
        ("max_hashes", 1, "offsets: expected sums of sizes"),
        ("max_hashes", 0, "max_hashes must be at least 1, not 0"),
    ],
)
def test_columns_that_do_not_fit_are_refused(name, value, reason):
    with pytest.raises(ValueError, match=reason):
        dataclasses.replace(sets_of([[1, 2], [3]]), **{name: value})
