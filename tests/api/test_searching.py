"""mr_dedup.pairs, query, fingerprint, evaluate and compare: against their commands and oracles."""

import csv
import itertools
import json

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mr_dedup
from mr_dedup.api.commands import options_of, parser_of
from mr_dedup.api.options import (
    CompareOptions,
    CountsOptions,
    DecontaminateOptions,
    EvaluateOptions,
    FingerprintCommandOptions,
    PairsOptions,
    QueryOptions,
)
from mr_dedup.cli.main import main
from tests.cli.documents import write_jsonl

ODD = "tab\tback\\slash"


@pytest.fixture(scope="module")
def documents():
    words = [f"word{number}" for number in range(60)]
    texts = [" ".join(words), " ".join([*words[:-1], "other"]), "unlike all others in this list"]
    return [{"id": id, "text": text} for id, text in zip(["a", ODD, "c"], texts, strict=True)]


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 1 << 64, 300, np.uint64)
    near = values[:40] ^ (np.uint64(1) << rng.integers(0, 64, 40).astype(np.uint64))
    return np.unique(np.concatenate([values, near]))


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


@pytest.mark.parametrize("k", [0, 1, 3])
def test_pairs_of_fingerprints(values, k):
    found = mr_dedup.pairs(values, k=k)
    assert found.schema.names == ["left", "right", "distance"]
    expected = {
        (*sorted((signed(one), signed(other))), distance)
        for one, other in itertools.combinations(values.tolist(), 2)
        if (distance := (one ^ other).bit_count()) <= k
    }
    assert {tuple(row.values()) for row in found.to_pylist()} == expected
    assert bool(expected) == (k > 0)


def test_pairs_of_documents(documents, tmp_path):
    found = mr_dedup.pairs(documents, method="minhash").to_pylist()
    assert [(row["id_a"], row["id_b"]) for row in found] == [("a", ODD)]
    assert 0.9 < found[0]["similarity"] < 1
    assert mr_dedup.pairs(documents, method="exact").to_pylist() == []


@pytest.mark.parametrize("kind", ["arrays", "files"])
def test_queries(values, tmp_path, kind):
    wanted = values[::7] ^ np.uint64(2)
    expected = {
        (signed(query), signed(value), (query ^ value).bit_count())
        for query in wanted.tolist()
        for value in values.tolist()
        if (query ^ value).bit_count() <= 3
    }
    if kind == "arrays":
        found = mr_dedup.query(values, wanted, k=3)
    else:
        for name, array in (("corpus", values), ("wanted", wanted)):
            (tmp_path / f"{name}.longs").write_bytes(array.astype(">u8").tobytes())
        found = mr_dedup.query(tmp_path / "corpus.longs", tmp_path / "wanted.longs", k=3)
        expected = {(str(query), str(value), distance) for query, value, distance in expected}
    assert {tuple(row.values()) for row in found.to_pylist()} == expected
    assert len(expected) >= wanted.size


def test_queries_of_documents(documents):
    found = mr_dedup.query(documents, documents[:2], k=10).to_pylist()
    assert {(row["query"], row["match"]) for row in found} == {
        ("a", "a"), ("a", ODD), (ODD, "a"), (ODD, ODD),
    }  # fmt: skip


def test_fingerprints_are_those_of_the_command(documents, tmp_path):
    path = write_jsonl(tmp_path / "pages.jsonl", documents)
    words = ["--features", "words:2", "--weights", "tf"]
    assert main(["fingerprint", str(path), "-o", str(tmp_path / "out.parquet"), *words]) == 0
    expected = pq.read_table(tmp_path / "out.parquet").select(["id", "fingerprint", "length"])
    found = mr_dedup.fingerprint(pa.Table.from_pylist(documents), features="words:2", weights="tf")
    assert found.select(["id", "fingerprint", "length"]).equals(expected)


def test_pairs_and_decisions_are_evaluated(documents, tmp_path, capsys):
    truth = pa.table({"id_a": ["a", "a"], "id_b": [ODD, "c"], "jaccard": [0.95, 0.85]})
    pairs = mr_dedup.pairs(documents, method="minhash")
    report = mr_dedup.evaluate(pairs, truth)
    (tmp_path / "pairs.tsv").write_text("a\ttab\\tback\\\\slash\n")
    (tmp_path / "truth.tsv").write_text(
        "id_a\tid_b\tjaccard\na\ttab\\tback\\\\slash\t0.95\na\tc\t0.85\n"
    )
    words = ["evaluate", str(tmp_path / "pairs.tsv"), "--truth", str(tmp_path / "truth.tsv")]
    assert main([*words, "--json"]) == 0
    assert report == json.loads(capsys.readouterr().out)
    assert mr_dedup.evaluate(tmp_path / "pairs.tsv", tmp_path / "truth.tsv") == report
    assert mr_dedup.evaluate(pairs.to_pandas(), polars.from_arrow(truth)) == report
    assert (report["bands"][0]["precision"], report["bands"][0]["recall"]) == (1, 0.5)
    listed = mr_dedup.evaluate(pairs, truth, threshold=0.8, bands=[0.85, 0.95])
    assert listed == mr_dedup.evaluate(pairs, truth, threshold=0.8, bands="0.85,0.95")
    assert [band["similarity"] for band in listed["bands"]] == [0.8, 0.85, 0.95]
    with pytest.raises(TypeError, match=r"bands: expected text or a number, got None"):
        mr_dedup.evaluate(pairs, truth, bands=[0.9, None])
    with mr_dedup.dedup(documents) as result:
        decided = mr_dedup.evaluate(result, truth, threshold=0.9)
    assert decided["kind"] == "decisions"
    assert decided["bands"][0]["recall"] == 1


def test_methods_are_compared(documents, tmp_path, capfd):
    truth = pa.table({"id_a": ["a"], "id_b": [ODD], "jaccard": [0.95]})
    methods = ["minhash", "exact"]
    table = mr_dedup.compare(documents, truth, tmp_path / "out", method=methods)
    assert capfd.readouterr() == ("", "")
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert table["method"].to_pylist() == [row["method"] for row in rows]
    assert {name.partition(":")[0] for name in table["method"].to_pylist()} == set(methods)


@pytest.mark.parametrize(
    ("command", "options", "without"),
    [
        ("pairs", PairsOptions, {"with", "with_distance", "output_dir", "overwrite", "rejects"}),
        ("query", QueryOptions, {
            "queries", "with_distance", "output_dir", "overwrite", "rejects", "print_fingerprints",
        }),
        ("fingerprint", FingerprintCommandOptions, {"overwrite", "rejects"}),
        ("evaluate", EvaluateOptions, {"truth", "json", "as", "documents", "lengths"}),
        ("compare", CompareOptions, {"truth", "overwrite"}),
        ("counts", CountsOptions, {"overwrite"}),
        ("decontaminate", DecontaminateOptions, {"evals"}),
    ],
)  # fmt: skip
def test_options_are_those_of_the_command(command, options, without):
    without = without | {"out", "runner"}
    assert set(options_of(parser_of(command))) - without == set(options.__annotations__)


PAIR = pa.table({"id_a": ["a"], "id_b": ["b"]})
WRONG = {"id_a": ["a"], "id_b": ["b"]}
EMPTY = {"id_a": ["a"], "id_b": pa.nulls(1, pa.string())}


@pytest.mark.parametrize(
    ("call", "error", "reason"),
    [
        (lambda: mr_dedup.pairs(np.arange(3)), TypeError, r"are uint64\[n\], not int64\[3\]"),
        (lambda: mr_dedup.query("a.longs", []), mr_dedup.MrDedupError, "no documents"),
        (lambda: mr_dedup.pairs("no.longs"), mr_dedup.MrDedupError, r"no\.longs: no such file"),
        (lambda: mr_dedup.evaluate(pa.table({"a": [1]}), "t.tsv"), ValueError,
         "found: has no column id_a, id_b"),
        (lambda: mr_dedup.evaluate(PAIR, PAIR), ValueError, "^truth: has no column jaccard$"),
        (lambda: mr_dedup.compare(["a", "b"], PAIR), ValueError, "^truth: has no column jaccard$"),
        (lambda: mr_dedup.evaluate(PAIR, pa.table({**EMPTY, "jaccard": [0.5]})), ValueError,
         "^truth: column id_b has nulls$"),
        (lambda: mr_dedup.evaluate(PAIR, pa.table({**WRONG, "jaccard": [2.0]})),
         mr_dedup.MrDedupError, "^truth, line 2: '2.0' is not a similarity from 0 to 1$"),
        (lambda: mr_dedup.evaluate(PAIR, pa.table({**WRONG, "jaccard": [0.5]}), bands=[0.1]),
         mr_dedup.MrDedupError, "^bands: 0.1 is below threshold 0.8$"),
        (lambda: mr_dedup.evaluate(3, "t.tsv"), TypeError, "found: expected a table or a path"),
        (lambda: mr_dedup.evaluate("no.tsv", "no.tsv"), mr_dedup.MrDedupError, "cannot be read"),
    ],
)  # fmt: skip
def test_misuse_is_one_line(call, error, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=reason) as raised:
        call()
    assert "\n" not in str(raised.value)
