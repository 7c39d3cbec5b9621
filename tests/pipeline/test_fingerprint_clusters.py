"""Clusters of fingerprints, by this process and by tasks, against comparing each with each."""

import random

import numpy as np
import pytest

from mr_dedup import runners
from mr_dedup.pipeline.fingerprint_clusters import JoinEngine, cluster_fingerprints
from tests.clusters.graphs import labels_of
from tests.oracles import signed


def clustered(rng, size):
    """Fingerprints within a few bits of a few others."""
    centres = [rng.getrandbits(64) for _ in range(max(1, size // 8))]
    flips = ((rng.getrandbits(6) for _ in range(rng.randrange(4))) for _ in range(size))
    return [rng.choice(centres) ^ sum({1 << bit for bit in bits}) for bits in flips]


def skewed(rng, size):
    """Fingerprints that share all but their last bits, and some others."""
    shared = rng.getrandbits(64) >> 20 << 20
    return [shared | rng.getrandbits(20) for _ in range(size)] + clustered(rng, size // 4)


SETS = {
    "none": [],
    "one": [5],
    "the same": [7] * 5,
    "uniform": [random.Random(1).getrandbits(64) for _ in range(300)] * 2,
    "clustered": clustered(random.Random(2), 400),
    "skewed": skewed(random.Random(3), 300),
    "signed": [0, 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 1, 2**63 - 1],
}


def expected(values, k):
    """The label of each fingerprint that has a neighbour or occurs more than once; the pairs."""
    distinct = sorted(set(values))
    pairs = [
        (one, other)
        for place, one in enumerate(distinct)
        for other in distinct[place + 1 :]
        if (one ^ other).bit_count() <= k
    ]
    repeated = [(value, value) for value in distinct if values.count(value) > 1]
    return labels_of([*pairs, *repeated]), len(pairs)


@pytest.fixture
def staging():
    with runners.staging_folder() as folder:
        yield folder


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(
    ("runner", "join", "cores"),
    [("inline", "memory", None), ("inline", "tasks", None), ("local", "tasks", 1),
     ("local", "tasks", 3), ("local", "auto", 2)],
)  # fmt: skip
def test_the_same_by_whatever_finds_them(staging, name, runner, join, cores):
    values = SETS[name]
    engine = JoinEngine(runner, staging, cores, join=join)
    found = cluster_fingerprints(np.array(values, np.uint64), 3, engine)
    labels, pairs = expected(values, 3)
    assert (
        dict(zip(found.labels.nodes.tolist(), found.labels.labels.tolist(), strict=True)) == labels
    )
    assert found.labels.nodes.tolist() == sorted(labels, key=signed)
    assert found.counts == {
        "distinct fingerprints": len(set(values)),
        "pairs of fingerprints": pairs,
        "clusters of fingerprints": len(set(labels.values())),
    }


def test_tasks_find_them_only_where_that_is_quicker(staging):
    sample = np.random.default_rng(1).integers(0, 2**64, 8192, dtype=np.uint64)

    def spreads(size, runner="local", cores=8, join="auto"):
        return JoinEngine(runner, staging, cores, join=join).spreads(size, 7, sample)

    assert not spreads(1_000_000)
    assert spreads(1_000_000_000)
    assert spreads(1_000_000_000, runner="hadoop")
    assert not spreads(100_000_000, runner="inline")
    assert spreads(1, join="tasks")
    assert not spreads(1_000_000_000, join="memory")
