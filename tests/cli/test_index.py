"""mr-dedup index: from files of every kind, between pipes, and usage errors."""

import contextlib
import json
import random
import signal
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.cli.main import main
from mr_dedup.index.reader import IndexReader
from tests.cli.running import Command
from tests.oracles import neighbour, result_lines, signed

TEXTS = {
    "one": "the quick brown fox jumps over the lazy dog and runs away from the old barn at night",
    "two": "an entirely different text that speaks of ships, the sea, and a captain of fifteen",
    "three": "numbers and letters, sorted into tables by their leading bits, and looked up by keys",
}


run = Command("index")
mistake = run.mistake


def done(capfd, *arguments):
    return run.done(capfd, *arguments)[0]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


@contextlib.contextmanager
def pipe(*arguments):
    """Yield what sends a line to a command and returns the line of its answer."""
    with subprocess.Popen(
        run.program(*arguments), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:

        def ask(line):
            print(line, file=process.stdin, flush=True)
            return process.stdout.readline()

        yield ask
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait() == 0


def page(id, text, **more):
    return json.dumps({"id": id, "text": text, **more})


def jsonl(path, documents):
    path.write_text("".join(page(id, text) + "\n" for id, text in documents.items()))
    return path


def test_a_crawler_asks_line_by_line(folder, capfd):
    done(capfd, "create", folder, "-k", 8)
    with pipe("add", folder, "--check", "--only-new", "--with-distance") as ask:
        assert ask(page("one", TEXTS["one"])) == "one\n"
        assert ask(page("two", TEXTS["two"])) == "two\n"
        assert ask(page("again", TEXTS["one"])) == "again\tone:0\n"
        assert ask("{") == "\tis not JSON: Input data was truncated\n"
        assert ask("") == "\tis empty\n"
        assert ask(page("none", "")) == "none\n"
        assert ask(page("dashes", "-----")) == "dashes\n"
        assert ask(page("nothing", "")) == "nothing\tnone:0\n"
        assert ask('{"id": "x"}').startswith("\t")
        # other processes see the changes of these lines
        with IndexReader.open(folder) as reader:
            assert len(reader) == 4
    with pipe("query", folder) as ask:
        assert ask(page("q", TEXTS["two"])) == "q\ttwo\n"
        assert ask(page("new", TEXTS["three"])) == "new\n"
    with pipe("remove", folder) as ask:
        assert ask("two") == "two\tremoved\n"
        assert ask("two") == "two\tunknown\n"
        assert ask("").startswith("\tids")


def test_a_full_disk_names_the_index(tmp_path):
    """An index of files is made aside: messages name it as the user did."""
    documents = jsonl(tmp_path / "pages.jsonl", {f"page {n}": f"text {n}" for n in range(2000)})
    folder = tmp_path / "seen"
    command = ["bash", "-c", 'ulimit -f 20; exec "$@"', "bash", *run.program("create", folder)]
    ended = subprocess.run([*command, documents], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"{folder}/log-00000001: cannot be written: File too large" in ended.stderr
    assert ".part" not in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["pages.jsonl"]


def test_fingerprints_line_by_line(folder, capfd):
    done(capfd, "create", folder)
    with pipe("add", folder) as ask:
        assert ask("5\ta") == "a\n"
        assert ask("0xFFFFFFFFFFFFFFFF\tb") == "b\n"
        assert ask("7") == "\thas no id\n"
        wrong = ["x", "", " 1", "1 ", "+1", "1_0", "\u0661\u0662", "--1", "0x1f", "0X" + "1" * 16]
        for number in [*wrong, "1" * 21, str(1 << 64), str(-(1 << 63) - 1)]:
            assert ask(f"{number}\ta").startswith("\texpected a "), number
    with pipe("query", folder, "--with-distance", "-k", "2") as ask:
        assert ask("4") == "4\ta:1\n"
        assert ask("-1\tname") == "name\tb:0\n"
        assert ask("9") == "9\ta:2\n"


def test_many_lines_at_once_are_answered_in_order(folder, capfd):
    rng = random.Random(1)
    numbers = [rng.getrandbits(64) for _ in range(9000)]
    done(capfd, "create", folder, "--no-ids")
    text = "".join(f"{signed(number)}\n" for number in numbers)
    added = subprocess.run(
        run.program("add", folder), input=text, capture_output=True, text=True, check=True
    )
    assert added.stdout == text
    queries = [neighbour(rng, number, 2) for number in numbers]
    found = subprocess.run(
        run.program("query", folder),
        input="".join(f"{number}\n" for number in queries),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    near = zip(queries, numbers, strict=True)
    assert found.stdout == "".join(f"{signed(a)}\t{signed(b)}\n" for a, b in near)


def test_from_files_of_fingerprints(tmp_path, capfd):
    rng = random.Random(2)
    numbers = [rng.getrandbits(64) for _ in range(300)]
    queries = [neighbour(rng, number, rng.randrange(5)) for number in numbers[:50]]
    (tmp_path / "c.longs").write_bytes(np.array(numbers, ">u8").tobytes())
    (tmp_path / "q.longs").write_bytes(np.array(queries, ">u8").tobytes())
    (tmp_path / "c.tsv").write_text("".join(f"{n}\tpage {n}\n" for n in numbers))
    assert main(["convert", str(tmp_path / "c.longs"), "-o", str(tmp_path / "c.fpz")]) == 0
    capfd.readouterr()
    pairs = {(q, n) for q in queries for n in numbers if bin(q ^ n).count("1") <= 3}
    for name in ("c.longs", "c.fpz"):
        folder = tmp_path / f"index-{name}"
        done(capfd, "create", folder, tmp_path / name, "--no-ids")
        out = done(capfd, "query", folder, tmp_path / "q.longs")
        output = {tuple(map(int, line.split("\t"))) for line in out.splitlines() if "\t" in line}
        assert output == {(signed(q), signed(n)) for q, n in pairs}
        assert out.count("\n") == len(queries)
    folder = tmp_path / "named"
    done(capfd, "create", folder, tmp_path / "c.tsv")
    out = done(capfd, "query", folder, tmp_path / "q.longs", "--with-distance")
    expected = result_lines(pairs, with_distance=True)
    assert out.count("page ") == expected.count(":")
    assert done(capfd, "verify", folder) == f"{folder}: sound\n"


def test_from_documents_and_the_batch_job(tmp_path, folder, capfd):
    documents = jsonl(tmp_path / "d.jsonl", TEXTS)
    made = tmp_path / "d.parquet"
    options = ("--features", "words:2")
    assert main(["fingerprint", str(documents), "-o", str(made), *options]) == 0
    capfd.readouterr()
    done(capfd, "create", folder, documents, *options)
    bulk = tmp_path / "bulk"
    done(capfd, "create", bulk, made, *options)
    for each in (folder, bulk):
        # documents are made fingerprints of as the index says
        out = done(capfd, "query", each, documents, "--with-distance")
        assert out == "one\tone:0\ntwo\ttwo:0\nthree\tthree:0\n"
        assert done(capfd, "query", each, made) == "one\tone\ntwo\ttwo\nthree\tthree\n"
        assert "words:2, log-tf" in done(capfd, "stats", each)
    out = done(capfd, "add", folder, documents, "--check")
    assert out == "one\ntwo\nthree\n"
    ids = tmp_path / "ids"
    ids.write_text("one\nthree\nnone\n")
    done(capfd, "remove", folder, ids)
    assert done(capfd, "query", folder, documents) == "one\ntwo\ttwo\nthree\n"


def test_fingerprints_of_unlike_features_are_refused(tmp_path, folder, capfd):
    documents = jsonl(tmp_path / "d.jsonl", TEXTS)
    made = tmp_path / "d.parquet"
    main(["fingerprint", str(documents), "-o", str(made), "--features", "characters:4"])
    capfd.readouterr()
    done(capfd, "create", folder, documents)
    for action in ("add", "query"):
        output = mistake(capfd, action, folder, made)
        assert "from characters:4, log-tf, normalize nfkc; such cannot be compared" in output
        output = mistake(capfd, action, folder, documents, "--features", "words:3")
        assert "words:3" in output
        assert "such cannot be compared" in output
        # the index's own may be named
        assert run(capfd, action, folder, documents, "--features", "words:1")[0] == 0
    assert "such cannot be compared" in mistake(capfd, "create", tmp_path / "both", documents, made)
    # of features that the options do not say the name is kept
    other = tmp_path / "other"
    done(capfd, "create", other, made)
    assert "characters:4" in done(capfd, "stats", other)
    assert "by options that are not known" in mistake(capfd, "query", other, documents)
    longs = tmp_path / "c.longs"
    longs.write_bytes(bytes(8))
    bare = tmp_path / "bare"
    done(capfd, "create", bare, longs, "--no-ids")
    assert "it is not known what" in mistake(capfd, "query", bare, documents)
    done(capfd, "query", bare, made)


def test_compact_stats_and_verify(tmp_path, folder, capfd):
    lines = tmp_path / "c.tsv"
    lines.write_text("".join(f"{n << 20}\tpage {n}\n" for n in range(50)))
    done(capfd, "create", folder, lines)
    done(capfd, "compact", folder, "--design", "10-tables")
    output = done(capfd, "stats", folder)
    assert "10-tables" in output
    assert "documents   50\n" in output
    segment = next(folder.glob("segment-*"))
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    code, out, _ = run(capfd, "verify", folder)
    assert code == 1
    assert out.startswith(f"damaged: {segment}")
    assert segment.name in mistake(capfd, "query", folder, lines)


def test_an_index_in_a_folder_that_is_missing_names_it(tmp_path, capfd):
    documents = jsonl(tmp_path / "pages.jsonl", {"one": "text"})
    missing = tmp_path / "missing"
    message = f"{missing}/seen: its directory {missing} does not exist"
    assert message in mistake(capfd, "create", missing / "seen", documents)


def test_only_what_the_user_gave_is_a_usage_error(tmp_path, folder, capfd, monkeypatch):
    documents = jsonl(tmp_path / "pages.jsonl", {"one": "text"})
    run.done(capfd, "create", folder, documents)

    def fail(*arguments, **options):
        raise ValueError("operands could not be broadcast together")

    monkeypatch.setattr(IndexReader, "query", fail)
    code, _, err = run(capfd, "query", folder, documents)
    assert (code, "a bug in mr-dedup: ValueError: operands" in err) == (70, True)


def test_an_id_that_is_too_long_names_its_file(tmp_path, folder, capfd):
    path = tmp_path / "ids.parquet"
    values = pa.array([1, 2], pa.uint64())
    pq.write_table(pa.table({"fingerprint": values, "id": ["a", "b" * (1 << 17)]}), path)
    assert f"{path}: ids: expected 1 to " in mistake(capfd, "create", folder, path)


def test_mistakes_are_told_in_a_line(tmp_path, folder, capfd):
    assert "not a directory" in mistake(capfd, "stats", folder)
    assert "k must be from 0" in mistake(capfd, "create", folder, "-k", 99)
    assert "design for k = 3" in mistake(capfd, "create", folder, "--design", "7")
    longs = tmp_path / "c.longs"
    longs.write_bytes(bytes(8))
    assert "give --no-ids" in mistake(capfd, "create", folder, longs)
    # nothing is left of what could not be made
    assert {path.name for path in tmp_path.iterdir()} == {"c.longs"}
    done(capfd, "create", folder)
    for files in ((), (longs, "--no-ids")):
        assert "already" in mistake(capfd, "create", folder, *files)
    assert "without ids" in mistake(capfd, "add", folder, longs)
    assert "--only-new" in mistake(capfd, "add", folder, "--only-new")
    assert "k must be from 0 to 3" in mistake(capfd, "query", folder, longs, "-k", "4")
    assert "k must be from 0 to 3" in mistake(capfd, "add", folder, longs, "--check", "-k", "4")
    assert "--design: must be one of auto, " in mistake(capfd, "compact", folder, "--design", "7")
    assert "such cannot be compared" in mistake(
        capfd, "query", folder, longs, "--features", "words:2"
    )
    assert "-: cannot be combined with files" in mistake(capfd, "query", folder, "-", longs)
    assert "missing" in mistake(capfd, "query", folder, tmp_path / "missing.jsonl")
    with subprocess.Popen(
        run.program("add", folder), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        print("5\ta", file=writer.stdin, flush=True)
        assert writer.stdout.readline() == "a\n"
        output = mistake(capfd, "add", folder, longs)
        assert f"process {writer.pid} has it open for writing" in output
        writer.send_signal(signal.SIGINT)
        assert writer.wait() == 130


def test_a_text_file_that_is_a_document_says_how_to_read_it(tmp_path, folder, capfd):
    document = tmp_path / "page.txt"
    document.write_text(TEXTS["one"])
    remedy = "; --format text reads all files as documents"
    assert remedy in mistake(capfd, "create", folder, document)
    done(capfd, "create", folder, document, "--format", "text")
    for command in (["add"], ["add", "--check"], ["query"]):
        message = mistake(capfd, *command, folder, document)
        assert "line 1: expected a fingerprint, a decimal" in message
        assert remedy in message
        # what is said to be fingerprints is not a document; nor is a file that begins with some
        given = ["--fingerprint-format", "text"]
        assert remedy not in mistake(capfd, *command, folder, document, *given)
    found = done(capfd, "query", folder, document, "--format", "text")
    assert found == f"{document}\t{document}\n"
    damaged = tmp_path / "fingerprints.txt"
    damaged.write_text("5\ta\n" + TEXTS["one"])
    message = mistake(capfd, "add", folder, damaged)
    assert "line 2: expected a fingerprint" in message
    assert remedy not in message


def test_records_that_cannot_be_read_are_kept(tmp_path, folder, capfd):
    documents = tmp_path / "d.jsonl"
    documents.write_text(page("one", TEXTS["one"]) + "\n{\n")
    rejects = tmp_path / "rejects.jsonl"
    done(capfd, "create", folder, documents, "--rejects", rejects)
    assert rejects.read_text().count("\n") == 1
    _, _, err = run(capfd, "add", folder, documents)
    assert "1 record could not be read; the first," in err
    table = pa.table({"id": ["a", None], "fingerprint": pa.array([1, 2], pa.int64())})
    pq.write_table(table, tmp_path / "f.parquet")
    assert "has documents without ids" in mistake(capfd, "add", folder, tmp_path / "f.parquet")
    half = tmp_path / "half"
    assert "without ids" in mistake(capfd, "create", half, tmp_path / "f.parquet")
    assert not half.exists()


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("options", [[], ["--check"]])
def test_documents_without_ids_are_not_added(tmp_path, folder, capfd, kind, options):
    """Their positions are those of other documents in another file of that name."""
    done(capfd, "create", folder)
    texts = {"text": ["one two three", "four five six"], "key": ["a", "b"]}
    path = tmp_path / f"pages.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table(texts), path)
    else:
        lines = zip(*texts.values(), strict=True)
        path.write_text("".join(json.dumps({"text": t, "key": k}) + "\n" for t, k in lines))
    code = main(["index", "add", str(folder), str(path), *options])
    ended = capfd.readouterr()
    if options:
        assert ended.out == 2 * "\thas no id\n"
    else:
        assert code == 2
        reason = "has documents without ids; name their field with --id-field"
        assert ended.err == f"mr-dedup: error: {path}: {reason}\n"
    done(capfd, "add", folder, path, *options, "--id-field", "key")
    with IndexReader.open(folder) as index:
        assert len(index) == 2


def test_lines_without_ids_are_not_added(folder, capfd):
    done(capfd, "create", folder)
    with pipe("add", folder) as ask:
        assert ask('{"text": "one two three"}') == "\thas no id\n"
        assert ask('{"id": "a", "text": "one two three"}') == "a\n"


@pytest.mark.parametrize("extra", [[], ["--check"]])
def test_files_of_one_name_in_several_directories(tmp_path, folder, capfd, monkeypatch, extra):
    directories = [tmp_path / name for name in ("a", "b", "c", "d")]
    for directory in directories:
        directory.mkdir()
        (directory / "page.html").write_text(f"<p>one two three of {directory.name}</p>")
    one, two, three, four = directories
    # in a directory that is all that is named, and from there
    done(capfd, "create", folder, one, two)
    done(capfd, "add", folder, three, *extra)
    for _ in range(2):
        monkeypatch.chdir(four)
        done(capfd, "add", folder, "page.html", *extra)
        done(capfd, "add", folder, ".", *extra)
    with IndexReader.open(folder) as index:
        assert len(index) == 4
    found = done(capfd, "query", folder, four)
    assert str(four / "page.html") in found


def test_lines_without_ids_in_files_of_one_name(tmp_path, folder, capfd):
    for name in "a", "b":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_text('{"text": "one two three"}\n')
    done(capfd, "create", folder, tmp_path / "a", tmp_path / "b")
    with IndexReader.open(folder) as index:
        assert len(index) == 2


def test_a_file_that_is_added_again_replaces_what_it_was(tmp_path, folder, capfd):
    done(capfd, "create", folder)
    for text in ("one two three", "four five six seven"):
        (tmp_path / "page.txt").write_text(text)
        done(capfd, "add", folder, tmp_path / "page.txt", "--format", "text")
    with IndexReader.open(folder) as index:
        assert len(index) == 1
