"""What later runs read of a summary: whole, or one line that says what is wrong."""

from pathlib import Path

import msgspec
import pytest

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
