"""mr-dedup urls bulk on a real Hadoop: as in one process, whatever splits a list."""

import json

import pytest

from mr_dedup.cli.main import main
from tests.engines.documents import rejects_of
from tests.urls.url_lists import distinct, visits, write_lists

pytestmark = pytest.mark.hadoop


def bulk(client, *arguments):
    """Run the command on the cluster; return what it says."""
    running = client.start("bulk", *arguments, name="urls")
    out, err = running.communicate()
    assert (running.returncode, out) == (0, ""), err
    return err


def test_distinct_urls_equal_inline_here_and_against_a_store(client, tmp_path):
    folder = tmp_path / "odd #1"
    folder.mkdir()
    paths, _, bad = write_lists(folder)
    # more than a part has, so that Hadoop splits it
    more = visits(3000, 9)
    (tmp_path / "more.txt").write_bytes(b"".join(line + b"\n" for _, line in more))
    there = client.put(tmp_path / "more.txt", name="more.txt")
    mirrors = tmp_path / "mirrors #1.txt"
    mirrors.write_text("host-8.org host-9.org\n")
    here, found, store = (tmp_path / name for name in ("here.tsv", "found.tsv", "seen"))
    inline = ["bulk", *paths, tmp_path / "more.txt", "-o", here, "--mirrors", mirrors]
    assert main(["urls", *map(str, inline)]) == 0
    asked = ["--mirrors", mirrors, "--store", store, "--reducers", 2]
    asked += ["-D", "mapreduce.input.fileinputformat.split.maxsize=20000"]
    said = bulk(client, *paths, f"{there}/more.txt", "-o", found, *asked)
    assert found.read_bytes() == here.read_bytes() == distinct([*visits(4000), *more])
    count = here.read_bytes().count(b"\n")
    assert f"URLs: 7,000, distinct: {count:,}, rejected: {bad}\n" in said
    assert f"0 were in {store} already, {count:,} are new, {count:,} in it now" in said
    names = [json.loads(line)["file"] for line in rejects_of(found).read_text().splitlines()]
    assert names == [str(paths[0]), str(paths[0]), str(paths[2])]
    job = client.last_job()
    assert (job["state"], job["reducesTotal"]) == ("SUCCEEDED", 2)
    assert job["mapsTotal"] > 3
    # all are known now; the result goes to the cluster
    said = bulk(client, f"{there}/more.txt", "-o", f"{there}/none.tsv", "--store", store)
    known = distinct(more).count(b"\n")
    assert f"{known:,} were in {store} already, 0 are new, {count:,} in it now" in said
    assert client.hadoop("fs", "-cat", f"{there}/none.tsv") == ""
