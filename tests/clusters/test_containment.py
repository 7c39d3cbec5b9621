"""Decisions by containment against comparing all with all, by Python's sets."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.clusters import decisions as decisions_module
from mr_dedup.clusters.criterion import Criterion
from mr_dedup.clusters.decisions import Reason, resolve
from mr_dedup.clusters.keep_policy import KeepPolicy
from mr_dedup.features.shingle_sets import UNLIMITED, shingle_sets
from tests.clusters import test_decisions as by_similarity
from tests.clusters.clustered import Page, columns
from tests.clusters.test_decisions import CROWDS, LIMITS, SHINGLES, documents_of, sets_of, shingles
from tests.strategies import costly

THRESHOLDS = [1e-9, 0.2, 1 / 3, 0.5, 2 / 3, 0.8, 0.9, 1.0]


def oracle(sets, order, threshold, fixed=()):
    """The kept set of each set, and the share of its members in that, by comparing all with all.

    Of sets in ``order``, the best first; those that are ``fixed`` precede all others and stay.
    """
    ordered = sorted(order, key=lambda n: (n not in fixed, -len(sets[n])))
    kept, found = [], {}
    for n in ordered:
        shares = [
            (len(sets[n] & sets[k]) / len(sets[n]) if len(sets[k]) >= len(sets[n]) else -1)
            for k in kept
        ]
        best = max(shares, default=-1)
        if n in fixed or best < threshold:
            found[n] = (n, None)
            kept.append(n)
        else:
            found[n] = (kept[shares.index(best)], best)
    return found


def decided(sets, order, threshold, fixed=(), **options):
    """The same by the library."""
    n = len(sets)
    is_fixed = np.isin(np.arange(n), list(fixed))
    criterion = Criterion(threshold, "contained")
    found = resolve(
        documents_of([0] * n, range(n)), np.array(order, np.int64), sets_of(sets, UNLIMITED),
        criterion, is_fixed, **options,
    )  # fmt: skip
    for row, reason in enumerate(found.reasons):
        assert (found.kept_rows[row] == row) == Reason(reason).is_kept
        assert Reason(reason).is_kept or reason == Reason.CONTAINED
    return {
        row: (int(kept), None if np.isnan(value) else value)
        for row, (kept, value) in enumerate(zip(found.kept_rows, found.similarities, strict=True))
    }


@pytest.fixture(params=[1, 3, 32], ids="few={}".format)
def few(request, monkeypatch):
    """From how many kept documents on an index is used: it must decide as comparing all does."""
    monkeypatch.setattr(decisions_module, "_FEW", request.param)


numbers = st.sets(st.integers(0, 30), min_size=1, max_size=20)


@pytest.mark.usefixtures("few")
@costly
@given(
    st.lists(numbers.map(frozenset), min_size=1, max_size=25, unique=True),
    st.sampled_from(THRESHOLDS),
    st.sets(st.integers(0, 24), max_size=5),
    st.randoms(use_true_random=False),
)
def test_any_sets_are_decided_on_as_by_comparing_all(sets, threshold, fixed, rng):
    order = list(range(len(sets)))
    rng.shuffle(order)
    fixed = {n for n in fixed if n < len(sets)}
    assert decided(sets, order, threshold, fixed) == oracle(sets, order, threshold, fixed)


@pytest.mark.parametrize("name", CROWDS)
@pytest.mark.parametrize("threshold", [0.3, 0.8, 1.0])
def test_large_clusters_are_decided_on_as_by_comparing_all(name, threshold, monkeypatch):
    sets = [frozenset(numbers) for numbers in CROWDS[name]]
    rng = random.Random(name)
    # beside them parts of them, and what contains several
    sets += [frozenset(rng.sample(sorted(each), max(1, len(each) // 3))) for each in sets[::3]]
    sets += [one | other for one, other in itertools.pairwise(sets[:40:4])]
    rng.shuffle(sets)
    sets = list(dict.fromkeys(sets))
    order = list(range(len(sets)))
    rng.shuffle(order)
    expected = oracle(sets, order, threshold)
    for limits in LIMITS:
        assert decided(sets, order, threshold, limits=limits) == expected, limits
    # every cluster is a large one
    monkeypatch.setattr(decisions_module, "_SLICE_HASHES", 50)
    assert decided(sets, order, threshold) == expected


def test_in_a_chain_each_part_is_dropped_for_the_longest():
    words = [f"w{n}" for n in range(60)]
    texts = [" ".join(words[:size]) for size in (10, 20, 40, 60)]
    documents, distinct = columns([Page(text=text, place=n) for n, text in enumerate(texts)])
    order = KeepPolicy.parse(["shortest"]).rank(documents)
    found = resolve(
        documents, order, shingle_sets(distinct, SHINGLES, UNLIMITED), Criterion(1.0, "contained")
    )
    assert found.kept_rows.tolist() == [3, 3, 3, 3]
    assert found.similarities[:3].tolist() == [1, 1, 1]
    assert [Reason(each).key for each in found.reasons] == ["contained"] * 3 + ["first_of_cluster"]


def test_of_texts_with_as_many_shingles_the_policy_decides():
    texts = ["a b c d e f g h i j k", "a b c d e f g h i j z", "a b c"]
    pages = [Page(text=text, place=n, fields={"day": str(n)}) for n, text in enumerate(texts)]
    documents, distinct = columns(pages)
    sets = shingle_sets(distinct, SHINGLES, UNLIMITED)
    for policy, kept in (("lowest:day", 0), ("highest:day", 1)):
        order = KeepPolicy.parse([policy]).rank(documents)
        found = resolve(documents, order, sets, Criterion(0.9, "contained"))
        assert found.kept_rows.tolist() == [kept] * 3


def test_empty_texts_copies_and_texts_of_one_shingle():
    texts = ["", "", "-----", "a b", "a b", "A, B!", "a b c d", "a"]
    pages = [Page(str(n), text, place=n) for n, text in enumerate(texts)]
    documents, distinct = columns(pages)
    order = np.arange(len(texts))
    found = resolve(
        documents, order, shingle_sets(distinct, SHINGLES, UNLIMITED), Criterion(0.9, "contained")
    )
    # a single word has no shingle of two words
    assert found.kept_rows.tolist() == [0, 0, 2, 6, 6, 6, 6, 7]
    assert [Reason(each).key for each in found.reasons] == [
        "dissimilar", "exact_duplicate", "dissimilar", "contained", "contained", "contained",
        "first_of_cluster", "dissimilar",
    ]  # fmt: skip


def test_a_page_prefix_of_ten_thousand_pages_is_dropped_for_the_first_of_the_longest():
    rng = np.random.default_rng(3)
    prefix = rng.integers(0, 2**64, 60, dtype=np.uint64).tolist()
    n = 10_000
    own = rng.integers(0, 2**64, (n, 30), dtype=np.uint64).tolist()
    sets = [prefix + each for each in own] + [prefix, prefix[:20] + own[7][:2]]
    found = decided(sets, list(range(n + 2)), 0.9)
    assert {found[row] for row in range(n)} == {(row, None) for row in range(n)}
    assert found[n] == (0, 1.0)
    assert found[n + 1] == (7, 1.0)


def test_what_is_dropped_is_in_a_kept_document_that_is_as_long():
    rng = random.Random(6)
    words = [f"w{n}" for n in range(90)]
    pages = []
    for place in range(300):
        begin = rng.randrange(60)
        text = words[begin : begin + rng.randrange(3, 60)]
        if rng.randrange(2):
            text[rng.randrange(len(text))] = f"x{rng.randrange(30)}"
        pages.append(Page(str(place), " ".join(text), place=place))
    documents, distinct = columns(pages)
    found = resolve(
        documents, KeepPolicy.parse(["shortest"]).rank(documents),
        shingle_sets(distinct, SHINGLES, UNLIMITED), Criterion(0.7, "contained"),
    )  # fmt: skip
    sets = [shingles(page) for page in pages]
    kept = set(np.flatnonzero(found.kept).tolist())
    assert 1 < len(kept) < 200
    for row, of in enumerate(found.kept_rows.tolist()):
        assert of in kept
        if row != of:
            share = len(sets[row] & sets[of]) / len(sets[row])
            assert found.similarities[row] == share >= 0.7
            assert len(sets[of]) >= len(sets[row])
    for one, other in itertools.permutations(kept, 2):
        if len(sets[other]) > len(sets[one]):
            assert len(sets[one] & sets[other]) / len(sets[one]) < 0.7


def test_pairs_of_sets():
    sets = sets_of([[1, 2, 3, 4], [1, 2, 9], [], [5]], UNLIMITED)
    first, second = map(np.array, zip(*itertools.product(range(4), repeat=2), strict=True))
    found = sets.contained(first, second).reshape(4, 4)
    assert found.tolist() == [[1, 0, 0, 0], [2 / 3, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    with pytest.raises(ValueError, match="sets: expected whole ones, got some cut at 3"):
        sets_of([[1, 2, 3, 4]], 3).contained(first[:1], first[:1])


def test_criteria_are_what_a_user_says():
    assert Criterion.parse("contained:0.9") == Criterion(0.9, "contained")
    assert Criterion.parse("0.8") == Criterion() == Criterion(0.8, "similarity")
    assert [Criterion.parse(str(each)) for each in (Criterion(), Criterion(1.0, "contained"))] == [
        Criterion(), Criterion(1.0, "contained")
    ]  # fmt: skip
    assert Criterion().threshold == by_similarity.THRESHOLD
    for text in ("0", "1.5", "nan", "contained:", "contained:0", "within:0.9", ":0.9", "x"):
        with pytest.raises(ValueError, match="is not a similarity above 0 and up to 1"):
            Criterion.parse(text)
    for value in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="threshold must be above 0 and at most 1"):
            Criterion(value)
    with pytest.raises(ValueError, match="measure must be similarity or contained, not 'other'"):
        Criterion(0.5, "other")
