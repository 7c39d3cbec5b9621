"""What tasks count of the items that they find: tables that are added up, by kind.

The kind of a table follows from its columns. Those of one kind are added by ``added_up``, in the
order of the chunks; counts of one chunk and of all chunks have the same kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.contamination.item_index import Field

ITEM_COUNTS = pa.schema(
    [
        ("item", pa.int32()),
        ("documents", pa.int64()),
        ("exact_documents", pa.int64()),
        ("found_in", pa.int64()),
        ("coverage", pa.float64()),
    ]
)
"""A row for each item that was found: documents that are contaminated by it, that have its question
or passage as a whole, and that have any of its texts; and the best coverage."""

SET_COUNTS = pa.schema([("set", pa.int32()), ("documents", pa.int64())])
"""A row for each set with contaminated documents."""

VERDICT_COUNTS = pa.schema([("verdict", pa.string()), ("pairs", pa.int64())])
"""Pairs of a document and an item, by verdict."""

NAMED_COUNTS = pa.schema([("name", pa.string()), ("count", pa.int64())])
"""Counts of documents and records, by name."""

EXAMPLE = (
    pa.field("id", pa.large_string()),
    pa.field("set", pa.string()),
    pa.field("item", pa.large_string()),
    pa.field("field", pa.string()),
    pa.field("verdict", pa.string()),
    pa.field("contaminated", pa.bool_()),
    pa.field("kind", pa.string()),
    pa.field("coverage", pa.float64()),
    pa.field("start", pa.int64()),
    pa.field("end", pa.int64()),
    pa.field("text", pa.large_string()),
    pa.field("item_text", pa.large_string()),
)
"""Columns of matches that a report shows."""

EXAMPLES = pa.schema([("of_set", pa.int32()), *EXAMPLE])
"""The first matches of each set and verdict, with the number of the set."""

EXAMPLES_OF_EACH = 6
"""How many of one set and verdict there are."""

MAX_SETS = 200
"""Sets of which there are examples: those that were read first."""

_KINDS = (ITEM_COUNTS, SET_COUNTS, VERDICT_COUNTS, NAMED_COUNTS, EXAMPLES)


class ChunkCounts:
    """Counts what is found in a chunk; in memory some 40 bytes an item, and some examples.

    Args:
        set_of: int64[n], the number of the set of each item.
    """

    def __init__(self, set_of: NDArray[np.int64]) -> None:
        self._set_of = set_of
        self._tables: list[pa.Table] = []

    def add(self, found: pa.Table, document: NDArray[np.int64]) -> None:
        """Count some matches, those of a document all in one table.

        Args:
            found: Columns ``item``, ``field``, ``verdict``, ``contaminated``, ``exact`` and
                ``coverage``.
            document: int64[m], which document of the chunk each row is of, ascending.
        """
        item = found["item"].to_numpy().astype(np.int64)
        decisive = found["field"].to_numpy() != Field.ANSWER
        counted = pc.fill_null(found["contaminated"], False).to_numpy()
        exact = found["exact"].to_numpy() & decisive & counted
        best = np.where(decisive, found["coverage"].to_numpy(), 0.0)
        self._tables += [
            self._items(document, item, (counted, exact), best),
            self._sets(document[counted], item[counted]),
            _verdicts(document, item, found["verdict"]),
        ]
        self._tables = added_up(self._tables)

    def add_examples(self, item: NDArray[np.int64], matches: pa.Table) -> None:
        """Take the first of each set and verdict among matches of ``item`` int64[m].

        ``matches`` has the columns ``EXAMPLE``.
        """
        self._tables = added_up([*self._tables, self._examples(item, matches)])

    def _items(
        self,
        document: NDArray[np.int64],
        item: NDArray[np.int64],
        masks: tuple[NDArray[np.bool_], NDArray[np.bool_]],
        coverage: NDArray[np.float64],
    ) -> pa.Table:
        pairs, of_pair = np.unique(np.stack([item, document], 1), axis=0, return_inverse=True)
        of_pair = of_pair.reshape(-1)
        counts = []
        for mask in masks:
            is_in = np.zeros(len(pairs), np.int64)
            is_in[of_pair[mask]] = 1
            counts.append(is_in)
        best = np.zeros(len(pairs))
        np.maximum.at(best, of_pair, coverage)
        columns = [pairs[:, 0].astype(np.int32), *counts, np.ones(len(pairs), np.int64), best]
        return pa.table(columns, schema=ITEM_COUNTS)

    def _sets(self, document: NDArray[np.int64], item: NDArray[np.int64]) -> pa.Table:
        pairs = np.unique(np.stack([self._set_of[item], document], 1), axis=0)
        ones = np.ones(len(pairs), np.int64)
        return pa.table([pairs[:, 0].astype(np.int32), ones], schema=SET_COUNTS)

    def _examples(self, item: NDArray[np.int64], matches: pa.Table) -> pa.Table:
        numbers = pa.array(self._set_of[item].astype(np.int32))
        columns = [matches[field.name] for field in EXAMPLE]
        return pa.table([numbers, *columns], schema=EXAMPLES)

    def tables(self, counts: Mapping[str, int]) -> Iterator[pa.Table]:
        """Yield what was counted, a table of each kind, and ``counts`` by name."""
        yield from self._tables
        yield pa.table([list(counts), list(counts.values())], schema=NAMED_COUNTS)


def _verdicts(
    document: NDArray[np.int64], item: NDArray[np.int64], verdicts: pa.ChunkedArray
) -> pa.Table:
    is_new = np.append(True, (np.diff(document) != 0) | (np.diff(item) != 0))[: item.size]
    counts = Counter(verdicts.filter(pa.array(is_new)).to_pylist())
    return pa.table([list(counts), list(counts.values())], schema=VERDICT_COUNTS)


def added_up(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Return the sums of counts, a table of each kind, and the first examples.

    Tables of other columns are left out.

    >>> one = pa.table([["read"], [2]], schema=NAMED_COUNTS)
    >>> other = pa.table([["read", "cut"], [3, 1]], schema=NAMED_COUNTS)
    >>> added_up([one, other])[3].to_pylist()
    [{'name': 'read', 'count': 5}, {'name': 'cut', 'count': 1}]
    """
    by_kind: dict[tuple[str, ...], list[pa.Table]] = {}
    for table in tables:
        by_kind.setdefault(tuple(table.column_names), []).append(table)
    found = []
    for schema in _KINDS:
        of_kind = by_kind.get(tuple(schema.names), [])
        table = pa.concat_tables([schema.empty_table(), *of_kind])
        found.append(_first_examples(table) if schema is EXAMPLES else _sums(table))
    return found


def _sums(table: pa.Table) -> pa.Table:
    key, *names = table.column_names
    rules = [(name, "max" if name == "coverage" else "sum") for name in names]
    sums = table.group_by(key, use_threads=False).aggregate(rules)
    columns = [sums[key], *(sums[f"{name}_{rule}"] for name, rule in rules)]
    return pa.table([column.combine_chunks() for column in columns], schema=table.schema)


def _first_examples(table: pa.Table) -> pa.Table:
    """Return the first rows of each set and verdict, of the first sets."""
    keys = zip(table["of_set"].to_pylist(), table["verdict"].to_pylist(), strict=True)
    seen: Counter[tuple[int, str]] = Counter()
    chosen = []
    for row, key in enumerate(keys):
        seen[key] += 1
        if seen[key] <= EXAMPLES_OF_EACH and key[0] < MAX_SETS:
            chosen.append(row)
    return table.take(pa.array(chosen, pa.int64())).combine_chunks()
