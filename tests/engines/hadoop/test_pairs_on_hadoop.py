"""mr-dedup pairs on a real Hadoop: two jobs, one answer, whatever lies where."""

import numpy as np
import pytest

from tests.oracles import flipped, pair_lines, pairs_among, pairs_within
from tests.pipeline.fingerprint_sets import SETS

pytestmark = pytest.mark.hadoop


def pairs(client, *arguments):
    """Run mr-dedup pairs on the cluster; return what it prints, and what it says."""
    running = client.start(*arguments, name="pairs")
    out, err = running.communicate()
    assert running.returncode == 0, err
    return out, err


def test_pairs_of_files_here_and_there_in_any_memory(client, corpus, parts):
    expected = pair_lines(pairs_among(corpus.corpus, 3))
    folder = client.put(*parts[:2])
    out, err = pairs(client, folder, *parts[2:], "--reducers", 3, "--table-memory", "64KB")
    assert out == expected
    assert f"files: 4, fingerprints: {len(corpus.corpus):,}, k = 3, " in err
    assert f"{expected.count(chr(10)):,} pairs in " in err
    assert "more than fitted the memory" in err


@pytest.mark.parametrize("name", ["uniform", "clustered", "skewed"])
@pytest.mark.parametrize("memory", ["64KB", "400MB"])
def test_pairs_of_any_distribution_in_few_partitions_and_many(client, tmp_path, name, memory):
    paths = []
    for number, values in enumerate(np.array_split(np.array(SETS[name], np.uint64), 3)):
        paths.append(tmp_path / f"{number}.longs")
        paths[-1].write_bytes(values.astype(">u8").tobytes())
    folder = client.put(*paths[:2])
    out, _ = pairs(client, folder, paths[2], "--reducers", 2, "--table-memory", memory)
    assert out == pair_lines(pairs_among(SETS[name], 3))


def test_two_corpora_of_which_some_is_there(client, corpus, parts, tmp_path):
    values = [*corpus.queries, *(flipped(x, {2, 50}) for x in corpus.corpus[:300])]
    names = []
    for number, part in enumerate(np.array_split(np.array(values, dtype=np.uint64), 2)):
        names.append(tmp_path / f"{number} of others.longs")
        names[-1].write_bytes(part.astype(">u8").tobytes())
    client.put(parts[0], name="corpus.longs")
    client.put(names[0], name="others.longs")
    out, err = pairs(
        client, f"{client.folder}/corpus.longs", *parts[1:], "--with",
        f"{client.folder}/others.longs", names[1], "--with-distance", "--reducers", 2,
    )  # fmt: skip
    found = pairs_within(values, corpus.corpus, 3)
    assert out == pair_lines(found, with_distance=True)
    assert f"fingerprints: {len(corpus.corpus):,} and 503, k = 3" in err
