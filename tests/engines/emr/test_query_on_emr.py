"""mr-dedup query on EMR: what it reads, what it writes, what it starts and leaves."""

import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from mrjob.conf import load_opts_from_mrjob_conf
from mrjob.emr import EMRJobRunner
from mrjob.hadoop import HadoopJobRunner

from mr_dedup.cli.main import main
from mr_dedup.engines import streaming
from mr_dedup.engines.package import pack
from mr_dedup.engines.streaming import ClusterSettings, Input
from mr_dedup.formats import fingerprint_writer
from tests.engines.documents import fingerprints_inline, json_lines
from tests.engines.emr.chain_job import ChainJob
from tests.engines.emr.service import CREDENTIALS

pytestmark = pytest.mark.emr


def containers(cluster) -> int:
    """Return how many tasks ran."""
    return len(list(cluster.logs.glob("containers/*/*")))


def test_files_in_s3_of_every_format_equal_inline(client, corpus, values, tmp_path):
    names = ["a b#1[x]%41é.longs", "b.txt.gz", "c.longs.zst", "d.fpz", "e.longs.gz"]
    files = []
    for name, part in zip(names, values, strict=True):
        files.append(tmp_path / name)
        with fingerprint_writer.create(files[-1]) as out:
            out.write(np.unique(part) if name == "d.fpz" else part)
    client.put(*files[:3])
    client.put(files[0], below="corpus/_old")
    client.put(*files[3:], below="corpus/sub")
    queries = client.put(corpus.folder / "queries.longs", below="q")
    inline = subprocess.run(
        [sys.executable, "-m", "mr_dedup", "query", *files, "--queries",
         corpus.folder / "queries.longs", "-r", "inline", "--with-distance"],
        capture_output=True, check=True,
    )  # fmt: skip
    out = tmp_path / "found.tsv"
    code, printed, err = client.run(
        f"s3://{client.bucket}/corpus/[a-c]*", f"s3://{client.bucket}/corpus/sub",
        "--queries", f"{queries}/queries.longs", "--reducers", 2, "--with-distance", "-o", out,
    )  # fmt: skip
    assert (code, printed) == (0, ""), err
    assert out.read_bytes() == inline.stdout
    assert out.read_text() == corpus.lines(with_distance=True)
    assert "files: 5, fingerprints: " in err
    (cluster,) = client.clusters
    assert cluster.state == "TERMINATED"
    assert containers(cluster) == 5 + 2
    assert client.left() == []


def test_by_default_nodes_are_set_up_with_what_mr_dedup_needs(
    client, corpus, queries, parts, monkeypatch
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", client.service.url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    conf = client.folder / "mrjob.conf"
    conf.write_text("runners: {emr: {check_cluster_every: 0.1}}")
    folder = client.put(*parts)
    assert client.query(folder, "--queries", queries, "-c", conf) == corpus.lines()
    (cluster,) = client.clusters
    (said,) = cluster.logs.glob("node/*/bootstrap-actions/1/stderr")
    assert "dnf install -y python3.11 python3.11-pip: nothing to do" in said.read_text()
    for package in ("numpy", "pyarrow", "xxhash", "mrjob"):
        assert f"Requirement already satisfied: {package}" in said.read_text()
    assert cluster.role == "EMR_EC2_DefaultRole"
    assert cluster.service_role == "EMR_DefaultRole"
    assert cluster.release_label.startswith("emr-7.")


def test_files_of_this_machine_are_sent_and_the_result_stays_in_s3(
    client, corpus, queries, values, tmp_path
):
    folder = tmp_path / "odd [1] #é"
    folder.mkdir()
    for number, name in enumerate(["a b.txt", "b'c.longs", "c.tsv.gz", "d*.longs.zst", "e.longs"]):
        with fingerprint_writer.create(folder / name) as out:
            out.write(values[number])
    # the bootstrap script and the environment are sent, and used
    (tmp_path / "marker.txt").write_text("sent\n")
    environment = tmp_path / "env.tar.gz"
    with tarfile.open(environment, "w:gz") as archive:
        archive.add(tmp_path / "marker.txt", "marker.txt")
    conf = client.conf(
        bootstrap=[f"cp {tmp_path}/marker.txt#m.txt $HOME/copied.txt"],
        setup=["cat $PWD/environment/marker.txt >&2"],
        read_logs=False,
    )
    found = f"s3://{client.bucket}/found"
    client.service.files.put(b"old", f"{found}/part-00009")
    arguments = [
        folder, "--queries", queries, "-k", 4, "--reducers", 2, "--output-dir", found,
        "--archive", environment, "-c", conf,
    ]  # fmt: skip
    assert f"{found}: exists; give --overwrite to replace it" in client.mistake(*arguments)
    assert client.clusters == []
    code, out, err = client.run(*arguments, "--overwrite")
    assert (code, out) == (0, ""), err
    assert "files: 5, distinct queries: 203, k = 4" in err
    assert "were not read" in err
    files = client.service.files
    assert [uri.removeprefix(found) for uri in files.below(found)] == [
        "/_SUCCESS", "/part-00000", "/part-00001",
    ]  # fmt: skip
    lines = b"".join(files.get(f"{found}/part-0000{n}") for n in (0, 1)).decode().splitlines()
    assert sorted(lines) == sorted(corpus.lines(4).splitlines())
    (cluster,) = client.clusters
    assert (cluster.nodes.folder / "copied.txt").read_text() == "sent\n"
    assert "sent" in next(cluster.logs.glob("containers/*/*/stderr")).read_text()
    assert [uri for uri in client.left() if "/tmp/logs/" not in uri] == []


def test_the_result_of_documents_stays_in_s3_and_their_fingerprints_do_not(client, tmp_path):
    corpus, queries = tmp_path / "corpus.jsonl", tmp_path / "queries.longs"
    inline = tmp_path / "inline.tsv"
    corpus.write_bytes(b"".join(json_lines(40)))
    fingerprints_inline(corpus, out=queries)
    both = [corpus, "--queries", queries, "--print-fingerprints"]
    assert main(["query", *map(str, both), "-r", "inline", "-o", str(inline)]) == 0
    client.capfd.readouterr()
    found = f"s3://{client.bucket}/found"
    code, out, err = client.run(*both, "--output-dir", found)
    assert (code, out) == (0, ""), err
    files = client.service.files
    parts = [uri for uri in files.below(found) if not uri.endswith("/_SUCCESS")]
    lines = b"".join(files.get(uri) for uri in parts).splitlines()
    assert sorted(lines) == sorted(inline.read_bytes().splitlines()) != []
    before = len(client.clusters)
    # what cannot be is refused before fingerprints are computed
    exists = client.mistake(*both, "--output-dir", found)
    assert exists == f"mr-dedup: error: {found}: exists; give --overwrite to replace it\n"
    assert "results with ids" in client.mistake(*both[:-1], "--output-dir", f"{found}-2")
    assert len(client.clusters) == before
    assert client.left() == []


def test_a_cluster_that_is_kept_is_used_and_kept(client, corpus, queries, parts):
    kept = client.keep_cluster()
    conf = client.conf(cluster_id=kept, bootstrap=None)
    code, out, err = client.run(client.put(*parts), "--queries", queries, "-c", conf)
    assert (code, out) == (0, corpus.lines()), err
    assert f"fingerprints: {len(corpus.corpus):,}" in err
    (cluster,) = client.clusters
    assert cluster.state == "WAITING"
    assert all(uri.startswith(f"s3://{client.scratch}/tmp/logs/") for uri in client.left())
    client.service.client("emr").terminate_job_flows(JobFlowIds=[kept])


def test_a_chain_of_steps_runs_on_one_cluster(client, tmp_path):
    (tmp_path / "a.txt").write_text("to be or not to be\n")
    (tmp_path / "b.txt").write_text("that is the question\n")
    there = client.put(tmp_path / "b.txt")
    inputs = [Input.file(tmp_path / "a.txt"), Input(f"{there}/b.txt", f"{there}/b.txt")]
    settings = ClusterSettings(conf=client.conf(), reducers=2)
    with (
        streaming.staging_folder() as staging,
        streaming.run(ChainJob, [], inputs, staging, runner="emr", cluster=settings) as result,
    ):
        lines = [line for part in result.parts for line in part.read_text().splitlines()]
    assert sorted(lines) == ["2\t4", "3\t2", "4\t1", "8\t1"]
    assert result.counters == {"words": 8, "keys": 8 + 4}
    (cluster,) = client.clusters
    assert [step.state for step in cluster.steps] == ["COMPLETED", "COMPLETED"]
    assert client.left() == []


def test_the_job_runs_alone_as_any_job_of_mrjob(client, corpus, queries, tmp_path):
    pack(tmp_path / "mr_dedup.zip")
    conf = client.conf(
        py_files=[str(tmp_path / "mr_dedup.zip")],
        python_bin="python3.11",
        image_version="7.5.0",
        applications=["Hadoop"],
        iam_instance_profile="EMR_EC2_DefaultRole",
        iam_service_role="EMR_DefaultRole",
        cloud_fs_sync_secs=0,
    )
    # out of a zip its kernels are compiled by each task: a few tasks do
    folder = client.put(*corpus.split(2))
    done = subprocess.run(
        [sys.executable, "-m", "mr_dedup.jobs.query", "-r", "emr", "-c", conf,
         "--queries", queries, f"{folder}/*.longs", "-D", "mapreduce.job.reduces=2"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(corpus.lines().splitlines())
    for secret in CREDENTIALS.values():
        assert secret not in done.stderr
    assert client.left() == []


def test_the_example_of_an_mrjob_conf_says_nothing_that_is_not_known():
    path = Path(__file__).parents[3] / "examples" / "mrjob.conf"
    for name, runner in (("hadoop", HadoopJobRunner), ("emr", EMRJobRunner)):
        ((_, options),) = load_opts_from_mrjob_conf(name, str(path))
        assert options
        assert set(options) <= runner.OPT_NAMES
