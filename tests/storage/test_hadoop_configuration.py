"""Where the configuration of Hadoop is looked for, and how HDFS is opened by it."""

import socket
import time

import pytest

from mr_dedup.errors import MrDedupError
from mr_dedup.storage import hadoop_configuration, hdfs
from mr_dedup.storage.hadoop_configuration import configuration_directory
from mr_dedup.storage.listing import list_files
from mr_dedup.storage.stores import open_store

NAMES = """<configuration>
<property><name>fs.defaultFS</name><value>hdfs://Crawl</value></property>
<property><name>dfs.nameservices</name><value>Crawl</value></property>
<property><name>dfs.ha.namenodes.Crawl</name><value>one,two</value></property>
<property><name>dfs.namenode.rpc-address.Crawl.one</name><value>127.0.0.1:{}</value></property>
<property><name>dfs.namenode.rpc-address.Crawl.two</name><value>127.0.0.1:{}</value></property>
</configuration>
"""


@pytest.fixture(autouse=True)
def no_hadoop(monkeypatch, tmp_path):
    """An environment without Hadoop."""
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr(hadoop_configuration, "_OF_PACKAGES", tmp_path / "none")


@pytest.fixture
def home(tmp_path):
    """Make a home of Hadoop."""

    def make(name):
        (tmp_path / name / "bin").mkdir(parents=True)
        command = tmp_path / name / "bin" / "hadoop"
        command.touch(0o755)
        (tmp_path / name / "etc" / "hadoop").mkdir(parents=True)
        (tmp_path / name / "etc" / "hadoop" / "core-site.xml").touch()
        return tmp_path / name

    return make


def test_the_directory_is_that_of_the_hadoop_command(home, monkeypatch, tmp_path):
    assert configuration_directory() is None
    assert configuration_directory(str(tmp_path / "no" / "hadoop")) is None
    named, in_path, of_home, set_to = map(home, ("named", "path", "home", "set"))
    packaged = home("packaged") / "etc/hadoop"
    monkeypatch.setattr(hadoop_configuration, "_OF_PACKAGES", packaged)
    assert configuration_directory() == packaged
    monkeypatch.setenv("PATH", str(in_path / "bin"))
    assert configuration_directory() == in_path / "etc/hadoop"
    link = tmp_path / "hadoop"
    link.symlink_to(named / "bin" / "hadoop")
    for command in (named / "bin/hadoop", link, f"{link} --config x"):
        assert configuration_directory(str(command)) == named / "etc/hadoop"
    monkeypatch.setenv("HADOOP_HOME", str(of_home))
    assert configuration_directory(str(link)) == of_home / "etc/hadoop"
    monkeypatch.setenv("HADOOP_CONF_DIR", str(set_to / "etc/hadoop"))
    assert configuration_directory(str(link)) == set_to / "etc/hadoop"
    # what is set is meant
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "none"))
    assert configuration_directory(str(link)) is None


@pytest.mark.parametrize("uri", ["hdfs:///a.jsonl", "viewfs:///a.jsonl"])
def test_no_configuration(uri):
    with pytest.raises(MrDedupError) as raised:
        list_files([uri])
    assert str(raised.value) == (
        f"{uri}: not in a configuration of Hadoop: No fs.defaultFS setting found; "
        "set HADOOP_CONF_DIR, or HADOOP_HOME"
    )


def test_a_name_service_that_is_not_configured(home, monkeypatch):
    monkeypatch.setenv("HADOOP_HOME", str(home("home")))
    (home_conf := configuration_directory()).joinpath("core-site.xml").write_text(
        NAMES.format(9, 9)
    )
    with pytest.raises(MrDedupError, match=f"No NameNode hosts found; see {home_conf}$"):
        list_files(["hdfs://Other/a.jsonl"])


def test_name_nodes_of_a_name_service_are_tried_in_turn(home, monkeypatch):
    """Its name is in the configuration as it is in the URI, not in lower case."""
    monkeypatch.setenv("HADOOP_HOME", str(home("home")))
    monkeypatch.setattr(hdfs, "_RESPONSE_SECONDS", 5)
    with socket.socket() as refusing, socket.socket() as listening:
        refusing.bind(("127.0.0.1", 0))
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(20)
        ports = refusing.getsockname()[1], listening.getsockname()[1]
        configuration_directory().joinpath("core-site.xml").write_text(NAMES.format(*ports))
        with pytest.raises(MrDedupError, match="hdfs://Crawl/a: the store did not respond in time"):
            open_store("hdfs://Crawl/a")
        listening.accept()[0].close()


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_name_node_that_cannot_be_reached_is_given_up(monkeypatch, is_silent):
    monkeypatch.setattr(hdfs, "_RESPONSE_SECONDS", 2)
    monkeypatch.setitem(hdfs._OPTIONS, "dfs.client.failover.max.attempts", "1")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if is_silent:
            server.listen()
        uri = f"hdfs://127.0.0.1:{server.getsockname()[1]}/a.jsonl"
        started = time.monotonic()
        reason = "the store did not respond in time" if is_silent else "Connection refused"
        with pytest.raises(MrDedupError, match=f"^{uri}: {reason}"):
            list_files([uri])
        assert time.monotonic() - started < 10
