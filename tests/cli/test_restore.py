"""mr-dedup restore of what decontaminate has cut, and results that cannot be restored.

Of cuts of passages tests/cli/test_passages.py has the tests.
"""

import gzip
import json
import random
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import mr_dedup
from mr_dedup.formats.documents import chunks
from mr_dedup.jobs import document_parts
from tests.cli.documents import write_jsonl
from tests.cli.running import Command

decontaminate = Command("decontaminate")
restore = Command("restore")

QUESTIONS = [
    "A farmer has nineteen sheep and buys four more on Friday, how many has she on Saturday?",
    "Комета пролетает над старой гаванью каждые семьдесят лет, кто видел её дважды?",
    "哪一种谷物是旧城的面包师从来没有放进面包里的，黑麦还是燕麦还是大麦呢",
    "Quel café de l’ancien port ferme à sept heures — le « Naïade » ou l’autre \U0001f600?",
]
WORDS = [
    "fox",
    "été",
    "море",
    "海",
    "\U0001f600",
    "x\u00bd",
    'a "quote"',
    "back\\slash",
    "tab\there",
]


def made_up(seed, count=60):
    """Documents with no question, one or several, or nothing else, in several spellings of JSON."""
    rng = random.Random(seed)
    documents = []
    for number in range(count):
        pieces = [" ".join(rng.choices(WORDS, k=rng.randint(0, 9))) for _ in range(3)]
        for _ in range(rng.choice([0, 0, 1, 2])):
            question = rng.choice(QUESTIONS)
            pieces.insert(rng.randint(0, 3), question.upper() if rng.random() < 0.3 else question)
        text = rng.choice(["", " ", "\n"]).join(pieces)
        documents.append({"id": f"{seed}-{number}", "text": text, "n": number})
    documents[3]["text"] = QUESTIONS[0]
    documents[4]["text"] = ""
    return documents


def lines_of(documents):
    rng = random.Random(len(documents))
    return b"".join(
        json.dumps(each, ensure_ascii=rng.random() < 0.5).encode() + rng.choice([b"\n", b"\r\n"])
        for each in documents
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Documents in files of all formats that keep theirs, below the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    (tmp_path / "docs" / "a.jsonl").write_bytes(lines_of(made_up(1)))
    (tmp_path / "docs" / "b.jsonl.gz").write_bytes(gzip.compress(lines_of(made_up(2))))
    content = zstandard.compress(lines_of(made_up(3)))
    (tmp_path / "docs" / "sub" / "a.jsonl.zst").write_bytes(content)
    clean = [{**each, "text": "nothing of it"} for each in made_up(4)]
    (tmp_path / "docs" / "sub" / "clean.jsonl").write_bytes(lines_of(clean))
    (tmp_path / "docs" / "sub" / "empty.jsonl").write_bytes(b"")
    table = pa.Table.from_pylist(made_up(5))
    pq.write_table(table, tmp_path / "docs" / "sub" / "z.parquet", row_group_size=7)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.jsonl").write_bytes(lines_of(made_up(6)))
    items = [{"id": str(number), "question": each} for number, each in enumerate(QUESTIONS)]
    write_jsonl(tmp_path / "exam.jsonl", items)
    write_jsonl(tmp_path / "other.jsonl", [{"question": "Of this not a word is in any document?"}])
    return tmp_path


@pytest.fixture
def small_chunks(monkeypatch):
    """Let these files take several tasks."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 3000)
    monkeypatch.setattr(chunks, "_MIN_BYTES", 3000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)


def cut(capfd, *options, docs=("docs", "more"), evals="exam.jsonl", out="out", action="cut"):
    decontaminate.done(
        capfd, *docs, "--evals", evals, "-o", out, "--action", action, *options
    )  # fmt: skip


def contents(folder):
    """The records of each file: lines as they are, rows with their schema."""
    found = {}
    for path in sorted(path for path in folder.rglob("[!.]*") if path.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            found[name] = (table.schema, table.to_pylist())
        elif path.suffix == ".zst":
            with zstandard.open(path, "rb") as file:
                found[name] = file.read()
        else:
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rb") as file:
                found[name] = file.read()
    return found


def source_of(name):
    """The file that the documents of a file were read from, of which tasks wrote parts."""
    return re.sub(r"-\d{5}(?=\.)", "", name)


def as_read(found):
    """Contents of files by what they were read from, parts of one file together."""
    together = {}
    for name, content in found.items():
        before = together.get(source_of(name))
        if before is None:
            together[source_of(name)] = content
        elif isinstance(content, bytes):
            together[source_of(name)] = before + content
        else:
            assert before[0] == content[0]
            together[source_of(name)] = (before[0], before[1] + content[1])
    return together


def cuts_of(out):
    return pq.read_table(out / "cuts").to_pylist()


def documents_of(folder):
    """What was read: files without records leave none."""
    found = {f"docs/{name}": each for name, each in contents(folder / "docs").items()}
    found["more/a.jsonl"] = contents(folder / "more")["a.jsonl"]
    del found["docs/sub/empty.jsonl"]
    return found


@pytest.mark.parametrize("engine", ["memory", "inline", "local"])
def test_files_have_their_records_again(folder, capfd, small_chunks, engine):
    cut(capfd, "-r", engine)
    before = documents_of(folder)
    in_parts = contents(folder / "out" / "documents")
    written = as_read(in_parts)
    assert written.keys() == before.keys()
    assert len(in_parts) > 2 * len(before)
    changed = {name for name in before if written[name] != before[name]}
    assert changed == before.keys() - {"docs/sub/clean.jsonl"}
    _, err = restore.done(capfd, "out", "-o", "again")
    again = contents(folder / "again")
    assert again.keys() == in_parts.keys()
    assert as_read(again) == before
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert f"{len(again)} files, {summary['documents_cut']} documents restored: again" in err
    rows = cuts_of(folder / "out")
    assert {source_of(row["written_file"]) for row in rows} == changed
    records = {(row["written_file"], row["written_row"]) for row in rows}
    assert len(records) == summary["documents_cut"]
    # some documents had nothing but a question and its end
    texts = [json.loads(line)["text"] for line in written["docs/a.jsonl"].splitlines()]
    assert "?" in texts


@pytest.mark.parametrize("kept", ["jsonl", "parquet"])
def test_records_of_other_formats_are_as_if_nothing_had_been_cut(
    folder, capfd, small_chunks, monkeypatch, kept
):
    """In several parts and row groups, which end anywhere in a batch."""

    class Small(document_parts.ParquetDocuments):
        def __init__(self, *of, **more):
            super().__init__(*of, **more, group_bytes=1500)

    monkeypatch.setattr(document_parts, "ParquetDocuments", Small)
    (folder / "docs" / "page.html").write_text(f"<p>News of today. {QUESTIONS[0]} And so on.</p>")
    (folder / "docs" / "plain.txt").write_text(QUESTIONS[3])
    fields = ["--documents", kept]
    # pages have two members only
    docs = ["docs", "more"] if kept == "jsonl" else ["docs/a.jsonl", "docs/sub", "docs/plain.txt"]
    cut(capfd, *fields, docs=docs)
    cut(capfd, *fields, docs=docs, evals="other.jsonl", out="whole", action="drop")
    restore.done(capfd, "out", "-o", "again")
    found, expected = contents(folder / "again"), contents(folder / "whole" / "documents")
    assert found.keys() == contents(folder / "out" / "documents").keys()
    assert len(found) > 3
    if kept == "jsonl":
        assert b"".join(found.values()) == b"".join(expected.values())
    else:
        assert next(iter(found.values()))[0].equals(next(iter(expected.values()))[0])
        found, expected = (
            [row for _, rows in each.values() for row in rows] for each in (found, expected)
        )
        assert found == expected
    assert len(cuts_of(folder / "out")) > 50


def test_unusual_lines_and_texts_of_html(folder, capfd):
    question = QUESTIONS[0]
    escaped = "".join(f"\\u{ord(each):04x}" for each in question)
    lines = [
        f'{{"text":"{escaped}","id":"1"}}',
        f'{{ "id" : "2", "n": {{"text": "no"}}, "text" : "x {question} \\ud83d\\ude00" ,'
        '"z":[1, 2.50]}',
        f'{{"text":"first of two","id":"3","text":"a\\n{question} / {question}"}}',
        f'{{"id":"4","html":"<p>one</p><p>{question}</p><p>{question}</p>","text":null}}',
        '{"id":"5","text":""}',
    ]  # fmt: skip
    content = "\r\n".join(lines)
    (folder / "hard.jsonl").write_bytes(content.encode())
    cut(capfd, docs=["hard.jsonl"])
    written = (folder / "out/documents/hard.jsonl").read_bytes().splitlines()
    left = [json.loads(line)["text"].split() for line in written]
    assert left == [["?"], ["x", "?", "\U0001f600"], ["a", "?", "/", "?"], ["one", "?", "?"], []]
    restore.done(capfd, "out", "-o", "again")
    # the last line gets its end
    assert (folder / "again/hard.jsonl").read_bytes() == (content + "\n").encode()


@pytest.mark.parametrize(
    "kind",
    [pa.large_string(), pa.binary(), pa.dictionary(pa.int16(), pa.string())],
    ids=str,
)
def test_columns_of_texts_keep_their_type(folder, capfd, kind):
    table = pa.Table.from_pylist(made_up(7))
    texts = table["text"].combine_chunks()
    texts = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts
    table = table.set_column(1, "text", texts.cast(kind))
    pq.write_table(table, folder / "typed.parquet", row_group_size=11)
    cut(capfd, docs=["typed.parquet"])
    restore.done(capfd, "out", "-o", "again")
    again = pq.read_table(folder / "again" / "typed.parquet")
    assert again.schema.equals(table.schema)
    assert again.to_pylist() == table.to_pylist() != pq.read_table("out/documents").to_pylist()


def test_cuts_of_a_document_may_be_in_two_parts(folder, capfd):
    cut(capfd)
    rows = pq.read_table("out/cuts")
    shutil.rmtree("out/cuts")
    (folder / "out" / "cuts").mkdir()
    for number in range(len(rows)):
        name = f"part-{number:05}.parquet"
        pq.write_table(rows.slice(number, 1), folder / "out" / "cuts" / name)
    records = [(row["written_file"], row["written_row"]) for row in rows.to_pylist()]
    assert len(set(records)) < len(records)
    restore.done(capfd, "out", "-o", "again")
    assert contents(folder / "again") == documents_of(folder)


def test_nothing_to_cut_and_another_field(folder, capfd):
    write_jsonl(folder / "body.jsonl", [{"id": 1, "body": f"So {QUESTIONS[0]} Yes."}])
    cut(capfd, "--text-field", "body", docs=["body.jsonl"])
    restore.done(capfd, "out", "-o", "again")
    assert contents(folder / "again")["body.jsonl"] == (folder / "body.jsonl").read_bytes()
    cut(capfd, "--overwrite", evals="other.jsonl")
    _, err = restore.done(capfd, "out", "-o", "again", "--overwrite")
    assert "6 files, 0 documents restored" in err
    assert contents(folder / "again") == documents_of(folder)


@pytest.mark.parametrize("name", ["a.jsonl", "z.parquet"])
def test_damage_is_one_line_or_harmless(folder, capfd, name):
    """Some bytes of Parquet say nothing, such as the name of the program that wrote the file."""
    (source,) = (folder / "docs").rglob(name)
    cut(capfd, docs=[source.relative_to(folder)])
    expected = list(contents(source.parent)[name])
    (path,) = (folder / "out" / "cuts").iterdir()
    content = path.read_bytes()
    rng = random.Random(9)
    refused = 0
    for offset in [*rng.sample(range(len(content)), 40), *range(len(content) - 9, len(content))]:
        changed = bytearray(content)
        changed[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        code, _, err = restore(capfd, "out", "-o", "again", "--overwrite")
        if code:
            assert (code, err.count("\n")) == (2, 1), err
            assert "cuts" in err or name in err
            refused += 1
        else:
            (again,) = (folder / "again").rglob(name)
            assert list(contents(again.parent)[name]) == expected
    assert refused > 15
    path.write_bytes(content)
    row = cuts_of(folder / "out")[0]
    (path,) = (folder / "out" / "documents").rglob(name)
    content = bytearray(path.read_bytes())
    if name == "a.jsonl":
        lines = bytes(content).split(b"\n")
        at = len(b"\n".join(lines[: row["written_row"]])) + 5
    else:
        at = 60
    content[at] ^= 4
    path.write_bytes(content)
    err = restore.mistake(capfd, "out", "-o", "new")
    assert name in err
    assert not (folder / "new").exists()


def test_cuts_that_are_missing_are_noticed(folder, capfd):
    cut(capfd)
    (path,) = (folder / "out" / "cuts").iterdir()
    rows = pq.read_table(path)
    last = rows["written_row"][-1].as_py()
    count = sum(row["written_row"] == last and row["written_file"] == "more/a.jsonl"
                for row in rows.to_pylist())  # fmt: skip
    summary = json.loads((folder / "out" / "summary.json").read_text())["documents_cut"]
    for change, reason in [
        (rows.slice(0, len(rows) - count), f"cuts of {summary - 1} documents; summary.json says"),
        (rows.drop_columns("checksum"), "has other columns than cuts have"),
        (rows.take(list(range(len(rows)))[::-1]), "record"),
    ]:
        pq.write_table(change, path)
        assert reason in restore.mistake(capfd, "out", "-o", "again")
    assert not (folder / "again").exists()


def test_other_directories_are_no_results(folder, capfd):
    said = restore.mistake(capfd, "nowhere", "-o", "again")
    assert said == "mr-dedup: error: nowhere: no such directory\n"
    said = restore.mistake(capfd, "docs", "-o", "again")
    no_result = "not a result of mr-dedup passages or decontaminate"
    assert said == f"mr-dedup: error: docs: {no_result}: no summary.json\n"
    assert "a.jsonl: not a result" in restore.mistake(capfd, "more/a.jsonl", "-o", "again")
    Command("dedup").done(capfd, "docs", "-o", "kept")
    said = restore.mistake(capfd, "kept", "-o", "again")
    assert said == f"mr-dedup: error: kept: {no_result}\n"
    for action in ("report", "drop"):
        cut(capfd, "--overwrite", action=action)
        assert "out: nothing was cut" in restore.mistake(capfd, "out", "-o", "again")
    known = '{"format_version": 3, "action": "cut"}'
    for content in ("[1]", "{", known, '{"cut":' * 9000, "7"):
        (folder / "kept" / "summary.json").write_text(content)
        assert "kept/summary.json: is damaged: " in restore.mistake(capfd, "kept", "-o", "again")
    assert not (folder / "again").exists()


def test_rows_with_their_text_in_html_name_the_option(folder, capfd):
    pages = pa.table({"id": ["1"], "html": [f"<p>{QUESTIONS[0]}</p>"]})
    pq.write_table(pages, folder / "html.parquet")
    code, _, err = decontaminate(
        capfd, "html.parquet", "--evals", "exam.jsonl", "-o", "out", "--action", "cut"
    )
    assert code == 2
    assert "html.parquet: --action cut: rows without 'text', whose text is in HTML" in err


def test_from_python(folder):
    found = mr_dedup.decontaminate("docs/b.jsonl.gz", "exam.jsonl", action="cut", out="out")
    mr_dedup.restore(found.folder, "again")
    content = contents(folder / "docs")["b.jsonl.gz"]
    assert contents(folder / "again") == {"docs/b.jsonl.gz": content}
