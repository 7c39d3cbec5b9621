"""mr-dedup pairs of documents from outside: against brute force over each method's own rule."""

import itertools
import json

import pytest

from mr_dedup.cli.main import main
from mr_dedup.engines.streaming import RUNNERS
from mr_dedup.formats.documents import chunks
from mr_dedup.pipeline import similar_pairs
from tests.cli.documents import similarity, write_jsonl
from tests.cli.running import Command, by_turns
from tests.cli.test_compare import RULES, estimated, made_up, near, sharing
from tests.formats.documents.test_document_warc import page
from tests.signatures import signature_oracle

BOTH = pytest.mark.parametrize("runner", RUNNERS)

METHODS = {
    "minhash": RULES["minhash:bands=20,rows=5,min_shared_keys=1,shingles=auto"],
    "minhash:estimate=0.8": estimated,
    "super-shingles": RULES["super-shingles:bands=6,rows=14,min_shared_keys=2,shingles=auto"],
    "segments:count=8,min_shared_keys=4": RULES["segments:by=content,count=8,min_shared_keys=4"],
    # too many subsets to be chained by
    "segments:count=16,min_shared_keys=8": sharing(
        lambda text: signature_oracle.segments(text, count=16, least=8), 8
    ),
    "exact": RULES["exact"],
    "simhash:k=10": near(10, "words:2"),
}


pairs = Command("pairs")
done, mistake = pairs.done, pairs.mistake


def expected(documents, found, least=0.8):
    """The lines of pairs that are so similar, in the order of the documents."""
    lines = []
    for n, m in sorted(found):
        likeness = similarity(documents[n]["text"], documents[m]["text"])
        if likeness >= least:
            lines.append(
                (documents[n]["id"], documents[m]["id"], pytest.approx(likeness, abs=1e-6))
            )
    return lines


def parsed(printed):
    rows = [line.split("\t") for line in printed.splitlines()]
    return [(one, other, float(likeness)) for one, other, likeness in rows]


@by_turns(("method",), METHODS)
def test_pairs_equal_brute_force(tmp_path, capfd, small_chunks, runner, method):
    documents, _ = made_up()
    found = METHODS[method](documents)
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    asked = [path, "--method", method, "-r", runner, "--cores", 2]
    printed, said = done(capfd, *asked)
    wanted = expected(documents, found)
    assert parsed(printed) == wanted
    assert f"mr-dedup: {len(wanted):,} pairs, " in said
    if runner == "local":
        printed, _ = done(capfd, *asked, "--verify", 0.95)
        assert parsed(printed) == expected(documents, found, 0.95)
        return
    printed, _ = done(capfd, *asked, "--verify", "off")
    assert [row[:2] for row in parsed(printed)] == [
        (documents[n]["id"], documents[m]["id"]) for n, m in sorted(found)
    ]


def test_several_splits_slices_and_engines_leave_the_same_bytes(
    tmp_path, capfd, monkeypatch, small_chunks
):
    documents, _ = made_up()
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    outs = []
    asked = ["--method", "minhash", "--method", "simhash:k=8", "--verify", "off"]
    for size, slice_bytes, runner in [
        (None, 1 << 24, "memory"), (2000, 300, "inline"), (600, 300, "memory"), (600, 10, "local"),
    ]:  # fmt: skip
        out = tmp_path / f"{len(outs)}.tsv"
        with monkeypatch.context() as patched:
            if size:
                patched.setattr(chunks, "CHUNK_BYTES", size)
            patched.setattr(similar_pairs, "_SLICE_BYTES", slice_bytes)
            printed, said = done(capfd, path, *asked, "-r", runner, "-o", out, "--cores", 2)
        assert printed == ""
        assert ("compared in slices" in said) == (slice_bytes < 1000)
        outs.append(out.read_bytes())
    assert len(set(outs)) == 1
    union = METHODS["minhash"](documents) | near(8, "words:2")(documents)
    assert [row[:2] for row in parsed(outs[0].decode())] == [
        (documents[n]["id"], documents[m]["id"]) for n, m in sorted(union)
    ]


def test_similarities_of_methods_themselves(tmp_path, capfd):
    documents, _ = made_up()
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    printed, _ = done(capfd, path, "--method", "exact", "--verify", "off")
    assert {likeness for _, _, likeness in parsed(printed)} == {1.0}
    printed, _ = done(capfd, path, "--method", "simhash:k=20", "--verify", "off")
    found = {round(64 * (1 - likeness), 3) for _, _, likeness in parsed(printed)}
    assert len(found) > 3
    assert found <= {float(bits) for bits in range(21)}


def test_copies_odd_ids_and_records_that_are_none(tmp_path, capfd):
    text = " ".join(f"w{n}" for n in range(30))
    ids = ["a\tb", "c\nd", "é", "same", "same", r"a\tb"]
    lines = [json.dumps({"id": id, "text": text}) for id in ids]
    lines[2:2] = ["no JSON", json.dumps({"id": "none", "text": ""})]
    lines += [json.dumps({"id": "empty", "text": " "})]
    path = tmp_path / "docs.jsonl"
    path.write_text("\n".join(lines) + "\n")
    out = tmp_path / "pairs.tsv"
    _, said = done(capfd, path, "--method", "exact", "-o", out)
    names = [r"a\tb", r"c\nd", "é", "same", "same", r"a\\tb"]
    assert [line.split("\t") for line in out.read_text().splitlines()] == [
        [one, other, "1"] for one, other in itertools.combinations(names, 2)
    ]
    assert "rejected: 1" in said
    (reject,) = (tmp_path / "pairs.tsv.rejects.jsonl").read_text().splitlines()
    assert json.loads(reject)["file"] == str(path)
    printed, said = done(capfd, path, "--method", "exact")
    assert printed == out.read_text()
    assert "1 record could not be read; give --rejects FILE" in said


@BOTH
def test_records_that_are_skipped_are_counted(tmp_path, capfd, runner):
    path = tmp_path / "pages.warc"
    pages = [page(0, b"x", type=b"image/png"), page(1, b"<p>x", status=b"404 Not Found")]
    path.write_bytes(b"".join([*pages, *pages, page(2, b"<p>x")]))
    printed, said = done(capfd, path, "--method", "exact", "-r", runner)
    assert (printed, said.splitlines()[1:3]) == (
        "",
        ["mr-dedup: skipped 2 records, for their HTTP status",
         "mr-dedup: skipped 2 records, for their media type"],
    )  # fmt: skip
    # an input without documents is accepted, one whose records are all rejected is an error
    path.write_bytes(b"".join(pages))
    printed, said = done(capfd, path, "--method", "exact", "-r", runner)
    assert "documents: 0, rejected: 0" in said
    path = write_jsonl(tmp_path / "none.jsonl", [{"id": "a"}, {"id": "b"}])
    said = mistake(capfd, path, "--method", "exact", "-r", runner)
    assert "none of 2 records could be read" in said


def test_keywords_weigh_by_frequencies(tmp_path, capfd):
    documents, _ = made_up()
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    idf = tmp_path / "idf #1.parquet"
    assert main(["idf", str(path), "-o", str(idf)]) == 0
    capfd.readouterr()
    found = RULES["keywords:n=10,order=weight,weighting=tf-idf"](documents)
    for runner in RUNNERS:
        printed, _ = done(capfd, path, "--method", "keywords", "--keyword-idf", idf, "-r", runner)
        assert parsed(printed) == expected(documents, found)


def test_nothing_that_is_alike(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", [])
    assert done(capfd, path, "--method", "minhash", "--method", "simhash")[0] == ""
    documents = [{"id": "a", "text": "one"}, {"id": "b", "text": "another"}]
    write_jsonl(path, documents)
    assert done(capfd, path, "--method", "minhash", "--method", "simhash:k=2")[0] == ""


def test_mistakes_are_one_line(tmp_path, capfd, corpus):
    documents, _ = made_up()
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    out = tmp_path / "out.tsv"
    out.write_text("old")
    for arguments, said in [
        (["--method", "magic"], "--method: method 'magic' is not one of simhash, exact, "),
        (["--method", "minhash", "-k", 3], "-k: not used by minhash"),
        (["--method", "minhash", "--with", path], "--with: not used by documents"),
        (["--method", "minhash", "--design", "4-tables"], "--design: not used by documents"),
        (["--method", "minhash", "--shingles", "words:0"], "length must be from 1 to "),
        (["--method", "minhash", "-o", out], "exists; give --overwrite to replace it"),
        (
            ["--method", "minhash", "--reducers", 2],
            "--reducers: needs -r hadoop, -r emr or -r spark",
        ),
        (["--verify", "0.8"], "--verify: needs --method, is not used for fingerprints"),
        (["--features", "words:1"], "--features: needs --method"),
        (["--text-field", "text"], "--text-field: needs --method"),
        (["--html", "page"], "--html: needs --method"),
        (["--html-field", "page"], "--html-field: needs --method"),
        (["--max-record-size", "1MB"], "--max-record-size: needs --method"),
        (["--strict"], "--strict: needs --method"),
        (["--method", "minhash", "--byte-order", "little"], "--byte-order: not used by doc"),
        (["--method", "minhash", "--table-memory", "1MB"], "--table-memory: not used by doc"),
    ]:
        assert said in mistake(capfd, path, *arguments)
    assert out.read_text() == "old"
    # and fingerprints are as before
    assert main(["pairs", *corpus.split(1)]) == 0
    assert capfd.readouterr().out
