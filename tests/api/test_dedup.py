"""mr_dedup.dedup: every kind of source gives the decisions of the command; results; errors."""

import itertools
import json
import logging
import subprocess
import sys
from pathlib import Path

import datasets
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mr_dedup
from mr_dedup.api.commands import _spelled_in_python, options_of, parser_of
from mr_dedup.api.options import DedupOptions
from mr_dedup.cli.main import main
from tests.cli.documents import made_up_documents, write_jsonl

ROOT = Path(__file__).parents[2]
KEPT = {"unclustered", "first_of_cluster", "dissimilar"}
COLUMNS = ["id", "reason", "kept_id", "similarity", "cluster"]


@pytest.fixture(scope="module")
def documents():
    return [{"id": each["id"], "text": each["text"]} for each in made_up_documents(3)]


@pytest.fixture(scope="module")
def expected(documents, tmp_path_factory):
    """What the command decides."""
    folder = tmp_path_factory.mktemp("command")
    path = write_jsonl(folder / "pages.jsonl", documents)
    assert main(["dedup", str(path), "-o", str(folder / "out")]) == 0
    table = pq.read_table(folder / "out" / "decisions")
    assert 0 < table["reason"].to_pylist().count("near_duplicate") < len(documents)
    return table.select(COLUMNS)


def table_of(documents):
    return pa.Table.from_pylist(documents)


SOURCES = {
    "records": lambda documents: documents,
    "a generator": lambda documents: (each for each in documents),
    "pyarrow table": table_of,
    "record batches": lambda documents: table_of(documents).to_reader(max_chunksize=7),
    "text views": lambda documents: pa.table(
        {name: table_of(documents)[name].cast(pa.string_view()) for name in ("id", "text")}
    ),
    "pandas": lambda documents: pd.DataFrame(documents),
    "polars": lambda documents: pl.DataFrame(documents),
    "datasets": lambda documents: datasets.Dataset.from_list(documents),
    "datasets, streamed": lambda documents: datasets.IterableDataset.from_generator(
        lambda: iter(documents)
    ),
    "duckdb": lambda documents: duckdb.from_arrow(table_of(documents)),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_is_decided_as_by_the_command(kind, documents, expected):
    with mr_dedup.dedup(SOURCES[kind](documents)) as result:
        assert result.decisions.select(COLUMNS).equals(expected)
        is_kept = [reason in KEPT for reason in expected["reason"].to_pylist()]
        kept = list(itertools.compress(documents, is_kept))
        assert result.kept.select(["id", "text"]).to_pylist() == kept
        assert result.summary["documents_kept"] == len(kept) == result.kept.num_rows


def test_files_are_read_where_they_are(documents, expected, tmp_path):
    half = len(documents) // 2
    folder = tmp_path / "pages"
    folder.mkdir()
    paths = [
        write_jsonl(folder / "a.jsonl", documents[:half]),
        write_jsonl(folder / "b.jsonl", documents[half:]),
    ]
    for source in (str(folder / "*.jsonl"), folder, paths):
        out = tmp_path / "out"
        result = mr_dedup.dedup(source, out, overwrite=True)
        assert result.decisions.select(COLUMNS).equals(expected)
        assert [path.name for path in result.kept_files] == ["a.jsonl", "b.jsonl"]
        with pytest.raises(mr_dedup.MrDedupError, match=r"documents: not Parquet; see kept_files"):
            _ = result.kept
    assert mr_dedup.DedupResult(out).summary == result.summary


@pytest.mark.parametrize("engine", ["memory", "inline", "local"])
def test_every_engine_decides_alike(engine, documents, expected):
    with mr_dedup.dedup(documents, engine=engine) as result:
        assert result.decisions.select(COLUMNS).equals(expected)


def test_texts_have_their_numbers_as_ids(documents):
    texts = [each["text"] for each in documents]
    with mr_dedup.dedup(texts) as result:
        numbers = [int(id) for id in result.kept["id"].to_pylist()]
        assert result.kept["text"].to_pylist() == [texts[number] for number in numbers]


COLUMNS_OF_TEXTS = {
    "pandas": pd.Series,
    "pandas, categories": lambda texts: pd.Series(texts, dtype="category"),
    "polars": pl.Series,
    "arrow": pa.array,
    "arrow, views": lambda texts: pa.array(texts, pa.string_view()),
    "arrow, in chunks": lambda texts: pa.chunked_array([texts[:5], texts[5:]]),
    "numpy": np.array,
    "datasets": lambda texts: datasets.Dataset.from_dict({"body": texts})["body"],
}


@pytest.mark.parametrize("kind", COLUMNS_OF_TEXTS)
def test_a_column_is_a_list_of_texts(kind, documents):
    texts = [each["text"] for each in documents[:20]]
    with mr_dedup.dedup(COLUMNS_OF_TEXTS[kind](texts)) as result, mr_dedup.dedup(texts) as listed:
        assert result.decisions.select(COLUMNS).equals(listed.decisions.select(COLUMNS))
        assert result.kept.equals(listed.kept)


def test_nulls_of_a_column_are_counted():
    texts = [None, "one two three", None, *map(str, range(40))]
    with mr_dedup.dedup(pd.Series(texts)) as result:
        assert result.summary["documents_without_text"] == 2
        assert result.kept["id"].to_pylist()[0] == "1"


WITHOUT_IDS = {
    "pyarrow table": table_of,
    "record batches": lambda documents: table_of(documents).to_reader(max_chunksize=7),
    "pandas": pd.DataFrame,
    "records": list,
    "a generator": iter,
}


@pytest.mark.parametrize("kind", WITHOUT_IDS)
def test_rows_without_ids_have_their_numbers(kind, documents):
    texts = [each["text"] for each in documents]
    bodies = [{"text": text, "size": len(text)} for text in texts]
    with mr_dedup.dedup(WITHOUT_IDS[kind](bodies)) as result, mr_dedup.dedup(texts) as listed:
        assert result.decisions.select(COLUMNS).equals(listed.decisions.select(COLUMNS))
        kept = result.kept.to_pylist()
        assert [row["id"] for row in kept] == listed.kept["id"].to_pylist()
        assert all(bodies[int(row["id"])]["size"] == row["size"] for row in kept)


def test_ids_of_rows_are_kept(documents):
    table = table_of([{"url": f"u{row}", "text": "a text of words"} for row in range(3)])
    assert mr_dedup.fingerprint(table)["id"].to_pylist() == ["u0", "u1", "u2"]
    pages = table.rename_columns(["page", "text"])
    assert mr_dedup.fingerprint(pages, id_field="page")["id"].to_pylist() == ["u0", "u1", "u2"]
    records = [{"text": "a text"}, {"text": "another", "id": 0}, {"text": "more", "id": None}]
    records += [{"text": "the last", "url": "x"}]
    assert mr_dedup.fingerprint(records)["id"].to_pylist() == ["0", "0", "2", "x"]
    assert mr_dedup.fingerprint(pages.to_pylist(), id_field=["page"])["id"].to_pylist() == [
        "u0", "u1", "u2",
    ]  # fmt: skip


def test_records_need_not_have_the_same_members():
    records = [
        {"id": "a", "text": "one two three four", "seen": np.int64(3)},
        {"id": "b", "text": "one two three four", "tags": ["x", "y"]},
        {"id": "c", "text": "something else", "vector": np.arange(2)},
    ]
    with mr_dedup.dedup(records, keep="highest:seen") as result:
        rows = result.kept.to_pylist()
        assert [row["id"] for row in rows] == ["a", "c"]
        assert rows[0]["seen"] == 3
        assert rows[1]["vector"] == [0, 1]


def test_options_are_those_of_the_command():
    without = {"out", "runner", "dry_run", "price"}
    assert set(options_of(parser_of("dedup"))) - without == set(DedupOptions.__annotations__)


def test_options_reach_the_command(documents, tmp_path):
    words = ["--verify", "0.6", "--keep", "longest", "--keep", "first", "--method", "simhash:k=7"]
    path = write_jsonl(tmp_path / "pages.jsonl", documents)
    assert main(["dedup", str(path), "-o", str(tmp_path / "out"), *words]) == 0
    expected = pq.read_table(tmp_path / "out" / "decisions").select(COLUMNS)
    with mr_dedup.dedup(
        documents, verify=0.6, keep=["longest", "first"], method="simhash:k=7"
    ) as result:
        assert result.decisions.select(COLUMNS).equals(expected)


def test_a_second_week_is_compared_with_the_first(documents, tmp_path):
    half = len(documents) // 2
    mr_dedup.dedup(documents[:half], tmp_path / "week-1")
    second = mr_dedup.dedup(documents, tmp_path / "week-2", against=tmp_path / "week-1")
    dropped = [row for row in second.decisions.to_pylist() if row["earlier_result"]]
    assert len(dropped) >= pq.read_table(tmp_path / "week-1" / "fingerprints").num_rows


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"verify": 2}, mr_dedup.MrDedupError, "^verify: '2' is"),
        ({"k": "x"}, mr_dedup.MrDedupError, "^k: invalid int value: 'x'"),
        ({"follow": True}, mr_dedup.MrDedupError, "^follow: needs against$"),
        (
            {"method": "exact", "k": 3},
            mr_dedup.MrDedupError,
            "^k: not used by exact; give method simhash$",
        ),
        (
            {"weights": "log-tf-idf"},
            mr_dedup.MrDedupError,
            "^weights log-tf-idf: needs idf, a file of mr-dedup idf$",
        ),
        ({"verfy": 0.5}, TypeError, r"dedup\(\) got an unexpected option 'verfy'"),
        # of the command, but not of the function
        ({"runner": "local"}, TypeError, r"got an unexpected option 'runner'"),
        ({"dry_run": True}, TypeError, r"got an unexpected option 'dry_run'"),
        ({"follow": 3}, TypeError, "follow: expected True or False, got 3"),
        ({"keep": {"a"}}, TypeError, r"keep: expected text or a number, got \{'a'\}"),
        ({"method": "guess"}, mr_dedup.MrDedupError, "guess"),
        (
            {"text_field": "body"},
            mr_dedup.MrDedupError,
            "none of 60 records could be read; the first, source.jsonl, line 1 ",
        ),
        ({"engine": "ray"}, mr_dedup.MrDedupError, "^engine: 'ray' is not one of auto, memory"),
        ({"engine": 3}, TypeError, "engine: expected a name or a SparkSession, not int"),
    ],
)
def test_misuse_is_one_line(documents, options, error, reason, capfd):
    with pytest.raises(error, match=reason) as raised:
        mr_dedup.dedup(documents, **options)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


def test_errors_name_options_as_in_python(documents, tmp_path):
    mr_dedup.dedup(documents, tmp_path / "out")
    with pytest.raises(mr_dedup.MrDedupError, match="out: exists; give overwrite=True to replace"):
        mr_dedup.dedup(documents, tmp_path / "out")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("kept: a run was interrupted; --resume continues it, --overwrite discards it",
         "kept: a run was interrupted; resume=True continues it, overwrite=True discards it"),
        ("--max-record-size: 3 is less", "max_record_size: 3 is less"),
        ("argument -r/--runner: 'ray' is not", "engine: 'ray' is not"),
        ("--cores: not used by -r spark; see --master",
         "cores: not used by engine='spark'; see master"),
        # of the command, but not of the function; and names of files
        ("--price: needs --dry-run", "--price: needs --dry-run"),
        ("crawl--overwrite.jsonl: no such file", "crawl--overwrite.jsonl: no such file"),
    ],
)  # fmt: skip
def test_options_in_messages(message, expected):
    names = {*DedupOptions.__annotations__, "runner"}
    assert _spelled_in_python(message, parser_of("dedup"), names) == expected


@pytest.mark.parametrize(
    ("source", "error", "reason"),
    [
        ([], mr_dedup.MrDedupError, "source: there are no documents"),
        (datasets.Dataset.from_list([]), mr_dedup.MrDedupError, "source: there are no documents"),
        (
            datasets.DatasetDict(train=datasets.Dataset.from_list([{"text": "a"}])),
            TypeError,
            "source: has the splits train; pass one of them",
        ),
        (3, TypeError, "expected a path, texts, records or a table, not int"),
        (pd.Series([1, 2]), TypeError, "source: expected a column of texts, not of int64"),
        (pl.Series([], dtype=pl.String), mr_dedup.MrDedupError, "source: there are no documents"),
        (b"pages", TypeError, "not bytes"),
        ({"text": "one"}, TypeError, "not dict"),
        ([3], TypeError, "expected texts, records or paths, not int"),
        ([{"text": "a"}, "b"], TypeError, "element 1 is not a record, but str"),
        ([{"text": "a", "more": {1, 2}, "at": object()}], mr_dedup.MrDedupError, "record 0: "),
        ([str(ROOT / "LICENSE")], ValueError, "LICENSE' is the name of a file; pass pathlib.Path"),
        (["s3://bucket/pages"], ValueError, "is the name of a file"),
        ("no/such/file.jsonl", mr_dedup.MrDedupError, "no/such/file.jsonl: no such file"),
        (pa.table({}), mr_dedup.MrDedupError, "the table has no columns"),
    ],
)
def test_a_source_that_cannot_be_read_is_one_line(source, error, reason):
    with pytest.raises(error, match=reason) as raised:
        mr_dedup.dedup(source)
    assert "\n" not in str(raised.value)


def test_messages_go_to_the_log_and_not_to_the_terminal(documents, caplog, capfd):
    with caplog.at_level(logging.INFO, "mr_dedup"), mr_dedup.dedup(documents):
        assert any("kept" in record.getMessage() for record in caplog.records)
    assert capfd.readouterr() == ("", "")


def test_a_result_without_clusters():
    with mr_dedup.dedup(["one text", "another, quite different one"]) as result:
        assert result.clusters.num_rows == 0
        assert result.kept.num_rows == result.decisions.num_rows == 2


@pytest.mark.parametrize("name", ["decisions", "kept"])
def test_a_damaged_or_missing_part_is_reported(documents, tmp_path, name):
    result = mr_dedup.dedup(documents, tmp_path / "out")
    (path,) = (tmp_path / "out" / name.replace("kept", "documents")).iterdir()
    content = path.read_bytes()
    # a byte of a page, which the checksum of the page covers
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(mr_dedup.MrDedupError, match=r"part-00000\.parquet"):
        getattr(result, name)
    with pytest.raises(mr_dedup.MrDedupError, match="cannot be read: could not verify page"):
        list(result.batches(name))
    path.rename(path.with_name("part-00001.parquet"))
    with pytest.raises(mr_dedup.MrDedupError, match="part 0 is missing"):
        getattr(result, name)


def test_a_temporary_result_is_removed(documents):
    with mr_dedup.dedup(documents) as result:
        folder = Path(result.folder)
        assert folder.is_dir()
    assert not folder.parent.exists()
    folder = Path(mr_dedup.dedup(documents).folder)
    assert not folder.exists()


def test_one_decision_is_explained():
    page = " ".join(f"word{number}" for number in range(40))
    texts = {"a": page, "b": f"{page} more", "c": page, "d": "nothing of this"}
    with mr_dedup.dedup([{"id": id, "text": text} for id, text in texts.items()]) as result:
        assert str(result.why("a")) == (
            "a: kept, the first document of its cluster; 3 documents in its cluster"
        )
        assert str(result.why("b")) == (
            "b: dropped, a near-duplicate of a (similarity 0.97); 3 documents in its cluster"
        )
        assert str(result.why("c")).startswith("c: dropped, an exact duplicate of a; 3 documents")
        assert str(result.why("d")) == "d: kept, no other document is a candidate"
        assert [result.why(id).is_kept for id in texts] == [True, False, False, True]
        with pytest.raises(KeyError):
            result.why("e")


def test_why_names_the_earlier_result_and_documents_without_ids(tmp_path):
    text = " ".join(map(str, range(40)))
    (tmp_path / "first.jsonl").write_text(json.dumps({"text": text}) + "\n")
    (tmp_path / "second.jsonl").write_text(json.dumps({"id": "x", "text": text + " more"}) + "\n")
    earlier = str(tmp_path / "kept-1")
    mr_dedup.dedup(tmp_path / "first.jsonl", earlier)
    result = mr_dedup.dedup(tmp_path / "second.jsonl", tmp_path / "kept-2", against=earlier)
    assert str(result.why("x")).startswith(
        f"x: dropped, a near-duplicate of {tmp_path}/first.jsonl:0, which {earlier} kept "
        "(similarity 0.97)"
    )


def test_a_result_shows_itself_in_a_notebook(documents, tmp_path):
    with mr_dedup.dedup(documents) as result:
        shown = result._repr_html_()
        assert f"<td>{len(documents):,}</td>" in shown
        assert repr(result).startswith("<DedupResult: kept ")
        report = result.report()
        assert report._repr_html_().startswith('<iframe srcdoc="&lt;!')
        assert "mr_dedup-source-" not in report._repr_html_()
        report.save(tmp_path / "report.html")
        assert (tmp_path / "report.html").read_text() == Path(
            result.folder, "report.html"
        ).read_text()
        rows = sum(batch.num_rows for batch in result.batches("decisions"))
        assert rows == len(documents)


def test_nothing_is_imported_before_it_is_used():
    program = """
import sys
before = set(sys.modules)
import mr_dedup
assert "dedup" in dir(mr_dedup)
print(" ".join(sorted(name for name in set(sys.modules) - before if "." not in name)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not set(done.stdout.split()) & {"numpy", "pyarrow", "msgspec", "tqdm", "json"}


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'mr_dedup' has no attribute 'dedupe'"):
        _ = mr_dedup.dedupe
    assert all(getattr(mr_dedup, name) is not None for name in mr_dedup.__all__)


FORKING = """
import os, threading, warnings
import mr_dedup

warnings.simplefilter("ignore")
texts = [f"the text of number {n % 7} has some words in it, and more of them" for n in range(50)]
here = mr_dedup.dedup(texts).summary["documents_kept"]
child = os.fork()
if child == 0:
    os._exit(mr_dedup.dedup(texts).summary["documents_kept"])
_, status = os.waitpid(child, 0)
found = []
threads = [
    threading.Thread(target=lambda: found.append(mr_dedup.dedup(texts).summary["documents_kept"]))
    for _ in range(4)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(here, os.waitstatus_to_exitcode(status), *found)
"""


def test_children_and_threads_may_call_it():
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    counts = done.stdout.split()
    assert len(counts) == 6, done.stderr
    assert len(set(counts)) == 1
    assert int(counts[0]) > 0


@pytest.mark.parametrize(
    ("documents", "normalize", "letter"),
    [
        *((documents, "nfkc", "ș") for documents in ("same", "jsonl", "parquet")),
        # the same letter written in another way
        ("same", "nfkc+arabic-marks+romanian", "ş"),
    ],
)
def test_why_names_the_most_similar_kept_document(tmp_path, documents, normalize, letter):
    words = [f"word{number}" for number in range(40)]
    texts = {
        "a": words,
        # 28 and 38 of 48 shingles
        "b": [*words[:30], *(f"other{number}" for number in range(10))],
        "c": [*words, "more"],
        "d": [*words[:35], *(f"third{number}" for number in range(5))],
        "e": ["nothing", "of", "this"],
    }
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for file, ids in zip(files, ("eba", "cd"), strict=True):
        shown = {id: " ".join(texts[id]).replace("w", letter if id == "b" else "ș") for id in ids}
        lines = [json.dumps({"id": id, "text": text}) for id, text in shown.items()]
        file.write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    result = mr_dedup.dedup(
        files,
        out,
        method="minhash:bands=60,rows=1",
        documents=documents,
        keep="longest",
        normalize=normalize,
    )
    decision = result.why("b")
    assert decision.reason == "dissimilar"
    assert (decision.most_similar_id, decision.min_similarity) == ("d", 0.8)
    similarity = 28 / (38 + 38 - 28)
    assert decision.highest_similarity == pytest.approx(similarity)
    assert str(decision) == (
        "b: kept, not similar enough to a kept document of its cluster; "
        f"most similar kept document: d (similarity {similarity:.2f}, below 0.8); "
        "4 documents in its cluster"
    )
    # what was decided is known without the texts
    for path in (out / "documents").iterdir():
        path.unlink()
    assert str(result.why("b")) == (
        "b: kept, not similar enough to a kept document of its cluster; 4 documents in its cluster"
    )


def test_the_traceback_of_an_error_is_short():
    with pytest.raises(mr_dedup.MrDedupError, match=r"^verify: '7' is not a similarity") as caught:
        mr_dedup.dedup(["a b"], verify=7)
    assert [entry.name for entry in caught.traceback][1:] == ["dedup", "call_command"]
    assert caught.value.__suppress_context__


def test_a_directory_that_is_no_result_is_reported(tmp_path):
    for name in "summary", "decisions":
        with pytest.raises(mr_dedup.MrDedupError, match=rf"{name}(\.json)?: .*o such file"):
            getattr(mr_dedup.DedupResult(tmp_path), name)


PAGE = "the quick brown fox jumps over the lazy dog on a sunny day"


def test_columns_of_every_type_of_polars():
    """Nested strings, categories and enumerations are views in the stream, and are kept."""
    frame = pl.DataFrame(
        {
            "text": [PAGE, PAGE, "something else altogether"],
            "list": [["a", None], [], None],
            "struct": [{"a": "b", "c": ["d"]}, None, {"a": None, "c": []}],
            "category": pl.Series(["x", None, "y"], dtype=pl.Categorical),
            "enum": pl.Series(["x", "y", None], dtype=pl.Enum(["x", "y"])),
            "categories": pl.Series([["x"], None, ["y", None]], dtype=pl.List(pl.Categorical)),
            "enums": pl.Series(
                [{"e": "x"}, {"e": None}, None], dtype=pl.Struct({"e": pl.Enum(["x"])})
            ),
            "nothing": [None] * 3,
        }
    )
    with mr_dedup.dedup(frame) as result:
        assert result.kept.drop_columns(["id"]).to_pylist() == frame[[0, 2]].to_dicts()
    for kind in (pl.Categorical, pl.Enum(sorted(set(frame["text"])))):
        texts = frame.with_columns(frame["text"].cast(kind))
        with mr_dedup.dedup(texts) as result:
            assert result.kept["text"].to_pylist() == frame["text"][[0, 2]].to_list()


def test_types_that_arrow_lacks_are_named():
    frame = pl.DataFrame({"text": [PAGE], "large": pl.Series([1], dtype=pl.Int128)})
    with pytest.raises(mr_dedup.MrDedupError, match="source: Arrow cannot read it: "):
        mr_dedup.dedup(frame)


def test_what_was_not_read_is_shown():
    records = [{"id": number, "text": f"{number} {PAGE}"} for number in range(98)]
    records += [{"id": 98, "text": 5}, {"id": 99, "text": None}]
    with mr_dedup.dedup(records) as result:
        assert "kept 1 of 98 documents, rejected: 1, without text: 1, in" in repr(result)
        assert "records without text" in result._repr_html_()
    with mr_dedup.dedup([{"id": n + 0.5, "text": f"{n} {PAGE}"} for n in range(2)]) as result:
        assert result.decisions["id"].to_pylist() == ["0.5", "1.5"]
