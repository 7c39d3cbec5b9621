"""Connected components on EMR: rounds of the job."""

import random

import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.streaming import ClusterSettings
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.errors import MrDedupError
from tests.clusters.graphs import shapes
from tests.pipeline.test_connect import check, connected_by

pytestmark = pytest.mark.emr

PAIRS = shapes(random.Random(61))["stars of stars"]


@pytest.fixture
def kept_cluster(client):
    """A cluster for all rounds, which would start one each."""
    cluster_id = client.keep_cluster()
    yield cluster_id
    client.service.client("emr").terminate_job_flows(JobFlowIds=[cluster_id])


@pytest.fixture
def staging():
    with streaming.staging_folder() as folder:
        yield folder


def test_rounds_settle(client, staging, kept_cluster):
    settings = ClusterSettings(conf=client.conf(cluster_id=kept_cluster), reducers=2)
    engine = StreamingEngine("emr", staging, cluster=settings)
    connected = connected_by(engine, PAIRS, 2, partitions=2)
    check(connected, PAIRS)
    assert len(connected.unsettled) > 1


def test_labels_that_may_not_be_final_are_an_error(client, staging, kept_cluster):
    """Without logs there are no counters."""
    conf = client.conf(cluster_id=kept_cluster, read_logs=False)
    engine = StreamingEngine("emr", staging, cluster=ClusterSettings(conf=conf, reducers=1))
    with pytest.raises(MrDedupError, match="only they show whether labels are final"):
        connected_by(engine, PAIRS, 2)
