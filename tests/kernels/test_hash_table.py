"""The search loops of hash tables, against Python's dictionaries."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mr_dedup.kernels.compiler import jit
from mr_dedup.kernels.hash_table import find_row_slot, find_slot

SLOTS = 32
KEYS = st.lists(st.integers(0, 31).map(lambda n: n * 2**59 + n % 5), max_size=SLOTS - 1)


@jit
def count(values, keys, counts):
    for value in values:
        slot = find_slot(keys, counts, value)
        keys[slot] = value
        counts[slot] += np.uint8(1)


@jit
def number(values, rows, distinct):
    found = np.uint64(0)
    last = np.uint64(rows.size - 1)
    for value in values:
        slot = find_row_slot(rows, last, value & last, distinct, value)
        if rows[slot] == 0:
            distinct[found] = value
            found += np.uint64(1)
            rows[slot] = found
    return found


@settings(deadline=None)
@given(KEYS)
def test_each_key_has_one_slot(values):
    array = np.array(values, np.uint64)
    keys, counts = np.zeros(SLOTS, np.uint64), np.zeros(SLOTS, np.uint8)
    count(array, keys, counts)
    found = dict(zip(keys[counts > 0].tolist(), counts[counts > 0].tolist(), strict=True))
    assert found == {value: values.count(value) for value in values}


@settings(deadline=None)
@given(KEYS)
def test_each_key_has_one_row(values):
    rows, distinct = np.zeros(SLOTS, np.uint32), np.zeros(SLOTS, np.uint64)
    found = number(np.array(values, np.uint64), rows, distinct)
    assert distinct[:found].tolist() == list(dict.fromkeys(values))
