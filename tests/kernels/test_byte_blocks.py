"""Blocks of bytes and unaligned loads, against slices of Python's bytes."""

import string

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mr_dedup.kernels.byte_blocks import (
    BLOCK_BYTES,
    COPY_BYTES,
    below_mask,
    copy_block,
    copy_block_lower,
    copy_lower,
    word_mask,
)
from mr_dedup.kernels.compiler import jit
from mr_dedup.kernels.memory import load32, load64

WORD = (string.ascii_letters + string.digits).encode()


@jit
def masks(content, start, bound):
    return (
        below_mask(content, start, bound),
        word_mask(content, start),
    )


@jit
def loads(content, start):
    return load64(content, start), load32(content, start)


@jit
def copies(content, start, outs):
    copy_block(content, start, outs[0], start)
    copy_block_lower(content, start, outs[1], start)
    copy_lower(content, start, outs[2], start)


def mask_of(flags):
    return sum(1 << j for j, flag in enumerate(flags) if flag)


CONTENT = st.one_of(
    st.binary(min_size=BLOCK_BYTES + 7, max_size=BLOCK_BYTES + 7),
    st.text(string.printable, min_size=BLOCK_BYTES + 7, max_size=BLOCK_BYTES + 7).map(str.encode),
)


@settings(deadline=None)
@given(CONTENT, st.integers(0, 7), st.integers(0, 255))
def test_blocks_are_those_of_slices(content, start, bound):
    array = np.frombuffer(content, np.uint8)
    block = content[start : start + BLOCK_BYTES]
    assert masks(array, np.uint64(start), np.uint8(bound)) == (
        mask_of(byte < bound for byte in block),
        mask_of(byte in WORD for byte in block),
    )
    assert loads(array, np.uint64(start)) == tuple(
        int.from_bytes(block[:size], "little") for size in (8, 4)
    )
    outs = np.full((3, len(content)), 0xFF, np.uint8)
    copies(array, np.uint64(start), outs)
    end = start + BLOCK_BYTES
    for out, copied in zip(outs, (block, block.lower(), block[:COPY_BYTES].lower()), strict=True):
        stop = start + len(copied)
        assert out[start:stop].tobytes() == copied
        assert (out[:start] == 0xFF).all()
        assert (out[stop:end] == 0xFF).all()
