"""Pairs of ids in text files: valid and invalid ones."""

import gzip
import random

import pytest
import zstandard

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.pair_files import read_pairs, read_truth


def pairs(path, **options):
    found = read_pairs(path, **options)
    assert len(found) == len(found.first) == len(found.second)
    return list(zip(found.first.to_pylist(), found.second.to_pylist(), strict=True))


def truth(path):
    found = read_truth(path)
    ids = zip(found.first.to_pylist(), found.second.to_pylist(), strict=True)
    return list(zip(ids, found.similarities.tolist(), strict=True))


def written(folder, content, name="x.tsv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", []),
        ("id_a\tid_b\tjaccard\n", []),
        ("id_a\tid_b\nx\ty\n", [("x", "y")]),
        ("a\tb\nb\ta\t0.5\tmore\na\ta", [("a", "b"), ("b", "a"), ("a", "a")]),
        ("a b\tc \r\n\r\n\n d\te\r\n", [("a b", "c "), (" d", "e")]),
        ("\ufeffid_a\tid_b\na\tb\n", [("a", "b")]),
        ("\ufeffa\tb\n", [("a", "b")]),
        ("id_a\tb\nid_a\tid_b\n", [("id_a", "b"), ("id_a", "id_b")]),
        ("中\t\u2028\x85\n", [("中", "\u2028\x85")]),
    ],
)
def test_pairs(tmp_path, content, expected):
    assert pairs(written(tmp_path, content)) == expected


def test_matches(tmp_path):
    path = written(tmp_path, "q\ta\tb\tq\nr\ta\n")
    assert pairs(path, as_matches=True) == [("q", "a"), ("q", "b"), ("q", "q"), ("r", "a")]
    assert pairs(path) == [("q", "a"), ("r", "a")]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_many_lines_are_read_in_their_order(tmp_path, ending):
    rng = random.Random(ending)
    rows = [(f"é{rng.random()}", "x" * rng.choice([1, 5, 90_000]), rng.random()) for _ in range(20)]
    rows += [(f"{rng.random()}", f"{rng.random()}", rng.random()) for _ in range(15_000)]
    content = "".join(f"{a}\t{b}\t{value}\n" for a, b, value in rows).encode()
    packed = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[ending](content)
    path = written(tmp_path, packed, f"x.tsv{ending}")
    assert pairs(path) == [row[:2] for row in rows]
    assert truth(path) == [(row[:2], row[2]) for row in rows]


def test_true_pairs(tmp_path):
    content = "id_a\tid_b\tjaccard\na\tb\t0.8\n\nb\tc\t1\tx\nc\td\t1e-1\nb\ta\t0.80\n"
    assert truth(written(tmp_path, content)) == [
        (("a", "b"), 0.8),
        (("b", "c"), 1.0),
        (("c", "d"), 0.1),
        (("b", "a"), 0.8),
    ]
    assert truth(written(tmp_path, "id_a\tid_b\tjaccard\n")) == []


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (["kind", "jaccard"], 0.25),
        (["similarity", "jaccard"], 0.25),
        (["similarity", "kind"], 0.5),
        (["kind", "similarity"], 0.25),
    ],
)
def test_the_header_names_the_column_of_similarities(tmp_path, header, expected):
    lines = ["\t".join(["id_a", "id_b", *header]), "a\tb\t0.5\t0.25", ""]
    assert truth(written(tmp_path, "\n".join(lines))) == [(("a", "b"), expected)]


@pytest.mark.parametrize(
    ("header", "reason"),
    [("\tkind\tscore", "has no column jaccard, but kind, score"), ("", "has no column jaccard")],
)
def test_a_header_without_a_column_of_similarities_is_refused(tmp_path, header, reason):
    path = written(tmp_path, f"id_a\tid_b{header}\na\tb\ttrunc\n")
    assert pairs(path) == [("a", "b")]
    with pytest.raises(FormatError) as error:
        read_truth(path)
    assert str(error.value) == f"{path}, line 1: {reason}"


FAR = "".join(f"{n}\t{n}x\t0.5\n" for n in range(20_000))


@pytest.mark.parametrize("start", ["", "id_a\tid_b\tjaccard\n", "a\tb\t1\n\n\n"])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a", "expected two ids, separated by a TAB"),
        ("a\t", "expected two ids, separated by a TAB"),
        ("\tb", "expected two ids, separated by a TAB"),
        ("\t", "expected two ids, separated by a TAB"),
        (b"a\t\xff", "is not UTF-8"),
    ],
)
def test_invalid_pairs(tmp_path, start, line, reason):
    line = line if isinstance(line, bytes) else line.encode()
    path = written(tmp_path, start.encode() + line + b"\nx\ty\t1\n")
    with pytest.raises(FormatError) as error:
        read_pairs(path)
    assert str(error.value) == f"{path}, line {start.count(chr(10)) + 1}: {reason}"


@pytest.mark.parametrize("start", ["", "id_a\tid_b\tjaccard\n", "a\tb\t1\n\n\n"])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a\tb", "expected two ids and their similarity, separated by TABs"),
        ("a\t\t1", "expected two ids and their similarity, separated by TABs"),
        ("a\ta\t1", "pairs a document with itself"),
        ("a\tb\t1.01", "'1.01' is not a similarity from 0 to 1"),
        ("a\tb\t-0.1", "'-0.1' is not a similarity from 0 to 1"),
        ("a\tb\tnan", "'nan' is not a similarity from 0 to 1"),
        ("a\tb\t", "'' is not a similarity from 0 to 1"),
        ("a\tb\t0,5", "'0,5' is not a similarity from 0 to 1"),
    ],
)
def test_invalid_true_pairs(tmp_path, start, line, reason):
    path = written(tmp_path, f"{start}{line}\nx\ty\t1\n")
    with pytest.raises(FormatError) as error:
        read_truth(path)
    assert str(error.value) == f"{path}, line {start.count(chr(10)) + 1}: {reason}"


def test_lines_are_counted_from_the_beginning_of_a_long_file(tmp_path):
    for read, line in ((read_pairs, b"a"), (read_pairs, b"a\t\xff"), (read_truth, b"a\tb\t2")):
        path = written(tmp_path, FAR.encode() + line + b"\n")
        with pytest.raises(FormatError, match="line 20001: "):
            read(path)


def test_contradicting_similarities(tmp_path):
    path = written(tmp_path, "id_a\tid_b\tjaccard\na\tb\t0.5\n\na\tc\t0.5\nb\ta\t0.6\n")
    with pytest.raises(FormatError) as error:
        read_truth(path)
    assert str(error.value) == f"{path}, line 5: repeats the pair of line 2 with another similarity"


def test_an_empty_field_among_matches(tmp_path):
    with pytest.raises(FormatError, match="line 2: expected two ids"):
        read_pairs(written(tmp_path, "a\tb\na\tb\t\tc\n"), as_matches=True)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(MrDedupError, match=r"none\.tsv: cannot be read: No such file"):
        read_pairs(tmp_path / "none.tsv")
    packed = gzip.compress(b"a\tb\t1\n" * 9)
    with pytest.raises(FormatError, match="cut short"):
        read_truth(written(tmp_path, packed[:-9], "x.gz"))
