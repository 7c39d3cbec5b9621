"""Columns as one array, and side files."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.errors import FormatError
from mr_dedup.formats.tables import one_array, read_side_file, write_side_file

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


def test_side_files_come_back_with_their_metadata(tmp_path):
    path = tmp_path / "rows.parquet"
    columns = {"row": np.arange(1000), "id": pa.array(map(str, range(1000)), pa.large_string())}
    write_side_file(path, columns, {"ranges": {"3": [0, 1000]}})
    table, metadata = read_side_file(path, ["id", "row"])
    assert table.column_names == ["id", "row"]
    assert table["row"].to_numpy().tolist() == list(range(1000))
    assert table["id"].to_pylist()[-1] == "999"
    assert metadata == {"ranges": {"3": [0, 1000]}}
    write_side_file(path, {"row": np.arange(0)})
    table, metadata = read_side_file(path, ["row"])
    assert (len(table), metadata) == (0, {})


def test_damaged_and_other_side_files_are_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    write_side_file(path, {"row": np.arange(1000)})
    whole = path.read_bytes()
    with pytest.raises(FormatError, match=r"rows\.parquet: not a side file with row, key"):
        read_side_file(path, ["row", "key"])
    for at in range(4, len(whole) // 2, 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(FormatError, match="not a side file with row"):
            read_side_file(path, ["row"])
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match="not a side file"):
        read_side_file(path, ["row"])
    pq.write_table(pa.table({"row": [1]}), path)
    with pytest.raises(FormatError, match="not a side file"):
        read_side_file(path, ["row"])
    with pytest.raises(FormatError, match="not a side file"):
        read_side_file(tmp_path / "none", ["row"])
