"""Rounds of the components job, on the engines of this machine, until labels are final."""

import random

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.errors import MrDedupError
from mr_dedup.pipeline import components as module
from mr_dedup.pipeline.components import connect
from tests.clusters.graphs import chain, labels_of, random_nodes, shapes
from tests.oracles import signed

SHAPES = shapes(random.Random(41))


def tables(pairs, parts):
    """Yield pairs as so many parts, each with every so manieth of them."""
    for number in range(parts):
        columns = np.array(pairs[number::parts], dtype=np.uint64).reshape(-1, 2)
        yield number, pa.table({"left": columns[:, 0].copy(), "right": columns[:, 1].copy()})


def connected_by(engine, pairs, parts, **options):
    with engine.stored(tables(pairs, parts)) as edges:
        return connect(edges, engine, **options)


@pytest.fixture
def staging():
    with streaming.staging_folder() as folder:
        yield folder
        assert list(folder.iterdir()) == []


def check(connected, pairs):
    """The labels are those of a search, ascending, each node once."""
    expected = labels_of(pairs)
    assert connected.labels.nodes.tolist() == list(expected)
    assert connected.labels.labels.tolist() == list(expected.values())
    assert connected.unsettled[-1] == 0
    assert 0 not in connected.unsettled[:-1]


@pytest.mark.parametrize("name", ["memory", "spilled", "inline", "local"])
@pytest.mark.parametrize(("parts", "partitions"), [(1, None), (2, 3), (7, 8)])
def test_labels_are_the_same_whatever_the_splits_partitions_and_engine(
    staging, name, parts, partitions
):
    pairs = [pair for shape in SHAPES.values() for pair in shape]
    engine = {
        "memory": MemoryEngine(threads=2),
        "spilled": MemoryEngine(threads=2, memory_bytes=1000, folder=staging),
    }.get(name) or StreamingEngine(name, staging, cores=2)
    connected = connected_by(engine, pairs, parts, partitions=partitions)
    check(connected, pairs)
    assert len(connected.unsettled) == 1 if parts == 1 else len(connected.unsettled) in (3, 4)


@pytest.mark.parametrize(("length", "rounds"), [(10, 4), (1000, 5), (100_000, 6)])
def test_rounds_grow_by_the_logarithm_of_a_chains_length(length, rounds):
    nodes = sorted(random_nodes(random.Random(42), length), key=signed)
    pairs = chain(nodes)
    connected = connected_by(MemoryEngine(), pairs, 2, partitions=8)
    check(connected, pairs)
    assert len(connected.unsettled) <= rounds


def test_two_giants_that_one_edge_of_another_part_joins():
    rng = random.Random(43)
    left, right = random_nodes(rng, 2000), random_nodes(rng, 2000)
    pairs = chain(left) + chain(right)
    apart = connected_by(MemoryEngine(), pairs, 2, partitions=4)
    assert apart.labels.roots.sum() == 2
    pairs.append((left[777], right[888]))
    joined = connected_by(MemoryEngine(), pairs, 3, partitions=4)
    check(joined, pairs)
    assert joined.labels.roots.sum() == 1


@pytest.mark.parametrize("partitions", [None, 3])
@pytest.mark.parametrize("name", ["memory", "inline", "local"])
def test_no_edges_have_no_labels(staging, name, partitions):
    engine = MemoryEngine() if name == "memory" else StreamingEngine(name, staging)
    with engine.stored([]) as nothing:
        connected = connect(nothing, engine, partitions=partitions)
    assert (len(connected.labels), connected.unsettled) == (0, ())


def test_partitions_follow_the_size_of_the_edges(monkeypatch):
    used = []

    class Noting(module.ComponentsJob, frozen=True, kw_only=True):
        def __post_init__(self):
            used.append(self.partitions)

    monkeypatch.setattr(module, "ComponentsJob", Noting)
    pairs = SHAPES["forest"]
    size = 16 * len(pairs)
    for partition_bytes, partitions in [(size, 1), (size - 1, 4 * 2), (size // 50, 51)]:
        engine = MemoryEngine(threads=2)
        check(connected_by(engine, pairs, 2, partition_bytes=partition_bytes), pairs)
        assert used[-1] in (partitions, partitions - 1)


def test_partitions_out_of_range_are_refused():
    with pytest.raises(ValueError, match="--partitions must be from 1 to 65536, not 0"):
        connected_by(MemoryEngine(), [(1, 2)], 1, partitions=0)


def test_what_earlier_rounds_left_is_gone_after_a_failure_too(staging, monkeypatch):
    usual, rounds = module.unsettled_labels, []

    def unsettled_labels(counters):
        rounds.append(counters)
        if len(rounds) == 2:
            raise MrDedupError("the counters of the job were not read")
        return usual(counters)

    monkeypatch.setattr(module, "unsettled_labels", unsettled_labels)
    with pytest.raises(MrDedupError, match="were not read"):
        connected_by(StreamingEngine("inline", staging), SHAPES["chain"], 2, partitions=8)
    assert len(rounds) == 2
    assert list(staging.iterdir()) == []
