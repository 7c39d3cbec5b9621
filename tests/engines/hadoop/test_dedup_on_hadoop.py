"""mr-dedup dedup on a real Hadoop: the same result as in one process, also against earlier ones."""

import random

import pytest

from mr_dedup.cli.main import main
from mr_dedup.storage.listing import list_files
from tests.cli.documents import files_of, made_up_documents, write_jsonl

pytestmark = pytest.mark.hadoop

SPLIT = "mapreduce.input.fileinputformat.split.maxsize"


def test_a_file_has_another_identity_once_it_is_written_anew(client, in_this_process, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}")
    client.put(path)
    uri = f"{client.folder}/a.jsonl"
    [before] = list_files([uri])
    assert list_files([uri]) == [before]
    client.hadoop("fs", "-touch", "-m", "-t", "20260102:030405", uri)
    [now] = list_files([uri])
    assert (now.uri, now.size_bytes) == (uri, before.size_bytes)
    assert now.identity != before.identity


def test_dedup_against_an_earlier_result_equals_inline(client, tmp_path):
    rng = random.Random(5)
    weeks = [], []
    for seed in range(30):
        for document in made_up_documents(seed):
            rng.choice(weeks).append({**document, "id": f"{seed}-{document['id']}"})
    old = write_jsonl(tmp_path / "old.jsonl", weeks[0])
    kept = tmp_path / "kept"
    assert main(["dedup", str(old), "-o", str(kept)]) == 0
    folder = tmp_path / "new"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", weeks[1][:300])
    # what is not small goes as it is, and is split there
    filler = [{"id": f"long-{n}", "text": f"only{n} " * 2_000} for n in range(1_700)]
    large = write_jsonl(folder / "b.jsonl", [*filler, *weeks[1][300:]])
    assert large.stat().st_size > 16 << 20
    arguments = [str(folder), "--against", str(kept)]
    expected = tmp_path / "inline"
    assert main(["dedup", *arguments, "-o", str(expected), "-r", "inline"]) == 0
    out = tmp_path / "out"
    running = client.start(
        *arguments, "-o", out, "--reducers", 2, "-D", f"{SPLIT}={8 << 20}", name="dedup"
    )
    said, err = running.communicate()
    assert (running.returncode, said) == (0, ""), err
    assert "earlier documents" in err
    assert files_of(out) == files_of(expected)
