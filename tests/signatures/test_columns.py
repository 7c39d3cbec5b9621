"""Signatures as columns: what is written is what is read, whole, in slices, in chunks."""

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.signatures.columns import columns_of, schema_of, signatures_in
from mr_dedup.signatures.methods import parse_method

TEXTS = pa.array(
    ["one two three four five", "", None, "one two three four six", "x"] * 7, pa.large_string()
)
METHODS = [
    parse_method(text)
    for text in ("minhash", "exact", "minhash:bands=4,rows=3,estimate=0.5", "segments")
]


def equal(one, other, method):
    assert np.array_equal(one.offsets, other.offsets)
    assert np.array_equal(one.keys, other.keys)
    if method.needs_verification:
        assert np.array_equal(one.sketches, other.sketches)
    else:
        assert other.sketches.shape == (len(one), 0)


@pytest.mark.parametrize("number", range(len(METHODS)))
def test_what_is_written_is_read(number):
    signed = [method.sign(TEXTS) for method in METHODS]
    table = pa.table(columns_of(METHODS, signed))
    assert table.schema == pa.schema(schema_of(METHODS))
    method = METHODS[number]
    equal(signed[number], signatures_in(table, METHODS, number), method)
    rows = np.arange(4, 22)
    equal(signed[number].take(rows), signatures_in(table.slice(4, 18), METHODS, number), method)
    parts = pa.concat_tables([table.slice(0, 3), table.slice(3, 0), table.slice(3)])
    equal(signed[number], signatures_in(parts, METHODS, number), method)
    none = signatures_in(table.slice(0, 0), METHODS, number)
    assert len(none) == 0


def test_rows_are_taken_in_any_order():
    signed = METHODS[2].sign(TEXTS)
    rows = np.array([9, 0, 2, 9, 1])
    taken = signed.take(rows)
    for place, row in enumerate(rows.tolist()):
        one, other = (s.offsets[i : i + 2] for s, i in ((taken, place), (signed, row)))
        assert np.array_equal(taken.keys[slice(*one)], signed.keys[slice(*other)])
        assert np.array_equal(taken.sketches[place], signed.sketches[row])


@pytest.mark.parametrize(
    "columns",
    [
        {"other": [1]},
        {"keys_0": pa.array([1])},
        {"keys_0": pa.array([[1.5]], pa.large_list(pa.float64()))},
        {"keys_0": pa.array([None], pa.large_list(pa.uint64()))},
    ],
)
def test_other_columns_are_refused(columns):
    if columns.get("keys_0") is not None and columns["keys_0"].null_count:
        # a null has no keys
        assert len(signatures_in(pa.table(columns), METHODS, 0).keys) == 0
        return
    with pytest.raises(MrDedupError, match="contains no signatures of minhash"):
        signatures_in(pa.table(columns), METHODS, 0)
