"""Connected components on EMR: rounds over what stays in S3."""

import random

import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.streaming import ClusterSettings
from mr_dedup.errors import MrDedupError
from mr_dedup.pipeline.components import connect
from tests.clusters.graphs import labels_of, shapes

PAIRS = shapes(random.Random(61))["stars of stars"]


@pytest.fixture
def inputs(tmp_path):
    paths = [tmp_path / f"{number}.tsv" for number in range(2)]
    for number, path in enumerate(paths):
        path.write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS[number::2]))
    return paths


@pytest.fixture
def kept_cluster(client):
    """A cluster for all rounds, which would start one each."""
    cluster_id = client.keep_cluster()
    yield cluster_id
    client.service.client("emr").terminate_job_flows(JobFlowIds=[cluster_id])


def test_what_rounds_leave_stays_in_s3(client, inputs, tmp_path, kept_cluster):
    folder = f"s3://{client.bucket}/labels"
    settings = ClusterSettings(conf=client.conf(cluster_id=kept_cluster), reducers=2)
    with streaming.staging_folder() as staging:
        connected = connect(
            inputs, staging, runner="emr", cluster=settings, folder=folder, partitions=2
        )
        rounds = len(connected.unsettled)
        assert rounds > 1
        left = [uri for uri in client.service.files.below(folder) if "/part-" in uri]
        assert left == [f"{folder}/labels-{rounds:03}/part-0000{part}" for part in range(2)]
        assert [part.place for part in connected.parts] == left
        fetched = []
        for uri in left:
            fetched.append(tmp_path / uri.rpartition("/")[2])
            streaming.fetch(uri, fetched[-1], "emr", settings)
        labels = connect(fetched, staging, runner="inline").read()
    assert dict(zip(labels.nodes.tolist(), labels.labels.tolist(), strict=True)) == labels_of(PAIRS)


def test_labels_that_nobody_knows_to_be_final_are_not_left(client, inputs, kept_cluster):
    """Without logs there are no counters."""
    folder = f"s3://{client.bucket}/labels"
    conf = client.conf(cluster_id=kept_cluster, read_logs=False)
    settings = ClusterSettings(conf=conf, reducers=1)
    with (
        streaming.staging_folder() as staging,
        pytest.raises(MrDedupError, match="only they say whether labels are final"),
    ):
        connect(inputs, staging, runner="emr", cluster=settings, folder=folder)
    assert client.service.files.below(folder) == []
