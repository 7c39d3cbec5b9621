"""Rounds of the components job, on the runners of this machine, until labels are final."""

import random
from pathlib import Path

import numpy as np
import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.streaming import ClusterSettings, Input
from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.jobs.batches import BatchProtocol, Kind, encode_columns
from mr_dedup.pipeline import components as module
from mr_dedup.pipeline.components import Connected, connect
from tests.clusters.graphs import chain, labels_of, random_nodes, shapes
from tests.oracles import signed

SHAPES = shapes(random.Random(41))


def write(folder, pairs, inputs, *, text=False):
    """Write pairs as so many files, each with every so manieth of them."""
    paths = []
    for number in range(inputs):
        part = pairs[number::inputs]
        paths.append(folder / (f"part-{number}.tsv" if text else f"part-{number}"))
        if text:
            content = "".join(f"{one}\t{other}\n" for one, other in part).encode()
        else:
            columns = np.array(part, dtype=np.uint64).reshape(-1, 2)
            batches = encode_columns(Kind.MATCHES, [columns[:, 0], columns[:, 1]])
            content = b"".join(BatchProtocol().write(0, batch) + b"\n" for batch in batches)
        paths[-1].write_bytes(content)
    return paths


@pytest.fixture
def staging():
    with streaming.staging_folder() as folder:
        yield folder


def check(connected, pairs):
    """The labels are those of a search, ascending, each node once."""
    expected = labels_of(pairs)
    labels = connected.read()
    assert labels.nodes.tolist() == list(expected)
    assert labels.labels.tolist() == list(expected.values())
    assert connected.nodes == len(expected)
    assert connected.components == len(set(expected.values()))
    assert connected.unsettled[-1] == 0
    assert 0 not in connected.unsettled[:-1]


@pytest.mark.parametrize("runner", streaming.RUNNERS)
@pytest.mark.parametrize(("inputs", "partitions"), [(1, None), (2, 3), (7, 8)])
def test_labels_are_the_same_whatever_the_splits_partitions_and_runner(
    tmp_path, staging, runner, inputs, partitions
):
    pairs = [pair for shape in SHAPES.values() for pair in shape]
    files = write(tmp_path, pairs, inputs, text=inputs == 2)
    connected = connect(files, staging, runner=runner, cores=2, partitions=partitions)
    check(connected, pairs)
    assert len(connected.unsettled) == (1 if inputs == 1 else 3)
    # of all rounds only the last has left anything
    (folder,) = staging.iterdir()
    assert [path.name for path in folder.iterdir()] == [f"labels-{len(connected.unsettled):03}"]


@pytest.mark.parametrize(("length", "rounds"), [(10, 3), (1000, 5), (100_000, 6)])
def test_rounds_grow_by_the_logarithm_of_a_chains_length(tmp_path, staging, length, rounds):
    nodes = sorted(random_nodes(random.Random(42), length), key=signed)
    pairs = chain(nodes)
    connected = connect(write(tmp_path, pairs, 2), staging, runner="inline", partitions=8)
    check(connected, pairs)
    assert len(connected.unsettled) <= rounds


def test_two_giants_that_one_edge_of_another_input_joins(tmp_path, staging):
    rng = random.Random(43)
    left, right = random_nodes(rng, 2000), random_nodes(rng, 2000)
    pairs = chain(left) + chain(right)
    files = write(tmp_path, pairs, 2)
    apart = connect(files, staging, runner="inline", partitions=4)
    assert apart.components == 2
    bridge = write(tmp_path, [(left[777], right[888])], 1)[0].rename(tmp_path / "bridge")
    files = write(tmp_path, pairs, 2)
    joined = connect([*files, bridge], staging, runner="inline", partitions=4)
    check(joined, [*pairs, (left[777], right[888])])
    assert joined.components == 1


def test_labels_are_edges_to_go_on_with(tmp_path, staging):
    """Pairs that come later are joined to what was found before."""
    pairs = SHAPES["forest"]
    first = connect(write(tmp_path, pairs[:300], 2), staging, runner="inline", partitions=3)
    later = write(tmp_path, pairs[300:], 1, text=True)
    check(connect([*first.parts, *later], staging, runner="inline", partitions=5), pairs)


@pytest.mark.parametrize("partitions", [None, 3])
def test_no_edges_have_no_labels(tmp_path, staging, partitions):
    (tmp_path / "part-0").touch()
    (tmp_path / "b.tsv").touch()
    files = [tmp_path / "part-0", tmp_path / "b.tsv"]
    for runner in streaming.RUNNERS:
        connected = connect(files, staging, runner=runner, partitions=partitions)
        check(connected, [])
        assert list(connected.batches()) == []


def test_batches_ascend_over_all_partitions(tmp_path, staging, monkeypatch):
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 50)
    monkeypatch.setattr("mr_dedup.jobs.batches.ROWS_A_BATCH", 7)
    pairs = SHAPES["near-duplicates"]
    connected = connect(write(tmp_path, pairs, 3), staging, runner="inline", partitions=9)
    check(connected, pairs)
    sizes = [len(batch) for batch in connected.batches()]
    assert len(sizes) > 10
    # a batch of each partition may be held back until what is before it was read
    assert max(sizes) <= 2 * (50 + 9 * 7)


def test_partitions_follow_the_size_of_the_inputs(tmp_path, staging, monkeypatch):
    pairs = SHAPES["forest"]
    files = write(tmp_path, pairs, 2)
    size = sum(file.stat().st_size for file in files)
    for partition_bytes, keys in [(size, 1), (size - 1, 4 * 2), (size // 50, 51)]:
        monkeypatch.setattr(module, "_PARTITION_BYTES", partition_bytes)
        connected = connect(files, staging, runner="inline", cores=2)
        check(connected, pairs)
        lines = [line for part in connected.parts for line in lines_in(part)]
        assert {int(line.partition(b"\t")[0]) for line in lines} == set(range(keys))


def test_damaged_labels_are_told_with_their_place(tmp_path, staging):
    connected = connect(write(tmp_path, SHAPES["forest"], 2), staging, runner="inline")
    (part,) = connected.parts
    content = lines_in(part)[0]
    Path(part.place).write_bytes(content + content[:99] + b"?" + content[100:])
    with pytest.raises(FormatError, match=f"part-00000, byte {len(content)}: a batch between"):
        connected.read()
    remote = Connected((Input("hdfs:///part-00000", "part-00000"),), 0, 0, (0,))
    with pytest.raises(ValueError, match="hdfs:///part-00000 is on a cluster; fetch the files"):
        remote.read()


def lines_in(part):
    return Path(part.place).read_bytes().splitlines(keepends=True)


def test_misuse_is_refused(tmp_path, staging):
    (file,) = write(tmp_path, [(1, 2)], 1)
    with pytest.raises(ValueError, match="inputs: expected at least one file"):
        connect([], staging)
    with pytest.raises(ValueError, match="folder: needs a runner of clusters, not 'local'"):
        connect([file], staging, folder="hdfs:///labels")
    with pytest.raises(ValueError, match="cluster: expected no output_dir"):
        connect([file], staging, cluster=ClusterSettings(output_dir="hdfs:///labels"))
    with pytest.raises(ValueError, match="--partitions must be from 1 to 65536, not 0"):
        connect([file], staging, runner="inline", partitions=0)
    with pytest.raises(ValueError, match="runner must be one of"):
        connect([file], staging, runner="spark", partitions=1)


@pytest.mark.parametrize("runner", streaming.RUNNERS)
def test_damage_is_told_of_the_users_file(tmp_path, staging, runner):
    good, bad = write(tmp_path, SHAPES["forest"], 2)
    bad.write_bytes(bad.read_bytes()[:-9] + b"\n")
    with pytest.raises(MrDedupError) as raised:
        connect([good, bad], staging, runner=runner)
    assert str(raised.value).startswith(f"{bad}, line 1: a batch between tasks is damaged")
    missing = tmp_path / "missing"
    with pytest.raises(MrDedupError, match=f"^{missing}: cannot be read: No such file"):
        connect([Input.file(missing)], staging, runner=runner)
    assert list(staging.iterdir()) == []


def test_what_earlier_rounds_left_is_gone_after_a_failure_too(tmp_path, staging, monkeypatch):
    usual, left = module.unsettled_labels, []

    def unsettled_labels(counters):
        left.append(sorted(path.name for path in staging.glob("*/*")))
        if len(left) == 2:
            raise MrDedupError("the counters of the job were not read")
        return usual(counters)

    monkeypatch.setattr(module, "unsettled_labels", unsettled_labels)
    with pytest.raises(MrDedupError, match="were not read"):
        connect(write(tmp_path, SHAPES["chain"], 2), staging, runner="inline", partitions=8)
    assert left == [["labels-001"], ["labels-002"]]
    assert list(staging.iterdir()) == []
