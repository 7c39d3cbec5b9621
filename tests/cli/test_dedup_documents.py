"""mr-dedup dedup --documents: what is kept, as JSON lines or Parquet, and read by later runs."""

import datetime
import gzip
import json

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.cli.documents import files_of, made_up_documents, write_jsonl
from tests.cli.running import by_turns
from tests.cli.test_dedup import done, mistake, stopped_after
from tests.cli.test_dedup_parts import small_parts  # noqa: F401 (a fixture)
from tests.formats.documents.test_document_warc import page


def lines_in(out):
    """The records of a result in JSON lines, and the number of its parts."""
    parts = sorted((out / "documents").iterdir())
    assert [part.name for part in parts] == [f"part-{n:05}.jsonl.zst" for n in range(len(parts))]
    content = [
        zstandard.ZstdDecompressor().decompressobj().decompress(p.read_bytes()) for p in parts
    ]
    assert all(each.endswith(b"\n") for each in content)
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
    assert sorted(set(files)) == sorted(p.name for p in (tmp_path / "out" / "documents").iterdir())
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
def test_parts_are_the_same_on_every_engine(tmp_path, capfd, monkeypatch, small_parts, kind):  # noqa: F811
    from mr_dedup.formats.documents import chunks

    monkeypatch.setattr(chunks, "_MIN_BYTES", 1000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)
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


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([{"score": "high"}], "document 'x0' does not fit the columns of the first documents: "),
        ([{}, {"new": 1}], "document 'x1' does not fit the columns of the first documents: it has "
         "the member 'new', which those lack; --documents jsonl and same keep records of any"),
        ([{"score": {"a": 1}}, {}], "document 'x0' does not fit"),
    ],
)  # fmt: skip
def test_what_does_not_fit_parquet_is_one_line(tmp_path, capfd, records, said, monkeypatch):
    from mr_dedup.jobs.kept_parts import ParquetDocuments
    from mr_dedup.pipeline.dedup_stages import keep

    def with_small_sample(*arguments, **options):
        return ParquetDocuments(*arguments, **options, sample_bytes=10)

    monkeypatch.setattr(keep, "ParquetDocuments", with_small_sample)
    write_jsonl(tmp_path / "0.jsonl", [{"id": "a", "text": text_of(0), "score": 1}])
    documents = [
        {"id": f"x{n}", "text": text_of(n + 1), **record} for n, record in enumerate(records)
    ]
    write_jsonl(tmp_path / "1.jsonl", documents)
    words = [tmp_path / "0.jsonl", tmp_path / "1.jsonl", "-o", tmp_path / "out"]
    assert f"1.jsonl: {said}" in mistake(capfd, *words, "--documents", "parquet")
    # decisions are made already
    assert "documents was" in mistake(capfd, *words, "--resume", "--documents", "jsonl")
    done(capfd, *words, "--overwrite", "--documents", "jsonl")
    assert len(lines_in(tmp_path / "out")[0]) == 1 + len(records)


def test_records_that_contradict_each_other_at_the_beginning(tmp_path, capfd):
    documents = [{"id": f"x{n}", "text": text_of(n), "score": n} for n in range(50)]
    documents[33]["score"] = "high"
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    said = mistake(capfd, path, "-o", tmp_path / "out", "--documents", "parquet")
    assert "docs.jsonl: document 'x33' does not fit the columns of the first documents: " in said
    write_jsonl(path, [{"id": "a", "text": "one", "more": {}}])
    said = mistake(capfd, path, "-o", tmp_path / "out", "--documents", "parquet", "--overwrite")
    assert "docs.jsonl: 'more' is an empty object in all of the first documents" in said


def test_parquet_files_of_other_columns(tmp_path, capfd):
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"id": ["a"], "text": [text_of(1)]}), folder / "0.parquet")
    pq.write_table(pa.table({"id": ["b"], "text": [text_of(2)], "n": [1]}), folder / "1.parquet")
    words = [folder, "-o", tmp_path / "out", "--documents", "parquet", "--overwrite"]
    assert "1.parquet: has a column 'n', which 0.parquet has not" in mistake(capfd, *words)
    # text that could be a number is not converted, nor a number to text
    for first, second in ((["7"], [8]), ([7], ["8"]), ([7], [2.5])):
        pq.write_table(pa.table({"id": ["a"], "text": ["x"], "n": first}), folder / "0.parquet")
        pq.write_table(pa.table({"id": ["b"], "text": ["y"], "n": second}), folder / "1.parquet")
        kinds = [
            {str: "string", int: "int64", float: "double"}[type(x[0])] for x in (first, second)
        ]
        said = f"1.parquet: its column 'n' is of type {kinds[1]}, not {kinds[0]} as in 0.parquet; "
        assert said in mistake(capfd, *words)
    table = pa.table({"id": ["b"], "text": ["y"], "n": [2.0]})
    pq.write_table(table, folder / "1.parquet")
    done(capfd, *words)
    assert rows_in(tmp_path / "out")["n"].to_pylist() == [7, 2]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_nothing_kept(tmp_path, capfd, kind):
    path = write_jsonl(tmp_path / "docs.jsonl", [{"id": "a", "text": text_of(1)}])
    done(capfd, path, "-o", tmp_path / "old", "--documents", kind)
    words = ["--documents", kind, "--against", tmp_path / "old"]
    done(capfd, path, "-o", tmp_path / "out", *words)
    assert list((tmp_path / "out" / "documents").iterdir()) == []
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
    assert "documents was" in mistake(capfd, path, "-o", out, "--resume")
    done(capfd, path, "-o", out, "--resume", *words)
    assert files_of(out) == files_of(tmp_path / "undisturbed")


def test_a_line_that_could_not_be_read_again(tmp_path, capfd):
    (tmp_path / "a.txt").write_text('"' * 90)
    words = [tmp_path / "a.txt", "-o", tmp_path / "out", "--max-record-size", 100]
    said = mistake(capfd, *words, "--documents", "jsonl")
    assert "bytes as a line of JSON, more than the 100 of --max-record-size" in said
