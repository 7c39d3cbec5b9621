"""Matches as they are collected, query by query, and no more of them than are wanted."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np

from mr_dedup.index.protocol import IndexMatches

Near = tuple[int, int, str]
"""A document that is near a query: distance, fingerprint, id."""


class Rows:
    """Matches that are collected query by query: of each the first, of all so many."""

    def __init__(self, limit: int | None, most: int | None) -> None:
        """Begin with none; ValueError unless ``limit`` is None or at least 1."""
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        # no index holds more, and islice takes no more
        self._limit = None if limit is None else min(limit, sys.maxsize)
        self._most = most
        self._queries: list[int] = []
        self._rows: list[Near] = []

    def take(self, query: int, documents: Iterator[Near]) -> Near | None:
        """Add the first documents that are near a query; return the nearest, None for none.

        Raises ValueError if that makes more than ``most``, and makes no more of them than it needs.
        """
        rows, stop, most = self._rows, self._limit, self._most
        before = len(rows)
        if most is not None:
            room = most + 1 - before
            stop = room if stop is None else min(stop, room)
        rows += documents if stop is None else itertools.islice(documents, stop)
        count = len(rows) - before
        if most is not None and before + count > most:
            raise ValueError(
                f"more than {most:,} matches in one answer; ask for fewer at once, or give a "
                "smaller limit"
            )
        if not count:
            return None
        self._queries += [query] * count
        return rows[before]

    def matches(self) -> IndexMatches:
        """Return all of them as columns."""
        if not self._rows:
            return IndexMatches.none()
        distances, values, ids = zip(*self._rows, strict=True)
        return IndexMatches(
            np.array(self._queries, np.int64),
            ids,
            np.array(values, np.uint64),
            np.array(distances, np.uint8),
        )
