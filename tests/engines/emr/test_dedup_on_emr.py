"""mr-dedup dedup on EMR, in jobs with reducers and without: the same as in one process."""

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mr_dedup.cli.dedup_options import refuse_changed
from mr_dedup.cli.document_inputs import prepare
from mr_dedup.cli.main import build_parser, main
from mr_dedup.cli.on_cluster import settings_for
from mr_dedup.cli.remote_files import local_files
from mr_dedup.errors import MrDedupError
from tests.cli.documents import files_of, made_up_documents, write_jsonl
from tests.engines.documents import json_lines

pytestmark = pytest.mark.emr


@pytest.fixture
def interrupted(client, tmp_path):
    """Arguments of a run over two files in S3 that ended as its first job was to begin."""
    for name in ("a.jsonl", "b.jsonl"):
        client.service.files.put(json_lines(9)[0], f"s3://{client.bucket}/pages/{name}")
    arguments = [f"s3://{client.bucket}/pages", "-o", tmp_path / "out"]
    conf = client.conf(cloud_tmp_dir="nowhere")
    code, _, err = client.command("dedup", *arguments, "-c", conf)
    assert code == 2
    assert "cloud_tmp_dir: expected a directory in S3" in err
    return arguments


def test_a_run_is_resumed_over_the_same_files_alone(client, interrupted):
    def resumed():
        return client.command("dedup", *interrupted, "--resume", "--dry-run")

    assert resumed()[0] == 0
    pages = f"s3://{client.bucket}/pages"
    # the same content, written anew
    client.service.files.put(json_lines(9)[0], f"{pages}/a.jsonl")
    assert resumed()[0] == 0
    # other content of the same size
    client.service.files.put(json_lines(9)[0].replace(b"0", b"7", 1), f"{pages}/b.jsonl")
    code, _, err = resumed()
    assert code == 2
    assert err.startswith(f'mr-dedup: error: --resume: files was ["{pages}/b.jsonl", ')
    assert err.endswith("; start another run\n")
    assert client.clusters == []


def test_a_file_that_changes_during_a_run_is_reported(client, interrupted, tmp_path):
    arguments = parsed(["dedup", *interrupted, "-r", "emr", "-c", client.conf()])
    with local_files(arguments) as arguments:
        settings = settings_for(arguments)
        work = prepare(arguments.documents, arguments, tmp_path, settings, reads_again=True)
        run = {"files": [file.identity for file in work.remote]}
        refuse_changed(arguments, work, run)
        changed = f"s3://{client.bucket}/pages/b.jsonl"
        client.service.files.put(b"{}", changed)
        with pytest.raises(MrDedupError, match=f"^{changed}: has other documents"):
            refuse_changed(arguments, work, run)


def parsed(words):
    words = [str(word) for word in words]
    return build_parser(words).parse_args(words)


def test_dedup_equals_inline(client, tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    for seed in range(2):
        documents = [{**one, "id": f"{seed}-{one['id']}"} for one in made_up_documents(seed)]
        write_jsonl(folder / f"{seed}.jsonl", documents)
    there = client.put(*sorted(folder.iterdir()))
    out, expected = tmp_path / "out", tmp_path / "inline"
    assert main(["dedup", str(folder), "-o", str(expected), "-r", "inline"]) == 0
    client.capfd.readouterr()
    words = [
        "dedup", there, "-o", out, "-r", "emr", "--reducers", 2,
        "-c", client.conf(),
    ]  # fmt: skip
    assert main([*map(str, words)]) == 0, client.capfd.readouterr().err
    found, wanted = files_of(out), files_of(expected)
    decisions = pq.read_table(out / "decisions")
    for column in ("file", "kept_file"):
        # files in S3 are named by their addresses, those of a folder here by their names in it
        names = pc.replace_substring(decisions[column], f"{there}/", "")
        at = decisions.column_names.index(column)
        assert names.null_count < len(names)
        decisions = decisions.set_column(at, column, names)
    assert decisions.equals(pq.read_table(expected / "decisions"))
    assert found["clusters/part-00000.parquet"] == wanted["clusters/part-00000.parquet"]
    documents = [name for name in wanted if name.startswith("documents/")]
    assert sum(found[name].count(b"\n") for name in documents) > 20
    assert all(found[name] == wanted[name] for name in documents)
    assert client.left() == []
