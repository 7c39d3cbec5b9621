"""Chunks: parts that add up, descriptions that say the same, samples from all over."""

import json

import numpy as np
import pytest

from mr_dedup.errors import FormatError
from mr_dedup.formats import fingerprint_files
from mr_dedup.formats.chunks import Chunk, cut_into_chunks, read_chunk
from mr_dedup.formats.fingerprint_files import FingerprintFile

VALUES = np.unique(np.random.default_rng(0).integers(0, 2**64, 5000, dtype=np.uint64))
NAMES = ["a.longs", "a.fpz", "a.txt", "a.longs.gz", "a.fpz.zst"]


@pytest.fixture(params=NAMES)
def file(request, tmp_path):
    path = tmp_path / request.param
    with fingerprint_files.create(path) as out:
        out.write(VALUES)
    return FingerprintFile.detect(path)


@pytest.mark.parametrize("size", [1, 777, 5000, 10**6])
def test_chunks_add_up_to_their_file(file, size):
    chunks = cut_into_chunks(file, max(size, 100))
    whole = [block for chunk in chunks for block in chunk.blocks(900)]
    assert (np.concatenate(whole) == VALUES).all()
    if file.splittable:
        assert len(chunks) == -(-VALUES.size // max(size, 100))
    else:
        assert len(chunks) == 1


def test_a_described_chunk_is_the_same_chunk(file, tmp_path):
    for number, chunk in enumerate(cut_into_chunks(file, 1500)):
        path = tmp_path / f"{number}.chunk.json"
        path.write_text(chunk.describe())
        again = read_chunk(path)
        assert again.approximate_size() == chunk.approximate_size()
        pairs = zip(chunk.blocks(700), again.blocks(700), strict=True)
        assert all((one == other).all() for one, other in pairs)


def test_a_sample_is_from_all_over_where_the_file_can_be_split(file):
    for chunk in (Chunk(file), *cut_into_chunks(file, 2000)):
        whole = np.concatenate(list(chunk.blocks(10_000)))
        sample = chunk.sample(640)
        assert np.isin(sample, whole).all()
        assert 0 < sample.size <= 640
        if file.splittable:
            assert sample[0] == whole[0]
            assert sample[-1] >= whole[-20]


def test_a_sample_of_little_is_all_of_it(tmp_path):
    path = tmp_path / "few.longs"
    with fingerprint_files.create(path) as out:
        out.write(VALUES[:7])
    assert Chunk(FingerprintFile.detect(path)).sample(100).tolist() == VALUES[:7].tolist()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", json.dumps({"path": "x", "format": "odd"}), '"text"']
)
def test_a_damaged_description_is_named(tmp_path, text):
    path = tmp_path / "x.chunk.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"x\.chunk\.json: is no description of a chunk"):
        read_chunk(path)
