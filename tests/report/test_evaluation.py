"""Evaluation of pairs against sets, and of decisions against a loop over the kept documents."""

import itertools
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.decision_file import DecidedDocuments
from mr_dedup.formats.document_lengths import fingerprint_file_lengths, lengths_of
from mr_dedup.formats.pair_files import DocumentPairs, TruePairs
from mr_dedup.report.evaluation import Counts, Evaluation

BANDS = [0.5, 0.8, 0.9, 1.0]
EDGES = [0, 10, 50]

IDS = st.integers(0, 12).map(lambda number: f"d{number:02}")
TRUTH = st.dictionaries(
    st.sets(IDS, min_size=2, max_size=2).map(frozenset), st.sampled_from([0.4, 0.8, 0.85, 0.9, 1.0])
)


def text(values):
    return pa.array(values, pa.large_string())


def columns(pairs):
    ordered = [tuple(pair) for pair in pairs]
    return text([a for a, _ in ordered]), text([b for _, b in ordered])


def truth_of(known, seed=0):
    """The truth, each pair in any order of its two ids."""
    rng = random.Random(seed)
    pairs = [rng.sample(sorted(pair), 2) for pair in known]
    return TruePairs(*columns(pairs), np.array(list(known.values()), float))


def named(evaluation, pairs):
    ids = evaluation.ids.to_pylist()
    return [frozenset({ids[a], ids[b]}) for a, b in pairs.tolist()]


def length(id):
    return int(id[1:]) * 7


def by_length(evaluation, at):
    lengths = np.array([length(id) for id in evaluation.ids.to_pylist()], np.int64)
    return at.by_length(lengths, EDGES)


def in_band(pairs, number):
    """The pairs whose shorter document is in a band of lengths."""
    end = [*EDGES[1:], 1 << 62][number]
    return [pair for pair in pairs if EDGES[number] <= min(map(length, pair)) < end]


@given(st.lists(st.tuples(IDS, IDS), max_size=25), TRUTH)
def test_pairs(listed, known):
    evaluation = Evaluation.of_pairs(DocumentPairs(*columns(listed)), truth_of(known))
    predicted = {frozenset(pair) for pair in listed if len(set(pair)) == 2}
    self_pairs = sum(len(set(pair)) == 1 for pair in listed)
    assert evaluation.self_pairs == self_pairs
    assert evaluation.repeated == len(listed) - self_pairs - len(predicted)
    for band in BANDS:
        true = {pair for pair, similarity in known.items() if similarity >= band}
        at = evaluation.at(band)
        assert at.true_count == len(true)
        assert at.both_kept is None
        assert sorted(named(evaluation, at.false_negatives), key=sorted) == sorted(
            true - predicted, key=sorted
        )
        assert at.counts == Counts(len(predicted), len(predicted & true), len(true - predicted))
        for number, counts in enumerate(by_length(evaluation, at)):
            assert counts == Counts(
                len(in_band(predicted, number)),
                len(in_band(predicted & true, number)),
                len(in_band(true - predicted, number)),
            )


@st.composite
def decisions(draw):
    """Ids in some order, each with its original."""
    ids = draw(st.permutations([f"d{number:02}" for number in range(draw(st.integers(1, 12)))]))
    kept = draw(st.sets(st.sampled_from(ids), min_size=1))
    originals = [id if id in kept else draw(st.sampled_from(sorted(kept))) for id in ids]
    return ids, originals


def not_dropped(kept, true):
    """Pairs of a kept document that should be dropped, and the first one that it duplicates."""
    stays, drops = [], []
    for id in kept:
        similar = [other for other in stays if frozenset({id, other}) in true]
        if similar:
            drops.append(frozenset({id, similar[0]}))
        else:
            stays.append(id)
    return drops


@given(decisions(), TRUTH)
def test_decisions(decided, known):
    ids, originals = decided
    inside = {pair: value for pair, value in known.items() if pair <= set(ids)}
    positions = np.array([ids.index(original) for original in originals], np.int64)
    documents = DecidedDocuments(text(ids), positions)
    if known and not inside:
        with pytest.raises(MrDedupError, match="none of the true pairs is of documents"):
            Evaluation.of_decisions(documents, truth_of(known))
        return
    evaluation = Evaluation.of_decisions(documents, truth_of(known))
    assert evaluation.ignored_true == len(known) - len(inside)
    kept = [id for id, original in zip(ids, originals, strict=True) if id == original]
    predicted = [
        frozenset(pair) for pair in zip(ids, originals, strict=True) if len(set(pair)) == 2
    ]
    for band in BANDS:
        true = {pair for pair, similarity in inside.items() if similarity >= band}
        at = evaluation.at(band)
        drops = not_dropped(kept, true)
        positives = [pair for pair in predicted if pair in true]
        assert at.true_count == len(true)
        assert at.both_kept == sum(pair <= set(kept) for pair in true)
        assert sorted(named(evaluation, at.false_negatives), key=sorted) == sorted(
            drops, key=sorted
        )
        assert at.counts == Counts(len(predicted), len(positives), len(drops))
        for number, counts in enumerate(by_length(evaluation, at)):
            groups = (in_band(pairs, number) for pairs in (predicted, positives, drops))
            assert counts == Counts(*map(len, groups))


@given(st.permutations(range(9)), st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8))))
def test_decisions_by_the_truth_are_perfect(order, edges):
    """For any order of preference, and any graph of true pairs."""
    true = {frozenset(pair) for pair in edges if len(set(pair)) == 2}
    originals = list(range(9))
    stays = []
    for document in order:
        similar = [other for other in stays if frozenset({document, other}) in true]
        originals[document] = similar[-1] if similar else document
        stays += [] if similar else [document]
    ids = text([str(number) for number in range(9)])
    pairs = [(str(a), str(b)) for a, b in map(sorted, true)]
    truth = TruePairs(*columns(pairs), np.ones(len(pairs)))
    counts = (
        Evaluation.of_decisions(DecidedDocuments(ids, np.array(originals)), truth).at(0.8).counts
    )
    assert (counts.true_positives, counts.false_negatives) == (counts.predicted, 0)


def test_a_chain_need_not_be_one_cluster():
    """a is similar to b, b to c, but a not to c: b is dropped as a duplicate of a, c is kept."""
    chain = {frozenset("ab"): 0.9, frozenset("bc"): 0.9}
    decided = DecidedDocuments(text(list("abc")), np.array([0, 0, 2]))
    at = Evaluation.of_decisions(decided, truth_of(chain)).at(0.8)
    assert (at.counts, at.both_kept) == (Counts(1, 1, 0), 0)
    merged = DecidedDocuments(text(list("abc")), np.array([0, 0, 0]))
    at = Evaluation.of_decisions(merged, truth_of(chain)).at(0.8)
    assert at.counts == Counts(2, 1, 0)


def test_ratios():
    assert (Counts(4, 3, 1).precision, Counts(4, 3, 1).recall) == (0.75, 0.75)
    assert Counts(4, 2, 8).f1 == pytest.approx(2 / (1 / 0.5 + 1 / 0.2))
    assert (Counts(0, 0, 3).precision, Counts(0, 0, 3).recall, Counts(0, 0, 3).f1) == (None, 0, 0)
    assert (Counts(3, 0, 0).precision, Counts(3, 0, 0).recall, Counts(3, 0, 0).f1) == (0, None, 0)
    assert (Counts(0, 0, 0).precision, Counts(0, 0, 0).recall, Counts(0, 0, 0).f1) == (None,) * 3


def test_many_pairs():
    rng = np.random.default_rng(3)
    ids = np.array([f"page {number}" for number in range(2000)])
    first, second = rng.integers(0, 2000, (2, 100_000))
    numbers = zip(first.tolist(), second.tolist(), strict=True)
    listed = [tuple(sorted(pair)) for pair in numbers if len(set(pair)) == 2]
    distinct = sorted(set(listed))
    truth = TruePairs(*columns([(ids[a], ids[b]) for a, b in distinct[::3]]), np.ones(
        len(distinct[::3])))  # fmt: skip
    pairs = DocumentPairs(*columns([(ids[b], ids[a]) for a, b in listed]))
    evaluation = Evaluation.of_pairs(pairs, truth)
    assert evaluation.at(1.0).counts == Counts(len(distinct), len(distinct[::3]), 0)
    assert evaluation.repeated == len(listed) - len(distinct)


def test_lengths():
    wanted = text(["a", "b", "c"])
    batches = [(text(["x", "c"]), np.array([9, 3])), (text(["a", "b", "y"]), np.array([1, 0, 8]))]
    for order in itertools.permutations(batches):
        assert lengths_of(wanted, order).tolist() == [1, 0, 3]
    with pytest.raises(MrDedupError, match="the document 'c' has no length"):
        lengths_of(wanted, batches[1:])
    for again in (batches[0], (text(["c", "c"]), np.array([3, 3]))):
        with pytest.raises(MrDedupError, match="the document 'c' has several lengths"):
            lengths_of(wanted, [*batches, again])


def test_lengths_in_a_file_of_fingerprints(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "fingerprint": [1, None], "length": [5, 0]}), path)
    assert lengths_of(text(["b", "a"]), fingerprint_file_lengths(path)).tolist() == [0, 5]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": ["a"]}, "has no column 'length'"),
        ({"length": [1]}, "has no column 'id'"),
        ({"id": ["a"], "length": [None]}, "has rows without id or length"),
        ({"id": ["a"], "length": [[1]]}, "its lengths are invalid: "),
    ],
)
def test_files_without_lengths(tmp_path: Path, columns, said):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(FormatError) as error:
        list(fingerprint_file_lengths(path))
    assert str(error.value).startswith(f"{path}: {said}")
