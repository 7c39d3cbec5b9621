"""What goes wrong on a cluster: one clear line each, the same bytes after a retry, nothing left."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.engines.hadoop.conftest import Client

pytestmark = pytest.mark.hadoop

# a property of this cluster's: what is wrong for good need not be tried four times
ONCE = ("-D", "mapreduce.map.maxattempts=2")


def test_inputs_that_are_not_there_are_named(client, queries):
    client.hadoop("fs", "-mkdir", f"{client.folder}/empty")
    for name, reason in (
        ("nothing.longs", "no such file\n"),
        ("nothing-*.longs", "contains no files\n"),
        ("empty", "contains no files"),
    ):
        error = client.mistake(f"{client.folder}/{name}", "--queries", queries)
        assert f"{client.folder}/{name}: {reason}" in error


def test_queries_that_are_not_there_are_named(client, parts):
    uri = f"{client.folder}/queries.longs"
    assert f"{uri}: no such file\n" in client.mistake(*parts, "--queries", uri)


def test_a_format_that_no_name_tells_is_asked_for(client, parts, queries):
    client.put(parts[0], name="part.dat")
    error = client.mistake(f"{client.folder}/part.dat", "--queries", queries)
    assert f"{client.folder}/part.dat: the format is not known by its ending" in error


def test_arguments_that_disagree_are_named(client, parts, queries, tmp_path):
    wanted = (*parts, "--queries", queries)
    for options, reason in (
        (("--output-dir", "/found"), "--output-dir /found: expected a URI"),
        (("--output-dir", "hdfs:///x", "-o", tmp_path / "x"), "--output-dir, -o: a result goes"),
        (("--cores", 2), "--cores: not used by a cluster"),
        (("--archive", tmp_path / "env.rar"), "env.rar: expected an archive, .tar.gz, .tgz"),
        (("--archive", tmp_path / "env.zip"), "env.zip: no such file"),
        (("-c", tmp_path / "mrjob.conf"), "mrjob.conf: no such file"),
        (("--hadoop-bin", "/no/hadoop"), "/no/hadoop: cannot run this hadoop command: No such"),
    ):
        assert reason in client.mistake(*wanted, *options)


def test_a_conf_that_is_none_is_named(client, parts, queries, tmp_path):
    conf = tmp_path / "mrjob.conf"
    conf.write_text("runners: [:\n")
    assert f"{conf}: " in client.mistake(*parts, "--queries", queries, "-c", conf)


def test_a_damaged_file_is_named_where_it_is(client, parts, queries, tmp_path):
    damaged = tmp_path / "da maged#1.longs"
    damaged.write_bytes(b"not longs: 21 bytes..")
    client.put(parts[0], damaged)
    error = client.mistake(client.folder, "--queries", queries, *ONCE)
    assert f"error: {client.folder}/da maged#1.longs, byte 16: ends inside a long" in error


def test_a_damaged_file_of_this_machine_is_named(client, parts, queries, tmp_path):
    damaged = tmp_path / "damaged.txt"
    damaged.write_text("1\n2\nthree\n")
    error = client.mistake(damaged, "--queries", queries, *ONCE)
    assert f"error: {damaged}, line 3: " in error


def test_a_python_that_the_nodes_lack_is_named(client, parts, queries):
    client.put(parts[0])
    error = client.mistake(client.folder, "--queries", queries, *ONCE, python="/no/python")
    assert f"map task 0 on {client.folder}/part-4-0.longs: on the node " in error
    assert "/no/python: not found; install mr-dedup there" in error


def test_a_task_that_outgrows_its_container_is_told(client, parts, queries):
    error = client.mistake(
        *parts, "--queries", queries, *ONCE, "-D", "mapreduce.map.memory.mb=256",
        "-D", "mapreduce.map.java.opts=-Xmx700m -Xms700m -XX:+AlwaysPreTouch",
    )  # fmt: skip
    assert re.search(r"map task 0: used .*MB of 256 MB physical memory and was killed", error)
    assert "try a larger --task-memory" in error


def test_a_property_that_yarn_refuses_is_told(client, parts, queries):
    error = client.mistake(*parts, "--queries", queries, "-D", "mapreduce.job.queuename=nobody's")
    assert "the job failed: " in error
    assert "nobody's" in error


@pytest.fixture
def quota(client):
    """Give a folder room for a megabyte, until the test ends."""
    limited = []

    def limit(folder):
        client.hadoop("fs", "-mkdir", "-p", folder)
        client.hadoop("dfsadmin", "-setSpaceQuota", "1m", folder)
        limited.append(folder)

    yield limit
    for folder in limited:
        client.hadoop("dfsadmin", "-clrSpaceQuota", folder)


def test_no_room_for_what_is_sent(client, parts, queries, quota):
    quota("/user")
    error = client.mistake(*parts, "--queries", queries)
    assert "hadoop fs -put: The DiskSpace quota of /user is exceeded" in error


def test_no_room_for_the_result(client, parts, queries, quota):
    full = f"{client.folder}/full"
    quota(full)
    error = client.mistake(
        *parts, "--queries", queries, "--output-dir", f"{full}/found",
        "-D", "mapreduce.reduce.maxattempts=2",
    )  # fmt: skip
    assert re.search(r"reduce task 0: The DiskSpace quota of \S+/full is exceeded", error)
    assert client.hadoop("fs", "-ls", full) == ""


def test_a_cluster_that_is_not_there_is_named(client, queries):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        started = time.monotonic()
        error = client.mistake(f"hdfs://{host}/x.longs", "--queries", queries)
    assert f"hdfs://{host}/x.longs: Connection refused" in error
    assert time.monotonic() - started < 60


def test_a_name_node_that_never_responds_is_named(client, queries):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        error = client.mistake(f"hdfs://{host}/x.longs", "--queries", queries)
    assert f"hdfs://{host}/x.longs: the store did not respond in time" in error
    assert time.monotonic() - started < 60


def test_files_of_another_user_are_named(client, queries):
    client.hadoop("fs", "-mkdir", f"{client.folder}/closed")
    client.put(queries, name="closed/a.longs")
    client.hadoop("fs", "-chmod", "700", f"{client.folder}/closed")
    uri = f"{client.folder}/closed/a.longs"
    nobody = {**client.environment, "HADOOP_USER_NAME": "nobody"}
    done = subprocess.run(
        [sys.executable, "-m", "mr_dedup", "query", uri, "--queries", queries, "-r", "hadoop"],
        env=nobody, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"mr-dedup: error: {uri}: Permission denied: user=nobody, access")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "HADOOP_HOME", "--hadoop-bin", "PATH", None])
def test_the_configuration_of_hadoop_is_found_or_missed(client, queries, name):
    variables = {
        name: value
        for name, value in client.environment.items()
        if not name.startswith("HADOOP_") and name != "PATH"
    }
    path = os.environ["PATH"]
    variables["PATH"] = f"{client.cluster.home}/bin:{path}" if name == "PATH" else path
    if name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        variables[name] = client.environment[name]
    options = ["--hadoop-bin", client.cluster.home / "bin/hadoop"] if name == "--hadoop-bin" else []
    uri = f"{client.folder}/none.longs"
    done = subprocess.run(
        [sys.executable, "-m", "mr_dedup", "query", uri, "--queries", queries, "-r", "hadoop",
         *options],
        env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    reason = "no such file" if name else (
        "not in a configuration of Hadoop: No fs.defaultFS setting found; "
        "set HADOOP_CONF_DIR, or HADOOP_HOME"
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, f"mr-dedup: error: {uri}: {reason}\n")


def is_running_map(work):
    """Whether it is the Python of a map task."""
    return (
        any(word.endswith("--mapper") for word in work.arguments)
        and "python" in (work.arguments[0])
    )


def test_a_task_that_is_killed_runs_again(client, corpus, parts, queries):
    running = client.start(client.put(*parts), "--queries", queries)
    client.await_work(is_running_map)
    task = client.await_work(lambda work: work.is_task("m"))
    signal.pidfd_send_signal(pidfd(task.pid), signal.SIGKILL)
    out, err = running.communicate()
    assert (running.returncode, out) == (0, corpus.lines()), err
    job = client.last_job()
    assert job["failedMapAttempts"] + job["killedMapAttempts"] >= 1
    assert job["successfulMapAttempts"] == 4


def pidfd(pid):
    import os

    return os.pidfd_open(pid)


def test_a_node_that_fails_is_done_without(client, corpus, parts, queries):
    running = client.start(
        client.put(*parts), "--queries", queries, "--reducers", 2,
        # a map task for a node at a time, so that there are some on the one that fails
        "-D", "mapreduce.map.memory.mb=3000",
    )  # fmt: skip
    master = client.await_work(lambda work: is_master(work))
    task = client.await_work(lambda work: is_running_map(work) and work.node != master.node)
    client.cluster.kill(task.node)
    try:
        out, err = running.communicate()
    finally:
        client.cluster.restore(task.node)
    assert (running.returncode, out) == (0, corpus.lines()), err
    job = client.last_job()
    assert job["state"] == "SUCCEEDED"
    assert job["failedMapAttempts"] + job["killedMapAttempts"] >= 1


def is_master(work):
    return any(word.endswith("MRAppMaster") for word in work.arguments)


def test_an_interrupt_ends_the_job(client, parts, queries, tmp_path):
    found = tmp_path / "found.tsv"
    running = client.start(client.put(*parts), "--queries", queries, "-o", found)
    client.await_work(is_running_map)
    running.terminate()
    _, err = running.communicate()
    assert (running.returncode, err) == (130, "mr-dedup: error: interrupted\n")
    assert not found.exists()
    client.hadoop("fs", "-rm", "-R", "-skipTrash", client.folder)
    client.hadoop("fs", "-mkdir", client.folder)
    deadline = time.monotonic() + 60
    while client.cluster.work() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert client.cluster.work() == []


def test_a_resourcemanager_that_is_gone_is_told(client: Client, parts, queries):
    client.cluster.kill("resourcemanager")
    try:
        started = time.monotonic()
        error = client.mistake(*parts, "--queries", queries)
        assert time.monotonic() - started < 120
    finally:
        client.cluster.restore("resourcemanager")
    assert "the cluster cannot be reached at " in error


def test_a_namenode_that_is_gone_is_told(client, parts, queries):
    client.cluster.kill("namenode")
    try:
        error = client.mistake(*parts, "--queries", queries)
    finally:
        client.cluster.restore("namenode")
    assert "the cluster cannot be reached at " in error
