"""Columns as one array, whatever pieces they are in."""

import itertools

import pyarrow as pa
import pytest

from mr_dedup.formats.columns import one_array

VALUES = ["a", None, "ccc", "", "e"]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("cuts", [[], [0, 5], [0, 2, 5], [0, 0, 1, 4, 5], [1, 4]])
def test_a_column_is_one_array(kind, cuts):
    whole = pa.array(VALUES, kind)
    pieces = [whole[start:stop] for start, stop in itertools.pairwise(cuts)]
    expected = [value for piece in pieces for value in piece.to_pylist()]
    found = one_array(pa.chunked_array(pieces, kind))
    assert isinstance(found, pa.Array)
    assert (found.type, found.to_pylist()) == (kind, expected)


def test_one_array_is_not_copied():
    array = pa.array(VALUES, pa.large_string())[1:4]
    found = one_array(pa.chunked_array([array]))
    assert found.buffers()[2].address == array.buffers()[2].address
