"""Counts of duplicates against sums and comparisons by hand, for any values and groups."""

import datetime

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.clusters.duplicate_counts import (
    DuplicateCounts,
    count_duplicates,
    summed,
    unreadable,
)

VALUES = st.sampled_from([
    None, "", "n/a", "2024-05-31", "2024-05-31T00:00:00Z", "2024-05-31T02:00:00+02:00", "2024-05",
    "20240601", "17", "17.5", "1e3", "2023-02-30", "9999-12-31", "\0",
])  # fmt: skip


def moment(text):
    """A time or number as seconds since 1970; None if it is neither."""
    if text is None:
        return None
    for parse in (
        lambda: datetime.datetime.fromisoformat(text),
        lambda: datetime.datetime.strptime(text, "%Y-%m"),
    ):
        try:
            found = parse()
        except ValueError:
            continue
        found = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
        return found.timestamp()
    try:
        return float(text)
    except ValueError:
        return None


def extreme(texts, chosen):
    """The first or last of texts, by time and then by text; ``chosen`` is min or max."""
    usable = [(moment(text), text) for text in texts if moment(text) is not None]
    return chosen(usable)[1] if usable else None


def counts_of(rows):
    numbers, first, last = zip(*rows, strict=True) if rows else ((), (), ())
    texts = (pa.array(each, pa.large_string()) for each in (first, last))
    return DuplicateCounts.of(np.array(numbers, np.int64), *texts)


ROWS = st.lists(st.tuples(st.integers(0, 5), st.tuples(st.integers(0, 1 << 60), VALUES, VALUES)))


@given(ROWS)
def test_sums_equal_those_by_hand(rows):
    groups = np.array([group for group, _ in rows], np.int64)
    found = summed(groups, 6, counts_of([row for _, row in rows]))
    for group in range(6):
        of_group = [row for other, row in rows if other == group]
        total = sum(number for number, _, _ in of_group)
        if total < 1 << 62:
            assert found.duplicates[group] == total
        assert found.first_seen[group].as_py() == extreme([row[1] for row in of_group], min)
        assert found.last_seen[group].as_py() == extreme([row[2] for row in of_group], max)


@given(st.lists(ROWS, max_size=4), st.data())
def test_parts_and_tables_make_no_difference(parts, data):
    rows = [row for part in parts for _, row in part]
    joined = DuplicateCounts.joined([counts_of([row for _, row in part]) for part in parts])
    whole = counts_of(rows)
    assert joined.table().equals(whole.table())
    assert DuplicateCounts.read(joined.table()).table().equals(whole.table())
    if rows:
        chosen = data.draw(st.lists(st.integers(0, len(rows) - 1)))
        some = joined.take(np.array(chosen, np.int64)).table()
        assert some.equals(whole.table().take(pa.array(chosen, pa.int64())))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 3), VALUES)))
def test_duplicates_equal_those_by_hand(documents):
    kept = [n for n, (is_kept, *_) in enumerate(documents) if is_kept]
    if not kept:
        documents, kept = [], []
    kept_rows = [
        n if is_kept else kept[other % len(kept)]
        for n, (is_kept, other, _, _) in enumerate(documents)
    ]
    known = counts_of([(number, seen, seen) for _, _, number, seen in documents])
    duplicates, total = count_duplicates(np.array(kept_rows, np.int64), known)
    for n, row in enumerate(kept_rows):
        members = [m for m, other in enumerate(kept_rows) if other == row]
        assert duplicates[n] == sum(other == n != m for m, other in enumerate(kept_rows))
        assert total.duplicates[n] == len(members) - 1 + sum(documents[m][2] for m in members)
        assert total.first_seen[n].as_py() == extreme([documents[m][3] for m in members], min)
        assert total.last_seen[n].as_py() == extreme([documents[m][3] for m in members], max)


def test_what_is_neither_a_time_nor_a_number_is_counted():
    texts = [None, "", "n/a", "2024", "17", "2023-02-30"]
    assert unreadable(pa.array(texts, pa.large_string())) == 4
    assert unreadable(pa.array([], pa.large_string())) == 0
