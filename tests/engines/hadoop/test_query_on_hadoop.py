"""mr-dedup query on a real Hadoop: what it reads, what it writes, what it needs of the nodes."""

import gzip
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from mr_dedup.formats import fingerprint_writer
from tests.engines.environments import pack_needs
from tests.engines.hadoop.cluster import HERE

pytestmark = pytest.mark.hadoop


@pytest.mark.smoke
def test_a_job_of_four_maps_and_two_reduces_equals_inline(client, corpus, queries, parts, tmp_path):
    inline = subprocess.run(
        [sys.executable, "-m", "mr_dedup", "query", *parts, "--queries", queries, "-r", "inline"],
        capture_output=True,
        check=True,
    )
    out = tmp_path / "found.tsv"
    printed = client.query(client.put(*parts), "--queries", queries, "--reducers", 2, "-o", out)
    assert printed == ""
    assert out.read_bytes() == inline.stdout
    assert out.read_text() == corpus.lines()
    job = client.last_job()
    assert (job["state"], job["mapsTotal"], job["reducesTotal"]) == ("SUCCEEDED", 4, 2)


def test_files_of_this_machine_are_sent(client, corpus, queries, values, tmp_path):
    folder = tmp_path / "odd [1] #é"
    folder.mkdir()
    (folder / "_SUCCESS").write_text("no fingerprints")
    for number, name in enumerate(["a b.txt", "b'c.longs", "c.tsv.gz", "d*.longs.zst"]):
        with fingerprint_writer.create(folder / name) as out:
            out.write(values[number])
    assert client.query(folder, "--queries", queries, "-k", 4) == corpus.lines(4)


def test_every_format_is_read_from_the_cluster_and_queries_too(
    client, corpus, queries, values, tmp_path
):
    # Hadoop takes names for URIs
    names = ["a b#1[x]%41.longs", "b.v1 0#1%41é.txt.gz", "c.longs.zst", "d.fpz"]
    for number, name in enumerate(names):
        with fingerprint_writer.create(tmp_path / name) as out:
            part = values[number]
            out.write(part if name != "d.fpz" else sorted_distinct(part))
    client.put(*(tmp_path / name for name in names))
    client.put(queries)
    client.hadoop("fs", "-mkdir", f"{client.folder}/sub", f"{client.folder}/_old")
    client.put(tmp_path / names[1], name="_old/ignored.longs")
    client.hadoop("fs", "-mv", f"{client.folder}/c.longs.zst", f"{client.folder}/sub")
    lines = client.query(
        f"{client.folder}/[a-c]*", f"{client.folder}/sub", f"{client.folder}/d.fpz",
        "--queries", f"{client.folder}/queries.longs", "--with-distance",
    )  # fmt: skip
    assert lines == corpus.lines(with_distance=True)
    assert client.last_job()["mapsTotal"] == 4


def sorted_distinct(part):
    import numpy as np

    return np.unique(part)


def test_here_and_there_in_a_format_that_no_name_tells(client, corpus, queries, parts, tmp_path):
    for number, part in enumerate(parts):
        (tmp_path / f"{number}.dat").write_bytes(Path(part).read_bytes())
    client.put(tmp_path / "0.dat", tmp_path / "1.dat")
    wanted = [client.folder, tmp_path / "2.dat", tmp_path / "3.dat", "--queries", queries]
    assert client.query(*wanted, "--corpus-format", "longs") == corpus.lines()


def test_the_result_stays_on_the_cluster(client, corpus, queries):
    found = f"{client.folder}/found/here"
    client.hadoop("fs", "-mkdir", f"{client.folder}/found")
    client.put(*corpus.split(1), name="corpus.longs")
    corpus_uri = f"{client.folder}/corpus.longs"
    wanted = [corpus_uri, "--queries", queries, "--output-dir", found, "--reducers", 1]
    assert client.query(*wanted) == ""
    assert client.hadoop("fs", "-cat", f"{found}/part-*") == corpus.lines()
    assert f"{found}: exists; give --overwrite to replace it" in client.mistake(*wanted)
    client.query(*wanted, "--overwrite", "-k", 1)
    assert client.hadoop("fs", "-cat", f"{found}/part-*") == corpus.lines(1)
    listed = client.hadoop("fs", "-ls", "-C", f"{client.folder}/found")
    assert listed.split() == [found]


def test_settings_reach_the_job(client, corpus, queries, tmp_path):
    conf = tmp_path / "mrjob.conf"
    conf.write_text(
        "runners: {hadoop: {jobconf: {mapreduce.job.priority: LOW}, "
        "cmdenv: {MR_DEDUP_CACHE_DIR: %s}, setup: ['echo set up > set-up']}}\n"
        % (tmp_path / "cache")
    )
    client.query(
        *corpus.split(1), "--queries", queries, "-c", conf, "--task-memory", "1GB",
        "-D", "mapreduce.job.name=of a test", "--hadoop-bin", client.cluster.home / "bin/hadoop",
    )  # fmt: skip
    job = client.last_job()
    assert job["name"] == "of a test"
    properties = client.cluster.properties(job["id"])
    assert properties["mapreduce.job.priority"] == "LOW"
    assert properties["mapreduce.map.memory.mb"] == "1024"
    assert list((tmp_path / "cache").glob("code-*/mr_dedup"))


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """A Python of this version with nothing installed."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return str(folder / "bin" / "python")


@pytest.fixture(scope="session")
def packed_environment(tmp_path_factory):
    """What ``pip install --target`` would bring, packed, from what is installed here."""
    return pack_needs(tmp_path_factory.mktemp("packed") / "of the nodes.tar.gz")


def test_a_packed_environment_serves_nodes_that_have_nothing(
    client, corpus, queries, parts, bare_python, packed_environment
):
    lines = client.query(
        client.put(*parts[:2]), *parts[2:], "--queries", queries,
        "--archive", packed_environment, python=bare_python,
    )  # fmt: skip
    assert lines == corpus.lines()


def test_nodes_that_lack_what_tasks_need_are_told_of(client, corpus, queries, bare_python):
    error = client.mistake(
        *corpus.split(1), "--queries", queries, "-D", "mapreduce.map.maxattempts=2",
        python=bare_python,
    )  # fmt: skip
    assert "part-1-0.longs: the Python of the node" in error
    assert re.search(r"No module named '(msgspec|numpy|pyarrow)'; install mr-dedup there", error)


def test_the_job_runs_alone(client, corpus, queries, parts, tmp_path):
    gzipped = tmp_path / "last.longs.gz"
    gzipped.write_bytes(gzip.compress(Path(parts[3]).read_bytes()))
    client.put(*parts[:3], gzipped)
    # mrjob's own runner cannot send files from a folder with spaces in its name
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "mr_dedup.jobs.query", "-r", "hadoop", "--no-conf",
         "--no-bootstrap-mrjob", "--python-bin", sys.executable,
         "-D", "mapreduce.job.reduces=2", "--queries", queries, f"{client.folder}/*"],
        env={
            **client.environment,
            "TMPDIR": str(temporary),
            "PYTHONPATH": str(HERE.parents[2]),
        },
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = sorted(
        done.stdout.splitlines(keepends=True), key=lambda line: int(line.partition("\t")[0])
    )
    assert "".join(lines) == corpus.lines()
    assert list(temporary.iterdir()) == []
