"""The signatures job: edges that connect what shares enough keys, whatever the splits; damage."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.engines import streaming
from mr_dedup.errors import MrDedupError
from mr_dedup.jobs.batches import Kind, decode_columns, read_batches
from mr_dedup.jobs.signatures import SignaturesJob, write_signatures
from tests.signatures.test_candidates import components_of

BOTH = pytest.mark.parametrize("runner", streaming.RUNNERS)


def written(folder, sets, counts):
    paths, first = [], 0
    for number, count in enumerate(counts):
        some = sets[first : first + count]
        lists = pa.array([sorted(each) for each in some], pa.large_list(pa.uint64()))
        nodes = np.arange(first, first + len(some), dtype=np.uint64)
        paths.append(folder / f"{number}.parquet")
        write_signatures(paths[-1], nodes, lists)
        first += count
    return paths


def edges(paths, runner, *options):
    with (
        streaming.staging_folder() as staging,
        streaming.run(SignaturesJob, options, paths, staging, runner=runner, cores=2) as result,
    ):
        found = []
        for part in result.parts:
            for _, batch in read_batches([part]):
                left, right = decode_columns(Kind.MATCHES, batch, 2)
                found += zip(left.tolist(), right.tolist(), strict=True)
        return sorted(found), result.counters


@BOTH
@pytest.mark.parametrize("least", [1, 2])
def test_edges_connect_what_shares_enough(tmp_path, runner, least):
    random = np.random.default_rng(least)
    sets = [set(random.integers(0, 1 << 60, 1).tolist()) for _ in range(40)]
    pool = random.integers(0, 1 << 63, 30).tolist()
    sets = [each | set(random.choice(pool, 3).tolist()) for each in sets] + [set()] * 3
    pairs = [
        (i, j)
        for (i, one), (j, other) in itertools.combinations(enumerate(sets), 2)
        if len(one & other) >= least
    ]
    seen = []
    for name, counts, partitions in [("a", [43], 1), ("b", [1, 20, 22], 7)]:
        (tmp_path / name).mkdir()
        paths = written(tmp_path / name, sets, counts)
        options = [f"--least={least}", f"--partitions={partitions}"]
        found, counters = edges(paths, runner, *options)
        assert components_of(43, found) == components_of(43, pairs)
        assert counters == {"signatures": 43, "links": len(found)}
        seen.append(found)
    assert seen[0] == seen[1]


def test_damage_is_named(tmp_path):
    (path,) = written(tmp_path, [{1, 2}, {2, 3}] * 500, [1000])
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    with pytest.raises(MrDedupError, match=r"0\.parquet"):
        edges([path], "inline")
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"node": [1]}), other)
    with pytest.raises(MrDedupError, match=r"other\.parquet: holds no signatures"):
        edges([other], "inline")


def test_options_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="--least must be at least 1, not 0"):
        SignaturesJob(["--least", "0"]).check_options()
