"""Precision, recall and F1 of pairs or decisions, against all truly similar pairs of documents.

Pairs are compared with the true pairs: a predicted pair is a true positive if it is a true pair,
and a true pair that was not predicted is a false negative.

Decisions name one kept document for each dropped one, not all its near-duplicates, so they cannot
be compared with all true pairs. Predicted are the pairs of a dropped document and the kept document
it duplicates; true positives are those that are truly similar. False negatives are the documents
that should have been dropped as well: the kept documents, in their order, that are truly similar to
one kept before them. So it makes no difference which of several similar documents is kept, and in a
chain of which only neighbours are similar not all documents must be dropped. Two documents of the
same cluster are not a predicted pair: decisions do not state that they are similar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.decision_file import DecidedDocuments
from mr_dedup.formats.pair_files import DocumentPairs, TruePairs

Pairs = NDArray[np.int64]
"""Rows of documents, int64[n, 2], the smaller one first."""


@dataclass(frozen=True)
class Counts:
    """The counts that precision and recall are made of.

    >>> counts = Counts(predicted=4, true_positives=3, false_negatives=1)
    >>> counts.precision, counts.recall, counts.f1
    (0.75, 0.75, 0.75)
    """

    predicted: int
    true_positives: int
    false_negatives: int

    @property
    def precision(self) -> float | None:
        """The share of predicted pairs that are true; None if none were predicted."""
        return self.true_positives / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """The share of true pairs that were predicted; None if there are none."""
        true = self.true_positives + self.false_negatives
        return self.true_positives / true if true else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall; None if both are None."""
        total = self.predicted + self.true_positives + self.false_negatives
        return 2 * self.true_positives / total if total else None


@dataclass(frozen=True)
class BandEvaluation:
    """The evaluation at one minimum similarity of true pairs.

    Args:
        predicted: the predicted pairs.
        is_true: which of them are true, bool[predicted].
        false_negatives: the pairs that should have been predicted as well.
        true_count: how many pairs are true.
        both_kept: how many true pairs have both documents kept; None for pairs.
    """

    predicted: Pairs
    is_true: NDArray[np.bool_]
    false_negatives: Pairs
    true_count: int
    both_kept: int | None

    @property
    def counts(self) -> Counts:
        """The counts over all pairs."""
        return Counts(len(self.predicted), int(self.is_true.sum()), len(self.false_negatives))

    def by_length(self, lengths: NDArray[np.int64], edges: Sequence[int]) -> list[Counts]:
        """Return the counts by the length of the shorter document of each pair.

        Args:
            lengths: the length of each document, int64[documents].
            edges: where each range of lengths starts, ascending from 0.
        """
        predicted, missing = (
            np.searchsorted(edges, lengths[pairs].min(axis=1), "right") - 1
            for pairs in (self.predicted, self.false_negatives)
        )
        return [
            Counts(
                int((predicted == number).sum()),
                int(self.is_true[predicted == number].sum()),
                int((missing == number).sum()),
            )
            for number in range(len(edges))
        ]


@dataclass(frozen=True)
class Evaluation:
    """Predicted and true pairs of the same documents.

    Args:
        ids: the ids of the documents; pairs are of their rows.
        predicted: the predicted pairs, each once.
        true: the true pairs, each once.
        similarities: of the true pairs, float64[true].
        kept: which documents are kept, bool[documents]; None for pairs.
        repeated: how many predicted pairs were listed again.
        self_pairs: how many listed pairs are of a document with itself.
        ignored_true: how many true pairs are of documents without a decision.
    """

    ids: pa.LargeStringArray
    predicted: Pairs
    true: Pairs
    similarities: NDArray[np.float64]
    kept: NDArray[np.bool_] | None = None
    repeated: int = 0
    self_pairs: int = 0
    ignored_true: int = 0

    @classmethod
    def of_pairs(cls, listed: DocumentPairs, truth: TruePairs) -> Evaluation:
        """Evaluate pairs. Takes some 100 bytes a pair, and three times all ids, of memory."""
        columns = [listed.first, listed.second, truth.first, truth.second]
        encoded = pa.concat_arrays(columns).dictionary_encode()
        rows = encoded.indices.to_numpy().astype(np.int64)
        sides = np.split(rows, np.cumsum([len(column) for column in columns])[:-1])
        pairs = _ordered(sides[0], sides[1])
        others = pairs[pairs[:, 0] != pairs[:, 1]]
        predicted, _ = _distinct(others)
        true, first = _distinct(_ordered(sides[2], sides[3]))
        return cls(
            encoded.dictionary,
            predicted,
            true,
            truth.similarities[first],
            repeated=len(others) - len(predicted),
            self_pairs=len(pairs) - len(others),
        )

    @classmethod
    def of_decisions(cls, decided: DecidedDocuments, truth: TruePairs) -> Evaluation:
        """Evaluate decisions.

        Raises:
            MrDedupError: if no true pair is of documents with decisions, or if a true pair has an
                id that several documents have.
        """
        dropped = np.flatnonzero(~decided.kept)
        truth.refuse_repeated(decided.ids)
        rows = [pc.index_in(ids, value_set=decided.ids) for ids in (truth.first, truth.second)]
        known = pc.and_(*(column.is_valid() for column in rows)).to_numpy(zero_copy_only=False)
        if len(truth) and not known.any():
            raise MrDedupError(
                "none of the true pairs is of documents with decisions; are the ids the same?"
            )
        sides = [column.fill_null(0).to_numpy().astype(np.int64)[known] for column in rows]
        true, first = _distinct(_ordered(*sides))
        return cls(
            decided.ids,
            _ordered(dropped, decided.kept_rows[dropped]),
            true,
            truth.similarities[known][first],
            decided.kept,
            ignored_true=int(len(truth) - known.sum()),
        )

    def at(self, similarity: float) -> BandEvaluation:
        """Return the evaluation against the true pairs with at least this similarity."""
        true = self.true[self.similarities >= similarity]
        count = len(self.ids)
        is_true = np.isin(_keys(self.predicted, count), _keys(true, count))
        if self.kept is None:
            missing = true[~np.isin(_keys(true, count), _keys(self.predicted, count))]
            return BandEvaluation(self.predicted, is_true, missing, len(true), None)
        both_kept = true[self.kept[true].all(axis=1)]
        missing = _not_dropped(both_kept)
        return BandEvaluation(self.predicted, is_true, missing, len(true), len(both_kept))


def _ordered(first: NDArray[np.int64], second: NDArray[np.int64]) -> Pairs:
    return np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)


def _keys(pairs: Pairs, count: int) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = pairs[:, 0] * count + pairs[:, 1]
    return keys


def _distinct(pairs: Pairs) -> tuple[Pairs, NDArray[np.int64]]:
    """Return each pair once, ascending, and the row of its first occurrence."""
    _, first = np.unique(_keys(pairs, int(pairs.max(initial=0)) + 1), return_index=True)
    return pairs[first], first


def _not_dropped(pairs: Pairs) -> Pairs:
    """Return the documents that should be dropped, each with the first one that it duplicates.

    Both documents of each of ``pairs`` are kept. They are visited in the order of their later
    document, and a document that is dropped makes no other one drop.
    """
    dropped: dict[int, int] = {}
    for first, second in pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))].tolist():
        if first not in dropped:
            dropped.setdefault(second, first)
    ordered = [(first, second) for second, first in dropped.items()]
    return np.array(ordered, np.int64).reshape(-1, 2)
