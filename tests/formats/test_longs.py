"""Longs against struct, whole and in ranges, as files and as streams."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError
from mr_dedup.formats import longs
from tests.strategies import FINGERPRINTS

fingerprint_lists = st.lists(FINGERPRINTS, max_size=40)
byte_orders = pytest.mark.parametrize("byte_order", ["big", "little"])


def packed_by_struct(values, byte_order):
    code = {"big": ">", "little": "<"}[byte_order]
    return b"".join(struct.pack(f"{code}Q", value) for value in values)


def joined(blocks):
    return [value for block in blocks for value in block.tolist()]


@byte_orders
@given(values=fingerprint_lists)
def test_writes_what_struct_packs(byte_order, values):
    file = io.BytesIO()
    longs.write(file, np.array(values, dtype=np.uint64), byte_order)
    assert file.getvalue() == packed_by_struct(values, byte_order)


def test_a_fingerprint_is_a_signed_java_long():
    file = io.BytesIO()
    longs.write(file, np.array([2**64 - 1, 2**63], dtype=np.uint64))
    assert struct.unpack(">2q", file.getvalue()) == (-1, -(2**63))


def test_writes_arrays_that_are_not_contiguous():
    file = io.BytesIO()
    longs.write(file, np.arange(6, dtype=np.uint64)[::2])
    assert file.getvalue() == packed_by_struct([0, 2, 4], "big")


@byte_orders
@given(values=fingerprint_lists, max_count=st.integers(1, 50))
def test_streams_are_read_in_bounded_blocks(byte_order, values, max_count):
    file = io.BytesIO(packed_by_struct(values, byte_order))
    blocks = list(longs.read_stream(file, "x", byte_order, max_count))
    assert joined(blocks) == values
    assert all(block.dtype == np.uint64 and 1 <= len(block) <= max_count for block in blocks)
    assert all(block.dtype.isnative for block in blocks)


class Dribble(io.RawIOBase):
    """A stream that gives 3 bytes at a time, as a pipe may."""

    def __init__(self, content):
        self._content = io.BytesIO(content)

    def readinto(self, buffer):
        return self._content.readinto(memoryview(buffer)[:3])


def test_a_stream_may_give_less_than_it_is_asked_for():
    values = [1, 2**40, 2**64 - 1]
    stream = Dribble(packed_by_struct(values, "big"))
    assert joined(longs.read_stream(stream, "x", max_count=2)) == values


@byte_orders
@given(
    values=fingerprint_lists,
    start=st.integers(0, 45),
    stop=st.none() | st.integers(0, 45),
    max_count=st.integers(1, 50),
)
def test_ranges_are_slices(tmp_path_factory, byte_order, values, start, stop, max_count):
    path = tmp_path_factory.mktemp("longs") / "x.longs"
    path.write_bytes(packed_by_struct(values, byte_order))
    blocks = list(longs.read_range(path, start, stop, byte_order, max_count))
    assert joined(blocks) == values[start:stop]
    assert all(block.dtype.isnative and 1 <= len(block) <= max_count for block in blocks)
    assert longs.count(path) == len(values)


@pytest.mark.parametrize("extra", range(1, 8))
def test_a_broken_length_is_reported_before_anything_is_yielded(tmp_path, extra):
    path = tmp_path / "x.longs"
    path.write_bytes(bytes(24 + extra))
    message = rf"x\.longs, byte 24: ends inside a long, {extra} of its 8 bytes"
    with pytest.raises(FormatError, match=message):
        longs.count(path)
    with pytest.raises(FormatError, match=message):
        next(longs.read_range(path, 0, 1))


def test_a_broken_stream_is_reported_where_it_ends():
    blocks = longs.read_stream(io.BytesIO(bytes(21)), "stream", max_count=1)
    assert next(blocks).tolist() == [0]
    assert next(blocks).tolist() == [0]
    with pytest.raises(FormatError, match="stream, byte 16: ends inside a long, 5 of its 8"):
        next(blocks)


def test_a_file_that_shrinks_meanwhile_is_reported(tmp_path):
    path = tmp_path / "x.longs"
    path.write_bytes(bytes(32))
    blocks = longs.read_range(path, max_count=2)
    assert len(next(blocks)) == 2
    with path.open("r+b") as file:
        file.truncate(24)
    with pytest.raises(FormatError, match="byte 24: the file became shorter"):
        next(blocks)
