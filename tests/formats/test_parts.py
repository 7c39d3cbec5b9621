"""Datasets of parts: the same files whatever was written at once, whole files only, as a table."""

import itertools
import json
import random

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import zstandard

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.parts import (
    LineParts,
    ParquetParts,
    in_order,
    part_batches,
    part_files,
    part_name,
    read_lines,
    read_parts,
)

SCHEMA = pa.schema([("id", pa.large_string()), ("n", pa.int64())], metadata={"of": "tests"})


def table_of(count):
    numbers = list(range(count))
    return pa.table({"id": [f"id {n}" for n in numbers], "n": numbers}, SCHEMA)


def written(folder, table, edges, part_rows):
    with ParquetParts(folder, SCHEMA, part_rows=part_rows) as parts:
        for start, stop in itertools.pairwise(edges):
            parts.write_table(table.slice(start, stop - start))
    assert parts.names == sorted(file.name for file in folder.iterdir())
    return parts.names


@pytest.mark.parametrize("count", [0, 1, 6, 7, 12, 13])
def test_parts_of_a_number_of_rows_are_one_table(tmp_path, count):
    folder, table = tmp_path / "made" / "rows", table_of(count)
    names = written(folder, table, [0, 0, count // 2, count], 6)
    assert names == [f"part-{n:05}.parquet" for n in range(max(1, -(-count // 6)))]
    rows = [pq.ParquetFile(folder / name).metadata.num_rows for name in names]
    assert all(each == 6 for each in rows[:-1])
    assert sum(rows) == count
    # columns and metadata are known without rows too
    assert read_parts(folder).equals(table, check_metadata=True)
    assert pa.dataset.dataset(folder).to_table().equals(table)
    assert pq.read_table(folder).equals(table)
    assert read_parts(folder, ["n"], ["n"][:0]).column_names == ["n"]
    batches = list(part_batches(folder, ["n"], 4))
    assert [n for batch in batches for n in batch["n"].to_pylist()] == list(range(count))
    assert all(len(batch) <= 4 for batch in batches)


def test_an_earlier_dataset_is_replaced(tmp_path):
    written(tmp_path / "rows", table_of(9), [0, 9], 2)
    assert written(tmp_path / "rows", table_of(3), [0, 3], 2) == [
        "part-00000.parquet", "part-00001.parquet",
    ]  # fmt: skip


@pytest.mark.parametrize("rows", [0, 2, 3])
def test_a_part_is_complete_or_absent(tmp_path, rows):
    parts = ParquetParts(tmp_path / "rows", SCHEMA, part_rows=2)
    with pytest.raises(KeyboardInterrupt), parts:
        parts.write_table(table_of(rows))
        raise KeyboardInterrupt
    found = sorted(file.name for file in tmp_path.glob("rows/*"))
    assert found == ["part-00000.parquet"][: rows // 3]


@pytest.mark.parametrize("size", [0, -1])
def test_parts_of_no_size(tmp_path, size):
    with pytest.raises(ValueError, match=f"part_rows: expected 1 or more, got {size}"):
        ParquetParts(tmp_path / "rows", SCHEMA, part_rows=size)
    with pytest.raises(ValueError, match=f"part_bytes: expected 1 or more, got {size}"):
        LineParts(tmp_path / "lines", part_bytes=size)


def test_missing_and_damaged_parts(tmp_path):
    folder = tmp_path / "rows"
    with pytest.raises(MrDedupError, match="rows: no such file"):
        part_files(folder)
    folder.mkdir()
    with pytest.raises(MrDedupError, match="rows: contains no files"):
        part_files(folder)
    written(folder, table_of(9), [0, 9], 4)
    middle = folder / "part-00001.parquet"
    middle.write_bytes(middle.read_bytes()[:-9])
    with pytest.raises((OSError, pa.ArrowException)):
        read_parts(folder)
    middle.unlink()
    with pytest.raises(FormatError, match="rows: its part 1 is missing"):
        read_parts(folder)


def test_files_of_other_programs(tmp_path):
    for name in ("part-00000-c0ffee.snappy.parquet", "part-00007-c0ffee.snappy.parquet"):
        pq.write_table(table_of(2), tmp_path / name)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-00000.parquet.crc").touch()
    assert read_parts(tmp_path)["n"].to_pylist() == [0, 1, 0, 1]


@pytest.mark.parametrize("part_bytes", [1, 7, 30, 100, 10_000])
def test_lines_are_in_the_same_parts_however_they_arrive(tmp_path, part_bytes):
    rng = random.Random(part_bytes)
    lines = [json.dumps({"n": "x" * rng.randrange(40)}).encode() + b"\n" for _ in range(90)]
    made = set()
    for edges in ([0, 90], [*range(91)], [0, 0, 1, 40, 90]):
        folder = tmp_path / str(len(edges))
        with LineParts(folder, part_bytes=part_bytes) as parts:
            for start, stop in itertools.pairwise(edges):
                parts.write(b"".join(lines[start:stop]))
        assert parts.names == [f"part-{n:05}.jsonl.zst" for n in range(len(parts.names))]
        assert b"".join(read_lines(folder)) == b"".join(lines)
        contents = [(folder / name).read_bytes() for name in parts.names]
        made.add(tuple(contents))
        found = [zstandard.ZstdDecompressor().decompressobj().decompress(each) for each in contents]
        assert parts.counts == [each.count(b"\n") for each in found]
        for each in found[:-1]:
            # without its last line it is not full
            assert len(each) >= part_bytes > len(each) - len(each.splitlines(keepends=True)[-1])
    assert len(made) == 1


def test_large_lines_are_compressed_the_same_however_they_arrive(tmp_path):
    content = (
        b"\n".join(bytes(random.Random(n).choices(b"abcd", k=5000)) for n in range(300)) + b"\n"
    )
    lines = content.splitlines(keepends=True)
    made = set()
    for at_once in (1, 7, 300):
        with LineParts(tmp_path / str(at_once), part_bytes=600_000) as parts:
            for start in range(0, 300, at_once):
                parts.write(b"".join(lines[start : start + at_once]))
        assert len(parts.names) == 3
        made.add(tuple((tmp_path / str(at_once) / name).read_bytes() for name in parts.names))
    assert len(made) == 1


def test_no_lines_leave_no_directory(tmp_path):
    with LineParts(tmp_path / "lines") as parts:
        parts.write(b"")
    assert (parts.names, list(tmp_path.iterdir())) == ([], [])
    assert list(read_lines(tmp_path / "lines")) == []
    with LineParts(tmp_path / "lines") as parts:
        parts.write(b"{}\n" * 1000)
    path = tmp_path / "lines" / "part-00000.jsonl.zst"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FormatError, match="the zstd data is cut short"):
        list(read_lines(tmp_path / "lines"))


def test_parts_are_in_the_order_of_their_numbers():
    count = 100_002
    names = sorted(part_name(number, ".parquet") for number in range(count))
    found = in_order("out", names, names)
    assert found == [part_name(number, ".parquet") for number in range(count)]
    with pytest.raises(FormatError, match="its part 100000 is missing"):
        in_order("out", found[:100_000] + found[100_001:], found[:100_000] + found[100_001:])
    # of other programs as they come
    assert in_order("out", [2, 1], ["b.parquet", "a.parquet"]) == [2, 1]
