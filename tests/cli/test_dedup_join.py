"""De-duplication with pairs found by tasks: the same result as in memory."""

import pytest

from mr_dedup.cli.main import main
from tests.cli.documents import files_of, made_up_documents, write_jsonl


@pytest.mark.parametrize("runner", ["memory", "inline", "local"])
def test_the_result_is_the_same_whoever_finds_pairs(tmp_path, runner):
    documents = [
        {**document, "id": f"{seed}-{document['id']}"}
        for seed in range(10)
        for document in made_up_documents(seed)
    ]
    pages = write_jsonl(tmp_path / "pages.jsonl", documents)
    found = []
    for join in ("memory", "tasks"):
        out = tmp_path / join
        asked = ["--method", "simhash", "-r", runner, "--join", join]
        assert main(["dedup", str(pages), "-o", str(out), *asked]) == 0
        found.append(files_of(out))
    assert found[0] == found[1]
    assert b'"fingerprint_pairs": ' in found[0]["summary.json"]
    assert b'"fingerprint_pairs": 0,' not in found[0]["summary.json"]
