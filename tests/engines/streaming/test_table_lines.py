"""Tables as lines: round trips, and damage that is noticed."""

import base64

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mr_dedup.engines.streaming.table_lines import (
    LinesProtocol,
    TableProtocol,
    decode,
    encode,
    read_tables,
)
from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.table_bytes import sliced

COLUMNS = {
    "number": pa.uint64(),
    "text": pa.large_string(),
    "file": pa.dictionary(pa.int32(), pa.string()),
    "keys": pa.large_list(pa.uint64()),
}

rows = st.fixed_dictionaries(
    {
        "number": st.none() | st.integers(0, (1 << 64) - 1),
        "text": st.none() | st.text(),
        "file": st.none() | st.sampled_from(["a", "b"]),
        "keys": st.none() | st.lists(st.integers(0, (1 << 64) - 1), max_size=3),
    }
)


def table_of(found):
    return pa.Table.from_pylist(found, pa.schema(list(COLUMNS.items())))


@settings(deadline=None)
@given(st.integers(0, 1 << 64), st.lists(rows, max_size=20), st.integers(1, 500))
def test_any_table_comes_back_from_lines_of_any_length(key, found, line_bytes):
    table = table_of(found).replace_schema_metadata({"a": "b"})
    lines = [encode(key, part) for part in sliced(table, line_bytes)]
    assert 1 <= len(lines) <= max(1, len(found))
    assert not any(b"\n" in line for line in lines)
    decoded = [decode(line) for line in lines]
    assert {number for number, _ in decoded} == {key}
    whole = pa.concat_tables([part for _, part in decoded])
    assert whole.schema.equals(table.schema, check_metadata=True)
    assert whole.to_pylist() == found


def test_every_damaged_character_is_noticed():
    line = encode(7, pa.table({"n": [1, 2, 3]}))
    for offset in range(line.index(b"\t"), len(line)):
        for other in (b"A", b"z", b"!", b"\n"):
            damaged = line[:offset] + other + line[offset + 1 :]
            if damaged != line:
                with pytest.raises(MrDedupError, match="between tasks"):
                    decode(damaged)
    for length in range(len(line)):
        with pytest.raises(MrDedupError, match="between tasks"):
            decode(line[:length])


def test_another_version_is_named():
    key, _, text = encode(7, pa.table({"n": [1]})).partition(b"\t")
    raw = bytearray(base64.b64decode(text))
    raw[0] = 9
    with pytest.raises(MrDedupError, match="version 9, this mr_dedup reads 6 and 7: "):
        decode(key + b"\t" + base64.b64encode(raw))


def test_lines_survive_what_hadoop_adds():
    protocol = TableProtocol()
    line = protocol.write(17, pa.table({"n": [1]}))
    for ending in (b"", b"\t", b"\t\r\n"):
        key, table = protocol.read(line + ending)
        assert (key, table.to_pydict()) == (17, {"n": [1]})
    with pytest.raises(MrDedupError, match="between tasks"):
        protocol.read(b"seventeen\tQUJD")


def test_keys_sort_as_text_as_they_do_as_numbers():
    keys = (0, 9, 10, 99, 100, 12345, 10**8, 1 << 64)
    lines = [encode(key, pa.table({"n": [1]})) for key in keys]
    assert lines == sorted(lines)


def test_files_of_tasks_are_merged_by_key(tmp_path):
    for name, keys in (("part-0", [1, 1, 7, 300]), ("part-1", []), ("part-2", [0, 7, 8])):
        tables = [(key, pa.table({"from": [name], "n": [n]})) for n, key in enumerate(keys)]
        (tmp_path / name).write_bytes(b"".join(encode(*each) + b"\n" for each in tables))
    found = [(key, *table.to_pylist()[0].values()) for key, table in
             read_tables(sorted(tmp_path.iterdir()))]  # fmt: skip
    assert [key for key, *_ in found] == [0, 1, 1, 7, 7, 8, 300]
    assert [each for each in found if each[0] == 1] == [(1, "part-0", 0), (1, "part-0", 1)]
    assert found[0] == (0, "part-2", 0)
    assert list(read_tables([])) == []


def test_damage_names_file_and_line(tmp_path):
    path = tmp_path / "part-0"
    path.write_bytes(encode(0, pa.table({"n": [1]})) + b"\n1\tAAAA\n")
    with pytest.raises(FormatError, match="part-0, line 2: a table between tasks is damaged"):
        list(read_tables([path]))


def test_result_text_ends_where_mrjob_ends_it():
    assert LinesProtocol().write(None, b"1\t2\n3\t4\n") == b"1\t2\n3\t4"
    assert LinesProtocol().read(b"1\t2") == (None, b"1\t2")


def test_any_number_of_files_is_merged(tmp_path, few_files):
    paths = [tmp_path / f"part-{number}" for number in range(100)]
    for number, path in enumerate(paths):
        lines = [encode(key, pa.table({"n": [key]})) + b"\n" for key in (number, number + 200)]
        path.write_bytes(b"".join(lines))
    assert [key for key, _ in read_tables(paths)] == [*range(100), *range(200, 300)]
