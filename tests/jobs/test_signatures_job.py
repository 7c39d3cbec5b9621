"""The signatures job: edges that connect what shares enough keys, whatever the splits."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.jobs.signatures import SignaturesJob
from tests.engines.shard_inputs import shard_inputs
from tests.signatures.test_candidates import components_of


def tables(sets, counts):
    """Yield nodes with their keys: for each count a table of so many, under its index."""
    first = 0
    for number, count in enumerate(counts):
        some = sets[first : first + count]
        lists = pa.array([sorted(each) for each in some], pa.large_list(pa.uint64()))
        nodes = np.arange(first, first + len(some), dtype=np.uint64)
        yield number, pa.table({"fingerprint": nodes, "keys_0": lists})
        first += count


def edges(engine, job, given):
    with engine.run(job, given) as output:
        found = [
            pair
            for _, table in output
            for pair in zip(table["left"].to_pylist(), table["right"].to_pylist(), strict=True)
        ]
    return sorted(found), dict(output.counters)


@pytest.mark.parametrize("min_shared_keys", [1, 2])
def test_edges_connect_what_shares_enough(tmp_path, min_shared_keys):
    random = np.random.default_rng(min_shared_keys)
    sets = [set(random.integers(0, 1 << 60, 1).tolist()) for _ in range(40)]
    pool = random.integers(0, 1 << 63, 30).tolist()
    sets = [each | set(random.choice(pool, 3).tolist()) for each in sets] + [set()] * 3
    pairs = [
        (i, j)
        for (i, one), (j, other) in itertools.combinations(enumerate(sets), 2)
        if len(one & other) >= min_shared_keys
    ]
    seen = []
    with streaming.staging_folder() as staging:
        for engine, counts, partitions in [
            (MemoryEngine(threads=1), [43], 1),
            (MemoryEngine(threads=3, memory_bytes=100), [1, 20, 22], 7),
            (StreamingEngine("inline", staging), [43], 1),
            (StreamingEngine("local", staging, cores=2), [1, 20, 22], 7),
        ]:
            method = f"minhash:bands=8,rows=4,min_shared_keys={min_shared_keys}"
            job = SignaturesJob(method=method, partitions=partitions)
            given = shard_inputs(tmp_path / str(len(seen)), tables(sets, counts))
            found, counters = edges(engine, job, given)
            assert components_of(43, found) == components_of(43, pairs)
            assert counters == {"signatures": 43, "shared_key_links": len(found)}
            seen.append(found)
    assert all(found == seen[0] for found in seen)


def test_options_out_of_range_are_refused():
    with pytest.raises(ValueError, match="partitions must be at least 1, not 0"):
        SignaturesJob(method="minhash", partitions=0)
