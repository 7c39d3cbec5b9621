"""Columns of every type: as ids, texts, fields, and as what is kept."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import Rejects
from mr_dedup.formats.parquet_rows import parquet_writer
from tests.formats.documents.arrow_types import SCALARS, STORED
from tests.formats.documents.reading import read


def written(path, columns, **how):
    table = pa.table(columns)
    pq.write_table(table, path, **how)
    return pq.read_table(path)


def printed(table):
    """Return the rows as Arrow prints them, also times that Python lacks, and NaN as equal."""
    return [str(table.slice(row, 1).to_string()) for row in range(len(table))]


@pytest.mark.parametrize("name", SCALARS)
def test_the_form_of_ids(tmp_path, name):
    values, forms = SCALARS[name]
    path = tmp_path / "a.parquet"
    for ids in (values, STORED.get(f"dictionary of {name}", values)):
        table = written(path, {"id": ids, "text": ["t"] * 3})
        if ids is not values and getattr(values.type, "tz", None) != getattr(
            table.schema.field("id").type, "tz", None
        ):
            # Arrow stores dictionaries without their zones
            continue
        reading = read(path)
        expected = [form or f"{path}:{row}" for row, form in enumerate([*forms, None])]
        assert reading.ids == expected
        fields = [None, "inf", None] if name == "no numbers" else [*forms, None]
        found = read(path, id_names=["no"], fields=["id"]).fields
        assert found == [{"id": field} for field in fields]
        assert reading.rejects.counts.unusable_ids == 0
        # the next field is used where this one has no value
        written(path, {"id": ids, "url": ["u"] * 3, "text": ["t"] * 3})
        assert read(path).ids == [form or "u" for form in [*forms, None]]


@pytest.mark.parametrize("name", [name for name in STORED if pa.types.is_nested(STORED[name].type)])
def test_nested_ids_are_positions(tmp_path, name):
    path = tmp_path / "a.parquet"
    values = STORED[name]
    written(path, {"id": values, "text": ["t"] * 3})
    reading = read(path, fields=["id"])
    assert reading.ids == [f"{path}:{row}" for row in range(3)]
    assert reading.rejects.counts.unusable_ids == 3 - values.null_count
    assert len(reading.fields) == 3
    # Arrow's own null is the only one
    assert [field["id"] is None for field in reading.fields] == values.is_null().to_pylist()


TEXTS = [
    *("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "json"),
    *("unknown extension", "dictionary of string", "dictionary of binary", "dictionary of json"),
]


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("is_dictionary", [False, True])
def test_texts_of_every_type(tmp_path, name, is_dictionary):
    """Text is read, null is no text, and another type is refused by name."""
    _, forms = SCALARS[name]
    name = f"dictionary of {name}" if is_dictionary else name
    if name not in STORED:
        return
    path = tmp_path / "a.parquet"
    kind = written(path, {"id": range(3), "text": STORED[name]}).schema.field("text").type
    reading = read(path)
    counts = reading.rejects.counts
    plain = name.removeprefix("dictionary of ")
    if name in TEXTS or plain in TEXTS:
        bad = [1] if "binary" in plain else []
        assert reading.texts == [form for row, form in enumerate(forms) if row not in bad]
        assert [reason for _, reason in reading.reasons] == ["is not UTF-8"] * len(bad) + [
            "its 'text' is null"
        ]
        assert (counts.without_text, counts.rejected) == (1, len(bad))
        return
    assert reading.documents == []
    if plain == "null":
        assert (counts.without_text, counts.rejected) == (3, 0)
    elif "float" in plain or plain in ("double", "no numbers"):
        # what is missing may be NaN
        wrong = 1 if plain == "no numbers" else 2
        assert (counts.without_text, counts.rejected) == (3 - wrong, wrong)
        assert f"its column 'text' is of type {kind}, not text" in counts.first.reason
    else:
        assert reading.reasons == [(None, counts.first.reason)]
        assert counts.rejected == 3
        assert counts.first.reason.startswith("its column 'text' is of type ")
        assert counts.first.reason.endswith(", not text")


@pytest.mark.parametrize("name", STORED)
def test_html_of_another_type_is_not_read_beside_a_text(tmp_path, name):
    path = tmp_path / "a.parquet"
    written(path, {"text": ["one", "two", "three"], "html": STORED[name]})
    assert read(path).texts == ["one", "two", "three"]


def test_html_is_read_where_a_text_is_blank_or_null(tmp_path):
    path = tmp_path / "a.parquet"
    texts, html = ["", " \n", None, "text", "", None], ["<p>1", "<p>2", "<p>3", "<p>no", None, None]
    for kind in (pa.string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int8(), pa.string())):
        stored = pa.array(texts).cast(kind), pa.array(html).cast(kind)
        written(path, {"text": stored[0], "html": stored[1]})
        reading = read(path)
        assert reading.texts == ["1", "2", "3", "text", ""]
        assert reading.rejects.counts.empty == 1
        assert reading.reasons == [("row 5", "its 'text' is null")]


def test_rows_without_a_text_that_follow_one_another_are_one_reject(tmp_path):
    path = tmp_path / "a.parquet"
    texts = [None, None, b"a", b"\xff", None, None, b"b", None]
    written(path, {"text": pa.array(texts, pa.binary()), "body": ["x"] * 8})
    reading = read(path)
    found = [(each.position, each.records, each.without_text) for each in reading.rejects.listed]
    assert found == [
        ("row 0", 2, True), ("row 3", 1, False), ("row 4", 2, True), ("row 7", 1, True),
    ]  # fmt: skip
    assert reading.rejects.counts.other_fields == {"body": 5}


@pytest.mark.parametrize("name", STORED)
def test_kept_columns_pass_unchanged(tmp_path, name):
    """With the type, also of views, and in whatever batches."""
    path, copy = tmp_path / "a.parquet", tmp_path / "b.parquet"
    columns = {"text": ["one", "two", "three"], "c": STORED[name]}
    table = written(path, columns)
    for batch_bytes in (1, 1 << 20):
        options = ReadOptions(batch_bytes=batch_bytes, keep_records=True)
        batches = read_documents([DocumentFile.detect(path)], Rejects(), options)
        rows = pa.concat_tables(batch.records for batch in batches)
        with parquet_writer(copy, rows.schema) as writer:
            writer.write_table(rows.filter(pa.array([True, False, True])))
        kept = pq.read_table(copy)
        assert kept.schema.equals(table.schema, check_metadata=True)
        assert printed(kept) == [row for at, row in enumerate(printed(table)) if at != 1]
