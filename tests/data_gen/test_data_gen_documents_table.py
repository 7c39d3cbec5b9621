"""The table in docs/formats.md of the similarity of each kind of near-duplicate."""

import re
import statistics
from collections import defaultdict
from pathlib import Path

import pytest

import data_gen
from data_gen.cli import main
from data_gen.documents import KINDS
from tests.data_gen.document_oracles import read_documents, read_pairs

TEXT = (Path(data_gen.__file__).parent.parent / "docs" / "formats.md").read_text()


def rows(language: str, folder: Path) -> dict[str, str]:
    """What is in the table, from a run of the command that stands above it."""
    match = re.search(
        r"^data-gen documents (.*) --language LANGUAGE --out DIR$", TEXT, re.MULTILINE
    )
    assert match is not None
    options = [*match[1].split(), "--language", language, "--out", str(folder)]
    assert main(["documents", *options]) == 0
    kinds = {document["id"]: document["kind"] for document in read_documents(folder)}
    found: defaultdict[str, list[float]] = defaultdict(list)
    for name in ("truth.tsv", "near-misses.tsv"):
        for one, other, jaccard in read_pairs(folder / name):
            pair = {kinds[one], kinds[other]}
            if "original" in pair:
                (kind,) = pair - {"original"}
                found[kind].append(jaccard)
    return {
        kind: " ".join(f"{each:.2f}" for each in (min(all_), statistics.median(all_), max(all_)))
        for kind, all_ in found.items()
    }


@pytest.mark.parametrize(("language", "column"), [("english", 3), ("chinese", 4)])
def test_the_table_is_what_a_run_gives(language: str, column: int, tmp_path: Path) -> None:
    cells = [line.split("|") for line in TEXT.splitlines() if line.count("|") == 5]
    table = {row[1].strip().strip("`"): row[column].strip() for row in cells}
    assert [name for name in table if name in KINDS] == list(KINDS)
    expected = rows(language, tmp_path / "out")
    assert {name: table.get(name) for name in (*KINDS, "near-miss")} == expected
