"""One protocol over all formats and compressions; compressed data cut, changed and joined."""

import contextlib
import gzip
import os
import socket
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats import fingerprint_files
from mr_dedup.formats.fingerprint_files import (
    BYTE_ORDERS,
    FORMATS,
    WRITTEN_FORMATS,
    FingerprintFile,
    UnknownFormatError,
)
from mr_dedup.formats.fingerprint_parquet import create_table
from mr_dedup.formats.fingerprint_writer import create
from tests.files.test_outputs import files_of_at_most
from tests.strategies import FINGERPRINTS, costly

ENDINGS = [
    stem + packing
    for stem in (".longs", ".txt", ".tsv", ".fpz", ".LONGS", ".Txt")
    for packing in ("", ".gz", ".zst", ".GZ")
]
ENDINGS += [".parquet", ".PARQUET"]
IDENTIFIED = [".txt", ".tsv.gz", ".txt.zst", ".parquet"]
COMPRESSED = [".gz", ".zst"]
VALUES = [0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]

endings = pytest.mark.parametrize("ending", ENDINGS)
compressions = pytest.mark.parametrize("packing", COMPRESSED)
identified = pytest.mark.parametrize("ending", IDENTIFIED)
fingerprint_sets = st.sets(FINGERPRINTS, max_size=50)


def array(values):
    return np.array(values, dtype=np.uint64)


class Rows:
    """Writes rows of Parquet as ``create`` writes other formats."""

    def __init__(self, table):
        self._table = table

    def write(self, fingerprints):
        count = len(fingerprints)
        ids = pa.array([f"page {number}" for number in range(count)], pa.large_string())
        self._table.write(ids, fingerprints, np.ones(count, bool), np.arange(count))

    @property
    def count(self):
        return self._table.rows


@contextlib.contextmanager
def creating(path, overwrite=False, **options):
    """Whatever writes files of that ending."""
    if path.suffix.lower() != ".parquet":
        with create(path, overwrite=overwrite, **options) as writer:
            yield writer
        return
    with create_table(path, "words:1, log-tf", overwrite=overwrite) as table:
        yield Rows(table)


def write(path, values, **options):
    with creating(path, overwrite=True, **options) as writer:
        writer.write(array(values[:3]))
        writer.write(array(values[3:]))
    assert writer.count == len(values)
    return FingerprintFile.detect(path, byte_order=options.get("byte_order", "big"))


def joined(blocks):
    return [value for block in blocks for value in block.tolist()]


def compress(packing, content):
    if packing == ".gz":
        return gzip.compress(content, mtime=0)
    return zstandard.ZstdCompressor(write_checksum=True).compress(content)


@endings
@pytest.mark.parametrize("byte_order", BYTE_ORDERS)
@given(values=fingerprint_sets.map(sorted), max_count=st.integers(1, 60))
@costly
def test_what_is_written_is_read(tmp_path_factory, ending, byte_order, values, max_count):
    path = tmp_path_factory.getbasetemp() / f"round trip{ending}"
    file = write(path, values, byte_order=byte_order)
    whole = file.read()
    assert whole.dtype == np.uint64
    assert whole.tolist() == values
    blocks = list(file.batches(max_count=max_count))
    assert joined(blocks) == values
    assert all(block.dtype == np.uint64 and 1 <= len(block) <= max_count for block in blocks)
    assert all(len(block) == max_count for block in blocks[:-1]) or file.format == "packed"
    assert file.count() == (len(values) if file.splittable else None)


@pytest.mark.parametrize("ending", [e for e in ENDINGS if "fpz" not in e])
def test_order_and_repeats_are_kept(tmp_path, ending):
    values = [5, 2**64 - 1, 5, 0, 5, 7]
    assert write(tmp_path / f"x{ending}", values).read().tolist() == values


@pytest.mark.parametrize("ending", [".longs", ".fpz", ".parquet"])
@given(
    values=fingerprint_sets.map(sorted),
    start=st.integers(0, 60),
    stop=st.none() | st.integers(0, 60),
    max_count=st.integers(1, 60),
)
@costly
def test_ranges_are_slices(tmp_path_factory, ending, values, start, stop, max_count):
    file = write(tmp_path_factory.getbasetemp() / f"range{ending}", values)
    assert file.splittable
    assert joined(file.batches(start, stop, max_count)) == values[start:stop]


@pytest.mark.parametrize("ending", [".txt", ".longs.gz", ".fpz.zst", ".txt.zst"])
def test_what_cannot_be_split_refuses_ranges(tmp_path, ending):
    file = write(tmp_path / f"x{ending}", VALUES)
    assert not file.splittable
    for bounds in ((1, None), (0, 2), (0, 0)):
        with pytest.raises(ValueError, match="can only be read from its beginning"):
            file.batches(*bounds)


def test_misuse_is_refused_at_once(tmp_path):
    file = write(tmp_path / "x.longs", VALUES)
    for bounds in ((-1, None), (0, -1)):
        with pytest.raises(ValueError, match="start, stop: expected ranks from 0 on"):
            file.batches(*bounds)
    with pytest.raises(ValueError, match="max_count: expected at least 1, got 0"):
        file.batches(max_count=0)
    for name in ("format", "compression", "byte_order"):
        with pytest.raises(ValueError, match=f"{name}: expected one of .*, got 'other'"):
            FingerprintFile(**{"path": file.path, "format": "longs", name: "other"})
    with pytest.raises(ValueError, match="compression: a Parquet file is compressed inside"):
        FingerprintFile(file.path, "parquet", "gzip")


# which file is what


@pytest.mark.parametrize(
    ("path", "name", "format", "compression"),
    [
        ("a.longs", None, "longs", None),
        ("a.tsv.zst", None, "text", "zstd"),
        ("a.b.fpz.gz", None, "packed", "gzip"),
        ("a.parquet", None, "parquet", None),
        # a local copy, as it came or unpacked on its way
        ("copy.txt.gz", "hdfs:///data/part 1.txt.gz", "text", "gzip"),
        ("copy.txt", "s3://bucket/part.txt.gz", "text", None),
        ("part-00000", "/data/part.longs", "longs", None),
        ("part-00000.gz", "/data/part.longs.gz", "longs", "gzip"),
        ("part-00000", "s3://bucket/part.parquet", "parquet", None),
    ],
)
def test_the_ending_says_what_a_file_is(tmp_path, path, name, format, compression):
    path = tmp_path / path
    path.touch()
    file = FingerprintFile.detect(path, name=name, byte_order="little")
    assert file == FingerprintFile(path, format, compression, "little")


def test_an_explicit_format_overrules_the_ending(tmp_path):
    for name, compression in (("dump", None), ("dump.txt", None), ("dump.bin.gz", "gzip")):
        path = tmp_path / name
        path.touch()
        assert FingerprintFile.detect(path, format="longs").format == "longs"
        assert FingerprintFile.detect(path, format="longs").compression == compression
    with create(tmp_path / "out.bin", format="longs") as writer:
        writer.write(array([1]))
    assert (tmp_path / "out.bin").read_bytes() == bytes(7) + b"\1"


@pytest.mark.parametrize("name", ["x", "x.gz", "x.csv", "longs", ".longs", "x.longs.bz2"])
def test_unknown_endings_are_refused_with_the_known_ones(tmp_path, name):
    path = tmp_path / name
    path.touch()
    message = r"by its ending \(\.longs, \.txt, \.tsv, \.fpz, \.parquet, .*\)$"
    with pytest.raises(UnknownFormatError, match=message):
        FingerprintFile.detect(path)
    with pytest.raises(UnknownFormatError, match=message), create(path, overwrite=True):
        pass


@compressions
def test_parquet_is_not_compressed_from_outside(tmp_path, packing):
    path = tmp_path / f"x.parquet{packing}"
    path.touch()
    message = rf"x\.parquet{packing}: is Parquet inside gzip or zstd, which is not read"
    for options in ({}, {"format": "parquet"}, {"name": "x.parquet"}):
        with pytest.raises(FormatError, match=message):
            FingerprintFile.detect(path, **options)


@pytest.mark.parametrize("format", FORMATS)
def test_only_regular_files_are_read(tmp_path, format):
    # opening a pipe that nobody writes to would wait for ever
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    (tmp_path / "device").symlink_to("/dev/zero")
    for kind in ("pipe", "socket", "device"):
        path = tmp_path / kind
        message = (
            f"^{path}: is a {kind}, expected a file of fingerprints; save its output to a file"
        )
        with pytest.raises(FormatError, match=message):
            FingerprintFile.detect(path, format=format)


def test_what_cannot_be_read_is_one_line(tmp_path):
    with pytest.raises(MrDedupError, match=r"none\.longs: cannot be read: No such file"):
        FingerprintFile.detect(tmp_path / "none.longs")
    with pytest.raises(MrDedupError, match=r"is a directory, expected a file of fingerprints"):
        FingerprintFile.detect(tmp_path, format="longs")
    (tmp_path / "folder.longs").mkdir()
    for format in FORMATS:
        for compression in (None,) if format == "parquet" else (None, "gzip", "zstd"):
            gone = FingerprintFile(tmp_path / "gone", format, compression)
            with pytest.raises(MrDedupError, match="gone: cannot be read: No such file"):
                gone.read()
            folder = FingerprintFile(tmp_path / "folder.longs", format, compression)
            with pytest.raises(MrDedupError, match="cannot be read: Is a directory"):
                next(folder.batches())


def test_a_file_that_fails_while_it_is_read_is_one_line():
    # the one file that opens and then cannot be read: this process's unmapped address 0
    file = FingerprintFile(Path("/proc/self/mem"), "text")
    with pytest.raises(MrDedupError, match="/proc/self/mem: cannot be read: Input/output error"):
        file.read()


def test_no_room_to_unpack_is_told_from_a_file_that_cannot_be_read(tmp_path):
    file = write(tmp_path / "x.fpz.gz", list(range(0, 2**63, 2**50)))
    message = r"x\.fpz\.gz: cannot be decompressed to a temporary file: File too large"
    with files_of_at_most(4096), pytest.raises(MrDedupError, match=message):
        file.read()


@pytest.mark.parametrize("count", [1, 4000])
def test_a_full_disk_is_reported_of_the_packed_file_that_is_compressed(tmp_path, count):
    path = tmp_path / "x.fpz.gz"
    values = np.arange(0, 2**63, 2**63 // count, dtype=np.uint64)
    with (
        pytest.raises(MrDedupError, match=f"^{path}: cannot be written: File too large$"),
        files_of_at_most(20),
        create(path) as writer,
    ):
        writer.write(values)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".longs", ".txt", ".parquet"])
def test_what_does_not_fit_into_memory_is_named(tmp_path, monkeypatch, ending):
    def exhausted(*arguments):
        raise MemoryError

    file = write(tmp_path / f"x{ending}", VALUES)
    monkeypatch.setattr(fingerprint_files.np, "concatenate", exhausted)
    monkeypatch.setattr(fingerprint_files.longs, "read_range", exhausted)
    with pytest.raises(MrDedupError, match=rf"x\{ending}: does not fit into memory"):
        file.read()


# empty and damaged


@pytest.mark.parametrize("ending", [".longs", ".txt", ".tsv"])
def test_an_empty_file_is_no_fingerprints(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    path.touch()
    file = FingerprintFile.detect(path)
    assert file.read().tolist() == []
    assert list(file.batches()) == []


@endings
def test_no_fingerprints_are_written_and_read(tmp_path, ending):
    file = write(tmp_path / f"x{ending}", [])
    assert file.read().dtype == np.uint64
    assert len(file.read()) == 0
    assert list(file.batches()) == []


@compressions
def test_members_and_frames_follow_each_other(tmp_path, packing):
    text = b"".join(compress(packing, b"%d\n" % value) for value in range(3000))
    (tmp_path / f"x.txt{packing}").write_bytes(text)
    assert FingerprintFile.detect(tmp_path / f"x.txt{packing}").read().tolist() == list(range(3000))
    halves = compress(packing, bytes(5)) + compress(packing, b"") + compress(packing, b"\0\0\7")
    (tmp_path / f"x.longs{packing}").write_bytes(halves)
    assert FingerprintFile.detect(tmp_path / f"x.longs{packing}").read().tolist() == [7]


@compressions
@pytest.mark.parametrize("ending", [".longs", ".txt", ".fpz"])
def test_every_cut_is_noticed(tmp_path, packing, ending):
    path = tmp_path / f"x{ending}{packing}"
    file = write(path, VALUES)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError, match=r"data is cut short|an empty file is not") as caught:
            file.read()
        assert caught.value.path == str(path)
        if length == 0:
            assert caught.value.offset is None
        else:
            assert caught.value.offset.startswith("decompressed byte ")


@compressions
def test_every_cut_between_two_members_or_frames_is_noticed(tmp_path, packing):
    path = tmp_path / f"x.longs{packing}"
    parts = [compress(packing, bytes(800)), compress(packing, bytes(80))]
    file = FingerprintFile(path, "longs", "gzip" if packing == ".gz" else "zstd")
    for length in range(len(parts[0]) + 1, len(parts[0] + parts[1])):
        path.write_bytes((parts[0] + parts[1])[:length])
        with pytest.raises(FormatError, match=r"decompressed byte 8\d\d: the .* data is cut"):
            file.read()


@compressions
def test_what_is_not_compressed_data_is_named(tmp_path, packing):
    path = tmp_path / f"x.txt{packing}"
    kind = {".gz": "gzip", ".zst": "zstd"}[packing]
    for content in (b"123\n", b"\0" * 3000, compress(".gz" if packing == ".zst" else ".zst", b"")):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=f"decompressed byte 0: not {kind} data, or damaged"):
            FingerprintFile.detect(path).read()
    path.write_bytes(compress(packing, b"1\n" * 50) + b"something else")
    with pytest.raises(FormatError, match=f"decompressed byte 100: not {kind} data, or damaged"):
        FingerprintFile.detect(path).read()


@pytest.mark.parametrize("zeros", [1, 7, 511, 3000])
@pytest.mark.parametrize("ending", [".longs", ".txt", ".fpz"])
def test_gzip_members_may_be_padded_with_zeros(tmp_path, ending, zeros):
    path = tmp_path / f"x{ending}.gz"
    file = write(path, VALUES)
    member, padding = path.read_bytes(), bytes(zeros)
    path.write_bytes(member + padding)
    assert file.read().tolist() == VALUES
    content = gzip.decompress(member)
    halves = [compress(".gz", content[:9]), compress(".gz", content[9:])]
    path.write_bytes(halves[0] + padding + halves[1] + padding)
    assert file.read().tolist() == VALUES
    for rest, fault in (
        (b"something else", "not gzip data, or damaged"),
        (member[:-1], "the gzip data is cut short"),
        (b"\x1f", "the gzip data is cut short"),
    ):
        path.write_bytes(member + padding + rest)
        with pytest.raises(FormatError, match=f"decompressed byte .*: {fault}"):
            file.read()


def test_zstd_frames_may_not_be_padded_with_zeros(tmp_path):
    path = tmp_path / "x.txt.zst"
    path.write_bytes(compress(".zst", b"1\n") + bytes(8))
    with pytest.raises(FormatError, match="decompressed byte 2: not zstd data, or damaged"):
        FingerprintFile.detect(path).read()


def test_skippable_zstd_frames_are_skipped(tmp_path):
    # as pzstd writes them
    path = tmp_path / "x.txt.zst"
    skipped = b"\x50\x2a\x4d\x18" + (2000).to_bytes(4, "little") + bytes(2000)
    path.write_bytes(skipped + compress(".zst", b"1\n") + skipped + compress(".zst", b"2\n"))
    assert FingerprintFile.detect(path).read().tolist() == [1, 2]


@compressions
def test_changed_content_is_noticed_by_its_checksum(tmp_path, packing):
    path = tmp_path / f"x.longs{packing}"
    content = np.random.default_rng(1).bytes(1 << 16)  # not compressible: stored as it is
    write(path, np.frombuffer(content, dtype=">u8").astype(np.uint64).tolist())
    damaged = bytearray(path.read_bytes())
    for at in (100, len(damaged) // 2, len(damaged) - 1):
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"not (gzip|zstd) data, or damaged"):
            FingerprintFile.detect(path).read()
        damaged[at] ^= 1
    path.write_bytes(damaged)
    assert len(FingerprintFile.detect(path).read()) == 1 << 13


def test_a_damaged_gzip_length_is_noticed(tmp_path):
    path = tmp_path / "x.longs.gz"
    damaged = bytearray(gzip.compress(bytes(80)))
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(FormatError, match=r"not gzip data, or damaged: .*length"):
        FingerprintFile.detect(path).read()


def test_mistakes_inside_compressed_files_are_named_as_if_they_were_not(tmp_path):
    path = tmp_path / "x.txt.zst"
    path.write_bytes(compress(".zst", b"1\n2\nthree\n"))
    with pytest.raises(FormatError, match=r"x\.txt\.zst, line 3: expected a fingerprint"):
        FingerprintFile.detect(path).read()
    path = tmp_path / "x.longs.gz"
    path.write_bytes(compress(".gz", bytes(20)))
    with pytest.raises(FormatError, match=r"x\.longs\.gz, byte 16: ends inside a long"):
        FingerprintFile.detect(path).read()
    path = tmp_path / "x.fpz.gz"
    path.write_bytes(compress(".gz", b"nothing of the kind"))
    with pytest.raises(FormatError, match=r"x\.fpz\.gz, header: is not a packed file"):
        FingerprintFile.detect(path).read()


@compressions
def test_memory_stays_bounded_however_well_a_file_is_compressed(tmp_path, packing):
    path = tmp_path / f"x.longs{packing}"
    part_bytes, parts = 1 << 20, 192
    packer = {
        ".gz": lambda: zlib.compressobj(1, wbits=31),
        ".zst": lambda: zstandard.ZstdCompressor().compressobj(),
    }[packing]()
    with path.open("wb") as out:
        for _ in range(parts):
            out.write(packer.compress(bytes(part_bytes)))
        out.write(packer.flush())
    assert path.stat().st_size < 1 << 20
    file = FingerprintFile.detect(path)
    tracemalloc.start()
    try:
        count = sum(len(block) for block in file.batches(max_count=1 << 14))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count * 8 == part_bytes * parts
    assert peak_bytes < 80 << 20


def test_blocks_may_be_left_before_their_end(tmp_path):
    # an open file left to the garbage collector would warn, and warnings are errors
    for ending in ENDINGS:
        file = write(tmp_path / f"x{ending}", VALUES)
        blocks = file.batches(max_count=2)
        assert next(blocks).tolist() == VALUES[:2]
        blocks.close()


# writing


def test_equal_content_makes_equal_files(tmp_path):
    for ending in (".longs.gz", ".txt.zst", ".fpz.gz", ".fpz", ".parquet"):
        write(tmp_path / f"a{ending}", VALUES)
        write(tmp_path / f"b{ending}", VALUES)
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_others_read_what_is_compressed(tmp_path):
    write(tmp_path / "x.txt.gz", VALUES)
    write(tmp_path / "x.txt.zst", VALUES)
    expected = b"0\n1\n9223372036854775807\n-9223372036854775808\n-2\n-1\n"
    assert gzip.decompress((tmp_path / "x.txt.gz").read_bytes()) == expected
    zstd_content = (tmp_path / "x.txt.zst").read_bytes()
    assert zstandard.ZstdDecompressor().decompressobj().decompress(zstd_content) == expected


@endings
def test_a_failure_leaves_nothing_behind(tmp_path, ending):
    path = tmp_path / f"x{ending}"

    def interrupted():
        with creating(path) as writer:
            writer.write(array(VALUES))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".fpz", ".fpz.gz"])
def test_packed_files_take_no_other_order(tmp_path, ending):
    with pytest.raises(ValueError, match="strictly ascending"):
        write(tmp_path / f"x{ending}", [1, 2, 3, 3])
    assert list(tmp_path.iterdir()) == []


def test_parquet_is_written_by_others(tmp_path):
    for name, format in (("x.parquet", None), ("x.parquet", "parquet"), ("x.longs", "parquet")):
        message = f"{name}: Parquet is written by mr-dedup fingerprint only; expected one of longs"
        with pytest.raises(MrDedupError, match=message), create(tmp_path / name, format=format):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", WRITTEN_FORMATS)
def test_other_dtypes_are_refused(tmp_path, format):
    with (
        pytest.raises(ValueError, match="fingerprints: expected uint64, got int64"),
        create(tmp_path / "x", format=format) as writer,
    ):
        writer.write(np.array([1]))


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path):
    path = tmp_path / "x.longs"
    write(path, [1])
    with pytest.raises(MrDedupError, match=r"x\.longs: exists; give --overwrite"), create(path):
        pass
    assert write(path, [2]).read().tolist() == [2]


# ids


def write_identified(path, values, ids):
    """A text file of ours, a Parquet file of others."""
    ids = pa.array(ids, pa.large_string())
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"id": ids, "fingerprint": array(values)}), path)
    else:
        with create(path, overwrite=True) as writer:
            writer.write_identified(array(values[:3]), ids[:3])
            writer.write_identified(array(values[3:]), ids[3:])
        assert writer.count == len(values)
    return FingerprintFile.detect(path)


id_texts = st.text(st.characters(blacklist_characters="\t\r\n", blacklist_categories=["Cs"]))


@identified
@given(
    pairs=st.lists(st.tuples(FINGERPRINTS, st.none() | id_texts), max_size=30),
    max_count=st.integers(1, 40),
)
@costly
def test_fingerprints_keep_their_ids(tmp_path_factory, ending, pairs, max_count):
    values, ids = [value for value, _ in pairs], [id for _, id in pairs]
    file = write_identified(tmp_path_factory.getbasetemp() / f"ids{ending}", values, ids)
    assert file.has_ids
    assert file.read().tolist() == values
    batches = list(file.identified(max_count))
    for fingerprints, found in batches:
        assert (fingerprints.dtype, found.type) == (np.uint64, pa.large_string())
        assert fingerprints.flags.writeable
        assert 1 <= len(fingerprints) == len(found) <= max_count
    assert [value for batch, _ in batches for value in batch.tolist()] == values
    assert [id for _, found in batches for id in found.to_pylist()] == ids


@identified
def test_fingerprints_without_ids_have_null_ones(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    if ending == ".parquet":
        pq.write_table(pa.table({"fingerprint": array(VALUES)}), path)
        file = FingerprintFile.detect(path)
    else:
        file = write(path, VALUES)
    ((fingerprints, ids),) = file.identified()
    assert fingerprints.tolist() == VALUES
    assert ids.to_pylist() == [None] * len(VALUES)


@pytest.mark.parametrize("ending", [".longs", ".fpz", ".longs.gz", ".fpz.zst"])
def test_other_formats_have_no_ids(tmp_path, ending):
    file = write(tmp_path / f"x{ending}", VALUES)
    assert not file.has_ids
    with pytest.raises(ValueError, match=f"format: {file.format} files have no ids"):
        file.identified()
    ids = pa.array(["a"], pa.large_string())
    with (
        pytest.raises(ValueError, match="ids: only text files take ids"),
        create(tmp_path / f"y{ending}") as writer,
    ):
        writer.write_identified(array([1]), ids)


def test_misuse_of_ids_is_refused(tmp_path):
    file = write(tmp_path / "x.txt", VALUES)
    with pytest.raises(ValueError, match="max_count: expected at least 1, got 0"):
        file.identified(0)
    two = pa.array(["a", "b"], pa.large_string())
    for values, ids, message in (
        (array([1]), two, r"ids: expected large_string\[1\], got large_string\[2\]"),
        (array([1, 2]), two.cast(pa.string()), r"ids: expected large_string\[2\], got string\[2\]"),
        (np.array([1, 2]), two, "fingerprints: expected uint64, got int64"),
    ):
        with pytest.raises(ValueError, match=message), create(tmp_path / "y.txt") as writer:
            writer.write_identified(values, ids)
    assert not (tmp_path / "y.txt").exists()


def test_identified_batches_may_be_left_before_their_end(tmp_path):
    for ending in IDENTIFIED:
        file = write_identified(tmp_path / f"x{ending}", VALUES, ["a"] * len(VALUES))
        batches = file.identified(max_count=2)
        assert next(batches)[0].tolist() == VALUES[:2]
        batches.close()
