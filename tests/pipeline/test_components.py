"""Rounds of the components job, on the engines of this machine, until labels are final."""

import random

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.clusters.partitioned_components import MAX_PARTITIONS, partition_of
from mr_dedup.engines import streaming
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.errors import MrDedupError
from mr_dedup.pipeline import components as module
from mr_dedup.pipeline import sharded_run
from mr_dedup.pipeline.components import connected, partitions_for
from tests.clusters.graphs import chain, labels_of, random_nodes, shapes
from tests.oracles import signed
from tests.pipeline.runs import left_in, rows_in, run_on

SHAPES = shapes(random.Random(41))


def tables(pairs, parts):
    """Yield pairs as so many parts, each with every so manieth of them."""
    for number in range(parts):
        columns = np.array(pairs[number::parts], dtype=np.uint64).reshape(-1, 2)
        yield number, pa.table({"left": columns[:, 0].copy(), "right": columns[:, 1].copy()})


@pytest.fixture(autouse=True)
def a_task_a_shard(monkeypatch):
    for name in ("_MIN_TASK_BYTES", "_MAX_TASK_BYTES"):
        monkeypatch.setattr(sharded_run, name, 1)


@pytest.fixture
def connecting(monkeypatch, tmp_path):
    """Return what labels pairs, and the numbers of labels that its rounds left unsettled."""

    def connected_by(engine, pairs, parts, partitions=None):
        """Without ``partitions`` there are as many as the job finds itself."""
        unsettled = []
        with monkeypatch.context() as patch:
            if partitions is not None:
                patch.setattr(module, "partitions_for", lambda *_: partitions)
            usual = module.unsettled_labels
            patch.setattr(
                module, "unsettled_labels",
                lambda counters: unsettled.append(usual(counters)) or unsettled[-1],
            )  # fmt: skip
            run = run_on(engine, tmp_path / "run")
            left = connected(run, [left_in(run, "edges", tables(pairs, parts))], engine.tasks)
        # those of the rounds before are removed
        names = sorted(path.name for path in (tmp_path / "run").iterdir())
        assert names == ["edges", f"labels-{len(unsettled) - 1}"]
        return left, unsettled

    return connected_by


@pytest.fixture
def staging():
    with streaming.staging_folder() as folder:
        yield folder
        assert list(folder.iterdir()) == []


def check(left, unsettled, pairs, partitions=1):
    """The labels are those of a search, each node once, in the shard of its partition."""
    expected = labels_of(pairs)
    found = pa.concat_tables(rows_in(left)).to_pydict()
    by_node = dict(zip(found["node"], found["label"], strict=True))
    assert by_node == expected
    assert len(found["node"]) == len(expected)
    for shard in left.shards:
        for table in left.tables(shard.key):
            assert set(partition_of(table["node"].to_numpy(), partitions)) == {shard.key}
    assert left.counters["components"] == len(set(expected.values()))
    assert unsettled[-1] == 0
    assert 0 not in unsettled[:-1]


@pytest.mark.parametrize("name", ["memory", "spilled", "inline", "local"])
@pytest.mark.parametrize(("parts", "partitions"), [(1, None), (2, 3), (7, 8)])
def test_labels_are_the_same_whatever_the_splits_partitions_and_engine(
    connecting, staging, name, parts, partitions
):
    pairs = [pair for shape in SHAPES.values() for pair in shape]
    engine = {
        "memory": MemoryEngine(threads=2),
        "spilled": MemoryEngine(threads=2, memory_bytes=1000, folder=staging),
    }.get(name) or StreamingEngine(name, staging, cores=2)
    left, unsettled = connecting(engine, pairs, parts, partitions)
    check(left, unsettled, pairs, partitions or 1)
    assert len(unsettled) == 1 if parts == 1 else len(unsettled) in (3, 4)


@pytest.mark.parametrize(("length", "rounds"), [(10, 4), (1000, 5), (100_000, 6)])
def test_rounds_grow_by_the_logarithm_of_a_chains_length(connecting, length, rounds):
    nodes = sorted(random_nodes(random.Random(42), length), key=signed)
    pairs = chain(nodes)
    left, unsettled = connecting(MemoryEngine(), pairs, 2, partitions=8)
    check(left, unsettled, pairs, 8)
    assert len(unsettled) <= rounds


def test_two_giants_that_one_edge_of_another_part_joins(connecting, tmp_path):
    rng = random.Random(43)
    ones, others = random_nodes(rng, 2000), random_nodes(rng, 2000)
    pairs = chain(ones) + chain(others)
    apart, unsettled = connecting(MemoryEngine(), pairs, 2, partitions=4)
    check(apart, unsettled, pairs, 4)
    assert apart.counters["components"] == 2
    sharded_run.remove(apart.folder)
    pairs.append((ones[777], others[888]))
    joined, unsettled = connecting(MemoryEngine(), pairs, 3, partitions=4)
    check(joined, unsettled, pairs, 4)
    assert joined.counters["components"] == 1


def test_edges_of_several_methods_are_connected_together(tmp_path):
    run = run_on(MemoryEngine(threads=2), tmp_path)
    pairs = SHAPES["two giants and a bridge"]
    edges = [left_in(run, f"edges-{n}", tables(pairs[n::3], 2)) for n in range(3)]
    empty = left_in(run, "edges-3", tables([], 1))
    check(connected(run, [*edges, empty], 2), [0], pairs)


@pytest.mark.parametrize("partitions", [None, 3])
@pytest.mark.parametrize("name", ["memory", "inline", "local"])
def test_no_edges_have_no_labels(tmp_path, staging, monkeypatch, name, partitions):
    if partitions is not None:
        monkeypatch.setattr(module, "partitions_for", lambda *_: partitions)
    engine = MemoryEngine() if name == "memory" else StreamingEngine(name, staging)
    run = run_on(engine, tmp_path)
    assert connected(run, [], engine.tasks) is None
    assert connected(run, [left_in(run, "edges", tables([], 2))], engine.tasks) is None
    assert [path.name for path in tmp_path.iterdir()] == ["edges"]


def test_partitions_follow_the_size_of_the_edges(connecting, monkeypatch):
    used = []

    class Noting(module.ComponentsJob, frozen=True, kw_only=True):
        def __post_init__(self):
            used.append(self.partitions)

    monkeypatch.setattr(module, "ComponentsJob", Noting)
    pairs = SHAPES["forest"]
    size = 16 * len(pairs)
    for partition_bytes, partitions in [(size, 1), (size - 1, 4 * 2), (size // 50, 51)]:
        monkeypatch.setattr(module, "_PARTITION_BYTES", partition_bytes)
        left, unsettled = connecting(MemoryEngine(threads=2), pairs, 2)
        assert used[-1] in (partitions, partitions - 1)
        check(left, unsettled, pairs, used[-1])
        sharded_run.remove(left.folder)


def test_partitions_keep_all_tasks_busy_or_are_of_a_size():
    size = 32 << 20
    assert [partitions_for(each, 3) for each in (0, size, size + 1)] == [1, 1, 12]
    assert partitions_for(100 * size, 3) == 100
    assert partitions_for(size << 30, 3) == MAX_PARTITIONS


def test_few_edges_take_one_round(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "partitions_for", lambda *_: 8)
    pairs = SHAPES["two giants and a bridge"]
    rounds = []
    usual = module.unsettled_labels
    monkeypatch.setattr(
        module, "unsettled_labels", lambda counters: rounds.append(1) or usual(counters)
    )
    run = run_on(MemoryEngine(threads=2), tmp_path, small_bytes=1 << 20)
    check(connected(run, [left_in(run, "edges", tables(pairs, 3))], 2), [0], pairs)
    assert len(rounds) == 1


def test_tasks_leave_nothing_behind_if_a_round_fails(tmp_path, staging, monkeypatch):
    usual, rounds = module.unsettled_labels, []

    def unsettled_labels(counters):
        rounds.append(counters)
        if len(rounds) == 2:
            raise MrDedupError("the counters of the job were not read")
        return usual(counters)

    monkeypatch.setattr(module, "unsettled_labels", unsettled_labels)
    monkeypatch.setattr(module, "partitions_for", lambda *_: 8)
    engine = StreamingEngine("inline", staging)
    run = run_on(engine, tmp_path)
    edges = left_in(run, "edges", tables(SHAPES["chain"], 2))
    with pytest.raises(MrDedupError, match="were not read"):
        connected(run, [edges], 2)
    assert len(rounds) == 2
    assert list(staging.iterdir()) == []
