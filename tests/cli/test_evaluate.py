"""mr-dedup evaluate from outside: its output for pairs and decisions, and usage errors."""

import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import data_gen.cli
from mr_dedup.cli.main import main

PART = "part-00000.parquet"
TRUTH = "id_a\tid_b\tjaccard\na\tb\t0.95\na\tc\t0.85\nd\te\t1.0\ne\tf\t0.7\n"
FOUND = "b\ta\t2\na\tb\t2\nd\te\nf\te\nx\ty\nz\tz\n"
TEXTS = {"a": "é" * 100, "b": "b" * 100, "c": "", "d": "d" * 700, "e": "e" * 5999, "f": "f" * 6000}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "truth.tsv").write_text(TRUTH)
    (tmp_path / "found.tsv").write_text(FOUND)
    lines = [json.dumps({"id": id, "text": text}) + "\n" for id, text in TEXTS.items()]
    (tmp_path / "docs.jsonl").write_text("".join(lines))
    out = tmp_path / "out"
    out.mkdir()
    ids, originals = list("abcdefg"), list("aacddfg")
    (out / "decisions").mkdir()
    pq.write_table(pa.table({"id": ids, "kept_id": originals}), out / "decisions" / PART)
    (out / "summary.json").write_text('{"format_version": 3, "documents_read": 7}')
    return tmp_path


def printed(capsys, *arguments):
    assert main(["evaluate", *arguments]) == 0
    output = capsys.readouterr()
    assert all("have an empty text" in line for line in output.err.splitlines())
    return output.out


def report(capsys, *arguments):
    return json.loads(printed(capsys, "--json", *arguments))


def refusal(capsys, *arguments):
    """The message of a usage error: one line."""
    assert main(["evaluate", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("mr-dedup: error: ")
    assert output.err.count("\n") == 1
    return output.err.removeprefix("mr-dedup: error: ").rstrip("\n")


def counts(bands):
    return [(band["predicted"], band["true_positives"], band["false_negatives"]) for band in bands]


def test_pairs_as_text(folder, capsys):
    assert printed(capsys, "found.tsv", "--truth", "truth.tsv") == (
        "predicted  4 pairs; ignored: 1 repeated, 1 of a document with itself\n"
        "true       3 pairs from 0.8 on, of 4 known\n"
        "\n"
        "similarity       predicted   true pos.  false neg.   precision      recall          F1\n"
        "from 0.8                 4           2           1      0.5000      0.6667      0.5714\n"
        "from 0.9                 4           2           0      0.5000      1.0000      0.6667\n"
        "from 1                   4           1           0      0.2500      1.0000      0.4000\n"
    )


def test_decisions_as_text(folder, capsys):
    (folder / "truth.tsv").write_text(TRUTH + "g\telsewhere\t1\n")
    more = ("--documents", "docs.jsonl", "more.jsonl")
    (folder / "more.jsonl").write_text('{"id": "g", "text": "g"}\n')
    assert printed(capsys, "out", "--truth", "truth.tsv", "--bands", "0.9", *more) == (
        "predicted  2 of 7 documents dropped\n"
        "true       3 pairs from 0.8 on, of 4 known; ignored: 1 of documents without a decision\n"
        "\n"
        "similarity       predicted   true pos.  false neg.   precision      recall          F1"
        "  true pairs   both kept\n"
        "from 0.8                 2           2           1      1.0000      0.6667      0.8000"
        "           3           1\n"
        "from 0.9                 2           2           0      1.0000      1.0000      1.0000"
        "           2           0\n"
        "\n"
        "bytes            predicted   true pos.  false neg.   precision      recall          F1\n"
        "0 to 199                 1           1           1      1.0000      0.5000      0.6667\n"
        "200 to 599               0           0           0           -           -           -\n"
        "600 to 1,999             1           1           0      1.0000      1.0000      1.0000\n"
        "2,000 to 5,999           0           0           0           -           -           -\n"
        "from 6,000               0           0           0           -           -           -\n"
    )


def test_every_number_in_json(folder, capsys):
    arguments = ("found.tsv", "--truth", "truth.tsv", "--threshold", "0.7", "--bands", "1,0.85")
    found = report(capsys, *arguments)
    assert {name: value for name, value in found.items() if name != "bands"} == {
        "kind": "pairs",
        "documents": None,
        "predicted": 4,
        "repeated_pairs": 1,
        "self_pairs": 1,
        "true_pairs": 4,
        "ignored_true_pairs": 0,
    }
    assert [band["similarity"] for band in found["bands"]] == [0.7, 0.85, 1]
    assert found["bands"][0] == {
        "similarity": 0.7,
        "true_pairs": 4,
        "both_kept": None,
        "predicted": 4,
        "true_positives": 3,
        "false_negatives": 1,
        "precision": 0.75,
        "recall": 0.75,
        "f1": 0.75,
    }
    assert counts(found["bands"]) == [(4, 3, 1), (4, 2, 1), (4, 1, 0)]
    decided = report(capsys, f"out/decisions/{PART}", "--truth", "truth.tsv", "--threshold", "0.7")
    assert (decided["kind"], decided["documents"]) == ("decisions", 7)
    # f is similar to e, which is dropped
    assert [band["both_kept"] for band in decided["bands"]] == [1, 0, 0]
    assert counts(decided["bands"]) == [(2, 2, 1), (2, 2, 0), (2, 1, 0)]


def test_lengths_are_those_of_texts_or_of_a_file(folder, capsys):
    texts = {**TEXTS, "x": "", "y": "", "z": ""}
    lines = [json.dumps({"id": id, "text": text}) + "\n" for id, text in texts.items()]
    (folder / "docs.jsonl").write_text("".join(lines))
    lengths = [len(text.encode()) for text in texts.values()]
    pq.write_table(pa.table({"id": list(texts), "length": lengths}), "lengths.parquet")
    (folder / "truth.tsv").write_text(TRUTH + "d\tf\t0.9\n")
    arguments = ("found.tsv", "--truth", "truth.tsv")
    by_texts = report(capsys, *arguments, "--documents", "docs.jsonl")
    assert by_texts == report(capsys, *arguments, "--lengths", "lengths.parquet")
    bands = [(band["from_bytes"], band["to_bytes"]) for band in by_texts["lengths"]]
    assert bands == [(0, 199), (200, 599), (600, 1999), (2000, 5999), (6000, None)]
    assert counts(by_texts["lengths"]) == [(2, 1, 1), (0, 0, 0), (1, 1, 1), (1, 0, 0), (0, 0, 0)]


def test_the_output_of_query(folder, capsys, monkeypatch):
    (folder / "found.txt").write_text("a\ta\tb\tc\nb\ta\tb\n")
    (folder / "packed.gz").write_bytes(gzip.compress(b"a\ta\tb\tc\nb\ta\tb\n"))
    arguments = ("--truth", "truth.tsv", "--as", "matches")
    found = report(capsys, "found.txt", *arguments)
    assert (found["predicted"], found["repeated_pairs"], found["self_pairs"]) == (2, 1, 2)
    assert counts(found["bands"]) == [(2, 2, 1), (2, 1, 1), (2, 0, 1)]
    assert report(capsys, "packed.gz", *arguments) == found
    with open("found.txt", "rb") as file:  # noqa: PTH123 (its number is what is wanted)
        saved = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            assert report(capsys, "-", *arguments) == found
        finally:
            os.dup2(saved, 0)
            os.close(saved)


def test_a_truth_that_was_planted(tmp_path, capsys, monkeypatch):
    """What dedup decides on generated pages, against sets of ids."""
    pages = tmp_path / "pages"
    planted = ("--documents", "30", "--duplicates-per-document", "2", "--near-misses", "1")
    assert data_gen.cli.main(["documents", *planted, "--seed", "3", "--out", str(pages)]) == 0
    out, truth = tmp_path / "out", pages / "truth.tsv"
    documents = str(pages / "documents-00000.jsonl")
    assert main(["dedup", documents, "-o", str(out), "-r", "inline"]) == 0
    capsys.readouterr()
    found = report(capsys, str(out), "--truth", str(truth), "--documents", documents)
    known = [line.split("\t") for line in truth.read_text().splitlines()[1:]]
    true = {frozenset(row[:2]) for row in known if float(row[2]) >= 0.8}
    rows = pq.read_table(out / "decisions").to_pylist()
    dropped = [{row["id"], row["kept_id"]} for row in rows if row["id"] != row["kept_id"]]
    kept = {row["id"] for row in rows if row["id"] == row["kept_id"]}
    band = found["bands"][0]
    assert (band["predicted"], band["true_positives"]) == (
        len(dropped),
        sum(pair in true for pair in dropped),
    )
    assert band["predicted"] > 20
    assert band["both_kept"] == sum(pair <= kept for pair in true) >= band["false_negatives"]
    assert sum(length["predicted"] for length in found["lengths"]) == len(dropped)
    whole = report(capsys, str(truth), "--truth", str(truth))
    assert counts(whole["bands"])[0] == (len(known), len(true), 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.tsv"], "none.tsv: cannot be read: No such file or directory"),
        (["docs.jsonl"], "docs.jsonl, line 1: expected two ids, separated by a TAB"),
        (["."], ".: contains no directory decisions, and not only Parquet files"),
        (["found.tsv", "--as", "decisions"], "found.tsv: the Parquet data is damaged: "),
        (["out", "--truth", "bad.tsv"], "bad.tsv, line 3: 'x' is not a similarity from 0 to 1"),
        (["out", "--truth", "out"], "out: cannot be read: Is a directory"),
        (["out", "--truth", "others.tsv"], "none of the true pairs is of documents with decisions"),
        (["found.tsv", "--bands", "0.9,0.5"], "--bands: 0.5 is below --threshold 0.8"),
        (["found.tsv", "--documents", "docs.jsonl"], "the document 'x' has no length"),
        (["out", "--documents", "none"], "none: no such file"),
        (["out", "--lengths", f"out/decisions/{PART}"], f"out/decisions/{PART}: has no column "),
    ],
)
def test_usage_errors_are_one_line(folder, capsys, arguments, said):
    (folder / "bad.tsv").write_text("id_a\tid_b\tjaccard\na\tb\t1\na\tc\tx\n")
    (folder / "others.tsv").write_text("1\t2\t1\n")
    given = arguments if "--truth" in arguments else [*arguments, "--truth", "truth.tsv"]
    assert refusal(capsys, *given).startswith(said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--threshold", "80"], "'80' is not a similarity above 0 and up to 1"),
        (["--bands", "0.9,"], "'' is not a similarity above 0 and up to 1"),
        (["--documents", "x", "--lengths", "y"], "not allowed with argument --documents"),
    ],
)
def test_invalid_arguments(capsys, arguments, said):
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "found.tsv", "--truth", "truth.tsv", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_rejected_records_are_reported(folder, capsys):
    lines = (folder / "docs.jsonl").read_text()
    (folder / "docs.jsonl").write_text('{"id": "g", "text": ""}\n' + lines + "{\n")
    assert main(["evaluate", "out", "--truth", "truth.tsv", "--documents", "docs.jsonl"]) == 0
    said = "mr-dedup: 1 record could not be read; the first, docs.jsonl, line "
    assert capsys.readouterr().err.startswith(said)
