"""Counts of what tasks find, added up in any division, beside counts by sets of Python."""

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.contamination.item_index import Field
from mr_dedup.jobs.contamination_counts import (
    EXAMPLE,
    EXAMPLES_OF_EACH,
    ITEM_COUNTS,
    MAX_SETS,
    ChunkCounts,
    added_up,
)

ITEMS = 7
SET_OF = np.array([0, 0, 1, 1, 2, 2, MAX_SETS])

# of a row: document, item, field, contaminated, exact, coverage in sixteenths
ROWS = st.lists(
    st.tuples(
        st.integers(0, 12), st.integers(0, ITEMS - 1), st.sampled_from(list(Field)),
        st.booleans(), st.booleans(), st.integers(0, 16),
    ),
    max_size=40,
)  # fmt: skip


def found(rows):
    columns = list(zip(*rows, strict=True)) or [()] * 6
    _, item, field, contaminated, exact, coverage = columns
    return pa.table(
        {
            "item": pa.array(item, pa.int32()),
            "field": pa.array([int(each) for each in field], pa.uint8()),
            "verdict": pa.array([verdict_of(row) for row in rows], pa.string()),
            "contaminated": pa.array(contaminated, pa.bool_()),
            "exact": pa.array(exact, pa.bool_()),
            "coverage": pa.array([each / 16 for each in coverage], pa.float64()),
        }
    )


def verdict_of(row):
    """The same for all rows of a document and item."""
    return f"v{(row[0] + row[1]) % 3}"


def matches(rows):
    values = {field.name: [None] * len(rows) for field in EXAMPLE}
    values["id"] = [str(row) for row in rows]
    values["verdict"] = [verdict_of(row) for row in rows]
    return pa.table([pa.array(values[field.name], field.type) for field in EXAMPLE],
                    schema=pa.schema(EXAMPLE))  # fmt: skip


def counted(rows):
    """The tables of a chunk with these rows."""
    counts = ChunkCounts(SET_OF)
    if rows:
        document = np.array([row[0] for row in rows])
        counts.add(found(rows), document)
        counts.add_examples(np.array([row[1] for row in rows]), matches(rows))
    return list(counts.tables({"rows": len(rows)}))


def expected(rows):
    """Counts by item, by set, and by verdict, by sets of documents."""
    by_item = {}
    for item in {row[1] for row in rows}:
        of_item = [row for row in rows if row[1] == item]
        decisive = [row for row in of_item if row[2] != Field.ANSWER]
        by_item[item] = (
            len({row[0] for row in of_item if row[3]}),
            len({row[0] for row in decisive if row[3] and row[4]}),
            len({row[0] for row in of_item}),
            max([row[5] / 16 for row in decisive], default=0.0),
        )
    pairs = {(int(SET_OF[row[1]]), row[0]) for row in rows if row[3]}
    by_set = {of: len([each for each in pairs if each[0] == of]) for of, _ in pairs}
    verdicts = {}
    for _, verdict in {((row[0], row[1]), verdict_of(row)) for row in rows}:
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    return by_item, by_set, verdicts


@given(ROWS, st.lists(st.integers(0, 13), max_size=4))
def test_counts_are_those_of_sets_however_documents_are_divided(rows, edges):
    rows.sort(key=lambda row: (row[0], row[1]))
    bounds = sorted({0, 13, *edges})
    chunks = [
        [row for row in rows if start <= row[0] < stop]
        for start, stop in itertools.pairwise(bounds)
    ]
    middle = len(chunks) // 2
    tables = [[table for chunk in part for table in counted(chunk)]
              for part in (chunks[:middle], chunks[middle:])]  # fmt: skip
    # sums of sums
    items, sets, verdicts, named, examples = added_up([*added_up(tables[0]), *added_up(tables[1])])
    by_item, by_set, by_verdict = expected(rows)
    assert items.schema == ITEM_COUNTS
    assert {row["item"]: tuple(row.values())[1:] for row in items.to_pylist()} == by_item
    assert {row["set"]: row["documents"] for row in sets.to_pylist()} == by_set
    assert {row["verdict"]: row["pairs"] for row in verdicts.to_pylist()} == by_verdict
    assert named.to_pylist() == [{"name": "rows", "count": len(rows)}]
    first = []
    for row in rows:
        key = int(SET_OF[row[1]]), verdict_of(row)
        is_shown = sum(each[0] == key for each in first) < EXAMPLES_OF_EACH
        if is_shown and key[0] < MAX_SETS:
            first.append((key, str(row)))
    assert examples["id"].to_pylist() == [name for _, name in first]


def test_no_tables_are_tables_of_nothing():
    assert [len(table) for table in added_up([])] == [0] * 5
