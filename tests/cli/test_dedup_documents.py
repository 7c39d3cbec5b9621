"""mr-dedup dedup --documents: what is kept, as JSON lines or Parquet, and read by later runs."""

import datetime
import gzip
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings

from tests.cli.documents import files_of, made_up_documents, write_jsonl
from tests.cli.result_tables import unpacked
from tests.cli.running import by_turns
from tests.cli.test_dedup import done, mistake, stopped_after
from tests.cli.test_dedup_parts import small_parts  # noqa: F401 (a fixture)
from tests.formats.documents.test_document_warc import page
from tests.formats.test_json_columns import RECORDS, is_same


def lines_in(out):
    """The records of a result in JSON lines, and the number of its parts."""
    parts = sorted((out / "documents").iterdir())
    assert [part.name for part in parts] == [f"part-{n:05}.jsonl.zst" for n in range(len(parts))]
    content = [
        zstandard.ZstdDecompressor().decompressobj().decompress(p.read_bytes()) for p in parts
    ]
    # a part is of a task, which may keep nothing
    assert all(each.endswith(b"\n") for each in content if each)
    return b"".join(content).splitlines(), len(parts)


def rows_in(out):
    """The rows of a result in Parquet, as other programs read them."""
    return pa.dataset.dataset(out / "documents", format="parquet").to_table()


def members(seed, count=60):
    """Documents with members of all types, of which the first lack some."""
    for n, document in enumerate(made_up_documents(seed, count)):
        more = {"tags": ["a", str(n)], "of": {"n": n, "name": None}, "when": "2024-01-02 03:04:05"}
        yield {**document, "score": n / 2, **(more if n % 3 else {"flag": True})}


def text_of(n):
    return " ".join(f"w{n}-{i}" for i in range(40))


@pytest.fixture
def mixed(tmp_path):
    """A directory with files of every format; ids of their documents in order."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", [{"id": "a1", "text": text_of(1), "more": [1, {"x": None}]}])
    with gzip.open(folder / "b.jsonl.gz", "wt") as file:
        # without an end
        file.write(json.dumps({"id": "b1", "text": text_of(2)}))
    (folder / "c.html").write_text(f"<title>é</title><p>{text_of(3)}")
    table = {
        "id": [1, 2], "text": [text_of(4), None],
        "html": [None, f"<p>{text_of(5)}é".encode("latin1")],
        "when": [datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)] * 2, "n": [1.5, float("nan")],
        "bytes": [b"\x00\xff", None],
    }  # fmt: skip
    pq.write_table(pa.table(table), folder / "d.parquet")
    (folder / "e.txt").write_text(text_of(6))
    (folder / "f.warc").write_bytes(page(7, f"<p>{text_of(7)}".encode()))
    return folder


@by_turns(("seed",), [1, 3])
def test_json_lines_are_the_kept_records(tmp_path, capfd, small_parts, seed, runner):  # noqa: F811
    path = write_jsonl(tmp_path / "docs.jsonl", members(seed))
    done(capfd, path, "-o", tmp_path / "same", "-r", runner)
    done(capfd, path, "-o", tmp_path / "out", "-r", runner, "--documents", "jsonl")
    lines, parts = lines_in(tmp_path / "out")
    assert lines == (tmp_path / "same" / "documents" / "docs.jsonl").read_bytes().splitlines()
    assert parts > 10
    files = pq.read_table(tmp_path / "out" / "fingerprints")["file"].to_pylist()
    written = {p.name: unpacked(p) for p in (tmp_path / "out" / "documents").iterdir()}
    assert set(files) == {name for name, content in written.items() if content}
    for name in ("decisions", "clusters"):
        for file in (tmp_path / "same" / name).iterdir():
            assert (tmp_path / "out" / name / file.name).read_bytes() == file.read_bytes()


@by_turns(("seed",), [1, 3])
def test_parquet_has_the_members_as_columns(tmp_path, capfd, small_parts, seed, runner):  # noqa: F811
    path = write_jsonl(tmp_path / "docs.jsonl", members(seed))
    done(capfd, path, "-o", tmp_path / "same", "-r", runner)
    done(capfd, path, "-o", tmp_path / "out", "-r", runner, "--documents", "parquet")
    kept = (tmp_path / "same" / "documents" / "docs.jsonl").read_text().splitlines()
    table = rows_in(tmp_path / "out")
    assert table.schema.names == ["id", "text", "score", "flag", "tags", "of", "when"]
    # not a date, which would be written otherwise
    assert table.schema.field("when").type == pa.string()
    for row, line in zip(table.to_pylist(), map(json.loads, kept), strict=True):
        assert {name: value for name, value in row.items() if value is not None} == line
    assert len(list((tmp_path / "out" / "documents").iterdir())) > 10


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_parts_are_the_same_on_every_engine(tmp_path, capfd, small_parts, kind):  # noqa: F811
    for number in range(3):
        write_jsonl(tmp_path / f"{number}.jsonl", members(number))
    found = []
    for runner, cores in (("memory", 1), ("memory", 3), ("inline", 2), ("local", 3)):
        out = tmp_path / f"{runner}-{cores}"
        words = ["-r", runner, "--documents", kind, *(["--cores", cores] if cores > 1 else [])]
        done(capfd, *sorted(tmp_path.glob("*.jsonl")), "-o", out, *words)
        found.append({k: v for k, v in files_of(out).items() if k.startswith("documents")})
    assert len(found[0]) > 5
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("runner", ["memory", "local"])
def test_json_lines_of_every_format(tmp_path, capfd, mixed, runner):
    done(capfd, mixed, "-o", tmp_path / "out", "--documents", "jsonl", "-r", runner)
    found = [json.loads(line) for line in lines_in(tmp_path / "out")[0]]
    assert found[0] == {"id": "a1", "text": text_of(1), "more": [1, {"x": None}]}
    assert found[1] == {"id": "b1", "text": text_of(2)}
    assert found[2] == {"id": "c.html", "text": found[2]["text"]}
    assert text_of(3) in found[2]["text"]
    when = "2024-01-02T00:00:00Z"
    assert found[3:5] == [
        {"id": 1, "text": text_of(4), "html": None, "when": when, "n": 1.5, "bytes": "AP8="},
        {
            "id": 2,
            "text": None,
            "html": f"<p>{text_of(5)}é",
            "when": when,
            "n": None,
            "bytes": None,
        },
    ]
    assert found[5] == {"id": "e.txt", "text": text_of(6)}
    assert found[6]["text"].strip() == text_of(7)
    assert set(found[6]) == {"id", "text"}
    assert len(found) == 7
    summary = json.loads((tmp_path / "out" / "summary.json").read_bytes())
    assert summary["reading"]["format"] == "jsonl"


@pytest.mark.parametrize("kind", ["same", "jsonl", "parquet"])
def test_later_runs_read_what_was_written(tmp_path, capfd, mixed, kind):
    if kind == "parquet":
        # of other columns
        (mixed / "d.parquet").unlink()
        (mixed / "a.jsonl").write_text(json.dumps({"id": "a1", "text": text_of(1)}))
    done(capfd, mixed, "-o", tmp_path / "old", "--documents", kind)
    texts = [*range(1, 8), 99]
    new = write_jsonl(
        tmp_path / "new.jsonl",
        [{"id": str(n), "text": text_of(n) + " and more"} for n in texts],
    )
    done(capfd, new, "-o", tmp_path / "out", "--against", tmp_path / "old")
    rows = pq.read_table(tmp_path / "out" / "decisions").to_pylist()
    expected = {1, 2, 3, 4, 5, 6, 7} - ({4, 5} if kind == "parquet" else set())
    assert {int(row["id"]) for row in rows if row["earlier_result"]} == expected
    for row in rows:
        if row["earlier_result"]:
            assert (tmp_path / "old" / "documents" / row["kept_file"]).is_file()
    # and as documents
    done(capfd, tmp_path / "old" / "documents", "-o", tmp_path / "again")


def test_parquet_keeps_its_columns(tmp_path, capfd, small_parts):  # noqa: F811
    documents = made_up_documents(3)
    table = pa.table(
        {
            "id": [one["id"] for one in documents],
            "text": pa.array([one["text"] for one in documents]).dictionary_encode(),
            "when": pa.array(range(60), pa.timestamp("ns")),
            "nothing": pa.nulls(60),
            "lists": [[{"n": n}] * (n % 3) for n in range(60)],
        }
    )
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(table.slice(0, 30), folder / "0.parquet", row_group_size=7)
    # in another order, without one, with one of a type that fits
    names = ["text", "lists", "id", "when"]
    second = table.slice(30).select(names)
    second = second.set_column(3, "when", second["when"].cast(pa.timestamp("us"), safe=False))
    pq.write_table(second, folder / "1.parquet")
    done(capfd, folder, "-o", tmp_path / "same")
    done(capfd, folder, "-o", tmp_path / "out", "--documents", "parquet")
    found = rows_in(tmp_path / "out")
    assert found.schema.field("text").type == pa.string()
    assert found.schema.field("when").type == pa.timestamp("ns")
    kept = [pq.read_table(tmp_path / "same" / "documents" / f"{n}.parquet") for n in (0, 1)]
    for name in ("id", "text", "lists"):
        assert found[name].to_pylist() == [each for t in kept for each in t[name].to_pylist()]
    assert found["nothing"].null_count == len(found)
    assert len(list((tmp_path / "out" / "documents").iterdir())) > 3
    # as JSON lines
    done(capfd, folder, "-o", tmp_path / "lines", "--documents", "jsonl")
    lines = [json.loads(line) for line in lines_in(tmp_path / "lines")[0]]
    assert [line["lists"] for line in lines] == found["lists"].to_pylist()
    assert lines[0]["when"] == "1970-01-01 00:00:00.000000000"


KINDS = [
    ([1, None, -5], pa.int64()),
    ([1, 2**63, 2**64 - 1], pa.uint64()),
    ([-1, 2**64 - 1], pa.decimal128(20)),
    ([2**64, -(10**37)], pa.decimal128(38)),
    ([2**53, 0.5], pa.float64()),
    ([2**53 + 1, 0.5], pa.json_()),
    ([10**38], pa.json_()),
    ([1, "1"], pa.json_()),
    ([True, 1], pa.json_()),
    ([[1, "a"], [None]], pa.list_(pa.json_())),
    ([{"n": 2**53 + 1}, {"n": 0.5, "m": [[]]}],
     pa.struct([("n", pa.json_()), ("m", pa.list_(pa.list_(pa.string())))])),
    ([{}, {"a": 1}], pa.struct([("a", pa.int64())])),
    ([{}], pa.json_()),
    ([{f"k{n}": n} for n in range(80)], pa.json_()),
    ([{f"k{n}": n for n in range(80)}], pa.struct([(f"k{n}", pa.int64()) for n in range(80)])),
    (["2024-01-02", "a\0b"], pa.string()),
    ([None], pa.string()),
]  # fmt: skip


@by_turns(("values", "kind"), KINDS)
def test_columns_have_room_for_all_values(tmp_path, capfd, values, kind, runner):
    documents = [{"id": f"d{n}", "text": text_of(n), "v": v} for n, v in enumerate(values)]
    (tmp_path / "in").mkdir()
    for n, document in enumerate(documents):
        write_jsonl(tmp_path / "in" / f"{n:02}.jsonl", [document])
    done(capfd, tmp_path / "in", "-o", tmp_path / "out", "--documents", "parquet", "-r", runner)
    table = rows_in(tmp_path / "out")
    assert table.schema.field("v").type == kind
    for found, value in zip(table["v"].to_pylist(), values, strict=True):
        assert is_same(found, value, kind)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS)
def test_any_records_are_kept_as_they_are(tmp_path_factory, capfd, records):
    folder = tmp_path_factory.mktemp("in")
    # NaN is no JSON
    records = json.loads(json.dumps(records), parse_constant=lambda _: None)
    documents = [{**each, "id": f"d{n}", "text": text_of(n)} for n, each in enumerate(records)]
    for n in range(0, len(documents), 3):
        write_jsonl(folder / f"{n}.jsonl", documents[n : n + 3])
    out = tmp_path_factory.mktemp("out")
    done(capfd, folder, "-o", out, "--overwrite", "--documents", "parquet")
    table = rows_in(out)
    assert set(table.schema.names) == set().union(*documents)
    for row, document in zip(table.to_pylist(), documents, strict=True):
        for field in table.schema:
            assert is_same(row[field.name], document.get(field.name), field.type)


def test_text_of_json_is_json_in_lines(tmp_path, capfd):
    values = [{"a": [1, "x", None]}, {"a": None}, {"a": [{"b": 2**60}, 0.5, "line\n"]}]
    documents = [{"id": f"d{n}", "text": text_of(n), "v": value, "w": value if n else "é\n"}
                 for n, value in enumerate(values)]  # fmt: skip
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    done(capfd, path, "-o", tmp_path / "rows", "--documents", "parquet")
    rows = tmp_path / "rows" / "documents"
    assert rows_in(tmp_path / "rows").schema.field("w").type == pa.json_()
    done(capfd, rows, "-o", tmp_path / "lines", "--documents", "jsonl")
    assert [json.loads(line) for line in lines_in(tmp_path / "lines")[0]] == documents
    # of other programs: over several lines, and no JSON
    texts = pa.array(['{"a":\n1}', "no JSON", None]).cast(pa.json_())
    ids = ["a", "b", "c"]
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"id": ids, "text": list(map(text_of, range(3))), "v": texts}), path)
    done(capfd, path, "-o", tmp_path / "other", "--documents", "jsonl")
    found = [json.loads(line)["v"] for line in lines_in(tmp_path / "other")[0]]
    assert found == [{"a": 1}, "no JSON", None]


def test_lines_that_parquet_has_no_columns_for_are_named_before_the_work(tmp_path, capfd):
    path = tmp_path / "docs.jsonl"
    words = [path, "-o", tmp_path / "out", "--documents", "parquet", "--overwrite"]
    repeated = b'{"id": "a", "text": "x", "n": 1, "n" : 2}'
    path.write_bytes(b'{"id": "b", "text": "y"}\n' + repeated)
    said = mistake(capfd, *words)
    assert f"docs.jsonl: {repeated.decode()}: has two members 'n', for which Parquet has" in said
    path.write_bytes(b'{"id": "a", "text": "x", "n": "\xff"}')
    assert 'docs.jsonl: {"id": "a", "text": "x", "n": ' in mistake(capfd, *words)
    lines = [
        {"id": n, "text": text_of(n), **{f"{n}-{i}": i for i in range(500)}} for n in range(21)
    ]
    write_jsonl(path, lines)
    assert "have more than 10,000 members of different names, too many" in mistake(capfd, *words)
    # nothing was done that another run would repeat
    done(capfd, path, "-o", tmp_path / "out", "--documents", "jsonl", "--resume")
    assert len(lines_in(tmp_path / "out")[0]) == len(lines)


def test_lines_that_are_no_documents_have_no_columns(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", [{"id": "a", "text": "one", "n": 1}])
    path.write_bytes(path.read_bytes() + b'{"n": "error", "m": 1, "m": 2}\nno JSON\n')
    words = ["--documents", "parquet", "--max-rejected", "100%"]
    done(capfd, path, "-o", tmp_path / "out", *words)
    assert rows_in(tmp_path / "out").to_pylist() == [{"id": "a", "text": "one", "n": 1}]


def column(value, kind):
    return pa.array([value], kind)


STRING, INT = pa.string(), pa.int64()
DAY = datetime.date(2024, 5, 6)
SECOND = datetime.datetime(2024, 5, 6, 7, 8, 9)
UNITED = [
    (column(-1, pa.int32()), column(2**62, INT), INT),
    (column(2**64 - 1, pa.uint64()), column(-1, INT), pa.decimal128(20)),
    (column(2**32 - 1, pa.uint32()), column(-1, pa.int8()), INT),
    (column(2**53, INT), column(0.5, pa.float64()), pa.float64()),
    (column(0.5, pa.float32()), column(0.1, pa.float64()), pa.float64()),
    (column(None, pa.null()), column({"a": 1}, pa.struct([("a", INT)])), pa.struct([("a", INT)])),
    (column(None, pa.null()), column(None, pa.null()), pa.null()),
    (column("x", STRING), column("y", pa.large_string()), pa.large_string()),
    (column("x", STRING), column(["y"], pa.list_(STRING)).flatten().dictionary_encode(), STRING),
    (column(SECOND, pa.timestamp("ms")), column(SECOND, pa.timestamp("ns")), pa.timestamp("ns")),
    (column(DAY, pa.date32()), column(DAY, pa.date32()), pa.date32()),
    (column(Decimal("1.25"), pa.decimal128(5, 2)), column(Decimal("0.0625"), pa.decimal128(10, 4)),
     pa.decimal128(10, 4)),
    (column([1, None], pa.list_(pa.int32())), column([None], pa.list_(pa.null())),
     pa.list_(pa.int32())),
    (column({"a": 1}, pa.struct([("a", pa.int32())])),
     column({"b": "x", "a": 2**40}, pa.struct([("b", STRING), ("a", INT)])),
     pa.struct([("a", INT), ("b", STRING)])),
    (column([("k", 1)], pa.map_(STRING, pa.int32())), column([("k", 2)], pa.map_(STRING, INT)),
     pa.map_(STRING, INT)),
    (column(b"1" * 16, pa.binary(16)).cast(pa.uuid()), column(None, pa.uuid()), pa.uuid()),
    (column([b"1" * 16], pa.list_(pa.binary(16), 1)).cast(pa.list_(pa.uuid(), 1)),
     column(None, pa.null()), pa.list_(pa.uuid(), 1)),
    (column("{}", STRING).cast(pa.json_()), column(None, pa.null()), pa.json_()),
]  # fmt: skip


@by_turns(("first", "second", "united"), UNITED)
def test_columns_of_several_parquet_files(tmp_path, capfd, first, second, united, runner):
    folder = tmp_path / "in"
    folder.mkdir()
    for n, values in enumerate((first, second)):
        # and one that the other has not
        table = pa.table({"id": [f"d{n}"], "text": [text_of(n)], "v": values, f"only{n}": [n]})
        pq.write_table(table, folder / f"{n}.parquet")
    # and a line that has neither
    write_jsonl(folder / "2.jsonl", [{"id": "d2", "text": text_of(2)}])
    done(capfd, folder, "-o", tmp_path / "out", "--documents", "parquet", "-r", runner)
    table = rows_in(tmp_path / "out")
    assert table.schema.names == ["id", "text", "v", "only0", "only1"]
    assert table.schema.field("v").type == united
    assert table["only0"].to_pylist() == [0, None, None]
    assert table["only1"].to_pylist() == [None, 1, None]
    expected = [first[0].as_py(), second[0].as_py(), None]
    if pa.types.is_struct(united) and len(united) == 2:
        expected[0] = {**expected[0], "b": None}
    assert table["v"].to_pylist() == expected


@by_turns(
    ("first", "second"),
    [(STRING, INT), (INT, STRING), (pa.bool_(), INT), (STRING, pa.binary()),
     (pa.timestamp("ms"), pa.timestamp("ms", "UTC")), (pa.decimal128(5, 2), pa.float64())],
)  # fmt: skip
def test_parquet_files_that_have_no_type_in_common(tmp_path, capfd, first, second, runner):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for n, kind in enumerate((first, second)):
        table = pa.table({"id": [f"d{n}"], "text": [text_of(n)], "v": pa.nulls(1, kind)})
        pq.write_table(table, folder / f"{n}.parquet")
    said = mistake(capfd, folder, "-o", out, "--documents", "parquet", "-r", runner)
    assert f"1.parquet: its column 'v' is of type {second}, not {first} as in 0.parquet; " in said
    done(capfd, folder, "-o", out, "--documents", "jsonl", "-r", runner, "--resume")
    assert len(lines_in(out)[0]) == 2


def test_an_integer_that_is_no_double_is_never_one(tmp_path, capfd):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for n, value in enumerate((2**53 + 1, 0.5)):
        table = pa.table({"id": [f"d{n}"], "text": [text_of(n)], "v": [value]})
        pq.write_table(table, folder / f"{n}.parquet")
    said = mistake(capfd, folder, "-o", out, "--documents", "parquet")
    assert "0.parquet: values of its column 'v', of type int64, do not fit in double, of " in said
    done(capfd, folder, "-o", out, "--documents", "jsonl", "--resume")
    assert [json.loads(line)["v"] for line in lines_in(out)[0]] == [2**53 + 1, 0.5]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_nothing_kept(tmp_path, capfd, kind):
    path = write_jsonl(tmp_path / "docs.jsonl", [{"id": "a", "text": text_of(1)}])
    done(capfd, path, "-o", tmp_path / "old", "--documents", kind)
    words = ["--documents", kind, "--against", tmp_path / "old"]
    done(capfd, path, "-o", tmp_path / "out", *words)
    # a part without documents, of which the one in Parquet has columns
    if kind == "jsonl":
        assert lines_in(tmp_path / "out") == ([], 1)
    else:
        (part,) = (tmp_path / "out" / "documents").iterdir()
        table = pq.read_table(part)
        assert (table.column_names, len(table)) == (["id", "text"], 0)
    words += ["--against", tmp_path / "out"]
    done(capfd, path, "-o", tmp_path / "third", *words)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_run_is_resumed(tmp_path, capfd, monkeypatch, small_parts, kind):  # noqa: F811
    path = write_jsonl(tmp_path / "docs.jsonl", members(4))
    out, words = tmp_path / "out", ["--documents", kind]
    done(capfd, path, "-o", tmp_path / "undisturbed", *words)
    stopped_after("keep", path, out, monkeypatch, capfd, *words)
    _, second, *_ = sorted((tmp_path / ".out.unfinished" / "result" / "documents").iterdir())
    second.write_bytes(second.read_bytes()[:-1])
    done(capfd, path, "-o", out, "--resume", *words)
    assert files_of(out) == files_of(tmp_path / "undisturbed")


@by_turns(("before", "after"), [("parquet", "jsonl"), ("jsonl", "parquet"), ("parquet", "same")])
@pytest.mark.parametrize("stage", ["resolve", "keep"])
def test_a_run_is_resumed_in_another_format(
    tmp_path, capfd, monkeypatch, before, after, stage, runner
):
    path, out = write_jsonl(tmp_path / "docs.jsonl", members(4)), tmp_path / "out"
    done(capfd, path, "-o", tmp_path / "undisturbed", "-r", runner, "--documents", after)
    words = ["-r", runner, "--documents", before]
    stopped_after(stage, path, out, monkeypatch, capfd, *words)
    done(capfd, path, "-o", out, "-r", runner, "--documents", after, "--resume")
    assert files_of(out) == files_of(tmp_path / "undisturbed")


def test_a_line_that_could_not_be_read_again(tmp_path, capfd):
    (tmp_path / "a.txt").write_text('"' * 90)
    words = [tmp_path / "a.txt", "-o", tmp_path / "out", "--max-record-size", 100]
    said = mistake(capfd, *words, "--documents", "jsonl")
    assert "bytes as a line of JSON, more than the 100 of --max-record-size" in said
