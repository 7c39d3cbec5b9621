"""What every index returns, whether it is opened to write, to read, or by HTTP.

An index contains documents. A document is a fingerprint and an id, text that names one document and
no other; to add an id again replaces its document. An index without ids is a set of fingerprints,
each its own document, whose id is the fingerprint in print, a signed decimal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Fingerprints = NDArray[np.uint64]


class Match(NamedTuple):
    """A document within k bits of a query."""

    id: str
    fingerprint: int
    distance: int


@dataclass(frozen=True)
class IndexMatches:
    """The matches of n queries, as columns: those of a query together, nearest first.

    At one distance fingerprints ascend as unsigned numbers; the documents of one fingerprint are in
    the order in which they were added.

    Args:
        queries: int64[m], the row of the query, ascending.
        ids: m ids of documents.
        fingerprints: uint64[m], those of the documents.
        distances: uint8[m], in bits.

    >>> found = IndexMatches(
    ...     np.array([0, 2]), ["a", "b"], np.array([7, 9], np.uint64), np.array([1, 0], np.uint8)
    ... )
    >>> found.of(2)
    [Match(id='b', fingerprint=9, distance=0)]
    >>> [match.id for match in found]
    ['a', 'b']
    """

    queries: NDArray[np.int64]
    ids: Sequence[str]
    fingerprints: Fingerprints
    distances: NDArray[np.uint8]

    @classmethod
    def none(cls) -> IndexMatches:
        """Return no matches."""
        return _NONE

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, query: int) -> list[Match]:
        """Return the matches of the query at row ``query``, nearest first."""
        return self._between(*self.queries.searchsorted([query, query + 1]).tolist())

    def __iter__(self) -> Iterator[Match]:
        return iter(self._between(0, len(self)))

    def _between(self, start: int, stop: int) -> list[Match]:
        return [
            Match(*each)
            for each in zip(
                self.ids[start:stop],
                self.fingerprints[start:stop].tolist(),
                self.distances[start:stop].tolist(),
                strict=True,
            )
        ]


_NONE = IndexMatches(
    np.empty(0, np.int64), (), np.empty(0, np.uint64), np.empty(0, np.uint8)
)  # fmt: skip


@dataclass(frozen=True)
class CheckAndAddResult:
    """The result of ``check_and_add``.

    Args:
        matches: the matches of each document among those before it.
        added: bool[n], which documents were added.
    """

    matches: IndexMatches
    added: NDArray[np.bool_]

    def added_ids(self, ids: Sequence[str] | None) -> list[str] | None:
        """Return the ids that were added, of ``ids`` as they were given; None for None."""
        return None if ids is None else list(itertools.compress(ids, self.added.tolist()))


def fingerprint_id(fingerprint: int) -> str:
    """Return the id of a document that has none of its own: its fingerprint as a signed decimal.

    >>> fingerprint_id(5), fingerprint_id(2**64 - 1)
    ('5', '-1')
    """
    return str(fingerprint - (1 << 64) if fingerprint >> 63 else fingerprint)


def require_fingerprints(fingerprints: Fingerprints) -> None:
    """Raise ValueError unless ``fingerprints`` is uint64[n]."""
    if (
        not isinstance(fingerprints, np.ndarray)
        or fingerprints.ndim != 1
        or fingerprints.dtype != np.uint64
    ):
        shown = getattr(fingerprints, "dtype", type(fingerprints).__name__)
        raise ValueError(f"fingerprints must be uint64[n], not {shown}")
