"""Files of stores that Hadoop does not read, here of a web server: tasks read them by URI."""

from pathlib import Path

import pytest

from tests.engines.documents import fingerprints_inline, json_lines
from tests.storage import servers
from tests.storage.servers import WebFile

pytestmark = pytest.mark.hadoop


@pytest.fixture
def web():
    with servers.web_server() as server:
        yield server


def test_tasks_read_files_of_a_web_server_and_of_hdfs(client, corpus, queries, parts, web):
    for part in parts[:2]:
        web.files[f"/{Path(part).name}"] = WebFile(Path(part).read_bytes())
    uris = [f"{web.uri}{name}?token=s3cr3t" for name in web.files]
    assert client.query(*uris, client.put(*parts[2:]), "--queries", queries) == corpus.lines()
    assert client.last_job()["mapsTotal"] == 4
    logs = [path for path in client.cluster.logs.rglob("*") if path.is_file()]
    assert not any(b"s3cr3t" in path.read_bytes() for path in logs)


def test_documents_of_a_web_server_are_read_in_parts(client, tmp_path, web):
    web.files["/a.jsonl"] = WebFile(b"".join(json_lines(3_000)))
    uri = f"{web.uri}/a.jsonl"
    outs = tmp_path / "found.parquet", tmp_path / "inline.parquet"
    fingerprints_inline(uri, out=outs[1])
    split = "mapreduce.input.fileinputformat.split.maxsize=1000000"
    client.fingerprint(uri, "-D", split, "-o", outs[0])
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert client.last_job()["mapsTotal"] == -(-len(web.files["/a.jsonl"].content) // 1_000_000) > 1
