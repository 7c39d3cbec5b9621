"""Parquet of several writers, with columns of every type, through commands that read documents."""

import datetime
import decimal
import functools
import json
import random
from pathlib import Path

import datafusion
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.formats.benchmark_items import ItemOptions, read_items
from mr_dedup.formats.documents.files import find_documents
from mr_dedup.formats.documents.rejects import Rejects
from tests.cli.running import Command
from tests.formats.documents.arrow_types import STORED

WORDS = [f"word{number}" for number in range(500)]


def text(seed):
    return " ".join(random.Random(seed).choices(WORDS, k=60))


TEXTS = [text(1), text(2), text(1)]
"""Of which the last is dropped."""


def by_arrow(path):
    """Columns of every type."""
    views = {
        "id": pa.array(["a", "b", "c"], pa.string_view()),
        "text": pa.array(TEXTS, pa.string_view()),
    }
    pq.write_table(pa.table({**views, **STORED}, metadata={"owner": "us"}), path)


def by_pandas(path):
    """An index, categories, objects, nullable types."""
    frame = pd.DataFrame(
        {
            "id": pd.array([1, 2, None], "Int64"),
            "text": pd.Categorical(TEXTS),
            "html": [None] * 3,
            "nothing": [float("nan")] * 3,
            "object": [{"a": 1}, None, {"a": 2}],
            "lists": [["x"], [], None],
            "when": pd.to_datetime(["2024-05-31", None, "2024-06-01"]).tz_localize("Europe/Paris"),
            "flag": pd.array([True, None, False], "boolean"),
            "string": pd.array(["x", None, "y"], "string"),
            "span": pd.to_timedelta([1, 2, None], "s"),
        },
        index=pd.Index(["i", "j", "k"], name="url"),
    )
    frame.to_parquet(path)


def by_polars(path):
    """Strings that are views in memory, categories, enumerations, nested ones."""
    pl.DataFrame(
        {
            "id": pl.Series(["a", "b", "c"], dtype=pl.Categorical),
            "text": TEXTS,
            "enum": pl.Series(["x", "y", "x"], dtype=pl.Enum(["x", "y"])),
            "list": [["a", None], [], ["b"]],
            "categories": pl.Series([["a"], ["b"], []], dtype=pl.List(pl.Categorical)),
            "structs": [[{"a": "x", "b": [1]}], [], [{"a": None, "b": None}]],
            "array": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int16, 2)),
            "price": pl.Series([decimal.Decimal("1.5"), None, None], dtype=pl.Decimal(38, 2)),
            "time": [datetime.time(1), None, datetime.time(2)],
            "when": pl.Series([1, 2, None]).cast(pl.Datetime("ns", "Europe/Paris")),
            "span": [datetime.timedelta(1), None, None],
            "raw": [b"\xff", b"", None],
            "nothing": [None] * 3,
        }
    ).write_parquet(path)


def by_duckdb(path):
    """UUIDs as ids; what DuckDB has beyond the types of Arrow."""
    rows = " union all ".join(
        f"select {number} as n, '{each}' as text" for number, each in enumerate(TEXTS)
    )
    duckdb.sql(
        f"""copy (select uuid() as id, text, n::hugeint as huge, 'a'::enum('a', 'b') as enum,
        [n, null] as list, {{'x': 'a', 'y': [n]}} as struct, map {{'k': n}} as map,
        timestamp_ns '2024-01-01 00:00:00.123456789' as ns, timestamptz '2024-01-01' as zoned,
        '\\xAA\\x00'::blob as raw, interval (n) day as span, time '01:02:03' as time,
        null as nothing,
        n::utinyint as small, 1.5::decimal(18, 3) as price, '101'::bit as bits,
        date '2024-01-01' as day,
        '{{"a": 1}}'::json as json, [n, n]::int[2] as fixed from ({rows}))
        to '{path}' (format parquet)"""
    )


LATE = [datetime.datetime(9999, 12, 31), datetime.datetime(1, 1, 1), None]


def by_spark(path):
    """Times in INT96, also those that nanoseconds of 64 bits lack; no types of Arrow."""
    when = pa.array(LATE, pa.timestamp("us"))
    columns = {
        "id": when,
        "text": TEXTS,
        "lists": pa.array([[each] for each in LATE], pa.list_(pa.timestamp("us"))),
        "structs": pa.array([{"at": each, "n": 1} for each in LATE]),
        "map": pa.array([[("k", each)] for each in LATE], pa.map_(pa.string(), pa.timestamp("us"))),
    }
    pq.write_table(
        pa.table(columns), path, use_deprecated_int96_timestamps=True, store_schema=False
    )


def by_impala(path):
    """Nanoseconds in INT96; items of lists by other names."""
    array, item = pa.field("array", pa.int64()), pa.field("array_element", pa.string())
    columns = {
        "id": pa.array([1, 2**62, -(2**62)], pa.timestamp("ns")),
        "text": TEXTS,
        "numbers": pa.array([[1], [], None], pa.list_(array)),
        "nested": pa.array([[["a"]], [], None], pa.list_(pa.field("item", pa.list_(item)))),
    }
    pq.write_table(
        pa.table(columns), path, use_deprecated_int96_timestamps=True, store_schema=False,
        use_compliant_nested_type=False,
    )  # fmt: skip


def by_datafusion(path):
    """Views, columns that have no nulls, other names within lists and maps."""
    rows = ", ".join(f"({number}, '{each}')" for number, each in enumerate(TEXTS))
    casts = {
        "raw": ("text", "BinaryView"),
        "words": ("text", "Dictionary(Int32, Utf8)"),
        "price": ("n", "Decimal128(38, 2)"),
        "small": ("n", "UInt8"),
        "half": ("n", "Float16"),
        "zoned": ("n", 'Timestamp(Nanosecond, Some("+01:00"))'),
        "time": ("n", "Time64(Nanosecond)"),
        "span": ("n", "Duration(Second)"),
    }
    columns = ", ".join(f"arrow_cast({c}, '{kind}') as {name}" for name, (c, kind) in casts.items())
    datafusion.SessionContext().sql(
        f"""select arrow_cast(cast(n as varchar), 'Utf8View') as id,
        arrow_cast(text, 'Utf8View') as text, {columns}, make_array(n, null) as list,
        make_array(arrow_cast(text, 'Utf8View')) as texts,
        named_struct('x', text, 'y', make_array(n)) as struct, map(['k'], [n]) as map,
        cast('2024-01-01' as date) as day, null as nothing, case when n = 1 then text end as some
        from (values {rows}) as t(n, text) order by n"""
    ).write_parquet(path)


@pytest.fixture(
    params=[by_spark, by_impala, by_arrow, by_pandas, by_polars, by_duckdb, by_datafusion]
)
def table(request, tmp_path, monkeypatch):
    """The table in docs.parquet of the current directory, as Arrow reads it."""
    monkeypatch.chdir(tmp_path)
    request.param("docs.parquet")
    unit = "us" if request.param is by_spark else "ns"
    real = pq.read_table
    monkeypatch.setattr(pq, "read_table", functools.partial(real, coerce_int96_timestamp_unit=unit))
    return pq.read_table("docs.parquet")


def printed(table):
    """Return the rows as Arrow prints them, also times that Python lacks."""
    return [str(table.slice(row, 1).to_string()) for row in range(len(table))]


def test_dedup_keeps_rows_as_they_are(capfd, table):
    Command("dedup").done(capfd, "docs.parquet", "-o", "out")
    kept = pq.read_table("out/documents/docs.parquet")
    assert kept.schema.equals(table.schema, check_metadata=True)
    assert printed(kept) == printed(table)[:2]
    stored = [str(pq.ParquetFile(path).schema).partition("\n")[2]
              for path in ("docs.parquet", "out/documents/docs.parquet")]  # fmt: skip
    if "int96" in stored[0]:
        # also to programs that do not read the types of Arrow
        assert stored[1] == stored[0]
    summary = json.loads(Path("out/summary.json").read_text())
    assert (summary["documents_read"], summary["rejected_records"]) == (3, 0)
    # what was kept is read by the next run
    _, err = Command("dedup").done(capfd, "docs.parquet", "-o", "next", "--against", "out")
    assert "kept 0, dropped 3" in err


@pytest.mark.parametrize("written", ["jsonl", "parquet"])
def test_dedup_writes_rows_in_other_formats(capfd, table, written):
    Command("dedup").done(capfd, "docs.parquet", "-o", "out", "--documents", written)
    _, err = Command("dedup").done(capfd, "out/documents", "-o", "again")
    assert "kept 2, dropped 0" in err
    ids = [
        pq.read_table(f"{each}/decisions/part-00000.parquet")["id"].to_pylist()
        for each in ("out", "again")
    ]
    assert ids[0][:2] == ids[1]


def test_fields_are_kept_with_fingerprints(capfd, table):
    names = [name for name in table.column_names if name not in ("id", "text", "url", "file")]
    options = [option for name in names for option in ("--keep-field", name)]
    Command("fingerprint").done(capfd, "docs.parquet", "-o", "f.parquet", *options)
    found = pq.read_table("f.parquet")
    assert found.column_names == ["id", "fingerprint", "length", *names]
    assert found["id"].null_count == 0


def test_passages_are_cut_and_restored(capfd, table):
    repeated = table.set_column(
        table.column_names.index("text"), table.schema.field("text"),
        pa.array([f"{text(9)} {each}" for each in TEXTS]).cast(table.schema.field("text").type),
    ) if not pa.types.is_dictionary(table.schema.field("text").type) else table  # fmt: skip
    pq.write_table(repeated, "docs.parquet")
    repeated = pq.read_table("docs.parquet")
    Command("passages").done(capfd, "docs.parquet", "-o", "cut", "--cut", "all-but-first")
    cut = pq.read_table("cut/documents/docs.parquet")
    assert cut.schema.equals(repeated.schema, check_metadata=True)
    assert printed(cut.drop_columns("text")) == printed(repeated.drop_columns("text"))
    Command("restore").done(capfd, "cut", "-o", "restored")
    restored = pq.read_table("restored/docs.parquet")
    assert restored.schema.equals(repeated.schema, check_metadata=True)
    assert printed(restored) == printed(repeated)


@pytest.mark.parametrize("action", ["drop", "cut"])
def test_decontaminate_writes_rows_as_they_are(capfd, table, action):
    question = " ".join(TEXTS[1].split()[:20])
    Path("q.jsonl").write_text(json.dumps({"question": question}) + "\n")
    options = ("--evals", "q.jsonl", "--action", action)
    Command("decontaminate").done(capfd, "docs.parquet", *options, "-o", "out")
    left = pq.read_table("out/documents/docs.parquet")
    expected = printed(table.drop_columns("text"))
    assert left.schema.equals(table.schema, check_metadata=True)
    assert printed(left.drop_columns("text")) == (expected if action == "cut" else expected[::2])


def test_items_are_read_from_it(capfd, table):
    fields = ("--question-field", "text", "--answer-field", "when", "--answer-field", "lists")
    Command("decontaminate").done(
        capfd, "docs.parquet", "--evals", "docs.parquet", *fields, "-o", "out"
    )
    summary = json.loads(Path("out/summary.json").read_text())
    assert (summary["items"], summary["rejected_records"]) == (3, 0)
    items = pq.read_table("out/items/part-00000.parquet")
    assert items["documents"].to_pylist() == [2, 1, 2]
    # equal ones count once; of some tables their answers differ
    equal = items["same_as"].to_pylist()[2] is not None
    assert summary["items_found"] == 3 - equal


@pytest.mark.parametrize("kind", sorted({name.partition(" ")[0] for name in STORED}))
def test_items_with_answers_of_every_type(tmp_path, kind):
    """As questions, ids and passages too, and where Python has no type for a value."""
    for name, values in STORED.items():
        if name.partition(" ")[0] != kind:
            continue
        path = tmp_path / "exam.parquet"
        pq.write_table(pa.table({"text": TEXTS, "x": values, "unread": values}), path)
        for role in ("answer_names", "id_names", "passage_names"):
            options = ItemOptions(**{"question_names": ["text"], role: ["x"]})
            rejects = Rejects()
            items = read_items(find_documents([str(path)]).files, options, rejects)
            assert items["question"].to_pylist() == TEXTS, name
            assert rejects.count == 0, name


def test_other_commands_read_it(capfd, table):
    out, _ = Command("pairs").done(capfd, "docs.parquet", "--method", "minhash")
    assert out.count("\n") == 1
    Command("idf").done(capfd, "docs.parquet", "-o", "idf.parquet")
    Command("index", "create").done(capfd, "INDEX", "docs.parquet")
    out, _ = Command("index", "query").done(capfd, "INDEX", "docs.parquet")
    assert out.count("\n") == 3
    Command("fingerprint").done(capfd, "docs.parquet", "-o", "f.parquet")
    ids = pq.read_table("f.parquet")["id"].to_pylist()
    out, _ = Command("distance").done(capfd, ids[0], ids[2], "--in", "docs.parquet")
    assert "1.0000" in out or "similarity 1" in out
