"""mr-dedup pairs of documents on a real Hadoop: the same bytes as in one process."""

import pytest

from mr_dedup.cli.main import main
from tests.cli.documents import made_up_documents, write_jsonl

pytestmark = pytest.mark.hadoop


def test_pairs_of_documents_here_and_there_equal_inline(client, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for seed in range(6):
        documents = [
            {**each, "id": f"{seed}-{n}"} for n, each in enumerate(made_up_documents(seed))
        ]
        write_jsonl(folder / f"{seed}.jsonl", documents)
    (folder / "7.jsonl").write_text("no JSON\n")
    asked = ["--method", "minhash", "--method", "simhash:k=5"]
    here = sorted(folder.iterdir())
    expected, out = tmp_path / "inline.tsv", tmp_path / "out.tsv"
    # a cluster's documents of this machine come first
    assert main(["pairs", *map(str, here), *asked, "-o", str(expected), "-r", "inline"]) == 0
    there = client.put(*here[4:])
    running = client.start(*here[:4], there, *asked, "--reducers", 2, "-o", out, name="pairs")
    said, err = running.communicate()
    assert (running.returncode, said) == (0, ""), err
    assert "rejected: 1" in err
    assert out.read_bytes() == expected.read_bytes()
    assert out.read_text().count("\n") > 100
