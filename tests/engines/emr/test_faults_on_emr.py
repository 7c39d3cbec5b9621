"""What goes wrong on EMR is one clear line and exit code 2, with nothing left behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import boto3
import pytest
from s3fs import S3FileSystem

from tests.engines.emr.service import CREDENTIALS


@pytest.fixture
def folder(client, parts) -> str:
    return client.put(*parts)


def test_what_is_not_in_s3_is_named(client, folder, queries, parts):
    bucket = client.bucket
    for name, reason in (
        (f"s3://{bucket}/corpus/none.longs", "no such file"),
        (f"s3://{bucket}/corpus/*.fpz", "contains no files"),
        (f"s3://{bucket}-none/corpus", "no such bucket"),
        ("hdfs:///corpus", "the nodes of EMR have an HDFS of their own; copy it to S3 first"),
    ):
        said = client.mistake(folder, name, "--queries", queries)
        assert said == f"mr-dedup: error: {name}: {reason}\n"
        said = client.mistake(folder, "--queries", name)
        assert said.startswith(f"mr-dedup: error: {name}: ")
    client.put(Path(parts[0]).rename(Path(parts[0]).with_suffix(".dat")), below="dat")
    said = client.mistake(f"s3://{bucket}/dat", "--queries", queries)
    assert f"s3://{bucket}/dat/" in said
    assert "--corpus-format" in said
    assert client.clusters == []


def test_settings_that_cannot_be_meant_are_refused(client, folder, queries, tmp_path):
    no_conf = tmp_path / "other.conf"
    assert f"{no_conf}: no such file" in client.mistake(folder, "--queries", queries, "-c", no_conf)
    for text in ("runners: {emr: {check_cluster_every: [}}", "runners: {emr: [1]}", "[]"):
        no_conf.write_text(text)
        said = client.mistake(folder, "--queries", queries, "-c", no_conf)
        assert f"{no_conf}: not an mrjob.conf: " in said
    said = client.mistake(folder, "--queries", queries, "--hadoop-bin", "hadoop")
    assert "--hadoop-bin: not used by EMR" in said
    said = client.mistake(folder, "--queries", queries, "--output-dir", "/found")
    assert "--output-dir /found: expected a URI such as s3://bucket/found" in said
    said = client.mistake(folder, "--queries", queries, "--output-dir", "hdfs:///found")
    assert "hdfs:///found: expected a URI such as s3://bucket/found" in said
    for name, place in (("cloud_tmp_dir", "/tmp"), ("cloud_log_dir", "s3://bucket")):
        conf = client.conf(**{name: place})
        said = client.mistake(folder, "--queries", queries, "-c", conf)
        assert said == (
            f"mr-dedup: error: {conf}: {name}: expected a directory in S3 such as "
            f"s3://bucket/folder/, not {place}\n"
        )
    done = subprocess.run(
        [sys.executable, "-m", "mr_dedup", "query", folder, "--queries", queries, "-r", "dataproc"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "mr-dedup query does not run on dataproc" in done.stderr
    assert client.clusters == []


def test_no_credentials(client, folder, queries, monkeypatch):
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    S3FileSystem.clear_instance_cache()
    said = client.mistake(folder, "--queries", queries)
    assert f"{folder}: no credentials: Unable to locate credentials" in said
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    said = client.mistake(folder, "--queries", queries)
    assert "nobody" in said


def test_credentials_that_are_refused(client, folder, queries, service):
    with service.checking_credentials():
        said = client.mistake(folder, "--queries", queries)
    assert f"{folder}: " in said
    assert "access denied: Forbidden" in said


@pytest.mark.emr  # a minute of waits between attempts
def test_an_endpoint_out_of_reach(client, folder, queries):
    nowhere = "http://127.0.0.1:9"
    for setting in ("s3_endpoint", "emr_endpoint"):
        said = client.mistake(folder, "--queries", queries, "-c", client.conf(**{setting: nowhere}))
        assert f'Could not connect to the endpoint URL: "{nowhere}/' in said
        assert client.left() == []


def test_boto3_is_not_installed(client, folder, queries):
    hide = "import sys; sys.modules['boto3'] = None; from mr_dedup.cli.main import main; "
    for words in ([folder, "--queries", queries], [queries, "--queries", queries]):
        # before files are listed
        done = subprocess.run(
            [sys.executable, "-c", f"{hide} sys.exit(main(sys.argv[1:]))", "query", *words,
             "-r", "emr"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == ("mr-dedup: error: -r emr needs boto3: pip install 'mr-dedup[emr]'\n")


@pytest.mark.parametrize("reports", [True, False])
def test_a_damaged_input_is_named_by_report_or_by_the_logs(
    client, folder, queries, reports, monkeypatch, tmp_path
):
    monkeypatch.setattr(client.service, "read_only_nodes", not reports)
    (tmp_path / "cut.longs").write_bytes(b"1234567")
    client.put(tmp_path / "cut.longs")
    out = tmp_path / "found.tsv"
    said = client.mistake(folder, "--queries", queries, "-o", out)
    assert said.startswith(f"mr-dedup: error: {folder}/cut.longs, byte 0: ends inside a long")
    assert not out.exists()
    assert [uri for uri in client.left() if "/tmp/logs/" not in uri] == []


def test_a_node_without_python_is_named(client, folder, queries):
    found = f"s3://{client.bucket}/found"
    said = client.mistake(
        folder, "--queries", queries, "--python-bin", "python9", "--output-dir", found
    )
    assert "map task " in said
    assert " on s3://" in said
    assert "ip-10-0-0-1.ec2.internal" in said
    assert "python9: not found" in said
    assert client.service.files.below(found) == []


def test_nodes_that_cannot_be_set_up_say_why(client, folder, queries):
    conf = client.conf(bootstrap=["echo preparing", "echo no package named numba >&2; exit 3"])
    said = client.mistake(folder, "--queries", queries, "-c", conf)
    node = client.clusters[0].ec2_instances[0].ec2_instance_id
    assert said == (
        f"mr-dedup: error: the cluster could not be set up: bootstrap action 1 failed on {node}: "
        "no package named numba\n"
    )
    assert client.clusters[0].state == "TERMINATED_WITH_ERRORS"
    assert [uri for uri in client.left() if "/tmp/logs/" not in uri] == []


def test_a_result_that_came_into_being_meanwhile_is_kept(client, folder, queries):
    found = f"s3://{client.bucket}/found"
    conf = client.conf(bootstrap=[f"echo mine | hadoop fs -put -f - {found}/part-00000"])
    said = client.mistake(folder, "--queries", queries, "--output-dir", found, "-c", conf)
    assert f"{found}: came into being while the job ran" in said
    assert client.service.files.below(found) == [f"{found}/part-00000"]
    assert client.service.files.get(f"{found}/part-00000") == b"mine\n"


def test_a_cluster_that_somebody_ends_is_told_of(client, folder, queries):
    running = client.start(
        folder, "--queries", queries, "-D", "mapreduce.job.reduces=1", conf={"setup": ["sleep 30"]}
    )
    cluster = await_step(client)
    client.service.client("emr").terminate_job_flows(JobFlowIds=[cluster.id])
    out, err = running.communicate(timeout=120)
    assert (running.returncode, out) == (2, "")
    assert err == (f"mr-dedup: error: the cluster {cluster.id} ended: Terminated by user request\n")


@pytest.mark.parametrize("kept", [False, True])
def test_ctrl_c_ends_the_cluster_or_the_step_and_removes_what_was_sent(
    client, folder, queries, kept
):
    conf = {"setup": ["sleep 30"]}
    if kept:
        conf["cluster_id"] = client.keep_cluster()
    running = client.start(folder, "--queries", queries, conf=conf)
    cluster = await_step(client)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=120)
    assert (running.returncode, out, err) == (130, "", "mr-dedup: error: interrupted\n")
    assert [uri for uri in client.left() if "/tmp/logs/" not in uri] == []
    await_that(lambda: not cluster.nodes.running)
    assert cluster.steps[0].state == "CANCELLED"
    if kept:
        assert cluster.state == "WAITING"
        client.service.client("emr").terminate_job_flows(JobFlowIds=[cluster.id])
    await_that(lambda: cluster.state == "TERMINATED")


def await_step(client):
    """Return the cluster once a task runs on it."""
    await_that(lambda: client.clusters and client.clusters[-1].steps)
    cluster = client.clusters[-1]
    await_that(lambda: cluster.steps[0].state == "RUNNING" and cluster.nodes.running)
    return cluster


def await_that(fits, seconds=120):
    deadline = time.monotonic() + seconds
    while not fits():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_result_that_cannot_replace_another_stays_where_it_is(
    client, folder, queries, monkeypatch
):
    found = f"s3://{client.bucket}/found"
    for name in ("part-00009", "_SUCCESS"):
        client.service.files.put(b"old", f"{found}/{name}")

    async def refuse(self, source, target, **options):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(S3FileSystem, "_cp_file", refuse)
    S3FileSystem.clear_instance_cache()
    said = client.mistake(folder, "--queries", queries, "--output-dir", found, "--overwrite")
    new = said.rstrip("\n").partition("Access Denied; the new result is in ")[2]
    assert client.service.files.below(found) == [f"{found}/part-00009"]
    assert [uri.rpartition("/")[2] for uri in client.service.files.below(new)] == [
        "_SUCCESS", "part-00000",
    ]  # fmt: skip
