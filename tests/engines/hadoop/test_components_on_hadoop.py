"""Connected components on a real Hadoop: rounds over what stays in HDFS, or is fetched."""

import random
import sys

import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.streaming import ClusterSettings, Input
from mr_dedup.errors import MrDedupError
from mr_dedup.jobs.components import format_lines
from mr_dedup.pipeline.components import connect
from tests.clusters.graphs import label_lines, shapes

pytestmark = pytest.mark.hadoop

PAIRS = shapes(random.Random(51))["two giants and a bridge"]


@pytest.fixture
def here(client, monkeypatch, tmp_path):
    """This process as a client of the cluster; the pairs in three files, one of them in HDFS."""
    for name, value in client.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(client.temporary))
    paths = [tmp_path / f"{number} pairs.tsv" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS[number::3]))
    client.put(paths[0], name="pairs.tsv")
    uri = f"{client.folder}/pairs.tsv"
    return [Input(uri, uri), *paths[1:]]


SETTINGS = ClusterSettings(reducers=2, python_bin=sys.executable)


def test_what_rounds_leave_stays_in_hdfs(client, here):
    folder = f"{client.folder}/labels"
    client.hadoop("fs", "-mkdir", folder)
    with streaming.staging_folder() as staging:
        connected = connect(
            here, staging, runner="hadoop", cluster=SETTINGS, folder=folder, partitions=2
        )
        rounds = len(connected.unsettled)
        assert rounds > 1
        left = client.hadoop("fs", "-ls", "-C", folder).split()
        assert left == [f"{folder}/labels-{rounds:03}"]
        assert len(connected.parts) == 2
        assert all(part.place.startswith(left[0]) for part in connected.parts)
        again = connect(connected.parts, staging, runner="hadoop", cluster=SETTINGS)
        lines = format_lines(*vars(again.read()).values()).decode().splitlines()
    assert again.unsettled == (0,)
    assert lines == label_lines(PAIRS)
    assert connected.nodes == again.nodes == len(lines)
    assert connected.components == again.components == 1


def test_after_a_failure_nothing_is_left(client, here, tmp_path):
    bad = tmp_path / "bad.tsv"
    bad.write_text("1\t2\n3\n")
    with (
        streaming.staging_folder() as staging,
        pytest.raises(MrDedupError, match=r"bad\.tsv, line 2: expected a fingerprint and"),
    ):
        connect(
            [*here, bad], staging, runner="hadoop", folder=f"{client.folder}/labels", partitions=2,
            cluster=ClusterSettings(python_bin=sys.executable, reducers=1, properties=(
                "mapreduce.map.maxattempts=1",)),
        )  # fmt: skip
    assert f"{client.folder}/labels" not in client.hadoop("fs", "-ls", "-C", client.folder).split()
