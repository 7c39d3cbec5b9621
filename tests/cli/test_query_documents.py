"""mr-dedup query over documents: their ids, in their order, and nothing that cannot be compared."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.cli.main import main
from mr_dedup.engines.streaming import RUNNERS
from mr_dedup.features.options import FeatureOptions
from tests.cli.running import Command, by_turns
from tests.fingerprints.test_simhash import oracle

BOTH = pytest.mark.parametrize("runner", RUNNERS)

WORDS = [f"word{number}" for number in range(60)]
PAGE = " ".join(WORDS)
CORPUS = [
    ("same", PAGE),
    ("advert", f"{PAGE} buy"),
    ("other", "something else entirely, of other words"),
    ("copy\tof it", PAGE.upper()),
    ("nothing", "..."),
    ("shorter", " ".join(WORDS[:30])),
]
QUERIES = [("q2", f"{PAGE} sell"), ("q1", PAGE), ("none", "new words"), ("empty", "")]


query = Command("query")
mistake = query.mistake


def write(path, documents):
    lines = [json.dumps({"id": id, "text": text}) + "\n" for id, text in documents]
    path.write_text("".join(lines))
    return path


def expected(k, corpus=CORPUS, queries=QUERIES, options=FeatureOptions()):  # noqa: B008 (frozen)
    """The lines by the oracle: near-duplicates ascending by signed fingerprint, then in order."""
    lines = []
    values = [(oracle(text, options), id.replace("\t", "\\t")) for id, text in corpus]
    for id, text in queries:
        value = oracle(text, options)
        near = [
            ((other ^ 1 << 63), f"{name}:{(value ^ other).bit_count()}")
            for other, name in values
            if None not in (value, other) and (value ^ other).bit_count() <= k
        ]
        if near:
            near.sort(key=lambda pair: pair[0])
            lines.append("\t".join([id, *(name for _, name in near)]) + "\n")
    return "".join(lines)


@pytest.fixture
def corpus_file(tmp_path):
    return write(tmp_path / "corpus.jsonl", CORPUS)


@pytest.fixture
def queries_file(tmp_path):
    return write(tmp_path / "queries.jsonl", QUERIES)


@by_turns(("k",), [3, 7, 4], ("memory", *RUNNERS))
def test_documents_on_both_sides(corpus_file, queries_file, capfd, runner, k):
    arguments = [corpus_file, "--queries", queries_file, "-k", k, "--with-distance", "-r", runner]
    code, out, err = query(capfd, *arguments)
    assert (code, out) == (0, expected(k))
    assert "\tsame:0\tcopy\\tof it:0" in out
    assert "mr-dedup: corpus: files: 1, documents: 6, " in err
    assert "mr-dedup: queries: files: 1, documents: 4, " in err


def test_documents_against_their_fingerprints(corpus_file, queries_file, tmp_path, capfd):
    fingerprints = tmp_path / "corpus.parquet"
    assert main(["fingerprint", str(corpus_file), "-o", str(fingerprints)]) == 0
    code, out, _ = query(capfd, fingerprints, "--queries", queries_file, "--with-distance")
    assert (code, out) == (0, expected(3))
    # without ids on a side its fingerprints stand for them
    assert main(["fingerprint", str(corpus_file), "-o", str(tmp_path / "corpus.longs")]) == 0
    code, out, _ = query(capfd, tmp_path / "corpus.longs", "--queries", queries_file)
    value = oracle(PAGE, FeatureOptions())
    assert code == 0
    assert out.splitlines()[1].split("\t")[0] == "q1"
    assert str(value - (value >> 63 << 64)) in out.splitlines()[1].split("\t")[1:]
    code, out, _ = query(
        capfd, fingerprints, "--queries", queries_file, "--print-fingerprints", "-k", 0
    )
    assert (code, out) == (0, "\t".join([str(value - (value >> 63 << 64))] * 2) + "\n")


def test_documents_in_parquet_and_in_pages(queries_file, tmp_path, capfd):
    rows = [{"id": id, "text": text} for id, text in CORPUS]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "corpus.parquet")
    code, out, _ = query(
        capfd, tmp_path / "corpus.parquet", "--queries", queries_file, "--with-distance"
    )
    assert (code, out) == (0, expected(3))
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_text(PAGE)
    (pages / "b.html").write_text(f"<p>{PAGE}</p>")
    code, out, _ = query(capfd, pages, "--queries", queries_file, "-k", 0)
    assert (code, out) == (0, "q1\ta.md\tb.html\n")


def test_features_are_those_asked_for(corpus_file, queries_file, capfd):
    options = FeatureOptions("words", 2, "tf")
    arguments = ["--features", "words:2", "--weights", "tf", "--with-distance", "-k", 8]
    code, out, _ = query(capfd, corpus_file, "--queries", queries_file, *arguments)
    assert (code, out) == (0, expected(8, options=options))


def test_fingerprints_of_other_features_are_refused(corpus_file, queries_file, tmp_path, capfd):
    for name, features in (("one", "words:1"), ("two", "words:2")):
        out = tmp_path / f"{name}.parquet"
        assert main(["fingerprint", str(corpus_file), "-o", str(out), "--features", features]) == 0
    capfd.readouterr()
    line = mistake(capfd, tmp_path / "one.parquet", "--queries", tmp_path / "two.parquet")
    assert (
        "one.parquet: its fingerprints are made from words:1, log-tf, normalize nfkc, but those of "
        in line
    )
    assert "two.parquet from words:2, log-tf, normalize nfkc; such cannot be compared" in line
    line = mistake(capfd, tmp_path / "two.parquet", "--queries", queries_file)
    assert "but those of queries from words:1, log-tf" in line


def test_records_that_cannot_be_read_are_kept(corpus_file, queries_file, tmp_path, capfd):
    with corpus_file.open("a") as file:
        file.write("bad\n")
    with queries_file.open("a") as file:
        file.write("worse\n")
    out = tmp_path / "out.tsv"
    code, _, err = query(
        capfd, corpus_file, "--queries", queries_file, "--with-distance", "-o", out
    )
    assert code == 0
    assert out.read_text() == expected(3)
    rejects = (tmp_path / "out.tsv.rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["file"] for line in rejects] == [str(corpus_file), str(queries_file)]
    assert f"2 records could not be read; {out}.rejects.jsonl says why" in err
    code, _, err = query(capfd, corpus_file, "--queries", queries_file)
    assert code == 0
    assert "2 records could not be read; give --rejects FILE to write them with the reason" in err


def test_what_cannot_be_is_one_line(corpus_file, queries_file, tmp_path, capfd):
    (tmp_path / "x.longs").write_bytes(bytes(8))
    write(tmp_path / "empty.jsonl", [])
    for arguments, said in [
        ([corpus_file, tmp_path / "x.longs", "--queries", queries_file], "corpus: contains doc"),
        (
            [corpus_file, "--queries", tmp_path / "empty.jsonl"],
            "no document has",
        ),
        ([corpus_file, "--queries", tmp_path / "none.jsonl"], "none.jsonl: no such file"),
        ([corpus_file, "--queries", queries_file, "--features", "x"], "--features"),
        ([corpus_file, "--queries", queries_file, "--strict", "-k", 65], ""),
    ]:
        assert said in mistake(capfd, *arguments)


def test_text_files_that_are_documents_say_how_to_read_them(tmp_path, capfd):
    for name in "corpus.txt", "query.txt":
        (tmp_path / name).write_text(PAGE)
    (tmp_path / "values.txt").write_text("5\n")
    remedy = "; --format text reads all files as documents"
    files = [tmp_path / "corpus.txt", "--queries", tmp_path / "query.txt"]
    assert remedy in mistake(capfd, *files)
    assert remedy in mistake(capfd, files[0], "--queries", tmp_path / "values.txt")
    out, _ = query.done(capfd, *files, "--format", "text")
    assert out == f"{files[2]}\t{files[0]}\n"


def test_ids_that_differ_are_printed_so(tmp_path, capfd):
    """An id with a TAB, and one with a backslash and a t."""
    ids = ["a\tb", "a\\tb", "a\nb", "a\\nb", "a\\\\tb"]
    corpus = write(tmp_path / "corpus.jsonl", [(id, f"{PAGE} {n}") for n, id in enumerate(ids)])
    queries = write(tmp_path / "queries.jsonl", [("q", PAGE)])
    code, out, err = query(capfd, corpus, "--queries", queries, "-k", 20)
    assert code == 0, err
    first, *found = out.removesuffix("\n").split("\t")
    assert first == "q"
    assert len(found) == len(set(found)) == len(ids)
