"""The cluster stage of simhash, on the engines of this machine, against comparing all."""

import random

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.clusters.splitting import ClusterLimit
from mr_dedup.engines import streaming
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.jobs.reading import NO_REJECTS
from mr_dedup.jobs.row_shards import Attached
from mr_dedup.pipeline import dedup_stages, sharded_run
from mr_dedup.pipeline.dedup_options import DedupOptions
from mr_dedup.pipeline.dedup_stages import Plan, cluster
from tests.oracles import signed
from tests.pipeline.fingerprint_sets import SETS, expected, expected_split
from tests.pipeline.runs import left_in, run_on

CHUNKS = 3


@pytest.fixture
def staging():
    with streaming.staging_folder() as folder:
        yield folder
        assert list(folder.iterdir()) == []


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    for name in ("_MIN_TASK_BYTES", "_MAX_TASK_BYTES"):
        monkeypatch.setattr(sharded_run, name, 1)
    monkeypatch.setattr(dedup_stages, "_PARTITION_BYTES", 4000)


def rows_of(values, lengths):
    """Yield the rows of documents in chunks, and the rejects of one that has no documents."""
    for chunk in range(CHUNKS):
        some = np.array(values[chunk::CHUNKS], np.uint64).view(np.int64)
        columns = {"fingerprint": some, "length": np.array(lengths[chunk::CHUNKS], np.int64)}
        yield chunk, pa.table(columns) if some.size else NO_REJECTS


def clustered(engine, folder, values, lengths, k):
    """Run the stage; return (value, label) of the documents in clusters, and the counts."""
    run = run_on(engine, folder)
    options = DedupOptions(k=k, verify=None, shingles="auto")
    rows = left_in(run, "rows", rows_of(values, lengths))
    attached, counts = cluster(Plan(run, options, engine.tasks), rows)
    found = []
    for chunk in range(CHUNKS):
        of_chunk = Attached.read(attached.folder, chunk)
        of_values = values[chunk::CHUNKS]
        assert of_chunk.documents == len(of_values)
        assert of_chunk.rows.tolist() == sorted(set(of_chunk.rows.tolist()))
        nodes = [of_values[row] for row in of_chunk.rows.tolist()]
        assert of_chunk.nodes.tolist() == nodes
        assert of_chunk.lengths.tolist() == [
            lengths[chunk::CHUNKS][row] for row in of_chunk.rows.tolist()
        ]
        found += zip(nodes, of_chunk.labels.tolist(), strict=True)
    # nothing else is left
    assert sorted(path.name for path in folder.iterdir()) == ["attached", "rows"]
    return found, counts


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(
    ("runner", "cores"), [("inline", 1), ("local", 3), ("memory", 1), ("memory", 3)]
)
def test_the_same_by_whatever_finds_them(tmp_path, staging, name, runner, cores):
    values = SETS[name]
    engine = StreamingEngine(runner, staging, cores)
    if runner == "memory":
        engine = MemoryEngine(cores, memory_bytes=10_000)
    found, counts = clustered(engine, tmp_path, values, [7] * len(values), 3)
    labels, pairs = expected(values, 3)
    assert sorted(found) == sorted((value, labels[value]) for value in values if value in labels)
    assert counts == {
        "distinct_fingerprints": len(set(values)),
        "fingerprint_pairs": pairs,
        "fingerprint_clusters": len(set(labels.values())),
        "shared_key_links": 0,
        "oversized_keys": 0,
        "clusters_split": 0,
        "documents_in_split_clusters": 0,
    }


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("most", [0, 50, 300, 10_000])
def test_clusters_are_split_until_they_are_small(tmp_path, monkeypatch, name, most):
    monkeypatch.setattr(dedup_stages, "UNVERIFIED", ClusterLimit(most))
    rng = random.Random(most)
    values = SETS[name]
    lengths = [rng.choice([5, 8, 13]) for _ in values]
    found, counts = clustered(MemoryEngine(2), tmp_path, values, lengths, 5)
    clusters: dict[int, set[int]] = {}
    for value, label in found:
        clusters.setdefault(label, set()).add(value)
    assert all(label == min(nodes, key=signed) for label, nodes in clusters.items())
    wanted, split = expected_split(values, lengths, 5, most)
    assert {frozenset(nodes) for nodes in clusters.values()} == wanted
    assert (counts["clusters_split"], counts["documents_in_split_clusters"]) == split
