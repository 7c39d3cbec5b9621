"""Chunks of fingerprints: their parts, descriptions and samples."""

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError
from mr_dedup.formats import fingerprint_chunks, fingerprint_writer
from mr_dedup.formats.fingerprint_chunks import (
    CHUNK_FINGERPRINTS,
    FingerprintChunk,
    FingerprintPart,
    chunk_size,
    cut_into_chunks,
)
from mr_dedup.formats.fingerprint_files import FingerprintFile

VALUES = np.unique(np.random.default_rng(0).integers(0, 2**64, 5000, dtype=np.uint64))
NAMES = ["a.longs", "a.fpz", "a.txt", "a.longs.gz", "a.fpz.zst", "a.parquet"]


def written(path, values):
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"fingerprint": values}), path, row_group_size=300)
        return FingerprintFile.detect(path)
    with fingerprint_writer.create(path) as out:
        out.write(values)
    return FingerprintFile.detect(path)


@pytest.fixture(params=NAMES)
def file(request, tmp_path):
    return written(tmp_path / request.param, VALUES)


@pytest.fixture
def several(tmp_path, monkeypatch):
    """Files of every kind and of very different lengths, some empty; opening one costs nothing."""
    monkeypatch.setattr(fingerprint_chunks, "_FILE_COST", 0)
    edges = [0, 0, 100, 103, 110, 2500, 2500, 2600, 2610, 2620, 4990, 5000, 5000]
    pieces = [VALUES[start:stop] for start, stop in pairwise(edges)]
    return [
        written(tmp_path / f"{number:02}-{NAMES[number % len(NAMES)]}", piece)
        for number, piece in enumerate(pieces)
    ]


def joined(made, max_count):
    batches = [batch for chunk in made for batch in chunk.batches(max_count)]
    assert all(0 < batch.size <= max_count for batch in batches)
    return np.concatenate(batches)


@pytest.mark.parametrize("size", [100, 777, 5000, 10**6])
def test_chunks_add_up_to_their_file(file, size):
    made = cut_into_chunks([FingerprintPart.whole(file)], size)
    assert (joined(made, 900) == VALUES).all()
    if file.splittable:
        assert len(made) == -(-VALUES.size // size)
        assert all(chunk.size <= size for chunk in made)
    else:
        assert len(made) == 1


@pytest.mark.parametrize("size", [100, 777, 5000, 10**6])
@pytest.mark.parametrize("max_count", [1, 64, 10_000])
def test_files_share_chunks_and_keep_their_order(several, size, max_count):
    made = cut_into_chunks([FingerprintPart.whole(file) for file in several], size)
    assert (joined(made, max_count) == VALUES).all()
    for chunk in made:
        assert chunk.size <= size or len(chunk.parts) == 1
    # no two neighbours would have fitted into one
    for one, other in pairwise(made):
        assert one.size + other.parts[0].size > size
    if size == 10**6:
        assert len(made) == 1


def test_small_files_are_read_as_few_batches(several):
    (chunk,) = cut_into_chunks([FingerprintPart.whole(file) for file in several], 10**6)
    assert len(list(chunk.batches(5000))) == 1
    assert len(list(chunk.batches(2500))) <= 4


def test_opening_a_file_costs_something(several, monkeypatch):
    monkeypatch.setattr(fingerprint_chunks, "_FILE_COST", 1000)
    made = cut_into_chunks([FingerprintPart.whole(file) for file in several], 3000)
    assert max(len(chunk.parts) for chunk in made) == 2


@given(
    st.lists(st.integers(0, 3 * CHUNK_FINGERPRINTS), min_size=1, max_size=30),
    st.integers(1, 64),
    st.integers(0, 10**9),
)
def test_chunks_are_of_64_mb_at_most_and_as_many_as_cores_want(sizes, cores, least):
    """Of files that are not there: nothing reads them."""
    file = FingerprintFile("no.longs", "longs")
    parts = [FingerprintPart(file, size=size) for size in sizes]
    size = chunk_size(parts, cores, least)
    made = cut_into_chunks(parts, size)
    assert sum(chunk.size for chunk in made) == sum(sizes)
    assert max(chunk.size for chunk in made) <= CHUNK_FINGERPRINTS
    assert size >= min(least, CHUNK_FINGERPRINTS)
    if sum(sizes) >= 4 * cores << 22 and least <= 1 << 22:
        assert len(made) >= 4 * cores
    if sum(sizes) >= cores << 18 and least <= 1 << 18:
        assert len(made) >= cores


def test_small_work_is_few_tasks():
    file = FingerprintFile("no.longs", "longs")
    tiny = [FingerprintPart(file, size=100)] * 3000
    assert 2 <= len(cut_into_chunks(tiny, chunk_size(tiny, cores=2))) <= 3
    one = [FingerprintPart(file, size=1 << 23)]
    assert len(cut_into_chunks(one, chunk_size(one, cores=2))) == 2
    assert len(cut_into_chunks(one, chunk_size(one, cores=2, min_size=1 << 23))) == 1


def test_a_described_chunk_is_the_same_chunk(file, several, tmp_path):
    made = cut_into_chunks([FingerprintPart.whole(file) for file in [file, *several]], 1500)
    for number, chunk in enumerate(made):
        path = tmp_path / f"{number}.chunk.json"
        path.write_text(chunk.describe())
        again = FingerprintChunk.read(path)
        assert again == chunk
        assert (joined([again], 700) == joined([chunk], 700)).all()


def test_a_chunk_is_named_by_what_it_reads(several, tmp_path):
    parts = [FingerprintPart.whole(file) for file in several]
    first = str(several[0].path)
    assert FingerprintChunk(0, (parts[0],)).name == first
    assert FingerprintChunk(0, tuple(parts)).name == f"{first} and 11 more"
    cut = FingerprintPart.whole(written(tmp_path / "b.longs", VALUES)).cut(2500)
    assert [part.name for part in cut] == [
        f"{tmp_path}/b.longs [0:2500]",
        f"{tmp_path}/b.longs [2500:5000]",
    ]


def test_a_description_reads_the_same_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "b.longs", VALUES)
    chunk = FingerprintChunk(0, (FingerprintPart.whole(FingerprintFile.detect("b.longs")),))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.chunk.json").write_text(chunk.describe())
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert (
        joined([FingerprintChunk.read(tmp_path / "elsewhere" / "x.chunk.json")], 900) == VALUES
    ).all()


def test_a_sample_is_from_all_over_where_the_file_can_be_split(file):
    whole = FingerprintPart.whole(file)
    for part in (whole, *whole.cut(2000)):
        chunk = FingerprintChunk(0, (part,))
        values = joined([chunk], 10_000)
        sample = chunk.sample(640)
        assert np.isin(sample, values).all()
        assert 0 < sample.size <= 640
        if file.splittable:
            assert sample[0] == values[0]
            assert sample[-1] >= values[-20]


def test_rows_without_fingerprints_are_in_no_chunk(tmp_path):
    rows = pa.array([None if n % 3 else n for n in range(5000)], pa.int64())
    pq.write_table(pa.table({"fingerprint": rows}), tmp_path / "a.parquet", row_group_size=700)
    whole = FingerprintPart.whole(FingerprintFile.detect(tmp_path / "a.parquet"))
    assert whole.size == 5000
    for size in (100, 999, 5000):
        made = cut_into_chunks([whole], size)
        assert len(made) == -(-5000 // size)
        assert joined(made, 60).tolist() == list(range(0, 5000, 3))
    sample = FingerprintChunk(0, (whole,)).sample(640).tolist()
    assert set(sample) <= set(range(0, 5000, 3))
    assert len(sample) > 200
    assert sample[0] == 0
    assert sample[-1] >= 4990


def test_a_sample_is_from_all_files(several):
    chunk = FingerprintChunk(0, tuple(FingerprintPart.whole(file) for file in several))
    sample = chunk.sample(640)
    assert sample.size <= 640
    assert np.isin(sample, VALUES).all()
    # in proportion: the two files of 2,400 have nearly all of the fingerprints
    places = np.searchsorted(VALUES, sample)
    for start, stop in ((110, 2500), (2620, 4990)):
        share = ((start <= places) & (places < stop)).mean()
        assert 0.3 < share < 0.7


def test_a_sample_of_little_is_all_of_it(several, tmp_path):
    few = written(tmp_path / "few.longs", VALUES[:7])
    assert (
        FingerprintChunk(0, (FingerprintPart.whole(few),)).sample(100).tolist()
        == VALUES[:7].tolist()
    )
    every = FingerprintChunk(0, tuple(FingerprintPart.whole(file) for file in several))
    assert every.sample(10**6).tolist() == VALUES.tolist()
    empty = FingerprintChunk(
        0, (FingerprintPart.whole(written(tmp_path / "empty.longs", VALUES[:0])),)
    )
    assert empty.sample(100).size == 0


def test_damage_names_the_file(several, tmp_path):
    (tmp_path / "bad.txt").write_text("1\n2\nthree\n")
    parts = [FingerprintPart.whole(file) for file in several]
    parts.insert(5, FingerprintPart.whole(FingerprintFile.detect(tmp_path / "bad.txt")))
    (chunk,) = cut_into_chunks(parts, 10**6)
    with pytest.raises(FormatError, match=r"bad\.txt, line 3: ") as raised:
        joined([chunk], 900)
    assert raised.value.path == str(tmp_path / "bad.txt")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"parts": []}', '"text"', "\xff",
     json.dumps({"parts": [{"path": "x", "format": "odd"}]})],
)  # fmt: skip
def test_a_damaged_description_is_named(tmp_path, text):
    path = tmp_path / "x.chunk.json"
    path.write_text(text, "latin-1")
    with pytest.raises(FormatError, match=r"x\.chunk\.json: not the description of a chunk"):
        FingerprintChunk.read(path)
