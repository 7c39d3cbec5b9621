"""Clusters of fingerprints on a real Hadoop: pairs and labels by tasks, as by comparing all."""

import sys

import numpy as np
import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.streaming import ClusterSettings
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.pipeline.fingerprint_clusters import JoinSettings, cluster_fingerprints
from tests.pipeline.test_fingerprint_clusters import SETS, expected

pytestmark = pytest.mark.hadoop


@pytest.mark.parametrize("name", ["none", "uniform", "clustered", "skewed"])
def test_the_same_as_by_comparing_all(client, monkeypatch, name):
    for variable, value in client.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("tempfile.tempdir", str(client.temporary))
    settings = ClusterSettings(reducers=3, python_bin=sys.executable)
    with streaming.staging_folder() as staging:
        engine = StreamingEngine("hadoop", staging, cluster=settings)
        join = JoinSettings(engine, "tasks")
        found = cluster_fingerprints(np.array(SETS[name], np.uint64), 3, join)
    labels, pairs = expected(SETS[name], 3)
    nodes = found.labels.nodes.tolist()
    assert dict(zip(nodes, found.labels.labels.tolist(), strict=True)) == labels
    assert (found.distinct, found.pairs) == (len(set(SETS[name])), pairs)
