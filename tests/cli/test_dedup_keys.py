"""Keys of summaries, columns of tables and counters are snake_case; older results are refused."""

import contextlib
import json
import re
import shutil

import pyarrow.parquet as pq
import pytest

from mr_dedup.clusters.decisions import Reason
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.pipeline.summary import LaterRuns, RunSummary
from tests.cli.documents import made_up_documents, rejects_in, write_jsonl
from tests.cli.running import Command
from tests.formats.documents.test_document_warc import page, record

KEY = re.compile(r"[a-z][a-z0-9_]*")

dedup = Command("dedup")


def keys_in(value):
    """Yield the keys of all objects in JSON."""
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from keys_in(inner)
    if isinstance(value, dict):
        yield from value


@pytest.fixture
def counted(monkeypatch):
    """The names of the counters of all jobs."""
    names, run = set(), MemoryEngine.run

    @contextlib.contextmanager
    def recorded(engine, job, inputs):
        with run(engine, job, inputs) as output:
            yield output
        names.update(output.counters)

    monkeypatch.setattr(MemoryEngine, "run", recorded)
    return names


def test_names_are_snake_case(tmp_path, capfd, counted, small_chunks):
    documents = made_up_documents(3)
    first = write_jsonl(tmp_path / "first.jsonl", documents[:30])
    second = write_jsonl(tmp_path / "second.jsonl", documents[30:])
    with second.open("a") as file:
        file.write("no JSON\n")
    pages = tmp_path / "pages.warc"
    pages.write_bytes(
        page(1, b"<p>one page")
        + page(2, b"an image", type=b"image/png")
        + page(3, b"<p>no page", status=b"404 Not Found")
        + record(4, b"of a page", kind=b"metadata")
    )
    methods = ["--method", "minhash", "--method", "segments", "--method", "simhash:k=7"]
    asked = [*methods, "--max-rejected", 1]
    dedup.messages(capfd, first, "-o", tmp_path / "old", *asked)
    out = tmp_path / "out"
    dedup.messages(capfd, second, pages, "-o", out, *asked, "--against", tmp_path / "old")
    summary = json.loads((out / "summary.json").read_bytes())
    # which no option names as fields of ids here
    summary["documents_without_id"] = summary["documents_without_seen"] = 0
    summary["documents_unordered"] = {}
    assert set(summary) == {*RunSummary.__annotations__, *LaterRuns.__struct_fields__}
    assert summary["skipped_records"] == {"http_status": 1, "media_type": 1, "record_type": 1}
    tables = [pq.read_schema(path) for path in out.glob("*/part-00000.parquet")]
    assert len(tables) == 6
    columns = [name for table in tables for name in table.names]
    reasons = pq.read_table(out / "decisions")["reason"].to_pylist()
    assert set(reasons) <= {reason.key for reason in Reason} == set(summary["reasons"])
    assert {"documents_read", "rejected_records", "skipped_http_status"} < counted
    found = [*keys_in(summary), *columns, *reasons, *counted]
    for line in rejects_in(out):
        found += keys_in(json.loads(line))
    assert [name for name in found if not KEY.fullmatch(name)] == []


def test_an_older_result_is_refused_in_one_line(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(3))
    old, out = tmp_path / "old", tmp_path / "out"
    dedup.messages(capfd, path, "-o", old)
    summary = json.loads((old / "summary.json").read_bytes())
    table = pq.read_table(old / "decisions")
    shutil.rmtree(old / "decisions")
    truth = tmp_path / "truth.tsv"
    truth.write_text("id_a\tid_b\tjaccard\n")
    # files in place of directories
    (old / "summary.json").write_text(json.dumps(summary | {"format_version": 2}))
    pq.write_table(table, old / "decisions.parquet")
    said = (
        f"mr-dedup: error: {old}: is a result of format version 2, but this mr_dedup reads "
        "version 3; de-duplicate its documents again\n"
    )
    assert dedup.mistake(capfd, path, "-o", out, "--against", old) == said
    assert Command("evaluate").mistake(capfd, old, "--truth", truth) == said
    # as it was written before the format had a version
    before = {"read": summary["documents_read"], "fingerprint version": 2}
    (old / "summary.json").write_text(json.dumps(before))
    names = {"kept_id": "keeper", "kept_file": "keeper_file", "kept_position": "keeper_position"}
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    pq.write_table(table, old / "decisions.parquet")
    said = (
        f"mr-dedup: error: {old}: is a result of format version 1, but this mr_dedup reads "
        "version 3; de-duplicate its documents again\n"
    )
    assert dedup.mistake(capfd, path, "-o", out, "--against", old) == said
    assert Command("evaluate").mistake(capfd, old, "--truth", truth) == said
    assert Command("evaluate").mistake(capfd, old / "decisions.parquet", "--truth", truth) == (
        f"mr-dedup: error: {old / 'decisions.parquet'}: is of a result of format version 1; "
        "de-duplicate its documents again\n"
    )
    # the kept documents and their fingerprints are read as before
    dedup.messages(capfd, old / "documents", "-o", out)
    index = ["create", tmp_path / "index", old / "fingerprints"]
    Command("index").messages(capfd, *index)


def test_an_interrupted_run_of_an_older_version_is_refused(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(3))
    (tmp_path / ".out.unfinished").mkdir()
    manifest = {"version": 2, "run": {"fingerprint version": 2}, "done": {}}
    (tmp_path / ".out.unfinished" / "manifest.json").write_text(json.dumps(manifest))
    said = dedup(capfd, path, "-o", tmp_path / "out", "--resume")[2]
    assert "is of version 2, this mr_dedup continues runs of version 6; start again" in said
    shutil.rmtree(tmp_path / ".out.unfinished")
