"""Shards: what was written is read, and every damage is noticed."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.temporary import temporary_folder
from mr_dedup.formats.shards import (
    SHARDS_SUFFIX,
    ShardList,
    new_file,
    new_files,
    read_shard,
    shard_at,
    write_shard,
)

numbers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)
tables = st.builds(
    lambda some, texts: pa.table(
        {"n": pa.array(some, pa.int64()), "t": pa.array((texts * 20)[: len(some)], pa.string())}
    ),
    numbers,
    st.lists(st.text(), min_size=1, max_size=3),
)


@given(st.lists(tables, max_size=4), st.integers(0, 2**62))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tables_come_back(tmp_path, some, key):
    folder = str(tmp_path / "a" / "new folder")
    shard = write_shard(folder, key, some)
    assert (shard.key, shard.rows) == (key, sum(map(len, some)))
    assert shard.size_bytes == Path(shard_at(folder, key)).stat().st_size
    assert [each.to_pydict() for each in read_shard(folder, key)] == [t.to_pydict() for t in some]
    # nothing else is left
    assert not list(Path(folder).glob(".*"))


def test_large_tables_are_divided(tmp_path):
    table = pa.table({"n": range(3_000_000)})
    write_shard(str(tmp_path), 1, [table])
    found = list(read_shard(str(tmp_path), 1))
    assert len(found) > 3
    assert pa.concat_tables(found).combine_chunks().equals(table.combine_chunks())


def test_every_changed_byte_and_every_cut_is_noticed(tmp_path):
    write_shard(str(tmp_path), 1, [pa.table({"n": [1, 2]}), pa.table({"n": [3]})])
    path = tmp_path / "00000001"
    content = path.read_bytes()
    for index in range(len(content)):
        changed = bytearray(content)
        changed[index] ^= 0x10
        path.write_bytes(changed)
        with pytest.raises((FormatError, MrDedupError)):
            list(read_shard(str(tmp_path), 1))
        path.write_bytes(content[:index])
        with pytest.raises(FormatError, match=r"is not a shard|ends within|ends before"):
            list(read_shard(str(tmp_path), 1))


def test_a_shard_is_replaced_by_that_of_an_equal_task_and_else_stays(tmp_path):
    some = [pa.table({"n": [1, 2]})]
    write_shard(str(tmp_path), 1, some)
    before = (tmp_path / "00000001").read_bytes()
    write_shard(str(tmp_path), 1, some)
    assert (tmp_path / "00000001").read_bytes() == before

    def failing():
        yield some[0]
        raise MrDedupError("no")

    with pytest.raises(MrDedupError, match="no"):
        write_shard(str(tmp_path), 1, failing())
    assert [path.name for path in tmp_path.iterdir()] == ["00000001"]
    assert (tmp_path / "00000001").read_bytes() == before


def test_a_missing_shard(tmp_path):
    with pytest.raises(MrDedupError, match="00000002: cannot be read: No such file or directory"):
        list(read_shard(str(tmp_path), 2))


def test_files_appear_at_the_end(tmp_path):
    target = tmp_path / "a" / "b.txt"
    with new_file(str(target)) as path:
        path.write_text("one")
        assert not target.exists()
    assert target.read_text() == "one"
    with new_files(str(tmp_path / "many")) as folder:
        (folder / "x").mkdir()
        (folder / "x" / "y.txt").write_text("two")
        (folder / "z.txt").write_text("three")
    found = {path.name: path.read_text() for path in (tmp_path / "many").rglob("*.txt")}
    assert found == {"y.txt": "two", "z.txt": "three"}
    with pytest.raises(ZeroDivisionError), new_files(str(tmp_path / "many")) as folder:
        (folder / "z.txt").write_text("four")
        raise ZeroDivisionError
    assert (tmp_path / "many" / "z.txt").read_text() == "three"


def test_lists_of_shards(tmp_path):
    for folder in ("a", "b"):
        for key in range(3):
            write_shard(str(tmp_path / folder), key, [pa.table({"n": [f"{folder}{key}"]})])
    path = tmp_path / f"some{SHARDS_SUFFIX}"
    folders = (str(tmp_path / "a"), str(tmp_path / "b"))
    ShardList(folders, ((0, 1), (1, 2), (0, 0))).write(path)
    found = [(key, table["n"].to_pylist()) for key, table in ShardList.read(path).tables()]
    assert found == [(1, ["a1"]), (2, ["b2"]), (0, ["a0"])]


WRITER = """
import sys
from mr_dedup.formats.shards import new_file, new_files
with new_files("s3://bucket/folder") as folder, new_file("s3://bucket/shard") as path:
    (folder / "part").write_bytes(b"x")
    path.write_bytes(b"x")
    print(flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_task_wrote_for_a_store_goes_with_the_next(tmp_path, monkeypatch):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
    ) as writer:  # fmt: skip
        assert writer.stdout.readline() == b"\n"
        assert len(list(tmp_path.iterdir())) == 2
        writer.kill()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_folder() as folder:
        assert list(tmp_path.iterdir()) == [folder]
