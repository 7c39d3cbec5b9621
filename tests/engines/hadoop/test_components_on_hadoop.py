"""Connected components on a real Hadoop: rounds of the job."""

import random
import sys

import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.streaming import ClusterSettings
from mr_dedup.engines.streaming.engine import StreamingEngine
from tests.clusters.graphs import shapes
from tests.pipeline.test_connect import check, connected_by

pytestmark = pytest.mark.hadoop

PAIRS = shapes(random.Random(51))["two giants and a bridge"]


def test_rounds_settle(client, monkeypatch):
    for name, value in client.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(client.temporary))
    settings = ClusterSettings(reducers=2, python_bin=sys.executable)
    with streaming.staging_folder() as staging:
        engine = StreamingEngine("hadoop", staging, cluster=settings)
        connected = connected_by(engine, PAIRS, 3, partitions=2)
        assert list(staging.iterdir()) == []
    check(connected, PAIRS)
    assert len(connected.unsettled) > 1
