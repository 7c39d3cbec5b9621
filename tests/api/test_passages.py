"""Passages from Python: as the command finds them, and restored."""

import pyarrow as pa
import pytest

import mr_dedup
from mr_dedup.api.commands import options_of, parser_of
from mr_dedup.api.options import PassagesOptions, RestoreOptions
from mr_dedup.cli.main import main
from tests.cli.documents import write_jsonl

TEXTS = ["one two three four five. six", "zero; ONE two, three four", "unique words only", ""]


def test_options_are_those_of_the_commands():
    for name, kind in (("passages", PassagesOptions), ("restore", RestoreOptions)):
        without = {"out", "runner"}
        assert set(options_of(parser_of(name))) - without == set(kind.__annotations__)


def test_results_are_those_of_the_command(tmp_path):
    documents = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]
    path = write_jsonl(tmp_path / "pages.jsonl", documents)
    words = ["--unit", "tokens:3", "--cut", "all-but-first", "--min-documents", "2"]
    assert main(["passages", str(path), "-o", str(tmp_path / "out"), *words]) == 0
    named = mr_dedup.PassagesResult(tmp_path / "out")
    options = {"unit": "tokens:3", "cut": "all-but-first", "min_documents": 2}
    for source in (path, TEXTS, pa.table({"id": ["0", "1", "2", "3"], "text": TEXTS})):
        with mr_dedup.find_passages(source, **options) as found:
            for name in ("passages", "occurrences", "cuts"):
                one, other = (getattr(result, name) for result in (named, found))
                names = [n for n in one.column_names if "file" not in n and n != "position"]
                shown = [n for n in names if not n.startswith(("json_", "checksum"))]
                assert other.select(shown).to_pylist() == one.select(shown).to_pylist()
            assert found.summary["occurrences"] == 2
            assert len(found.document_files) == 1
    assert named.passages["text"].to_pylist() == ["one two three four"]
    assert named.cuts["text"].to_pylist() == ["ONE two, three four"]
    mr_dedup.restore(named.folder, tmp_path / "again")
    assert (tmp_path / "again" / "pages.jsonl").read_bytes() == path.read_bytes()
    with pytest.raises(mr_dedup.MrDedupError, match="again: exists; give overwrite=True"):
        mr_dedup.restore(named.folder, tmp_path / "again")
    mr_dedup.restore(named.folder, tmp_path / "again", overwrite=True)


def test_errors_are_spelled_as_in_python(tmp_path):
    with pytest.raises(mr_dedup.MrDedupError, match=r"^unit: expected tokens:N"):
        mr_dedup.find_passages(TEXTS, unit="words")
    with pytest.raises(TypeError, match="units"):
        mr_dedup.find_passages(TEXTS, units="lines")
    result = mr_dedup.find_passages(TEXTS, unit="tokens:3")
    assert result.document_files == []
    with pytest.raises(mr_dedup.MrDedupError, match="nothing was cut"):
        mr_dedup.restore(result.folder, tmp_path / "again")
