"""How good pairs or decisions are, against every pair of documents that is truly similar.

Pairs: what was found, what of it is true, and what true pairs are missed.

Decisions name one keeper for each dropped document, not all that it is alike, so true pairs are not
what they can be held to. Found are the dropped documents, each with its keeper, and right those
whose keeper is truly similar. Missed are the documents that would be dropped yet if what is kept
was gone through once more, in the order of the documents, by who knows the truth: each that is
similar to one kept before it. Whichever of several similar documents is kept, no choice is held
against it, and a chain of which only neighbours are alike asks for no more than they do. Documents
of one cluster make no pair: decisions do not say that they are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.report.decision_file import DecidedDocuments
from mr_dedup.report.pair_files import DocumentPairs, TruePairs

Pairs = NDArray[np.int64]
"""Numbers of documents, int64[n, 2], the smaller first."""


@dataclass(frozen=True)
class Counts:
    """What was found, how much of it is right, and what was missed."""

    found: int
    right: int
    missed: int

    @property
    def precision(self) -> float | None:
        """The share of what was found that is right; None if nothing was found."""
        return self.right / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """The share of what is to be found that was; None if there is nothing."""
        wanted = self.right + self.missed
        return self.right / wanted if wanted else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall; None where both are."""
        all_of_both = self.found + self.right + self.missed
        return 2 * self.right / all_of_both if all_of_both else None


@dataclass(frozen=True)
class Judged:
    """Pairs at some least similarity.

    ``found`` and which of it is ``right``, bool[f]; ``missed``; ``true`` counts the pairs that are
    so similar, and ``both_kept`` those of which no document was dropped, None if it is not
    decisions that were judged.
    """

    found: Pairs
    right: NDArray[np.bool_]
    missed: Pairs
    true: int
    both_kept: int | None

    @property
    def counts(self) -> Counts:
        """How many of each there are."""
        return Counts(len(self.found), int(self.right.sum()), len(self.missed))

    def by_length(self, lengths: NDArray[np.int64], edges: Sequence[int]) -> list[Counts]:
        """Return the counts of the pairs whose shorter document has a length from each edge on.

        ``lengths`` int64[documents]; ``edges`` ascend, and up to the next one counts.
        """
        found, missed = (
            np.searchsorted(edges, lengths[pairs].min(axis=1), "right") - 1
            for pairs in (self.found, self.missed)
        )
        return [
            Counts(
                int((found == number).sum()),
                int(self.right[found == number].sum()),
                int((missed == number).sum()),
            )
            for number in range(len(edges))
        ]


@dataclass(frozen=True)
class Evaluation:
    """What was found among documents, and what is true of them.

    ``ids`` are those of the documents, which are numbered by them. ``found`` has each pair once;
    of what was listed, ``repeated`` were the same again and ``own`` a document with itself.
    ``true`` has each pair once, with ``similarities`` float64[t]; ``elsewhere`` counts those of
    documents that decisions do not know. ``kept`` bool[documents] is None for pairs.
    """

    ids: pa.LargeStringArray
    found: Pairs
    true: Pairs
    similarities: NDArray[np.float64]
    kept: NDArray[np.bool_] | None = None
    repeated: int = 0
    own: int = 0
    elsewhere: int = 0

    @classmethod
    def of_pairs(cls, listed: DocumentPairs, truth: TruePairs) -> Evaluation:
        """Hold pairs to the truth. Some 100 bytes a pair, and all ids three times, in memory."""
        columns = [listed.first, listed.second, truth.first, truth.second]
        encoded = pa.concat_arrays(columns).dictionary_encode()
        numbers = encoded.indices.to_numpy().astype(np.int64)
        parts = np.split(numbers, np.cumsum([len(column) for column in columns])[:-1])
        pairs = _ordered(parts[0], parts[1])
        others = pairs[pairs[:, 0] != pairs[:, 1]]
        found, _ = _distinct(others)
        true, first = _distinct(_ordered(parts[2], parts[3]))
        return cls(
            encoded.dictionary,
            found,
            true,
            truth.similarities[first],
            repeated=len(others) - len(found),
            own=len(pairs) - len(others),
        )

    @classmethod
    def of_decisions(cls, decided: DecidedDocuments, truth: TruePairs) -> Evaluation:
        """Compare decisions with the truth.

        Raises MrDedupError if no true pair is of their documents, and if one names an id that
        several of them have.
        """
        dropped = np.flatnonzero(~decided.kept)
        truth.refuse_repeated(decided.ids)
        places = [pc.index_in(ids, value_set=decided.ids) for ids in (truth.first, truth.second)]
        known = pc.and_(*(column.is_valid() for column in places)).to_numpy(zero_copy_only=False)
        if len(truth) and not known.any():
            raise MrDedupError("no true pair is of documents that were decided on: other ids?")
        numbers = [column.fill_null(0).to_numpy().astype(np.int64)[known] for column in places]
        true, first = _distinct(_ordered(*numbers))
        return cls(
            decided.ids,
            _ordered(dropped, decided.keepers[dropped]),
            true,
            truth.similarities[known][first],
            decided.kept,
            elsewhere=int(len(truth) - known.sum()),
        )

    def at(self, similarity: float) -> Judged:
        """Judge by the pairs that are at least so similar."""
        true = self.true[self.similarities >= similarity]
        count = len(self.ids)
        right = np.isin(_keys(self.found, count), _keys(true, count))
        if self.kept is None:
            missed = true[~np.isin(_keys(true, count), _keys(self.found, count))]
            return Judged(self.found, right, missed, len(true), None)
        both_kept = true[self.kept[true].all(axis=1)]
        return Judged(self.found, right, _droppable(both_kept), len(true), len(both_kept))


def _ordered(first: NDArray[np.int64], second: NDArray[np.int64]) -> Pairs:
    return np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)


def _keys(pairs: Pairs, count: int) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = pairs[:, 0] * count + pairs[:, 1]
    return keys


def _distinct(pairs: Pairs) -> tuple[Pairs, NDArray[np.int64]]:
    """Return each pair once, ascending, and where it stands first."""
    _, first = np.unique(_keys(pairs, int(pairs.max(initial=0)) + 1), return_index=True)
    return pairs[first], first


def _droppable(pairs: Pairs) -> Pairs:
    """Return the pairs for which documents would be dropped, each for the first that is kept.

    Of ``pairs`` both documents are kept so far. They are gone through in the order of their later
    document: what is dropped before makes no other one drop.
    """
    dropped: dict[int, int] = {}
    for first, second in pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))].tolist():
        if first not in dropped:
            dropped.setdefault(second, first)
    found = [(first, second) for second, first in dropped.items()]
    return np.array(found, np.int64).reshape(-1, 2)
