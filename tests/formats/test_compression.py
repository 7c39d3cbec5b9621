"""Suffixes, magic numbers, and what is written compressed; reading is tested by the formats."""

import errno
import gc
import gzip
import io
import itertools
import os
import random

import lz4.frame
import numpy as np
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError
from mr_dedup.formats.compression import (
    CutShortError,
    TrailingDataError,
    compressing,
    compression_by_magic,
    compression_by_suffix,
    decompressed,
    decompressed_file,
    suffix_inside,
)
from tests.strategies import costly


@pytest.mark.parametrize(
    ("name", "compression", "inside"),
    [
        ("a.txt", None, ".txt"),
        ("a.TXT.GZ", "gzip", ".txt"),
        ("b.gz/a.b.jsonl.zst", "zstd", ".jsonl"),
        ("hdfs:///c.gz/a", None, ""),
        ("a.gz", "gzip", ""),
        (".gz", None, ""),
        ("a.warc.LZ4", "lz4", ".warc"),
        ("a.txt.bz2", None, ".bz2"),
    ],
)
def test_suffixes_state_compression_and_format(name, compression, inside):
    assert compression_by_suffix(name) == compression
    assert suffix_inside(name) == inside


def test_magic_numbers():
    assert compression_by_magic(gzip.compress(b"")) == "gzip"
    assert compression_by_magic(zstandard.compress(b"")) == "zstd"
    assert compression_by_magic(b"\x53\x2a\x4d\x18") == "zstd"
    assert compression_by_magic(lz4.frame.compress(b"")) == "lz4"
    assert compression_by_magic(b"\x1f") is None
    assert compression_by_magic(b"") is None


@pytest.mark.parametrize("compression", ["gzip", "zstd", "lz4"])
def test_what_is_written_is_read_and_equal_content_makes_equal_bytes(compression, tmp_path):
    data = b"a line\n" * 100_000
    path = tmp_path / "a"
    written = []
    for _ in range(2):
        with path.open("wb") as file, compressing(file, compression) as stream:
            stream.write(data[:10])
            stream.write(data[10:])
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert len(written[0]) < len(data) // 10
    assert compression_by_magic(written[0]) == compression
    pieces = decompressed(io.BytesIO(written[0]), "name", compression)
    assert b"".join(pieces) == data
    with decompressed_file(path.open("rb", buffering=0), "name", compression) as file:
        assert file.read(3) == data[:3]
        assert file.read() == data[3:]


def words(seed, size):
    """Text that compresses as text does, of which matches reach over the edges of pieces."""
    rng = random.Random(seed)
    known = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 9))) for _ in range(3000)]
    return " ".join(rng.choices(known, k=size // 7)).encode()


def compress_in(sizes, data):
    file, start = io.BytesIO(), 0
    with compressing(file, "gzip") as stream:
        for size in itertools.cycle(sizes):
            assert stream.write(memoryview(data)[start : start + size]) in (size, len(data) - start)
            start += size
            if start >= len(data):
                break
    return file.getvalue()


@costly
@given(st.lists(st.integers(0, 600_000), min_size=1, max_size=4), st.integers(0, 1_500_000))
@example([700], 1_500_000)
@example([1 << 18], 1 << 18)
@example([0], 0)
def test_gzip_data_are_the_same_however_content_is_written(sizes, size):
    data = words(5, size)
    written = compress_in([max(each, 200) for each in sizes], data)
    assert written == compress_in([len(data) + 1], data)
    # by Python's own reader
    assert gzip.decompress(written) == data


def test_arrays_are_written_and_those_without_elements():
    file = io.BytesIO()
    with compressing(file, "gzip") as stream:
        for values in (np.arange(0, dtype=np.uint8), np.arange(7, dtype=np.int64)):
            assert stream.write(values.data) == values.nbytes
    assert gzip.decompress(file.getvalue()) == np.arange(7, dtype=np.int64).tobytes()


class FullDisk(io.BytesIO):
    """Has room for the header of a gzip file."""

    def write(self, data):
        if self.tell() + len(data) > 50:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_a_full_disk_is_reported_once(size, capfd):
    with pytest.raises(OSError, match="No space left"), compressing(FullDisk(), "gzip") as stream:
        stream.write(random.Random(1).randbytes(size))
    assert stream.closed
    del stream
    gc.collect()
    assert capfd.readouterr() == ("", "")


def test_what_can_be_compressed_no_further():
    data = random.Random(1).randbytes(1_000_000)
    written = compress_in([300_000], data)
    assert gzip.decompress(written) == data
    assert len(written) < len(data) + 1000


def test_lines_without_compression_are_not_read_byte_by_byte(tmp_path):
    reads = []

    class Counted(io.FileIO):
        def readinto(self, buffer):
            reads.append(len(buffer))
            return super().readinto(buffer)

        def read(self, size=-1):
            reads.append(size)
            return super().read(size)

    data = b"a line\n" * 100_000
    (tmp_path / "a").write_bytes(data)
    with decompressed_file(Counted(tmp_path / "a"), "name", None) as file:
        assert b"".join(file.readlines()) == data
    assert len(reads) < 10
    assert file.raw.closed


def test_without_compression_the_file_itself_is_written():
    file = io.BytesIO()
    with compressing(file, None) as stream:
        assert stream is file


def test_frames_that_need_a_dictionary_say_so():
    texts = [b"some words of a page, number %d, and more" % (n * n) * 9 for n in range(200)]
    dictionary = zstandard.train_dictionary(4000, texts)
    data = zstandard.ZstdCompressor(dict_data=dictionary).compress(texts[0])
    # as crawlers write it, at the beginning of a file
    own = dictionary.as_bytes()
    for begin in (b"", b"\x5d\x2a\x4d\x18" + len(own).to_bytes(4, "little") + own):
        with pytest.raises(FormatError, match="it needs a dictionary; decompress it by zstd"):
            list(decompressed(io.BytesIO(begin + data), "a.zst", "zstd"))


@pytest.mark.parametrize(
    ("pack", "coding"), [(zstandard.compress, "zstd"), (lz4.frame.compress, "lz4")]
)
def test_frames_and_what_is_between_and_after_them(pack, coding):
    skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    data = words(1, 300_000)
    whole = b"".join([skipped, pack(data), skipped, pack(b""), pack(data)])
    assert b"".join(decompressed(io.BytesIO(whole), "name", coding)) == 2 * data
    for content, error in (
        (whole[:-10], CutShortError), (whole + b"more", TrailingDataError), (b"", FormatError),
        (b"no frame at all", FormatError),
    ):  # fmt: skip
        with pytest.raises(error, match=r"^name"):
            list(decompressed(io.BytesIO(content), "name", coding))


def test_damaged_lz4_is_reported_after_what_precedes_it():
    data = words(2, 1_000_000)
    whole = bytearray(lz4.frame.compress(data, content_checksum=True, block_checksum=True))
    whole[len(whole) // 2] ^= 1
    read = []
    with pytest.raises(FormatError, match="not lz4 data, or damaged"):
        read.extend(decompressed(io.BytesIO(bytes(whole)), "name", "lz4"))
    assert data.startswith(b"".join(read))
    assert len(b"".join(read)) > len(data) // 3
