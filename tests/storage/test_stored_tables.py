"""Tables between steps in files of a store: what is referred to is what was written."""

import pyarrow as pa
import pytest

from mr_dedup.engines.streaming import stored_tables
from mr_dedup.engines.streaming.stored_tables import followed, stored
from mr_dedup.errors import MrDedupError
from mr_dedup.storage.listing import files_below

TABLES = [
    (7, pa.table({"n": [1, 2]})),
    (1, pa.table({"n": [3], "t": ["x" * 3000]})),
    (7, pa.table({"n": [4, 5, 6]})),
    (0, pa.table({"n": pa.array([], pa.int64())})),
    (1 << 40, pa.table({"m": [7.5]})),
    (1, pa.table({"n": [8], "t": ["ß"]})),
]


@pytest.mark.parametrize("memory_bytes", [0, 64 << 20])
def test_references_are_followed_to_the_tables_of_each_key(writable, monkeypatch, memory_bytes):
    monkeypatch.setattr(stored_tables, "_MEMORY_BYTES", memory_bytes)
    folder = writable.of("tables of a job")
    found = list(stored(iter(TABLES), folder, "attempt_1"))
    assert [key for key, _ in found] == [0, 1, 7, 1 << 40]
    assert [len(table) for _, table in found] == [1] * 4
    for key, reference in found:
        expected = [table for other, table in TABLES if other == key]
        tables = [each.combine_chunks() for each in followed([reference])]
        assert len(tables) == len(expected)
        assert all(map(pa.Table.equals, tables, expected))
    assert [file.uri for file in files_below(folder)] == [f"{folder}/attempt_1"]


def test_attempts_have_files_of_their_own_and_other_tables_pass(writable):
    folder = writable.of("tables")
    [(_, one)] = stored([(3, pa.table({"n": [1]}))], folder, "attempt_0")
    [(_, other)] = stored([(3, pa.table({"n": [2]}))], folder, "attempt_1")
    plain = pa.table({"n": [5]})
    # a table of several references is followed in order
    both = pa.concat_tables([other, one])
    found = [table.to_pydict() for table in followed([plain, both, one])]
    assert found == [{"n": [5]}, {"n": [2]}, {"n": [1]}, {"n": [1]}]


def test_without_tables_there_is_no_file(writable):
    assert list(stored([], writable.of("none"), "attempt")) == []
    assert files_below(writable.of("none")) == []


def test_damage_is_noticed(s3):
    folder = s3.of("damaged")
    [(_, first), (_, second)] = stored([TABLES[0], (9, TABLES[2][1])], folder, "attempt")
    content = s3.read("damaged/attempt")
    stop = first["stop"][0].as_py()
    assert second["start"][0].as_py() == stop < len(content)
    for index in range(0, stop, 5):
        changed = bytearray(content)
        changed[index] ^= 0x04
        s3.write("damaged/attempt", bytes(changed))
        with pytest.raises(MrDedupError, match="attempt"):
            list(followed([first]))
        # damage elsewhere is not read
        assert [table.to_pydict() for table in followed([second])] == [{"n": [4, 5, 6]}]
    s3.write("damaged/attempt", content[: stop - 1])
    with pytest.raises(MrDedupError, match="attempt"):
        list(followed([first]))
