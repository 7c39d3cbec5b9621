"""How many documents were dropped for each kept one, and when it was first and last seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.clusters.field_values import times
from mr_dedup.formats.count_tables import COUNTS
from mr_dedup.formats.tables import one_array

SEEN = pa.dictionary(pa.int32(), pa.large_string())
"""The type of values of the field by which documents are seen: few distinct ones."""


@dataclass(frozen=True)
class DuplicateCounts:
    """Counts of n documents.

    Attributes:
        duplicates: int64[n], the documents that were dropped for each.
        first_seen, last_seen: SEEN[n], the smallest and largest value of a field, of the document
            and those that were dropped for it; null where it is not known.
    """

    duplicates: NDArray[np.int64]
    first_seen: pa.DictionaryArray
    last_seen: pa.DictionaryArray

    def __len__(self) -> int:
        return int(self.duplicates.size)

    @classmethod
    def of(cls, duplicates: NDArray[np.int64], first: pa.Array, last: pa.Array) -> DuplicateCounts:
        """Return counts, given the values as text, with or without a dictionary."""
        return cls(duplicates, _encoded(first), _encoded(last))

    @classmethod
    def nothing(cls, count: int) -> DuplicateCounts:
        """Return those of ``count`` documents without duplicates that were never seen."""
        return cls(np.zeros(count, np.int64), pa.nulls(count, SEEN), pa.nulls(count, SEEN))

    @classmethod
    def joined(cls, parts: list[DuplicateCounts]) -> DuplicateCounts:
        """Return the counts of all parts, one after the other."""
        empty = [cls.nothing(0), *parts]
        columns = (
            pa.chunked_array([getattr(part, name) for part in empty], SEEN)
            for name in ("first_seen", "last_seen")
        )
        first, last = (pa.concat_arrays(column.unify_dictionaries().chunks) for column in columns)
        return cls(np.concatenate([part.duplicates for part in empty]), first, last)

    @classmethod
    def read(cls, table: pa.Table) -> DuplicateCounts:
        """Return the counts in a table with the columns COUNTS."""
        columns = [one_array(table[name]) for name in COUNTS.names]
        return cls.of(np.array(columns[0]), *columns[1:])

    def table(self) -> pa.Table:
        """Return a table with the columns COUNTS."""
        columns = [pa.array(self.duplicates), self.first_seen, self.last_seen]
        return pa.table(columns, names=COUNTS.names).cast(COUNTS)

    def take(self, rows: NDArray[np.int64]) -> DuplicateCounts:
        """Return the counts of some documents."""
        indices = pa.array(rows)
        first, last = self.first_seen.take(indices), self.last_seen.take(indices)
        return DuplicateCounts(self.duplicates[rows], first, last)


def summed(groups: NDArray[np.int64], size: int, counts: DuplicateCounts) -> DuplicateCounts:
    """Return for each of ``size`` groups the sum, the first and the last of its counts.

    ``groups`` int64[n] are the groups of ``counts``. Values are compared as times, or numbers, as
    ``field_values.times`` reads them, and equal ones by their texts; other values are ignored.
    0.2 microseconds an entry, and 3 a distinct value.

    >>> counts = DuplicateCounts.of(
    ...     np.array([1, 0, 2]), *2 * [pa.array(["2024-05-02", "2024-05", None])]
    ... )
    >>> found = summed(np.array([0, 0, 1]), 2, counts)
    >>> found.duplicates, found.first_seen.to_pylist(), found.last_seen.to_pylist()
    (array([1, 2]), ['2024-05', None], ['2024-05-02', None])
    """
    duplicates = np.zeros(size, np.int64)
    np.add.at(duplicates, groups, counts.duplicates)
    first = _extreme(groups, size, counts.first_seen, is_first=True)
    last = _extreme(groups, size, counts.last_seen, is_first=False)
    return DuplicateCounts(duplicates, first, last)


def count_duplicates(
    kept_rows: NDArray[np.int64], known: DuplicateCounts
) -> tuple[NDArray[np.int64], DuplicateCounts]:
    """Return how many of n documents are dropped for each, and all counts of its kept document.

    ``kept_rows`` int64[n] is the row of the kept document that each duplicates, its own where it is
    kept. ``known`` are the counts before: of a new document no duplicates, and its own value as
    the first and the last. Those that are returned, of the document ``kept_rows`` of each, add to
    these the documents that are dropped now.
    """
    is_dropped = kept_rows != np.arange(kept_rows.size)
    duplicates = np.bincount(kept_rows[is_dropped], minlength=kept_rows.size)
    known = replace(known, duplicates=known.duplicates + is_dropped)
    return duplicates, summed(kept_rows, kept_rows.size, known).take(kept_rows)


def unreadable(values: pa.LargeStringArray) -> int:
    """Return how many of ``values`` are neither a time nor a number; nulls too."""
    return int(np.count_nonzero(_ranked(_encoded(values))[0] < 0))


def _encoded(values: pa.Array) -> pa.DictionaryArray:
    if isinstance(values, pa.DictionaryArray):
        return values.cast(SEEN)
    return values.cast(pa.large_string()).dictionary_encode().cast(SEEN)


def _extreme(
    groups: NDArray[np.int64], size: int, values: pa.DictionaryArray, *, is_first: bool
) -> pa.DictionaryArray:
    """Return the first or the last value of each group."""
    if values.null_count == len(values):
        return pa.nulls(size, SEEN)
    ranks, ordered = _ranked(values)
    found = np.full(size, ordered.size if is_first else -1, np.int64)
    known = ranks >= 0
    (np.minimum if is_first else np.maximum).at(found, groups[known], ranks[known])
    is_missing = (found < 0) | (found == ordered.size)
    indices = ordered[np.where(is_missing, 0, found)] if ordered.size else found
    chosen = pa.array(indices.astype(np.int32), mask=is_missing)
    return pa.DictionaryArray.from_arrays(chosen, values.dictionary)


def _ranked(values: pa.DictionaryArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rank of each value, by time and then by text, -1 for what is not a time.

    And for each rank the number of its text in the dictionary.
    """
    texts = values.dictionary
    seconds, fractions = times(texts)
    table = pa.table({"seconds": seconds, "fractions": fractions, "text": texts})
    order = pc.sort_indices(
        table, sort_keys=[(name, "ascending") for name in table.column_names]
    ).to_numpy()
    # times that no text is come last
    order = order[: len(texts) - seconds.null_count].astype(np.int64)
    ranks = np.full(len(texts) + 1, -1)
    ranks[order] = np.arange(order.size)
    indices = values.indices.fill_null(len(texts)).to_numpy()
    return ranks[indices], order
