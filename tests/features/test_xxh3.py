"""The hash of kernels against the xxhash package's."""

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features.xxh3_kernels import xxh3_64


def hashed(content, begin=0, end=None):
    array = np.frombuffer(content, np.uint8)
    return int(xxh3_64(array, np.uint64(begin), np.uint64(len(content) if end is None else end)))


@pytest.mark.parametrize("begin", [0, 1, 7])
def test_every_length_equals_the_package(begin):
    """Every path and every edge between two, aligned and not, up to two blocks of stripes."""
    content = np.random.default_rng(1).bytes(2 * 1024 + 200)
    for end in range(begin, len(content)):
        assert hashed(content, begin, end) == xxhash.xxh3_64_intdigest(content[begin:end]), end


@pytest.mark.parametrize("size", [1 << 16, (1 << 20) + 1, 10_000_000])
def test_long_content_equals_the_package(size):
    content = np.random.default_rng(size).bytes(size)
    assert hashed(content) == xxhash.xxh3_64_intdigest(content)


@given(st.binary(max_size=600))
def test_any_bytes_equal_the_package(content):
    assert hashed(content) == xxhash.xxh3_64_intdigest(content)
