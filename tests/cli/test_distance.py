"""mr-dedup distance: reports of two documents, from any source, and usage errors."""

import gzip
import json
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from mr_dedup.cli.main import main
from tests.cli.running import Command
from tests.features import text_oracle

FOX = "The quick brown fox jumps over the lazy dog, seen 10 times. The dog sleeps."
CAT = "The quick brown fox jumps over the lazy cat, seen 12 times. A cat sleeps."


def texts(folder, **contents):
    """Write files of text; return their names, in order."""
    for name, content in contents.items():
        (folder / f"{name}.txt").write_text(content)
    return [str(folder / f"{name}.txt") for name in contents]


def lines_of(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def report(capsys, *arguments, err=""):
    assert main(["distance", "--json", *map(str, arguments)]) == 0
    output = capsys.readouterr()
    assert output.err == err
    return json.loads(output.out)


def refusal(capsys, *arguments):
    """The message of a usage error: one line."""
    assert main(["distance", *map(str, arguments)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("mr-dedup: error: ")
    assert output.err.count("\n") == 1
    return output.err.removeprefix("mr-dedup: error: ").rstrip("\n")


def fingerprint(weights):
    """The paper's definition, of features and their weights."""
    value = 0
    for bit in range(64):
        hashes = {feature: xxhash.xxh3_64_intdigest(feature.encode()) for feature in weights}
        vote = sum(w if hashes[feature] >> bit & 1 else -w for feature, w in weights.items())
        value |= (vote > 0) << bit
    return value


@pytest.mark.parametrize(
    ("arguments", "chosen", "more"),
    [
        ([], ("words", 1, "log-tf"), {}),
        (["--features", "words:2", "--weights", "tf"], ("words", 2, "tf"), {}),
        (["--features", "characters:4", "--weights=binary"], ("characters", 4, "binary"), {}),
        (
            ["--stop-words", "en", "--stem", "english", "--segment", "zh"],
            ("words", 1, "log-tf"),
            {"stop_words": "en", "stem": "english", "segment": "zh"},
        ),
    ],
)
def test_every_number_equals_the_oracle(tmp_path, capsys, arguments, chosen, more):
    contents = {"a": FOX + " 中国人民", "b": CAT + " 中国"}
    found = report(capsys, *texts(tmp_path, **contents), "--top", 1000, *arguments)
    a, b = (
        {
            feature: units / 64
            for feature, units in text_oracle.weighted(content, *chosen, **more).items()
        }
        for content in contents.values()
    )
    for document, weights in zip(found["documents"], (a, b), strict=True):
        assert document["features"] == len(weights)
        assert document["weight"] == sum(weights.values())
        assert document["fingerprint"] % 2**64 == fingerprint(weights)
        assert -(2**63) <= document["fingerprint"] < 2**63
        assert int(document["hex"], 16) == fingerprint(weights)
        assert len(document["hex"]) == 18
    bits = [bit for bit in range(64) if (fingerprint(a) ^ fingerprint(b)) >> bit & 1]
    assert (found["distance"], found["differing_bits"]) == (len(bits), bits)
    both = {feature: [a.get(feature, 0), b.get(feature, 0)] for feature in a | b}
    assert found["jaccard"] == len(a.keys() & b) / len(both)
    shingles = [set(text_oracle.shingles(text, "auto", 0)) for text in contents.values()]
    assert found["similarity"] == len(shingles[0] & shingles[1]) / len(shingles[0] | shingles[1])
    assert found["weighted_jaccard"] == pytest.approx(
        sum(map(min, both.values())) / sum(map(max, both.values()))
    )
    for name, features in (
        ("shared", a.keys() & b),
        ("only_in_a", a.keys() - b),
        ("only_in_b", b.keys() - a),
    ):
        listed = {entry["feature"]: entry["weights"] for entry in found[name]["heaviest"]}
        assert listed == {feature: both[feature] for feature in features}
        assert found[name]["count"] == len(features)
        heaviest = [max(weights) for weights in listed.values()]
        assert heaviest == sorted(heaviest, reverse=True)


def test_the_report_as_text(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts(tmp_path, a="one two two three", b="one one two four")
    assert main(["distance", "a.txt", "b.txt", "--weights", "tf", "--top", "1"]) == 0
    a, b = (
        fingerprint({"one": 1, "two": 2, "three": 1}),
        fingerprint({"one": 2, "two": 1, "four": 1}),
    )
    bits = ", ".join(str(bit) for bit in range(64) if (a ^ b) >> bit & 1)
    signed_a, signed_b = (value - 2**64 if value >= 2**63 else value for value in (a, b))
    assert capsys.readouterr().out == (
        "features  words:1, tf, normalize nfkc\n"
        "A  a.txt\n"
        f"   fingerprint  {signed_a} (0x{a:016x})\n"
        "   features     3, total weight 4.000\n"
        "B  b.txt\n"
        f"   fingerprint  {signed_b} (0x{b:016x})\n"
        "   features     3, total weight 4.000\n"
        f"distance  {(a ^ b).bit_count()} bits: {bits}\n"
        "Jaccard   0.5000, by weight 0.3333\n"
        "similarity  0.0000, by shingles of several words, as dedup compares\n"
        "shared: 2 features, with their weights in A and in B\n"
        "      1.000     2.000  one\n"
        "  and 1 more\n"
        "only in A: 1 feature\n"
        "      1.000            three\n"
        "only in B: 1 feature\n"
        "                1.000  four\n"
    )


@pytest.mark.parametrize("features", ["words:1", "words:3", "characters:4", "auto"])
def test_documents_without_words_are_compared_as_they_are(tmp_path, capsys, features):
    dots, empty, word = texts(tmp_path, dots="...", empty="", word="one")
    for one in (dots, empty, word):
        for other in (dots, empty, word):
            found = report(capsys, one, other, "--features", features)
            assert (found["jaccard"], found["distance"] == 0) == (one == other, one == other)
    found = report(capsys, dots, word, "--features", features)
    assert found["only_in_a"]["heaviest"] == [{"feature": "...", "weights": [1, 0]}]
    assert main(["distance", dots, dots]) == 0
    assert "  ...\n" in capsys.readouterr().out


def test_equal_documents(tmp_path, capsys):
    (same,) = texts(tmp_path, same=FOX)
    found = report(capsys, same, same, "--top", 0)
    assert (found["distance"], found["jaccard"], found["weighted_jaccard"]) == (0, 1, 1)
    assert found["shared"]["heaviest"] == []
    assert main(["distance", same, same]) == 0
    assert "distance  0 bits\n" in capsys.readouterr().out


@pytest.fixture
def sources(tmp_path):
    """The same two documents, a and b, among others, in files of every kind."""
    records = [{"id": f"other {i}", "text": f"other {i}"} for i in range(5)]
    records[1:1] = [{"id": "a", "text": FOX}]
    records[4:4] = [{"id": "b", "text": CAT}]
    (tmp_path / "x.jsonl").write_text(lines_of(*records))
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(lines_of(*records).encode()))
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "x.parquet")
    (tmp_path / "x.warc").write_bytes(
        b"".join(
            b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Record-ID: <%s>\r\n"
            b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n"
            % (record["id"].encode(), len(record["text"]), record["text"].encode())
            for record in records
        )
    )
    (tmp_path / "folder").mkdir()
    for record in records:
        (tmp_path / "folder" / record["id"]).with_suffix(".md").write_text(record["text"])
    return tmp_path


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.parquet", "x.warc", "folder"])
def test_documents_are_found_by_their_ids(sources, capsys, name):
    expected = report(capsys, *texts(sources, a=FOX, b=CAT))
    ids = ("a.md", "b.md") if name == "folder" else ("a", "b")
    found = report(capsys, *ids, "--in", sources / name)
    assert [document["name"] for document in found["documents"]] == list(ids)
    for document, other in zip(found["documents"], expected["documents"], strict=True):
        assert document.pop("position") >= 0
        for member in ("name", "file"):
            document[member] = other[member]
        other.pop("position")
    assert found == expected


def test_the_same_id_twice_is_a_distance_of_zero(sources, capsys):
    assert report(capsys, "b", "b", "--in", sources / "x.jsonl")["distance"] == 0


def test_the_location_of_a_document(sources, capsys):
    path = sources / "x.jsonl"
    assert main(["distance", "a", "b", "--in", str(path)]) == 0
    start = path.read_bytes().index(b'{"id": "b"')
    assert f"B  b\n   location     {path}:{start}\n" in capsys.readouterr().out


def test_reading_ends_when_both_are_found(tmp_path, capsys):
    path = tmp_path / "x.jsonl"
    both = lines_of({"id": "a", "text": "one"}, {"id": "b", "text": "two"})
    rest = lines_of(*({"id": i, "text": "x" * 1000} for i in range(3000)))
    path.write_text(both + rest + "damaged\n")
    found = report(capsys, "a", "b", "--in", path, "--strict")
    assert found["shared"]["count"] == 0
    assert "is not JSON" in refusal(capsys, "a", "2999", "--in", path, "--strict")


@pytest.mark.parametrize("arguments", [("a", "none"), ("none", "a"), ("none", "none")])
def test_a_missing_id(sources, capsys, arguments):
    said = refusal(capsys, *arguments, "--in", sources / "x.jsonl")
    assert said == "no document has the id 'none', of 7 read"


def test_skipped_files_are_reported_if_an_id_is_missing(sources, capsys):
    (sources / "folder" / "truth.tsv").touch()
    said = refusal(capsys, "a.md", "a", "--in", sources / "folder")
    assert said == "no document has the id 'a', of 7 read; skipped: 1 file of other kinds"


def test_an_id_of_several_documents(tmp_path, capsys):
    path = tmp_path / "x.jsonl"
    path.write_text(
        lines_of({"id": "a", "text": ""}, {"id": "b", "text": ""}, {"id": "a", "text": ""})
    )
    assert refusal(capsys, "b", "a", "--in", path) == (
        f"several documents have the id 'a': {path}:0 and {path}:48"
    )


def test_rejected_records_are_reported(tmp_path, capsys):
    path = tmp_path / "x.jsonl"
    path.write_text("bad\n" + lines_of({"id": "a", "text": "x"}) + '{"id":"b"}\n')
    said = f"2 records could not be read; the first, {path}, line 1 (byte 0): is not JSON"
    assert main(["distance", "a", "a", "--in", str(path)]) == 0
    assert capsys.readouterr().err.startswith(f"mr-dedup: {said}")
    assert main(["distance", "a", "b", "--in", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"mr-dedup: {said}")
    assert lines[1:] == ["mr-dedup: error: no document has the id 'b', of 1 read"]


def test_a_file_must_be_one_document(tmp_path, capsys):
    (good,) = texts(tmp_path, good=FOX)
    for name, content, said in (
        (
            "two.jsonl",
            lines_of({"text": "a"}, {"text": "b"}),
            "contains several documents; give two ids",
        ),
        ("none.jsonl", "", "contains no document"),
        ("bad.jsonl", "x\n", "is not JSON"),
        ("x.odd", "", "the format is not known by its ending"),
    ):
        (tmp_path / name).write_text(content)
        for pair in ((good, tmp_path / name), (tmp_path / name, good)):
            assert said in refusal(capsys, *pair)
    assert "name it with --format" in refusal(capsys, good, tmp_path / "x.odd")
    assert report(capsys, good, tmp_path / "x.odd", "--format", "text")["jaccard"] == 0
    assert "no such file" in refusal(capsys, good, tmp_path / "missing.txt")
    assert "read only once" in refusal(capsys, "-", "-")


def test_a_document_from_standard_input(tmp_path, capsys):
    names = texts(tmp_path, a=FOX, b=CAT)
    expected = report(capsys, *names)
    done = subprocess.run(
        Command("distance").program(names[0], "-", "--json"),
        input=lines_of({"id": 1, "text": CAT}), capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert [document["file"] for document in found["documents"]] == [names[0], "stdin"]
    assert found["differing_bits"] == expected["differing_bits"]


def test_other_fields_and_html(tmp_path, capsys):
    path = tmp_path / "x.jsonl"
    page = "<html><body><nav>Menu of links</nav><main><p>One two three</p></main></body></html>"
    path.write_text(lines_of({"key": "a", "page": page}, {"key": "b", "body": "one two three"}))
    fields = ["--id-field", "key", "--text-field", "body", "--html-field", "page"]
    assert report(capsys, "a", "b", "--in", path, *fields)["jaccard"] == 1
    assert report(capsys, "a", "b", "--in", path, *fields, "--html", "page")["jaccard"] == 0.5


def test_what_is_printed_is_printable(tmp_path, capsys):
    path = tmp_path / "x.jsonl"
    path.write_text(lines_of({"id": "a\nb\x1b[31m", "text": "one"}))
    assert main(["distance", "a\nb\x1b[31m", "a\nb\x1b[31m", "--in", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "A  a\\nb\\x1b[31m\n" in printed
    assert all(line.isprintable() for line in printed.splitlines())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--features", "lines"], "--features must be one of words, characters, auto, not 'lines'"),
        (["--weights", "tf-idf"], "--weights tf-idf: needs --idf, a file of mr-dedup idf"),
        (["--html-field", "text"], "--id-field, --text-field, --html-field: expected distinct"),
        (["--max-record-size", "9"], "is longer than 9 bytes"),
    ],
)
def test_usage_errors_are_one_line(tmp_path, capsys, arguments, said):
    names = texts(tmp_path, a=FOX, b=CAT)
    assert said in refusal(capsys, *names, *arguments)
