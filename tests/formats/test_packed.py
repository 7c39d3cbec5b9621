"""Packed files against a decoder written from docs/formats.md alone, and against damage."""

import io
import itertools
import math
import random
import re
import struct
import tracemalloc

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import binding
from numba import types

from mr_dedup.errors import FormatError
from mr_dedup.formats import packed
from mr_dedup.formats import packed_kernels as kernels
from mr_dedup.kernels.compiler import jit
from tests.strategies import EDGES, FINGERPRINTS

MAX = 2**64 - 1
HEADER = struct.Struct("<8s2I6Q")
ENTRY = struct.Struct("<3Q")

clusters = st.builds(
    lambda start, gaps: [start + sum(gaps[: i + 1]) for i in range(len(gaps))],
    st.integers(0, MAX),
    st.lists(st.one_of(st.integers(1, 3), st.integers(1, 2**20)), max_size=80),
)
fingerprint_sets = st.builds(
    lambda parts, extremes: sorted({x & MAX for part in parts for x in part} | extremes),
    st.lists(st.lists(FINGERPRINTS, max_size=30) | clusters, max_size=3),
    st.sets(st.sampled_from(EDGES)),
)
block_sizes = st.sampled_from([32, 64, 96, 4096])


def write(values, block_size=packed.BLOCK_SIZE, cuts=()):
    """The bytes of a packed file, its fingerprints handed over in several arrays."""
    file = io.BytesIO()
    writer = packed.PackedWriter(file, block_size)
    edges = [0, *sorted(cuts), len(values)]
    for begin, end in itertools.pairwise(edges):
        writer.write(np.array(values[begin:end], dtype=np.uint64))
    writer.finish()
    assert writer.count == len(values)
    return file.getvalue()


def reader(content):
    return packed.PackedReader(io.BytesIO(content), "x.fpz")


def read(content):
    return reader(content).read().tolist()


def checksum(content):
    return xxhash.xxh3_64_intdigest(content)


class Layout:
    """A file taken apart and put together again, with right checksums, by the documentation."""

    def __init__(self, content):
        magic, version, block_size, flags, count, offset, length, _, _ = HEADER.unpack(content[:64])
        self.header = [magic, version, block_size, flags, count]
        assert length == len(content)
        self.entries = [list(ENTRY.unpack_from(content, at)) for at in range(offset, length, 24)]
        ends = [*(entry[1] for entry in self.entries), offset][1:]
        self.blocks = [
            [word for (word,) in struct.iter_unpack("<Q", content[entry[1] : end])]
            for entry, end in zip(self.entries, ends, strict=True)
        ]

    def block_bytes(self, index):
        return struct.pack(f"<{len(self.blocks[index])}Q", *self.blocks[index])

    def content(self):
        body = b""
        for index, entry in enumerate(self.entries):
            entry[1:] = 64 + len(body), checksum(self.block_bytes(index))
            body += self.block_bytes(index)
        directory = b"".join(ENTRY.pack(*entry) for entry in self.entries)
        return self.wrapped(body, directory, 64 + len(body) + len(directory))

    def wrapped(self, body, directory, length):
        start = HEADER.pack(*self.header, 64 + len(body), length, checksum(directory), 0)[:56]
        return start + struct.pack("<Q", checksum(start)) + body + directory


def slow_decode(words, n, previous):
    """The decoder of docs/formats.md."""
    low_bits = words[0]
    stream_words = -(-(-(-n // 32) * low_bits) // 64)
    low, high = words[1 : 1 + 32 * stream_words], words[1 + 32 * stream_words :]
    streams = [sum(low[32 * w + s] << (64 * w) for w in range(stream_words)) for s in range(32)]
    bits = sum(word << (64 * w) for w, word in enumerate(high))
    positions = [q for q in range(64 * len(high)) if bits >> q & 1]
    assert len(positions) == n
    assert high[-1]
    for i, position in enumerate(positions):
        low_part = streams[i % 32] >> (i // 32 * low_bits) & ((1 << low_bits) - 1)
        yield (previous + 1 + ((position - i) << low_bits) + low_part) % 2**64


def slow_read(content):
    layout = Layout(content)
    assert content == layout.content(), "checksums, or something between the parts"
    magic, version, block_size, flags, count = layout.header
    assert (magic, version, flags) == (b"\x89FPZ\r\n\x1a\n", 1, 0)
    found, previous = [], MAX
    for (last, _, _), words in zip(layout.entries, layout.blocks, strict=True):
        n = min(block_size, count - len(found))
        found += slow_decode(words, n, previous)
        previous = found[-1]
        assert last == previous
        assert 1 + math.ceil(n / 64) <= len(words) <= 1 + 32 * -(-n // 32) + -(-3 * n // 64)
    assert len(found) == count
    return found


@given(values=fingerprint_sets, block_size=block_sizes, cuts=st.lists(st.integers(0, 90)))
def test_what_is_written_is_read_by_us_and_by_the_documentation(values, block_size, cuts):
    content = write(values, block_size, [min(cut, len(values)) for cut in cuts])
    assert content == write(values, block_size), "depends on how it was handed over"
    assert read(content) == values
    assert slow_read(content) == values


def shaped(shape, count):
    rng = np.random.default_rng(7)
    if shape == "uniform":
        values = rng.integers(0, MAX, count, dtype=np.uint64, endpoint=True)
    elif shape == "consecutive":
        values = np.arange(count, dtype=np.uint64) + np.uint64(2**63 - count // 2)
    elif shape == "crowded at the end":
        values = np.append(np.uint64(MAX) - np.arange(count - 1, dtype=np.uint64), np.uint64(0))
    else:  # every gap's length as likely
        gaps = np.uint64(1) << rng.integers(0, 64 - 14, count).astype(np.uint64)
        values = np.cumsum(gaps, dtype=np.uint64)
    return np.unique(values).tolist()


@pytest.mark.parametrize("block_size", [32, 2048, 4096, 65536])
@pytest.mark.parametrize("shape", ["uniform", "consecutive", "crowded at the end", "skewed"])
@pytest.mark.parametrize("count", [4095, 4096, 4097, 10_000])
def test_full_blocks_of_every_shape(shape, count, block_size):
    values = shaped(shape, count)
    assert read(write(values, block_size)) == values


@pytest.mark.parametrize("shape", ["uniform", "consecutive", "crowded at the end", "skewed"])
def test_full_blocks_are_as_documented(shape):
    values = shaped(shape, 4100)
    assert slow_read(write(values)) == values


@pytest.mark.parametrize("low_bits", range(64))
def test_every_width(low_bits):
    gap = 1 << low_bits
    values = sorted({(gap * (i + 1) + i % 3) & MAX for i in range(min(70, 2**64 // gap - 1) or 1)})
    content = write(values, 32)
    assert Layout(content).blocks[0][0] == low_bits
    assert read(content) == values
    assert slow_read(content) == values


def test_the_example_of_the_documentation():
    content = write([5, 6, 900], 32)
    assert content == b"".join(
        [
            bytes.fromhex("89 46 50 5a 0d 0a 1a 0a  01 00 00 00 20 00 00 00"),
            bytes.fromhex("00 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00"),
            bytes.fromhex("50 01 00 00 00 00 00 00  68 01 00 00 00 00 00 00"),
            bytes.fromhex("7a 54 c5 c0 d5 8a 65 b3  3c e5 f4 fe 24 06 89 cc"),
            bytes.fromhex("08 00 00 00 00 00 00 00  05 00 00 00 00 00 00 00"),
            bytes.fromhex("06 00 00 00 00 00 00 00  84 00 00 00 00 00 00 00"),
            bytes(8 * 29),
            bytes.fromhex("23 00 00 00 00 00 00 00"),
            bytes.fromhex("84 03 00 00 00 00 00 00  40 00 00 00 00 00 00 00"),
            bytes.fromhex("dc 2c 12 4d 1b e3 13 9e"),
        ]
    )
    assert read(content) == [5, 6, 900]


def test_random_fingerprints_take_half_a_bit_more_than_their_entropy():
    count = 1 << 17
    values = np.unique(np.random.default_rng(3).integers(0, MAX, count, dtype=np.uint64))
    content = write(values.tolist())
    entropy_bits = 64 - 17 + math.log2(math.e)
    assert len(content) * 8 / len(values) < entropy_bits + 0.63
    assert len(content) * 8 / len(values) < 2 + math.log2(2**64 / len(values)) + 0.07


@given(
    values=fingerprint_sets,
    block_size=st.sampled_from([32, 64]),
    start=st.integers(0, 140),
    stop=st.none() | st.integers(0, 140),
    max_count=st.integers(1, 100),
)
def test_ranges_are_slices(values, block_size, start, stop, max_count):
    blocks = list(reader(write(values, block_size)).batches(start, stop, max_count))
    assert [value for block in blocks for value in block.tolist()] == values[start:stop]
    assert all(block.dtype == np.uint64 and 1 <= len(block) <= max_count for block in blocks)


def block(opened, index):
    """The fingerprints of one block."""
    first = index * opened.block_size
    (found,) = opened.batches(first, first + opened.block_size)
    return found.tolist()


def test_blocks_decode_on_their_own():
    values = shaped("uniform", 200)
    opened = reader(write(values, 64))
    assert (opened.count, opened.block_size, opened.block_count) == (200, 64, 4)
    assert opened.lasts.tolist() == [values[63], values[127], values[191], values[199]]
    for index in (3, 0, 2, 1):
        assert block(opened, index) == values[64 * index : 64 * index + 64]


def test_many_batches_of_blocks():
    values = shaped("uniform", 3 * packed._BATCH_COUNT // 2)
    opened = reader(write(values, 64))
    assert opened.read().tolist() == values
    assert np.concatenate(list(opened.batches(max_count=1000))).tolist() == values


def test_a_file_on_the_disk(tmp_path):
    path = tmp_path / "x.fpz"
    path.write_bytes(write([1, 2, 3]))
    with packed.open_packed(path) as opened:
        assert opened.read().tolist() == [1, 2, 3]
    with pytest.raises(FileNotFoundError), packed.open_packed(tmp_path / "none.fpz"):
        pass


def test_kernels_use_the_instructions_they_were_written_for():
    """Decoding is fast only if rows are vectors, and bits are counted by one instruction."""
    u64, words, positions = types.uint64, types.uint64[::1], types.uint32[::1]
    join = jit(kernels._join_parts)
    join.compile((words, u64, u64, u64, u64, positions, words))
    (joining,) = join.inspect_asm().values()
    scan = jit(kernels._read_positions)
    scan.compile((words, u64, u64, u64, positions))
    (scanning,) = scan.inspect_asm().values()
    features = binding.get_host_cpu_features()
    assert not features.get("avx2") or re.search(r"vpsrlq.*[yz]mm", joining)
    assert not features.get("bmi") or "tzcnt" in scanning
    assert not features.get("popcnt") or "popcnt" in scanning


# what a writer refuses


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([[3, 3]], r"number 1 \(from 0\) is 0x0000000000000003 after 0x0000000000000003"),
        ([[1, 2, 1]], r"number 2 \(from 0\) is 0x0000000000000001 after 0x0000000000000002"),
        ([[1, 2], [], [2]], r"number 2 \(from 0\) is 0x0000000000000002 after"),
        ([list(range(64)), [63]], r"number 64 \(from 0\) is 0x000000000000003f after"),
        ([list(range(70)), [5]], r"number 70 \(from 0\) is 0x0000000000000005 after"),
        ([[MAX, 0]], r"number 1 \(from 0\) is 0x0000000000000000 after 0xffffffffffffffff"),
    ],
)
def test_fingerprints_out_of_order_are_refused(arrays, message):
    writer = packed.PackedWriter(io.BytesIO(), 64)
    *fine, wrong = [np.array(values, dtype=np.uint64) for values in arrays]
    for array in fine:
        writer.write(array)
    with pytest.raises(ValueError, match=message):
        writer.write(wrong)


def test_other_dtypes_are_refused():
    with pytest.raises(ValueError, match="fingerprints: expected uint64, got int64"):
        packed.PackedWriter(io.BytesIO()).write(np.array([1, 2]))


@pytest.mark.parametrize("block_size", [-32, 0, 1, 33, 65536 + 32])
def test_impossible_block_sizes_are_refused(block_size):
    with pytest.raises(ValueError, match=f"block_size: expected a multiple of 32.*{block_size}"):
        packed.PackedWriter(io.BytesIO(), block_size)


def test_a_file_that_was_not_finished_is_no_packed_file():
    file = io.BytesIO()
    packed.PackedWriter(file, 32).write(np.arange(100, dtype=np.uint64))
    with pytest.raises(FormatError, match="header: is not a packed file"):
        read(file.getvalue())


# what a reader notices

SMALL = sorted({random.Random(seed).getrandbits(64) for seed in range(75)})
GOOD = write(SMALL, 32)


@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_every_changed_byte_is_noticed_and_placed(change):
    layout = Layout(GOOD)
    starts = [entry[1] for entry in layout.entries]
    directory = len(GOOD) - 24 * len(starts)
    for at in range(len(GOOD)):
        damaged = bytearray(GOOD)
        damaged[at] ^= change
        with pytest.raises(FormatError) as caught:
            read(damaged)
        place = f"block {sum(start <= at for start in starts) - 1}"
        if at < 64:
            place = "header"
        elif at >= directory:
            place = "directory"
        assert (caught.value.path, caught.value.offset) == ("x.fpz", place), at


def test_a_damaged_block_does_not_hide_the_others():
    damaged = bytearray(GOOD)
    damaged[Layout(GOOD).entries[1][1]] ^= 1
    opened = reader(damaged)
    assert block(opened, 0) == SMALL[:32]
    assert block(opened, 2) == SMALL[64:]
    with pytest.raises(FormatError, match="block 1: its checksum is wrong"):
        block(opened, 1)


@pytest.mark.parametrize("content", [GOOD, write([])], ids=["small", "empty"])
def test_every_cut_is_noticed(content):
    for length in range(len(content)):
        with pytest.raises(FormatError) as caught:
            read(content[:length])
        assert caught.value.offset == "header"


def test_what_follows_the_end_is_noticed():
    for rest in (b"\0", GOOD):
        expected = rf"followed by something else: \d+ bytes, {len(GOOD)} expected"
        with pytest.raises(FormatError, match=expected):
            read(GOOD + rest)


def test_something_else_is_not_a_packed_file():
    for content in (b"", b"\x89FP", b"-123\n" * 50, bytes(500), b"\x89FPZ\n\x1a\n" + GOOD[8:]):
        with pytest.raises(FormatError, match="header: is not a packed file"):
            read(content)


def changed(**fields):
    layout = Layout(GOOD)
    names = ["magic", "version", "block_size", "flags", "count"]
    for name, value in fields.items():
        layout.header[names.index(name)] = value
    return layout.content()


def test_a_newer_version_is_named_whatever_else_it_holds():
    message = r"version 9 is newer than this mr_dedup reads \(1\)"
    with pytest.raises(FormatError, match=message):
        read(changed(version=9))
    with pytest.raises(FormatError, match=message):
        read(GOOD[:8] + struct.pack("<I", 9) + GOOD[12:56] + bytes(300))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 0}, "version 0 with flags 0x0 does not exist"),
        ({"flags": 1}, "version 1 with flags 0x1 does not exist"),
        ({"block_size": 0}, "blocks of 0 fingerprints do not exist"),
        ({"block_size": 31}, "blocks of 31 fingerprints do not exist"),
        ({"block_size": 2**32 - 32}, "blocks of 4294967264 fingerprints do not exist"),
        ({"count": 0}, "count and directory do not fit"),
        ({"count": 97}, "count and directory do not fit"),
        ({"count": 2**64 - 1}, "count and directory do not fit"),
        ({"count": 64}, "count and directory do not fit"),
        ({"count": 0, "block_size": 65536}, "count and directory do not fit"),
    ],
)
def test_hostile_headers_are_refused_before_anything_is_allocated(fields, message):
    content = changed(**fields)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=f"header: {message}"):
            read(content)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_small_file_cannot_claim_many_fingerprints():
    layout = Layout(GOOD)
    # 3 blocks of 65536, in the room of 3 blocks of 32
    layout.header[2], layout.header[4] = 65536, 3 * 65536
    with pytest.raises(FormatError, match="directory: the offsets of the blocks are impossible"):
        read(layout.content())


def test_blocks_longer_than_any_block_are_refused():
    layout = Layout(GOOD)
    layout.blocks[1] += [0] * (36 - len(layout.blocks[1]))
    with pytest.raises(FormatError, match="directory: the offsets of the blocks are impossible"):
        read(layout.content())


def with_directory(change):
    layout = Layout(GOOD)
    layout.content()
    body = b"".join(layout.block_bytes(index) for index in range(3))
    change(layout.entries)
    directory = b"".join(ENTRY.pack(*entry) for entry in layout.entries)
    return layout.wrapped(body, directory, 64 + len(body) + len(directory))


def swap_lasts(entries):
    entries[0][0], entries[1][0] = entries[1][0], entries[0][0]


def repeat_a_last(entries):
    entries[1][0] = entries[0][0]


@pytest.mark.parametrize("change", [swap_lasts, repeat_a_last])
def test_last_fingerprints_that_do_not_ascend_are_noticed(change):
    with pytest.raises(FormatError, match="directory: the last fingerprints of the blocks do not"):
        read(with_directory(change))


@pytest.mark.parametrize("offset", [0, 63, 72, 2**63, MAX, 65, 64 + 8 * 1000])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_impossible_offsets_are_noticed(index, offset):
    def change(entries):
        entries[index][1] = offset

    with pytest.raises(FormatError, match="directory: the offsets of the blocks are impossible"):
        read(with_directory(change))


def test_a_checksum_of_another_block_is_noticed():
    def change(entries):
        entries[2][2] = entries[1][2]

    with pytest.raises(FormatError, match="block 2: its checksum is wrong"):
        read(with_directory(change))


def with_block(change):
    layout = Layout(GOOD)
    change(layout.blocks[1], layout.entries)
    return layout.content()


def neighbours(words):
    """The word of a low part whose fingerprint and the next one have equal high parts."""
    bits = sum(word << (64 * i) for i, word in enumerate(words[33:]))
    positions = [q for q in range(64 * len(words[33:])) if bits >> q & 1]
    return next(1 + i for i in range(31) if positions[i] + 1 == positions[i + 1])


def swap_low_parts(words, entries):
    i = neighbours(words)
    words[i], words[i + 1] = words[i + 1], words[i]


def equal_low_parts(words, entries):
    i = neighbours(words)
    words[i + 1] = words[i]


def another_last(words, entries):
    entries[1][0] -= 1


def another_width(words, entries):
    words[0] -= 1


def a_bit_more(words, entries):
    words[-1] |= 1 << 63


def a_bit_less(words, entries):
    words[-1] &= words[-1] - 1


def no_bits(words, entries):
    words[33:] = [0] * len(words[33:])


def no_high_parts(words, entries):
    del words[33:]


@pytest.mark.parametrize(
    "change",
    [
        swap_low_parts,
        equal_low_parts,
        another_last,
        another_width,
        a_bit_more,
        a_bit_less,
        no_bits,
        no_high_parts,
    ],
)
def test_wrong_blocks_with_right_checksums_are_noticed(change):
    with pytest.raises(FormatError, match=r"block 1: does not contain .* checksum is right"):
        read(with_block(change))


@pytest.mark.parametrize("width", [64, 65, 2**32, 2**63, MAX])
def test_impossible_widths_are_noticed(width):
    def change(words, entries):
        words[0] = width

    with pytest.raises(FormatError, match="block 1: does not contain ascending"):
        read(with_block(change))


def test_a_width_of_64_is_refused_even_where_shifts_wrap_around():
    layout = Layout(write([5], 32))
    layout.blocks[0] = [64, *[0] * 32, 1 << 5]
    with pytest.raises(FormatError, match="block 0: does not contain ascending"):
        read(layout.content())


def test_missing_bits_are_noticed_where_the_block_before_had_them():
    layout = Layout(write([1000 * i - 1 for i in range(1, 65)], 32))
    assert layout.blocks[0] == layout.blocks[1]
    for _ in range(2):
        layout.blocks[1][-1] ^= 1 << layout.blocks[1][-1].bit_length() - 1
    with pytest.raises(FormatError, match="block 1: does not contain ascending"):
        read(layout.content())


@given(
    values=st.sets(FINGERPRINTS, min_size=1, max_size=100).map(sorted),
    changes=st.lists(
        st.tuples(
            st.integers(0, 10_000),
            st.one_of(st.integers(0, 64), st.integers(0, MAX), st.sampled_from([0, MAX])),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_blocks_of_nonsense_are_refused_or_ascend(values, changes):
    layout = Layout(write(values, 32))
    for at, word in changes:
        block = layout.blocks[at % len(layout.blocks)]
        block[at % 37 % len(block)] = word
    try:
        found = read(layout.content())
    except FormatError as error:
        damage = str(error)
    else:
        damage = None if found == sorted(set(found)) and len(found) == len(values) else "none"
    assert damage is None or damage.startswith("x.fpz, block ")


def test_a_file_that_shrinks_meanwhile_is_reported():
    file = io.BytesIO(GOOD)
    opened = packed.PackedReader(file, "x.fpz")
    file.truncate(100)
    with pytest.raises(FormatError, match="block 0: the file became shorter"):
        opened.read()
