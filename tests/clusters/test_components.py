"""Components in memory: every kind of graph equals a slow search."""

import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.clusters import components_kernels as kernels
from mr_dedup.clusters.components import Labels, Ranks, UnionFind, components
from mr_dedup.kernels.compiler import jit
from tests.clusters.graphs import EXTREMES, chain, labels_of, random_nodes, shapes
from tests.oracles import signed
from tests.strategies import FINGERPRINTS

slot_of = jit(kernels.slot_of)

SHAPES = shapes(random.Random(1))


def columns_of(pairs):
    columns = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    return columns[:, 0].copy(), columns[:, 1].copy()


def as_dict(labels):
    """The labels in their order, which must be ascending."""
    nodes = [signed(node) for node in labels.nodes.tolist()]
    assert nodes == sorted(set(nodes))
    return dict(zip(labels.nodes.tolist(), labels.labels.tolist(), strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_equals_a_search_in_any_order_of_pairs(shape):
    rng = random.Random(2)
    pairs = SHAPES[shape]
    expected = labels_of(pairs)
    for order in (pairs, pairs[::-1], [(other, one) for one, other in pairs],
                  rng.sample(pairs, len(pairs))):  # fmt: skip
        labels = components(*columns_of(order))
        assert as_dict(labels) == expected
        assert labels.nodes[labels.roots].tolist() == [n for n, at in expected.items() if n == at]


def test_no_edges_have_no_nodes():
    labels = components(*columns_of([]))
    assert len(labels) == 0
    assert labels.nodes.dtype == labels.labels.dtype == np.uint64


values = st.sampled_from([*EXTREMES, *range(2, 12)]) | FINGERPRINTS
graphs = st.lists(st.tuples(values, values), max_size=60)


@given(graphs)
def test_any_graph_equals_a_search(pairs):
    assert as_dict(components(*columns_of(pairs))) == labels_of(pairs)


@given(graphs, st.integers(1, 9), st.integers(1, 30))
def test_batches_equal_all_edges_at_once(pairs, size, min_buffered):
    forest = UnionFind(min_buffered)
    for start in range(0, len(pairs), size):
        forest.add(*columns_of(pairs[start : start + size]))
        if start % 2:
            assert as_dict(forest.labels()) == labels_of(pairs[: start + size])
    assert as_dict(forest.labels()) == labels_of(pairs)


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
def test_long_chains_are_one_component(order):
    nodes = sorted(random_nodes(random.Random(3), 100_000), key=signed)
    smallest = nodes[0]
    if order == "descending":
        nodes.reverse()
    elif order == "shuffled":
        random.Random(4).shuffle(nodes)
    labels = components(*columns_of(chain(nodes)))
    assert len(labels) == 100_000
    assert np.unique(labels.labels).tolist() == [smallest]


def test_nodes_whose_slots_collide_are_told_apart():
    """All look for the last slot of the table first, and go on from its beginning."""
    rng = np.random.default_rng(5)
    count = 64
    shift = np.uint64(64 - (count.bit_length() + 1))
    last = (1 << (64 - int(shift))) - 1
    drawn = rng.integers(0, 2**64, 40_000, dtype=np.uint64)
    colliding = [node for node in drawn.tolist() if slot_of(np.uint64(node), shift) == last]
    assert len(colliding) >= count
    pairs = chain(colliding[: count // 2]) + chain(colliding[count // 2 : count])
    assert as_dict(components(*columns_of(pairs))) == labels_of(pairs)


def test_more_edges_than_are_numbered_at_once():
    rng = np.random.default_rng(6)
    for size in (kernels._BATCH - 1, kernels._BATCH, 3 * kernels._BATCH + 1):
        left, right = rng.integers(0, size, (2, size), dtype=np.uint64)
        expected = labels_of(zip(left.tolist(), right.tolist(), strict=True))
        assert as_dict(components(left, right)) == expected


def test_views_and_read_only_arrays_do_as_well():
    pairs = SHAPES["forest"]
    columns = np.array(pairs, dtype=np.uint64)
    columns.setflags(write=False)
    assert as_dict(components(columns[:, 0], columns[:, 1])) == labels_of(pairs)


def test_memory_is_bounded_by_the_nodes():
    """Edges of 26 MB between 1,000 nodes."""
    rng = np.random.default_rng(7)
    forest = UnionFind(min_buffered=1 << 12)
    forest.add(*rng.integers(0, 1000, (2, 1 << 12), dtype=np.uint64))
    tracemalloc.start()
    try:
        for _ in range(400):
            forest.add(*rng.integers(0, 1000, (2, 1 << 12), dtype=np.uint64))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert forest.labels().labels.tolist() == [0] * 1000


def test_labels_asked_for_again_are_not_computed_again():
    forest = UnionFind()
    forest.add(*columns_of([(1, 2)]))
    assert forest.labels() is forest.labels()


ONES, TWOS = np.ones(2, np.uint64), np.full((2, 1), 2, np.uint64)


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (ONES.astype(np.int64), ONES, r"left must be uint64\[m\], not int64\[2\]"),
        (ONES, TWOS, r"right must be uint64\[m\], not uint64\[2, 1\]"),
        (ONES, ONES[:1], "expected as many of both, got 2, 1"),
    ],
)
def test_other_arrays_are_refused(left, right, said):
    with pytest.raises(ValueError, match=said):
        components(left, right)
    with pytest.raises(ValueError, match=said):
        UnionFind().add(left, right)


def test_too_many_nodes_are_refused(monkeypatch):
    monkeypatch.setattr(kernels, "MAX_NODES", 2)
    with pytest.raises(ValueError, match=r"less than 2\*\*32 - 1, got 3"):
        components(*columns_of([(1, 2), (2, 3)]))


def test_labels_know_their_number():
    assert len(Labels(*columns_of([(1, 1), (2, 1)]))) == 2


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
@pytest.mark.parametrize("read_only", [False, True])
def test_values_are_looked_up(count, read_only):
    rng = np.random.default_rng(count)
    nodes = np.unique(rng.integers(0, 1 << 64, count, np.uint64))
    rng.shuffle(nodes)
    values = np.concatenate([rng.permutation(nodes), rng.integers(0, 1 << 64, 50, np.uint64)])
    nodes.flags.writeable = values.flags.writeable = not read_only
    known = {node: place for place, node in enumerate(nodes.tolist())}
    expected = [known.get(value, -1) for value in values.tolist()]
    assert Ranks(nodes).of(values).tolist() == expected
    # what is cut out of another array
    assert Ranks(nodes).of(values[::2]).tolist() == expected[::2]
