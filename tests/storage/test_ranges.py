"""Parquet and others read from a store, a range at a time."""

import io
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.storage.errors import ChangedError
from mr_dedup.storage.listing import file_info
from mr_dedup.storage.ranges import RangeSource
from mr_dedup.storage.stores import store_of
from tests.files.test_outputs import files_of_at_most

LARGE = random.Random(1).randbytes(16 << 20)


@pytest.fixture(scope="module")
def parquet():
    """20 MB in ten row groups of two columns."""
    rng = np.random.default_rng(1)
    table = pa.table({"a": rng.integers(1 << 62, size=1_250_000), "b": rng.random(1_250_000)})
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=125_000, compression="none", use_dictionary=False)
    return table, file.getvalue()


def test_parquet(place, tmp_path, parquet):
    table, content = parquet
    place.write("a.parquet", content)
    source = RangeSource(file_info(place.of("a.parquet")), tmp_path)
    with source.open() as file, pq.ParquetFile(file) as rows:
        assert rows.read() == table
    with source.open() as file, pq.ParquetFile(file) as rows:
        assert rows.read_row_group(3, ["b"])["b"] == table["b"][375_000:500_000]
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_read_is_fetched(s3, tmp_path, parquet):
    s3.write("a.parquet", parquet[1])
    source = RangeSource(file_info(s3.of("a.parquet")), tmp_path)
    with source.open() as file, pq.ParquetFile(file) as rows:
        s3.proxy.requests.clear()
        rows.read_row_group(3, ["b"])
    # a column of a row group is 1 MB
    assert 1 <= len(s3.proxy.requests) <= 2


def test_consecutive_blocks_are_one_request(s3, tmp_path, monkeypatch):
    monkeypatch.setitem(vars(store_of(s3.uri)), "piece_bytes", 8 << 20)
    s3.write("a.bin", LARGE)
    with RangeSource(file_info(s3.of("a.bin")), tmp_path).open() as file:
        s3.proxy.requests.clear()
        assert file.read(7 << 20) == LARGE[: 7 << 20]
    assert len(s3.proxy.requests) == 1


def test_reads_here_and_there(place, tmp_path):
    place.write("a.bin", LARGE)
    rng = random.Random(2)
    with RangeSource(file_info(place.of("a.bin")), tmp_path).open() as file:
        assert file.seek(0, io.SEEK_END) == len(LARGE)
        assert file.read(10) == b""
        for _ in range(30):
            start, size = rng.randrange(len(LARGE)), rng.choice((0, 1, 1000, 3 << 20))
            file.seek(start)
            data = b"".join(iter(lambda: file.read(1 << 20), b"")) if size == 3 else file.read(size)
            assert data == LARGE[start : start + size]
            assert file.tell() == start + len(data)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_changes_between_two_reads(place, tmp_path):
    place.write("a.bin", LARGE)
    with RangeSource(file_info(place.of("a.bin")), tmp_path).open() as file:
        assert file.read(1000) == LARGE[:1000]
        place.write("a.bin", LARGE[::-1])
        assert file.read(1000) == LARGE[1000:2000]
        file.seek(8 << 20)
        with pytest.raises(ChangedError):
            file.read(1000)


def test_a_server_that_sends_whole_files_sends_one_once(web, tmp_path):
    web.write("a.bin", LARGE, has_ranges=False)
    with RangeSource(file_info(web.of("a.bin")), tmp_path).open() as file:
        web.server.requests.clear()
        for start in (len(LARGE) - 100, 5 << 20, 100):
            file.seek(start)
            assert file.read(100) == LARGE[start : start + 100]
    assert len([each for each in web.server.requests if each[0] == "GET"]) == 2


def test_an_empty_file(place, tmp_path):
    place.write("a.bin", b"")
    with RangeSource(file_info(place.of("a.bin")), tmp_path).open() as file:
        assert file.read(10) == b""


def test_a_full_disk_names_the_directory(s3, tmp_path):
    s3.write("a.bin", LARGE)
    with (
        RangeSource(file_info(s3.of("a.bin")), tmp_path).open() as file,
        pytest.raises(MrDedupError, match=f"^{tmp_path}: cannot be written: File too large$"),
        files_of_at_most(1000),
    ):
        file.read(10_000)
