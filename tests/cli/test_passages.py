"""Whole runs of mr-dedup passages and restore, against dictionaries of tuples of words."""

import gzip
import json
import random
import shutil
import signal
import subprocess
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.formats.documents import chunks
from mr_dedup.formats.parts import read_parts
from tests.cli.documents import write_jsonl
from tests.cli.running import Command, by_turns
from tests.passages.passage_oracle import Repeated

passages = Command("passages")
restore = Command("restore")

SIZE = 8


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 6000)
    monkeypatch.setattr(chunks, "_MIN_BYTES", 6000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)


def made_up(seed, count=150):
    """Documents that share sentences, lines and paragraphs, of several hosts."""
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(300)]

    def sentence(size):
        text = " ".join(rng.choice(words) for _ in range(size))
        return text.capitalize() + rng.choice([". ", "! ", ".\n", ".\n\n", "?\n"])

    shared = [sentence(rng.randint(5, 30)) for _ in range(20)]
    documents = []
    for number in range(count):
        pieces = [sentence(rng.randint(1, 12)) for _ in range(rng.randint(0, 6))]
        for _ in range(rng.randint(0, 2)):
            piece = rng.choice(shared)
            piece = piece.upper() if rng.random() < 0.2 else piece
            pieces.insert(rng.randint(0, len(pieces)), piece)
        url = f"https://site{number % 7}.example/{number}"
        documents.append({"id": url, "text": "".join(pieces), "section": f"s{number % 3}"})
    documents[5]["text"] = ""
    documents[6]["text"] = "a " * 100
    documents[7]["text"] = shared[0]
    return documents


@pytest.fixture(scope="module")
def documents():
    return made_up(1)


@pytest.fixture
def pages(documents, tmp_path):
    """Three files, one of them empty, one compressed."""
    folder = tmp_path / "pages"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", documents[:100])
    (folder / "b.jsonl").write_bytes(b"")
    with gzip.open(folder / "c.jsonl.gz", "wt") as file:
        for document in documents[100:]:
            file.write(json.dumps(document) + "\n")
    return folder


def expected_of(documents, unit="tokens", **options):
    options = {"size": SIZE, **options}
    return Repeated([document["text"] for document in documents], unit, **options)


def unit_of(unit):
    return f"tokens:{SIZE}" if unit == "tokens" else unit


def check_tables(out, documents, expected):
    """Compare the tables of a result with the oracle."""
    occurrences = read_parts(out / "occurrences").to_pylist()
    numbers = {document["id"]: number for number, document in enumerate(documents)}
    found = [(numbers[row["id"]], row["start"], row["end"]) for row in occurrences]
    wanted = list(expected.occurrences())
    assert found == [each[:3] for each in wanted]
    ids = {}
    for row, each in zip(occurrences, wanted, strict=True):
        assert row["tokens"] == len(each[3])
        assert ids.setdefault(each[3], row["passage"]) == row["passage"]
    assert len(set(ids.values())) == len(ids)
    rows = read_parts(out / "passages").to_pylist()
    by_key = {(row["passage"], row["group"]): row for row in rows}
    assert len(by_key) == len(rows)
    counted = {}
    for row, each, span in zip(occurrences, wanted, expected.spans, strict=True):
        counted.setdefault((row["passage"], row["group"]), []).append((row, each, span[3]))
    assert by_key.keys() == counted.keys()
    for key, places in counted.items():
        row, (first, each, _) = by_key[key], places[0]
        assert row["occurrences"] == len(places)
        assert row["documents"] == len({row["id"] for row, _, _ in places})
        assert row["window_documents"] == min(count for _, _, count in places)
        assert (row["id"], row["start"], row["end"]) == (first["id"], each[1], each[2])
        assert row["text"] == documents[each[0]]["text"][each[1] : each[2]][:400]


def texts_below(folder):
    """The texts of JSON lines in the files of a directory, in their order."""
    found = []
    for path in sorted(folder.rglob("*.jsonl*")):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt") as file:
            found += [json.loads(line) for line in file]
    return found


@by_turns(
    ("unit", "cut"),
    [
        ("tokens", "all"), ("tokens", "all-but-first"), ("lines", "all"),
        ("lines", "all-but-first"), ("paragraphs", "all"), ("tokens", "none"),
    ],
    ["memory", "local", "memory", "inline"],
)  # fmt: skip
def test_results_equal_the_oracle(capfd, documents, pages, tmp_path, unit, cut, runner):
    out = tmp_path / "out"
    passages.done(capfd, pages, "-o", out, "--unit", unit_of(unit), "--cut", cut, "-r", runner)
    expected = expected_of(documents, unit)
    check_tables(out, documents, expected)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["documents_read"] == len(documents)
    assert summary["occurrences"] == len(expected.spans)
    if cut == "none":
        assert not (out / "documents").exists()
        return
    texts = list(expected.cut(but_first=cut == "all-but-first"))
    found = texts_below(out / "documents")
    assert [each["text"] for each in found] == texts
    assert [{**each, "text": ""} for each in found] == [{**each, "text": ""} for each in documents]
    assert summary["documents_cut"] == sum(
        text != document["text"] for text, document in zip(texts, documents, strict=True)
    )
    words = [bool(text.strip(" .!?\n")) for text in texts]
    before = [bool(document["text"].strip(" .!?\n")) for document in documents]
    lost = sum(was and not left for was, left in zip(before, words, strict=True))
    assert summary["documents_left_without_words"] == lost
    cuts = read_parts(out / "cuts").to_pylist()
    by_id = {document["id"]: document["text"] for document in documents}
    for each in cuts:
        assert by_id[each["id"]][each["start"] : each["end"]] == each["text"]
    restore.done(capfd, out, "-o", tmp_path / "again")
    check_restored(pages, tmp_path / "again")


def check_restored(pages, again):
    """The lines of all files, in order: large ones are in several files."""
    for name in ("a", "c"):
        (source,) = pages.glob(f"{name}.*")
        opened = gzip.open if source.suffix == ".gz" else open
        with opened(source, "rb") as file:
            wanted = file.read()
        found = b""
        for path in sorted(again.glob(f"{name}*")):
            with opened(path, "rb") as file:
                found += file.read()
        assert found == wanted


@pytest.mark.parametrize("per", ["host", "section", "missing in some"])
def test_documents_are_counted_in_groups(capfd, documents, tmp_path, per):
    changed = [dict(document) for document in documents]
    if per == "host":
        groups = [document["id"].split("/")[2] for document in documents]
        changed[3]["id"], groups[3] = "no URL", None
    elif per == "section":
        groups = [document["section"] for document in documents]
    else:
        per = "where"
        groups = [None if number % 5 == 0 else "x" for number in range(len(documents))]
        for document, group in zip(changed, groups, strict=True):
            document["where"] = group
    write_jsonl(tmp_path / "pages.jsonl", changed)
    out = tmp_path / "out"
    words = ["--unit", unit_of("tokens"), "--per", per, "--min-documents", "2"]
    _, err = passages.done(capfd, tmp_path / "pages.jsonl", "-o", out, *words)
    check_tables(out, changed, expected_of(changed, groups=groups))
    assert (f"documents without --per {per}: " in err) == (None in groups)
    rows = read_parts(out / "passages").to_pylist()
    assert {row["group"] for row in rows} <= set(groups) - {None}


@pytest.mark.parametrize("options", [{"min_documents": 4}, {"min_tokens": 6}])
def test_thresholds(capfd, documents, pages, tmp_path, options):
    out = tmp_path / "out"
    words = [each for name, value in options.items() for each in (f"--{name}", value)]
    words = [str(each).replace("_", "-") for each in words]
    passages.done(capfd, pages, "-o", out, "--unit", "lines", *words)
    check_tables(out, documents, expected_of(documents, "lines", **options))


def test_small_tables_of_tasks_and_many_partitions_change_nothing(
    capfd, documents, pages, tmp_path, monkeypatch
):
    """Tasks send what they have counted before they have read all, and partitions are small."""
    from mr_dedup.jobs.passage_job import PassageJob
    from mr_dedup.pipeline import passages as pipeline

    passages.done(capfd, pages, "-o", tmp_path / "one", "--unit", unit_of("tokens"))
    monkeypatch.setattr(pipeline, "_PARTITION_BYTES", 500)
    monkeypatch.setattr(pipeline, "_MAX_GROUPS", 2)
    shared = pipeline._shared
    monkeypatch.setattr(pipeline, "_shared", lambda *of: {**shared(*of), "max_entries": 50})
    assert PassageJob.__struct_fields__
    passages.done(capfd, pages, "-o", tmp_path / "out", "--unit", unit_of("tokens"))
    check_tables(tmp_path / "out", documents, expected_of(documents))
    for name in ("occurrences", "passages"):
        one, other = (read_parts(tmp_path / out / name) for out in ("one", "out"))
        assert other.equals(one)


def test_sentences_stay_whole(capfd, documents, pages, tmp_path):
    out = tmp_path / "out"
    words = ["--unit", unit_of("tokens"), "--cut", "all", "--boundaries", "sentences"]
    passages.done(capfd, pages, "-o", out, *words)
    before = {document["id"]: document["text"] for document in documents}
    cuts = read_parts(out / "cuts").to_pylist()
    assert cuts
    for each in cuts:
        text = before[each["id"]]
        assert each["start"] == 0 or text[: each["start"]].rstrip().endswith((".", "!", "?"))
        assert each["text"].endswith((".", "!", "?"))
        assert text[each["end"] :] == "" or text[each["end"]].isspace()
    restore.done(capfd, out, "-o", tmp_path / "again")
    check_restored(pages, tmp_path / "again")


HARD = [
    r'{"text":"\u0041 b c d e f g h\n\"i\" \\ \/ caf\u00e9 \ud83d\ude00 k","id":"1"}',
    r'{ "id" : "2", "n": {"text": "no"}, "text" : "x a b c d e f g h i café 😀 k" , "z":[1, 2.50]}',
    r'{"text":"first of two","id":"3","text":"a b c d e f g h x\u00bdy abc\u4e2d\u6587"}',
    r'{"id":"4","html":"<p>one</p><p>a b c d e f g h</p>","text":null}',
    r'{"id":"5","text":""}',
    r'{"id":"6","text":"Ａ　Ｂ　c d e f g h; q r 🇩a b c d e f g h🇪"}',
]


@pytest.mark.parametrize("cut", ["all", "all-but-first"])
def test_unusual_lines_are_restored_byte_by_byte(capfd, tmp_path, cut):
    content = "\n".join(HARD[:3]) + "\r\n\n" + "\n".join(HARD[3:])
    (tmp_path / "hard.jsonl").write_text(content)
    out = tmp_path / "out"
    passages.done(capfd, tmp_path / "hard.jsonl", "-o", out, "--unit", "tokens:8", "--cut", cut)
    left = texts_below(out / "documents")
    assert [each["id"] for each in left] == ["1", "2", "3", "4", "5", "6"]
    assert all("a b c d e f g h" not in each["text"].casefold() for each in left[1:])
    assert left[5]["text"] == "; q r 🇩 🇪"
    restore.done(capfd, out, "-o", tmp_path / "again")
    # blank lines are no records, and the last one gets its end
    wanted = content.replace("\r\n\n", "\r\n") + "\n"
    assert (tmp_path / "again" / "hard.jsonl").read_bytes() == wanted.encode()


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_parquet_stays_parquet(capfd, documents, tmp_path, kind):
    texts = [document["text"] for document in documents]
    plain = pa.array(texts, pa.binary() if kind == pa.binary() else pa.string())
    column = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain.cast(kind)
    table = pa.table({"n": range(len(texts)), "text": column, "id": [d["id"] for d in documents]})
    pq.write_table(table, tmp_path / "pages.parquet", row_group_size=40)
    out = tmp_path / "out"
    words = ["--unit", unit_of("tokens"), "--cut", "all"]
    passages.done(capfd, tmp_path / "pages.parquet", "-o", out, *words)
    paths = sorted((out / "documents").iterdir())
    found = pa.concat_tables(pq.read_table(path) for path in paths)
    assert found.schema.equals(table.schema)
    column = found["text"].cast(pa.binary() if kind == pa.binary() else pa.string())
    left = column.cast(pa.string()).to_pylist()
    assert left == list(expected_of(documents).cut(but_first=False))
    restore.done(capfd, out, "-o", tmp_path / "again")
    again = pa.concat_tables(
        pq.read_table(path) for path in sorted((tmp_path / "again").glob("[!.]*"))
    )
    assert again.schema.equals(table.schema)
    assert again.to_pylist() == table.to_pylist()


def test_parquet_without_texts_is_refused_when_it_is_cut(capfd, tmp_path):
    page = "<p>a b c d e f g h</p>"
    pq.write_table(pa.table({"html": [page, page], "id": ["1", "2"]}), tmp_path / "a.parquet")
    words = [tmp_path / "a.parquet", "-o", tmp_path / "out", "--unit", "tokens:8"]
    code, _, err = passages(capfd, *words, "--cut", "all")
    assert code == 2
    assert "a.parquet: --cut: rows without 'text', whose text is in HTML, cannot be cut" in err
    passages.done(capfd, *words, "--overwrite")


def test_other_formats_become_lines(capfd, documents, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    texts = [document["text"] for document in documents if document["text"]][:40]
    for number, text in enumerate(texts):
        (folder / f"{number:03}.txt").write_text(text)
    out = tmp_path / "out"
    passages.done(capfd, folder, "-o", out, "--unit", unit_of("tokens"), "--cut", "all")
    restore.done(capfd, out, "-o", tmp_path / "again")
    (name, *_) = sorted(path.name for path in (out / "documents").rglob("*.jsonl.zst"))
    assert name == "000.txt.jsonl.zst"
    import zstandard

    for where, wanted in (
        (out / "documents", list(Repeated(texts, size=SIZE).cut(but_first=False))),
        (tmp_path / "again", texts),
    ):
        paths = sorted(where.rglob("*.zst"))
        lines = [zstandard.open(path, "rt").read() for path in paths]
        assert [json.loads(line)["text"] for line in lines] == wanted


def test_rejected_records_are_kept(capfd, pages, tmp_path):
    with (pages / "a.jsonl").open("a") as file:
        file.write('no JSON\n{"id": 1, "text": "\\ud800"}\n' + '{"a":' * 5000 + "\n")
    out = tmp_path / "out"
    _, err = passages.done(capfd, pages, "-o", out, "--cut", "all", "--max-rejected", "1")
    assert "rejected: 3" in err
    from mr_dedup.formats.parts import read_lines

    rejects = b"".join(read_lines(out / "rejects")).splitlines()
    assert len(rejects) == 3
    assert all(json.loads(each)["file"].endswith("a.jsonl") for each in rejects)


@pytest.mark.parametrize("lines", [1, 3])
def test_what_is_no_documents_is_refused(capfd, tmp_path, lines):
    (tmp_path / "a.jsonl").write_text("no JSON\n" * lines)
    code, _, err = passages(capfd, tmp_path / "a.jsonl", "-o", tmp_path / "out")
    assert code == 2
    assert "a.jsonl" in err
    assert "not JSON" in err
    assert sorted(path.name for path in tmp_path.iterdir()) in (
        ["a.jsonl"],
        [".out.lock", "a.jsonl"],
    )


def test_usage_errors_are_one_line(capfd, pages, tmp_path):
    out = ["-o", tmp_path / "out"]
    for words, reason in [
        (["--unit", "words:3"], "--unit: expected tokens:N, lines or paragraphs"),
        (["--unit", "tokens:0"], "--unit: expected 1 to 65536 tokens"),
        (["--min-documents", "1"], "--min-documents: expected 2 or more, got 1"),
        (["--min-tokens", "3"], "--min-tokens: is of lines and paragraphs"),
        (["--per", "nothing"], "--per: no document has 'nothing'"),
        (["--per", 'a"b'], "--per: "),
        (["--resume"], "nothing to resume"),
    ]:
        code, _, err = passages(capfd, pages, *out, *words)
        assert code == 2, words
        assert reason in err
        assert not (tmp_path / ".out.unfinished").exists()
    passages.done(capfd, pages, *out)
    assert "exists; give --overwrite" in passages.mistake(capfd, pages, *out)
    assert "nothing was cut out" in restore.mistake(capfd, tmp_path / "out", "-o", tmp_path / "x")
    assert "summary.json" in restore.mistake(capfd, pages, "-o", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("command", ["passages", "dedup"])
def test_emr_runs_spark(capfd, pages, tmp_path, command):
    with pytest.raises(SystemExit, match="2"):
        Command(command)(capfd, pages, "-o", tmp_path / "out", "-r", "emr")
    said = f"mr-dedup {command} does not run on emr; on a cluster of EMR run it with -r spark"
    assert f"argument -r/--runner: {said}; see " in capfd.readouterr().err
    assert not (tmp_path / ".out.unfinished").exists()


def test_no_documents_and_nothing_repeated(capfd, tmp_path):
    write_jsonl(tmp_path / "a.jsonl", [{"id": "1", "text": "all alone here"}])
    out = tmp_path / "out"
    passages.done(capfd, tmp_path / "a.jsonl", "-o", out, "--cut", "all")
    assert read_parts(out / "passages").num_rows == 0
    assert read_parts(out / "cuts").num_rows == 0
    restore.done(capfd, out, "-o", tmp_path / "again")
    assert (tmp_path / "again/a.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


@pytest.mark.parametrize("damage", ["a byte", "a line less", "cut short", "cuts"])
def test_damaged_results_are_not_restored(capfd, pages, tmp_path, damage):
    out = tmp_path / "out"
    passages.done(capfd, pages, "-o", out, "--unit", unit_of("tokens"), "--cut", "all")
    cuts = read_parts(out / "cuts").to_pylist()
    name = cuts[-1]["written_file"] if damage == "cut short" else cuts[0]["written_file"]
    path = out / "documents" / name
    content = path.read_bytes()
    if damage == "a byte":
        lines = content.split(b"\n")
        line = lines[cuts[0]["written_row"]]
        lines[cuts[0]["written_row"]] = line.replace(b'"section": "s', b'"section": "S')
        path.write_bytes(b"\n".join(lines))
    elif damage == "a line less":
        path.write_bytes(b"\n".join(content.split(b"\n")[: cuts[0]["written_row"]]) + b"\n")
    elif damage == "cut short":
        path.write_bytes(content[:-20])
    else:
        path = sorted((out / "cuts").iterdir())[0]
        content = bytearray(path.read_bytes())
        content[200] ^= 1
        path.write_bytes(content)
    err = restore.mistake(capfd, out, "-o", tmp_path / "again")
    assert path.name in err
    assert not (tmp_path / "again").exists()
    assert not list(tmp_path.glob(".again.*part"))


def test_changed_documents_are_noticed(capfd, pages, tmp_path, monkeypatch):
    """Between two passes over them."""
    from mr_dedup.pipeline import passages as pipeline

    keep = pipeline._keep

    def changed(*of):
        content = (pages / "a.jsonl").read_bytes()
        (pages / "a.jsonl").write_bytes(content.partition(b"\n")[2])
        return keep(*of)

    monkeypatch.setattr(pipeline, "_keep", changed)
    words = [pages, "-o", tmp_path / "out", "--cut", "all", "--unit", unit_of("tokens")]
    code, _, err = passages(capfd, *words)
    assert code == 2
    assert "has other documents than when it was first read" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stage", ["anchors", "windows", "keep"])
def test_an_interrupted_run_is_resumed(capfd, pages, tmp_path, monkeypatch, stage):
    """The stages that were done are not run again; others, and other options, are."""
    from mr_dedup.pipeline.sharded_run import ShardedRun

    words = [pages, "--unit", unit_of("tokens"), "--cut", "all", "-o"]
    passages.done(capfd, *words, tmp_path / "one")
    run_documents = ShardedRun.over_documents
    begun = []

    def fails(self, job, name, *of):
        begun.append(name)
        if name == {"keep": "passages"}.get(stage, stage) and not done:
            raise KeyboardInterrupt
        return run_documents(self, job, name, *of)

    monkeypatch.setattr(ShardedRun, "over_documents", fails)
    done = False
    code, _, _ = passages(capfd, *words, tmp_path / "out")
    assert code == 130
    done = True
    begun.clear()
    code, _, err = passages(capfd, *words, tmp_path / "out", "--resume", "--min-documents", "3")
    assert code == 2
    assert "--min-documents" in err
    passages.done(capfd, *words, tmp_path / "out", "--resume")
    assert (
        begun == ["anchors", "windows", "passages"][["anchors", "windows", "keep"].index(stage) :]
    )
    check_equal(tmp_path / "one", tmp_path / "out")


def check_equal(one, other):
    files = {
        path.relative_to(folder): path.read_bytes()
        for folder in (one,) for path in folder.rglob("*") if path.is_file()
    }  # fmt: skip
    for name, content in files.items():
        assert (other / name).read_bytes() == content, name
    assert len(files) == sum(path.is_file() for path in other.rglob("*"))


@pytest.mark.slow
def test_a_killed_run_is_resumed(capfd, tmp_path):
    """By SIGKILL at several moments, then SIGTERM; the same bytes come out."""
    write_jsonl(tmp_path / "pages.jsonl", made_up(2, 1500))
    words = passages.program(
        tmp_path / "pages.jsonl", "--unit", unit_of("tokens"), "--cut", "all", "-o",
    )  # fmt: skip
    started = time.monotonic()
    subprocess.run([*words, str(tmp_path / "one")], check=True, capture_output=True)
    seconds = time.monotonic() - started
    rng = random.Random(4)
    resumed = 0
    for moment in range(5):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(tmp_path / ".out.unfinished", ignore_errors=True)
        process = subprocess.Popen([*words, str(out)], stderr=subprocess.PIPE)
        time.sleep(seconds * rng.uniform(0.3, 0.95))
        # before it has begun to work it does not answer signals
        while not (tmp_path / ".out.unfinished").exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM if moment == 4 else signal.SIGKILL)
        _, err = process.communicate()
        if moment == 4 and process.returncode:
            assert process.returncode == 130
            assert b"Traceback" not in err
        more = ["--resume"] if (tmp_path / ".out.unfinished").exists() else []
        resumed += bool(more)
        if more or not out.exists():
            subprocess.run([*words, str(out), *more], check=True, capture_output=True)
        check_equal(tmp_path / "one", out)
    assert not list(tmp_path.glob(".out.unfinished"))
