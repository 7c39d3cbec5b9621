"""What every form of an index does: in memory, in a folder, or far away.

An index holds documents. A document is a fingerprint and an id, text that names one document and
no other; to add an id again replaces its document. An index without ids is a set of fingerprints,
each its own document: its id is the fingerprint as it is printed, a signed decimal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

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
    """The matches of n queries: aligned columns, each query's together and nearest first.

    ``queries`` int64[m] are positions among the queries, ascending; ``fingerprints`` uint64[m] and
    ``distances`` uint8[m] are the documents'. At one distance fingerprints ascend as unsigned
    numbers, and the documents of one fingerprint come in the order in which they were added.
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
        """Return the matches of the query at a position, nearest first."""
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
class Checked:
    """What ``check_and_add`` found and did: the matches, and which documents it ``added``."""

    matches: IndexMatches
    added: NDArray[np.bool_]

    def chosen(self, ids: Sequence[str] | None) -> list[str] | None:
        """Return those of the call's ids that were added, None if there are none at all."""
        return None if ids is None else list(itertools.compress(ids, self.added.tolist()))


class FingerprintIndex(Protocol):
    """Documents by their fingerprints. All methods may be called from several threads."""

    @property
    def k(self) -> int:
        """The largest distance that queries may ask for."""

    @property
    def named(self) -> bool:
        """Whether documents have ids of their own."""

    def __len__(self) -> int:
        """Return the number of documents."""

    def add(self, fingerprints: Fingerprints, ids: Sequence[str] | None = None) -> int:
        """Add documents, ``fingerprints`` uint64[n]; return how many were not held before.

        All of them or none. An id that is held, or repeated, keeps the last document it is given.
        ``ids`` are as many as fingerprints, or None for an index without. Raises ValueError for
        others, MrDedupError if they cannot be kept: then nothing was added.
        """

    def remove(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Remove documents; return which of ``ids`` were held, bool[n]. All of them or none."""

    def query(
        self, fingerprints: Fingerprints, k: int | None = None, *, limit: int | None = None
    ) -> IndexMatches:
        """Return the documents within ``k`` bits (None: the index's k) of ``fingerprints``.

        uint64[n]; with ``limit`` the first so many of each. Exact: none is missed, none is extra.
        Raises ValueError for a k beyond the index's.
        """

    def check_and_add(
        self,
        fingerprints: Fingerprints,
        ids: Sequence[str] | None = None,
        k: int | None = None,
        *,
        limit: int | None = None,
        only_new: bool = False,
    ) -> Checked:
        """Query and add, as if one document after another came, with nothing in between.

        Each is compared with what is held and with those that the call added before it; what its
        own id held, which it replaces, is no match. With ``only_new`` a document that has a match
        is not added, and what its id held stays.
        """

    def close(self) -> None:
        """Give back what is held; the index is not to be used after that."""
