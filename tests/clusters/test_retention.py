"""Several documents of a group, against a slow oracle, and the sizes of samples."""

import math

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.clusters.decisions import Decisions, Reason
from mr_dedup.clusters.retention import Retention, retain

SEEDS = st.integers(0, (1 << 64) - 1)
RETENTIONS = st.builds(Retention, st.integers(1, 5)) | st.builds(
    Retention, st.just(1), st.floats(0, 1), SEEDS
)


def decisions_of(kept_rows):
    kept_rows = np.array(kept_rows, np.int64)
    dropped = kept_rows != np.arange(kept_rows.size)
    return Decisions(
        kept_rows,
        np.where(dropped, 3, 0).astype(np.uint8),
        np.where(dropped, 0.9, np.nan),
        np.where(dropped, Reason.NEAR_DUPLICATE, Reason.DISSIMILAR).astype(np.uint8),
    )


def expected(kept_rows, ids, order, fixed, retention):
    """The rows that are kept beside the first of their groups, by hand."""
    found = set()
    for first in set(kept_rows):
        members = [row for row in order if kept_rows[row] == first and row != first]
        if fixed[first]:
            continue
        if retention.power is None:
            found.update(members[: retention.per_cluster - 1])
            continue
        n = len(members) + 1
        for k, row in enumerate(members):
            # the how many-th of its id
            number = [ids[other] for other in members[:k]].count(ids[row])
            seed = retention.seed ^ (number * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF)
            value = xxhash.xxh3_64(ids[row].encode(), seed=seed).intdigest()
            if value < (n**retention.power - 1) / (n - 1) * 2.0**64:
                found.add(row)
    return found


@st.composite
def decided(draw):
    size = draw(st.integers(0, 30))
    is_kept = [draw(st.booleans()) for _ in range(size)]
    kept = [row for row in range(size) if is_kept[row]]
    if not kept:
        is_kept = [True] * size
    kept_rows = [row if is_kept[row] else draw(st.sampled_from(kept)) for row in range(size)]
    ids = [draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=2)) for _ in kept_rows]
    order = draw(st.permutations(range(size)))
    fixed = [is_kept[row] and draw(st.booleans()) for row in range(size)]
    return kept_rows, ids, order, fixed


def kept_of(kept_rows, ids, order, fixed, retention):
    return retain(
        decisions_of(kept_rows),
        pa.array(ids, pa.large_string()),
        np.array(order, np.int64),
        np.array(fixed, bool),
        retention,
    )


@given(decided(), RETENTIONS)
def test_rows_equal_those_by_hand(given, retention):
    kept_rows = given[0]
    before = decisions_of(kept_rows)
    found = kept_of(*given, retention)
    wanted = expected(*given, retention)
    reason = Reason.AMONG_FIRST if retention.power is None else Reason.SAMPLED
    for row, first in enumerate(kept_rows):
        if row in wanted:
            assert found.kept_rows[row] == row
            assert found.reasons[row] == reason
            assert found.distances[row] == 0
            assert np.isnan(found.similarities[row])
        else:
            assert found.kept_rows[row] == first
            assert found.reasons[row] == before.reasons[row]
            assert found.distances[row] == before.distances[row]
    assert decisions_of(kept_rows).kept_rows.tolist() == before.kept_rows.tolist()


def test_known_values():
    """The rule stays as it is: equal seeds choose equal samples, now and later."""
    ids = [f"page {n}" for n in range(16)]
    found = kept_of([0] * 16, ids, range(16), [False] * 16, Retention(power=0.5, seed=7))
    limit = 3 / 15 * 2**64
    assert np.flatnonzero(found.kept).tolist() == [
        n for n, id in enumerate(ids) if not n or xxhash.xxh3_64_intdigest(id.encode(), 7) < limit
    ]


@pytest.mark.parametrize("power", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("size", [2, 10, 100, 1000])
@pytest.mark.parametrize("same_ids", [False, True])
def test_about_a_power_of_each_group_is_kept(power, size, same_ids):
    """Within 5 standard deviations, also where all documents of a group have one id."""
    groups = 60_000 // size
    kept_rows = np.repeat(np.arange(groups) * size, size).tolist()
    ids = [f"{row // size if same_ids else row}" for row in range(len(kept_rows))]
    order = np.random.default_rng(3).permutation(len(kept_rows))
    retention = Retention(power=power, seed=11)
    found = kept_of(kept_rows, ids, order, [False] * len(kept_rows), retention)
    kept = int(found.kept.sum())
    p = (size**power - 1) / (size - 1)
    deviation = math.sqrt(groups * (size - 1) * p * (1 - p))
    assert abs(kept - groups * size**power) <= 5 * deviation
    other = kept_of(
        kept_rows, ids, order, [False] * len(kept_rows), Retention(power=power, seed=12)
    )
    assert found.kept.tolist() != other.kept.tolist()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((0,), "per_cluster must be"), ((1 << 31,), "per_cluster must be"),
     ((1, -0.1), "power must be from 0 to 1"), ((1, math.nan), "power must be from 0 to 1"),
     ((2, 0.5), "expected one of them"), ((1, 0.5, -1), "seed must be"),
     ((1, 0.5, 1 << 64), "seed must be")],
)  # fmt: skip
def test_values_out_of_range(arguments, said):
    with pytest.raises(ValueError, match=said):
        Retention(*arguments)


@pytest.mark.parametrize(
    "text", ["", "weight:", "weight:x", "weight:1.1", "weight:nan", "even:0.5"]
)
def test_what_is_no_sample(text):
    with pytest.raises(ValueError, match="expected weight or weight:POWER, a power from 0 to 1"):
        Retention.parse_sample(text)
