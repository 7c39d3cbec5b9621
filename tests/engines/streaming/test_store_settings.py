"""Stores are opened with the settings of a runner's cluster, for as long as a command runs."""

import fsspec
import pytest

from mr_dedup.engines import streaming
from mr_dedup.engines.streaming import ClusterSettings
from mr_dedup.errors import MrDedupError

CONF = """
runners:
  emr:
    s3_endpoint: http://127.0.0.1:9
    region: eu-central-1
    aws_access_key_id: key
    aws_secret_access_key: secret
  hadoop:
    hadoop_bin: {}/bin/hadoop
"""


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "mrjob.conf"
    path.write_text(CONF.format(tmp_path))
    return path


def test_s3_is_that_of_an_mrjob_conf(conf, monkeypatch):
    monkeypatch.setattr(fsspec.config, "conf", {"s3": {"anon": False}, "gs": {}})
    with streaming.stores_of("emr", ClusterSettings(conf=conf)):
        assert fsspec.config.conf["s3"] == {
            "anon": False,
            "key": "key",
            "secret": "secret",
            "client_kwargs": {"endpoint_url": "http://127.0.0.1:9", "region_name": "eu-central-1"},
        }
    assert fsspec.config.conf == {"s3": {"anon": False}, "gs": {}}
    with streaming.stores_of("emr", ClusterSettings()):
        assert fsspec.config.conf["s3"] == {"anon": False}


def test_the_configuration_of_hadoop_is_beside_its_command(conf, monkeypatch, tmp_path):
    monkeypatch.setattr(fsspec.config, "conf", {})
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    directory = tmp_path / "etc" / "hadoop"
    directory.mkdir(parents=True)
    (directory / "core-site.xml").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "hadoop").touch(0o755)
    named = ClusterSettings(hadoop_bin=f"{tmp_path}/bin/hadoop")
    for settings in (named, ClusterSettings(conf=conf)):
        with streaming.stores_of("hadoop", settings):
            assert fsspec.config.conf == {"hdfs": {"config_dir": str(directory)}}
        assert fsspec.config.conf == {}


def test_a_conf_that_is_none_is_named(tmp_path):
    expected = pytest.raises(MrDedupError, match="none: no such file")
    with expected, streaming.stores_of("emr", ClusterSettings(conf=tmp_path / "none")):
        pass
