"""mr-dedup dedup on EMR, in jobs with reducers and without: the same as in one process."""

from mr_dedup.cli.main import main
from tests.cli.test_dedup import files_of, made_up_documents, write_jsonl


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
    assert found["decisions.parquet"] == wanted["decisions.parquet"]
    assert found["clusters.parquet"] == wanted["clusters.parquet"]
    documents = [name for name in wanted if name.startswith("documents/")]
    assert sum(found[name].count(b"\n") for name in documents) > 20
    assert all(found[name] == wanted[name] for name in documents)
    assert client.left() == []
