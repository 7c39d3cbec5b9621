"""What later runs read of a summary: whole, or one line that says what is wrong."""

import json
from pathlib import Path

import msgspec
import pytest

import mr_dedup
from mr_dedup.cli.main import main
from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.pipeline.summary import FORMAT_VERSION, LaterRuns, Reading, Reference

READING = Reading.of(ReadOptions(id_names=("key", "url"), html="page", strict=True), "warc")
WHOLE = LaterRuns(
    FORMAT_VERSION, "words:2", 2, 4, "sum", ("exact",), "other sum", READING,
    (Reference("../week1", 7, "sum of week 1"),),
)  # fmt: skip


def parsed(content):
    return LaterRuns.parse("week2", Path("week2/summary.json"), content)


def test_what_is_recorded_is_read_beside_other_keys():
    whole = msgspec.to_builtins(WHOLE) | {"documents_read": 9}
    assert parsed(msgspec.json.encode(whole)) == WHOLE
    expected = ReadOptions(id_names=("key", "url"), html="page", strict=True)
    assert WHOLE.reading.options() == expected


def test_ids_that_are_not_recorded_are_the_default_ones():
    reading = {**msgspec.to_builtins(READING), "id_field": None}
    assert msgspec.convert(reading, Reading).options().id_names == ReadOptions.id_names


REQUIRED = LaterRuns.__struct_fields__[: -len(LaterRuns.__struct_defaults__)]


def test_results_without_ids_and_counts_are_read():
    whole = msgspec.to_builtins(WHOLE)
    for name in set(LaterRuns.__struct_fields__) - set(REQUIRED):
        del whole[name]
    del whole["against"][0]["result_id"]
    found = parsed(msgspec.json.encode(whole))
    assert found == WHOLE
    assert found.identifier == "sum"


@pytest.mark.parametrize("name", REQUIRED[1:])
def test_each_key_is_needed(name):
    whole = msgspec.to_builtins(WHOLE)
    del whole[name]
    with pytest.raises(FormatError, match=f"lacks what later runs need: .*`{name}`"):
        parsed(msgspec.json.encode(whole))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff", b'{"format_version": 3, "features": "\xff"}', b"[" * 100_000,
     b'{"format_version": 3, "x": ' + b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_summary_is_reported(content):
    with pytest.raises(FormatError, match=r"week2/summary\.json: lacks what later runs need"):
        parsed(content)


def test_another_version_is_refused():
    with pytest.raises(MrDedupError, match=r"week2: .* 4 is newer .*; upgrade mr_dedup"):
        parsed(b'{"format_version": 4}')
    with pytest.raises(MrDedupError, match="week2: is a result of format version 2"):
        parsed(b'{"format_version": 2}')


def test_results_of_newer_versions_are_refused_by_all_that_reads_them(tmp_path, capfd):
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "a", "text": "one two three"}\n{"id": "b", "text": "one two three"}\n')
    folder = tmp_path / "out"
    mr_dedup.dedup(path, out=folder)
    summary = folder / "summary.json"
    content = json.loads(summary.read_text())
    summary.write_text(json.dumps(content | {"format_version": content["format_version"] + 1}))
    truth = tmp_path / "truth.tsv"
    truth.write_text("a\tb\n")
    for words in (
        ["why", folder, "a"],
        ["counts", folder, "-o", tmp_path / "counts.parquet"],
        ["dedup", path, "-o", tmp_path / "new", "--against", folder],
        ["evaluate", folder, "--truth", truth],
        ["restore", folder, "-o", tmp_path / "restored"],
    ):
        assert main(list(map(str, words))) == 2
        said = capfd.readouterr().err
        assert "is newer than this mr_dedup reads" in said
        assert said.endswith("; upgrade mr_dedup\n")
    result = mr_dedup.DedupResult(folder)
    for read in (lambda: result.summary, lambda: result.decisions, lambda: result.why("a")):
        with pytest.raises(MrDedupError, match="; upgrade mr_dedup"):
            read()
