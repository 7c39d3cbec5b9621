"""Histograms against counting one by one."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.report.reports import distributions_of


def distributions(sizes=(), **values):
    return distributions_of(sizes, **values)


@given(st.lists(st.one_of(st.integers(2, 70), st.integers(2, 10**9)), max_size=30))
def test_sizes(sizes):
    labels, counts = distributions(sizes=sizes).sizes
    start, ranges = 2, []
    for label in labels:
        first, _, last = label.replace(",", "").partition("–")
        ranges.append((int(first), int(last or first)))
        assert ranges[-1][0] == start
        assert math.log2(ranges[-1][1]).is_integer()
        start = ranges[-1][1] + 1
    assert counts == [sum(low <= size <= high for size in sizes) for low, high in ranges]
    assert sum(counts) == len(sizes)
    assert not sizes or counts[-1]


@given(st.lists(st.integers(0, 64), max_size=30))
def test_distances(distances):
    labels, counts = distributions(distances=distances).distances
    assert labels == [str(bits) for bits in range(max(distances, default=0) + 1)]
    assert counts == [distances.count(bits) for bits in range(len(labels))]


@given(
    st.lists(st.one_of(st.floats(0, 1), st.integers(0, 1000).map(lambda n: n / 1000)), max_size=30)
)
def test_similarities(similarities):
    values = np.array([*similarities, math.nan])
    labels, counts = distributions(similarities=values).similarities
    edges = [float(label) for label in labels]
    assert len(labels) == 21
    assert edges[-1] == 1
    assert min(similarities, default=1) >= edges[0]
    assert edges[0] == 0.9 or min(similarities) < round(edges[0] + 0.1, 9)
    assert counts == [
        sum(low <= value < high for value in similarities)
        for low, high in zip(edges, [*edges[1:], 2], strict=True)
    ]
    assert sum(counts) == len(similarities)


@given(st.integers(0, 9000), st.integers(0, 5))
def test_leading_bits(count, seed):
    values = np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64)
    labels, counts = distributions(fingerprints=values).leading
    bits = len(labels[0])
    assert labels == [f"{bucket:0{bits}b}" for bucket in range(1 << bits)]
    assert 1 <= bits <= 7
    assert bits == 7 or count < 32 << bits + 1
    assert bits == 1 or count >= 32 << bits
    patterns = [f"{value:064b}"[:bits] for value in values.tolist()]
    assert counts == [patterns.count(label) for label in labels]
