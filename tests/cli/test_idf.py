"""mr-dedup idf, and what other commands make of its file."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.cli.main import main
from mr_dedup.engines.streaming import RUNNERS
from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.options import FeatureOptions
from mr_dedup.formats.documents import chunks
from tests.cli.documents import write_jsonl
from tests.cli.running import Command, by_turns
from tests.features import frequency_oracle
from tests.fingerprints.test_simhash_by_rarity import oracle

BOTH = pytest.mark.parametrize("runner", RUNNERS)
TEXTS = [
    "The quick brown fox jumps over the lazy dog",
    "网页去重是一个很老的问题",
    "...",
    "A counter: 1,234 visitors since 1999",
    "",
    "The dog and the fox",
]
DOCUMENTS = [
    {"id": f"doc-{number}", "text": f"{text} {number // 6 or ''}"}
    for number, text in enumerate(TEXTS * 20)
]
EVERY = [document["text"] for document in DOCUMENTS]


run = Command()
done, mistake = run.messages, run.mistake


def counts_of(path):
    found = DocumentFrequencies.read(path)
    return dict(zip(found.hashes.tolist(), found.counts.tolist(), strict=True))


@pytest.fixture
def small_chunks(monkeypatch):
    """Let the small inputs of the tests take several tasks."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 100)


@by_turns(("minimum",), [None, 1, 21])
def test_frequencies_equal_the_oracle(tmp_path, capfd, small_chunks, runner, minimum):
    path = write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS)
    out = tmp_path / "idf.parquet"
    asked = [] if minimum is None else ["--min-documents", minimum]
    said = done(capfd, "idf", path, "-o", out, "-r", runner, *asked)
    expected = frequency_oracle.frequencies(EVERY, "words", 1, minimum or 2)
    assert counts_of(out) == expected
    found = DocumentFrequencies.read(out)
    assert (found.features, found.documents, found.minimum) == (
        "words:1, normalize nfkc", 120, minimum or 2,
    )  # fmt: skip
    every = len(frequency_oracle.frequencies(EVERY, "words", 1, 1))
    assert said.splitlines()[0].startswith("mr-dedup: files: 1, documents: 120, text: 0.0 MB, ")
    assert f"{len(expected)} of {every} features are in {minimum or 2} or more of 120 doc" in said
    assert f"wrote {out} in " in said
    assert sorted(tmp_path.iterdir()) == [path, out]


def test_splits_formats_and_runners_give_the_same_bytes(tmp_path, capfd, small_chunks):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for number in range(0, 120, 10):
        write_jsonl(tmp_path / "a" / f"{number:03}.jsonl", DOCUMENTS[number : number + 10])
    lines = "".join(json.dumps(document) + "\n" for document in DOCUMENTS[60:])
    (tmp_path / "b" / "x.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    pq.write_table(pa.Table.from_pylist(DOCUMENTS[:60]), tmp_path / "b" / "y.parquet")
    whole = write_jsonl(tmp_path / "whole.jsonl", DOCUMENTS)
    written = set()
    for runner in RUNNERS:
        for documents in (tmp_path / "a", tmp_path / "b", whole):
            out = tmp_path / "out.parquet"
            done(capfd, "idf", documents, "-o", out, "-r", runner, "--cores", 3, "--overwrite")
            written.add(out.read_bytes())
    assert len(written) == 1


def test_features_are_those_asked_for(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS)
    out = tmp_path / "idf.parquet"
    done(capfd, "idf", path, "-o", out, "--features", "words:2", "--stop-words", "en")
    assert counts_of(out) == frequency_oracle.frequencies(EVERY, "words", 2, stop_words="en")
    assert DocumentFrequencies.read(out).features == "words:2, stop words en, normalize nfkc"


@BOTH
def test_bad_records_are_kept_with_their_places(tmp_path, capfd, small_chunks, runner):
    path = tmp_path / "docs.jsonl"
    good = [json.dumps(document) + "\n" for document in DOCUMENTS]
    path.write_text("".join([*good[:60], "bad\n", *good[60:], "worse\n"]))
    out, rejects = tmp_path / "idf.parquet", tmp_path / "idf.parquet.rejects.jsonl"
    said = done(capfd, "idf", path, "-o", out, "-r", runner)
    assert counts_of(out) == frequency_oracle.frequencies(EVERY, "words", 1)
    places = [json.loads(line)["position"] for line in rejects.read_text().splitlines()]
    offsets = [len("".join(good[:60])), len("".join(good)) + len("bad\n")]
    assert [f"byte {offset}" in place for offset, place in zip(offsets, places, strict=True)] == [
        True, True,
    ]  # fmt: skip
    assert f"2 records could not be read; {rejects} says why\n" in said
    assert "rejected: 2\n" in said
    write_jsonl(path, DOCUMENTS)
    done(capfd, "idf", path, "-o", out, "-r", runner, "--overwrite")
    assert not rejects.exists()


@BOTH
def test_no_documents_at_all(tmp_path, capfd, runner):
    (tmp_path / "docs.jsonl").write_text("")
    out = tmp_path / "idf.parquet"
    said = done(capfd, "idf", tmp_path / "docs.jsonl", "-o", out, "-r", runner)
    found = DocumentFrequencies.read(out)
    assert (found.documents, found.hashes.size) == (0, 0)
    assert "0 features are in 2 or more of 0 documents" in said


def test_mistakes_are_one_line_and_write_nothing(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS[:2])
    (tmp_path / "there.parquet").write_text("old")
    out = tmp_path / "idf.parquet"
    for arguments, said in [
        ([tmp_path / "no.jsonl", "-o", out], "no.jsonl: no such file"),
        ([path, "-o", tmp_path / "idf.tsv"], "idf.tsv: expected a name that ends in .parquet"),
        ([path, "-o", tmp_path / "there.parquet"], "exists; give --overwrite"),
        ([path, "-o", tmp_path / "no" / "idf.parquet"], "does not exist"),
        ([path, "-o", out, "--features", "words:0"], "--features must be"),
        ([path, "-o", out, "--stop-words", "xx"], "--stop-words must be one of"),
        ([path, "-o", out, "--id-field", "text"], "--id-field"),
        ([path, "-o", out, "--reducers", "3"], "--reducers: needs -r hadoop, -r emr or -r spark"),
        (["s4://x/x.jsonl", "-o", out], "s4://x/x.jsonl: not a URI of a known store"),
        ([path, "-o", "https://x/idf.parquet"], "https://x/idf.parquet: https:// is only read"),
    ]:
        assert said in mistake(capfd, "idf", *arguments), arguments
        assert not out.exists()
    for arguments in (["--min-documents", "0"], ["--weights", "tf"], ["--output-dir", "hdfs:///x"]):
        with pytest.raises(SystemExit, match="2"):
            main(["idf", str(path), "-o", str(out), *arguments])
        assert capfd.readouterr().err.splitlines()[-1].startswith("mr-dedup")
    assert (tmp_path / "there.parquet").read_text() == "old"
    line = tmp_path / "bad.jsonl"
    line.write_text("bad\n")
    for runner in RUNNERS:
        said = mistake(capfd, "idf", line, "-o", out, "--strict", "-r", runner)
        assert "bad.jsonl, line 1 (byte 0): is not JSON" in said


@pytest.fixture
def collection(tmp_path, capfd):
    """Documents, and their frequencies in a file with a name that mrjob could misread."""
    path = write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS)
    table = tmp_path / "odd #1 [x]*.parquet"
    done(capfd, "idf", path, "-o", table, "--min-documents", 3)
    return path, table


@by_turns(("weights",), ["tf-idf", "log-tf-idf"])
def test_fingerprints_by_rarity_equal_the_oracle(
    tmp_path, capfd, small_chunks, collection, runner, weights
):
    path, table = collection
    out = tmp_path / "out.parquet"
    asked = ["--weights", weights, "--idf", table, "-r", runner]
    done(capfd, "fingerprint", path, "-o", out, *asked)
    options = FeatureOptions(weighting=weights)
    counts = frequency_oracle.frequencies(EVERY, "words", 1, 3)
    expected = [oracle(text, options, counts, 120, 3) for text in EVERY]
    found = pq.read_table(out)
    signed = [None if value is None else value - (value >> 63 << 64) for value in expected]
    assert found["fingerprint"].to_pylist() == signed
    digest = DocumentFrequencies.read(table).digest
    made_from = f"words:1, {weights}, normalize nfkc, frequencies {digest}"
    assert found.schema.metadata[b"mr_dedup.features"].decode() == made_from
    # and again, now that this process has read it
    done(capfd, "fingerprint", path, "-o", out, *asked, "--overwrite")
    assert pq.read_table(out) == found


def test_a_file_that_changed_is_read_again(tmp_path, capfd, collection):
    path, table = collection
    outs = []
    for minimum in (3, 30):
        done(capfd, "idf", path, "-o", table, "--min-documents", minimum, "--overwrite")
        outs.append(tmp_path / f"{minimum}.parquet")
        done(capfd, "fingerprint", path, "-o", outs[-1], "--weights", "tf-idf", "--idf", table)
    one, other = (pq.read_schema(out).metadata[b"mr_dedup.features"] for out in outs)
    assert one != other


def test_fingerprints_by_other_frequencies_are_not_compared(tmp_path, capfd, collection):
    path, table = collection
    other = tmp_path / "other.parquet"
    done(capfd, "idf", write_jsonl(tmp_path / "few.jsonl", DOCUMENTS[:50]), "-o", other)
    asked = ["--weights", "log-tf-idf", "--idf"]
    done(capfd, "fingerprint", path, "-o", tmp_path / "a.parquet", *asked, table)
    code, out, err = run(capfd, "query", tmp_path / "a.parquet", "--queries", path, *asked, table)
    assert code == 0, err
    lines = {line.split("\t")[0]: line.split("\t")[1:] for line in out.splitlines()}
    # all are near themselves
    assert len(lines) == 120
    assert all(id in near for id, near in lines.items())
    said = mistake(capfd, "query", tmp_path / "a.parquet", "--queries", path, *asked, other)
    assert "such cannot be compared" in said
    assert said.count("frequencies ") == 2


def test_documents_are_deduplicated_by_rarity(tmp_path, capfd, collection):
    path, table = collection
    asked = ["--features", "words:1", "--weights", "log-tf-idf", "--idf", table]
    asked += ["--verify", "off", "--method", "simhash:k=0"]
    done(capfd, "dedup", path, "-o", tmp_path / "out", *asked)
    counts = frequency_oracle.frequencies(EVERY, "words", 1, 3)
    options = FeatureOptions(weighting="log-tf-idf")
    values = [oracle(text, options, counts, 120, 3) for text in EVERY]
    firsts = {value: number for number, value in reversed(list(enumerate(values)))}
    kept = [n for n, value in enumerate(values) if value is None or firsts[value] == n]
    written = (tmp_path / "out" / "documents").iterdir()
    found = [json.loads(line)["id"] for file in written for line in file.read_text().splitlines()]
    assert sorted(found) == sorted(f"doc-{number}" for number in kept)
    assert len(kept) < 120
    said = mistake(capfd, "dedup", path, "-o", tmp_path / "x", "--weights", "tf-idf")
    assert "needs --idf" in said


def test_distance_explains_weights_by_rarity(tmp_path, capfd, collection):
    _, table = collection
    names = []
    for name, text in (("a", EVERY[0]), ("b", EVERY[5])):
        (tmp_path / f"{name}.txt").write_text(text)
        names.append(tmp_path / f"{name}.txt")
    options = FeatureOptions(weighting="tf-idf")
    asked = ["--weights", "tf-idf", "--idf", table]
    code, out, _ = run(capfd, "distance", *names, *asked, "--json", "--top", 100)
    assert code == 0
    found = json.loads(out)
    counts = frequency_oracle.frequencies(EVERY, "words", 1, 3)
    expected = [oracle(EVERY[number], options, counts, 120, 3) for number in (0, 5)]
    assert [document["fingerprint"] % 2**64 for document in found["documents"]] == expected
    weights = frequency_oracle.weighted(EVERY[0], "words", 1, "tf-idf", counts, 120, 3)
    assert {
        entry["feature"]: entry["weights"][0]
        for kind in ("shared", "only_in_a")
        for entry in found[kind]["heaviest"]
    } == {feature: weight / 4096 for feature, weight in weights.items()}
    assert found["features"].startswith("words:1, tf-idf, normalize nfkc, frequencies ")


@pytest.mark.parametrize("command", ["fingerprint", "distance", "dedup"])
def test_weights_and_frequencies_that_do_not_fit_are_one_line(tmp_path, capfd, collection, command):
    path, table = collection
    damaged = tmp_path / "damaged.parquet"
    content = bytearray(table.read_bytes())
    content[len(content) // 3] ^= 16
    damaged.write_bytes(content)
    out = tmp_path / "out.parquet"
    names = [path, "-o", out]
    if command == "distance":
        names = ["doc-0", "doc-5", "--in", path]
    uses_idf = ["--weights", "tf-idf"]
    for arguments, said in [
        (uses_idf, "--weights tf-idf: needs --idf, a file of mr-dedup idf"),
        (["--idf", table], "--idf: not used by --weights "),
        ([*uses_idf, "--idf", "no.parquet"], "no.parquet: cannot be read: No such file"),
        ([*uses_idf, "--idf", tmp_path], "cannot be read: Is a directory"),
        ([*uses_idf, "--idf", path], "docs.jsonl: "),
        ([*uses_idf, "--idf", "s4://b/f.parquet"], "s4://b/f.parquet: not a URI of a known store"),
        ([*uses_idf, "--idf", damaged], "damaged.parquet: "),
        ([*uses_idf, "--idf", table, "--features", "words:2"],
         f"{table}: document frequencies of words:1, normalize nfkc cannot weigh "
         "words:2, normalize nfkc"),
    ]:  # fmt: skip
        assert said in mistake(capfd, command, *names, *arguments), arguments
        assert not out.exists()


def test_the_frequencies_are_not_replaced_by_what_is_made_with_them(tmp_path, capfd, collection):
    path, table = collection
    before = table.read_bytes()
    asked = ["--weights", "tf-idf", "--idf", table, "--overwrite"]
    assert "is read as well" in mistake(capfd, "fingerprint", path, "-o", table, *asked)
    assert table.read_bytes() == before
