"""Files of stores that the Hadoop of nodes does not read: tasks read them by their URIs."""

import gzip
import re
from pathlib import Path

import pytest

from mr_dedup.cli.main import main
from tests.engines.documents import json_lines
from tests.engines.emr.test_query_on_emr import containers
from tests.storage import servers
from tests.storage.servers import WebFile

pytestmark = pytest.mark.emr

TOKEN = "?token=s3cr3t-of-the-web"


@pytest.fixture
def web():
    with servers.web_server() as server:
        yield server


def run(client, *arguments):
    """Run a command in this process; return what it says."""
    code = main([str(argument) for argument in arguments])
    said = client.capfd.readouterr()
    assert (code, said.out) == (0, ""), said.err
    return said.err


def logged(cluster) -> str:
    """Return what tasks and the client of a step wrote to logs."""
    return "".join(path.read_text() for path in cluster.logs.rglob("*") if path.is_file())


def test_documents_equal_inline_in_parts(client, web, tmp_path):
    web.files["/a.jsonl"] = WebFile(b"".join([*json_lines(2_000), b"bad\n", *json_lines(500, 1)]))
    for number in range(5):
        web.files[f"/{number}.jsonl.gz"] = WebFile(gzip.compress(b"".join(json_lines(20, number))))
    uris = [f"{web.uri}/a.jsonl{TOKEN}", *(f"{web.uri}/{n}.jsonl.gz" for n in range(5))]
    outs = tmp_path / "here.parquet", tmp_path / "found.parquet"
    run(client, "fingerprint", *uris, "-o", outs[0], "-r", "inline")
    run(
        client, "fingerprint", *uris, "-o", outs[1], "-r", "emr", "-c", client.conf(),
        "-D", "mapreduce.input.fileinputformat.split.maxsize=200000",
    )  # fmt: skip
    assert outs[1].read_bytes() == outs[0].read_bytes()
    rejects = [Path(f"{out}.rejects.jsonl").read_text() for out in outs]
    assert f'"{web.uri}/a.jsonl"' in rejects[0]
    # a task that reads a part does not know the number of a line
    assert rejects[1] == re.sub(r"line 2001 \((byte \d+)\)", r"\1", rejects[0])
    (cluster,) = client.clusters
    # parts of the large file, and all small ones together
    size = len(web.files["/a.jsonl"].content)
    assert containers(cluster) >= -(-size // 200_000) > 2
    assert TOKEN not in logged(cluster)
    assert client.left() == []


def test_fingerprints_are_fetched_by_tasks(client, corpus, queries, parts, web):
    for number, part in enumerate(parts):
        web.files[f"/{number}.longs"] = WebFile(Path(part).read_bytes())
    uris = [f"{web.uri}/{number}.longs{TOKEN}" for number in range(4)]
    assert client.query(*uris, "--queries", queries) == corpus.lines()
    (cluster,) = client.clusters
    assert TOKEN not in logged(cluster)


def test_a_damaged_file_is_named(client, queries, web):
    web.files["/cut.longs"] = WebFile(b"1234567")
    said = client.mistake(f"{web.uri}/cut.longs{TOKEN}", "--queries", queries)
    assert said.startswith(f"mr-dedup: error: {web.uri}/cut.longs?…, byte 0: ends inside a long")


def test_a_node_without_the_package_of_the_store_is_named(client, queries, parts, web):
    web.files["/a.longs"] = WebFile(Path(parts[0]).read_bytes())
    uri = f"{web.uri}/a.longs"
    # it is sought as any module, so that one that cannot be found is not installed
    hidden = "import sys; sys.modules['aiohttp'] = None"
    folder = client.folder / "hiding"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(hidden)
    conf = client.conf(cmdenv={"PYTHONPATH": str(folder)})
    said = client.mistake(uri, "--queries", queries, "-c", conf)
    assert said == (
        f"mr-dedup: error: map task 0 on {uri}: {uri}: needs the package aiohttp: "
        "pip install 'mr-dedup[http]'\n"
    )
