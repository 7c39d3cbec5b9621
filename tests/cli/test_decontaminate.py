"""mr-dedup decontaminate: what a result contains, on every engine, and what is refused."""

import gzip
import json
import random
import shutil
import signal
import subprocess
import time
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mr_dedup
from mr_dedup.formats import parts
from mr_dedup.formats.documents import chunks
from mr_dedup.jobs import decontaminate
from mr_dedup.pipeline.stages import Stages
from tests.cli.documents import write_jsonl
from tests.cli.running import Command

ENGINES = ("memory", "inline", "local")
run = Command("decontaminate")

ITEMS = [
    {"id": "sheep", "set": "farm", "question": "A farmer has nineteen sheep and buys four more on "
     "Friday, how many sheep does the farmer have on Saturday?", "answer": "23"},
    {"id": "wool", "set": "farm", "question": "What is the wool worth at noon?",
     "answer": ["12", "twelve"],
     "passage": "The wool market of the old harbour opens at seven each Friday and closes when the "
     "last bale is sold to a trader from abroad."},
    {"id": "bread", "set": "town", "question": "Which of the following grains did the bakers of "
     "the old town never put into their bread?", "answer": 1, "choices": ["rye", "spelt", "oats"]},
    {"id": "why", "set": "town", "question": "Why?", "answer": "So."},
]  # fmt: skip
SHEEP, WOOL, BREAD = ITEMS[0]["question"], ITEMS[1]["passage"], ITEMS[2]["question"]
KINDS = {
    "whole": f"Some words before. {SHEEP} The answer is 23. And after.",
    "beginning": f"{SHEEP} Many words after it, none of which is of an item.",
    "end": f"Many words before it, none of which is of an item. {SHEEP}",
    "punctuation": f"So: {SHEEP.upper().replace(',', ' --')}!",
    "deleted": f"So {SHEEP.replace('nineteen ', '')} Yes.",
    "inserted": f"So {SHEEP.replace('nineteen', 'nineteen white')} Yes.",
    "changed": f"So {SHEEP.replace('nineteen', 'twenty')} Yes.",
    "passage": f"News. {WOOL} What is the wool worth at noon? More news.",
    "several": f"{SHEEP} {WOOL} What is the wool worth at noon? {BREAD} Spelt.",
    "twice": f"{BREAD} or {BREAD}",
    "label": f"{BREAD} B, the spelt",
}
CLEAN = {
    "clean": "The sheep of the farmer were sold on Friday, and the bakers of the old town put rye.",
    "half": "A farmer has nineteen sheep and buys four more",
    "answer": "The answer is 23, or twelve.",
    "empty": "",
    "why": "Why?",
}
DOCUMENTS = [
    {"id": name, "text": text, "n": number}
    for number, (name, text) in enumerate({**KINDS, **CLEAN}.items())
]


@pytest.fixture
def files(tmp_path):
    write_jsonl(tmp_path / "docs.jsonl", DOCUMENTS)
    write_jsonl(tmp_path / "exam.jsonl", ITEMS)
    return tmp_path


@pytest.fixture
def small_chunks(monkeypatch):
    """Let the small inputs of the tests take several tasks."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 300)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 30)


def decontaminated(capfd, files, *options, docs="docs.jsonl", out="out"):
    said = run.messages(
        capfd, files / docs, "--evals", files / "exam.jsonl", "--set-field", "set",
        "-o", files / out, *options,
    )  # fmt: skip
    return said, json.loads((files / out / "summary.json").read_text())


def rows_of(folder, name):
    return pq.read_table(folder / name).to_pylist()


@pytest.mark.parametrize("engine", ENGINES)
def test_each_kind_is_found_where_it_is(files, capfd, small_chunks, engine):
    said, summary = decontaminated(capfd, files, "-r", engine)
    texts = {each["id"]: each["text"] for each in DOCUMENTS}
    matches = rows_of(files / "out", "matches")
    assert {row["id"] for row in matches if row["contaminated"]} == set(KINDS)
    assert {row["id"] for row in matches} <= {*KINDS, "half"}
    for row in matches:
        assert texts[row["id"]][row["start"] : row["end"]] == row["text"]
        if row["kind"] == "exact":
            assert (row["coverage"], row["deleted"], row["inserted"], row["changed"]) == (
                1,
                0,
                0,
                0,
            )
            assert words(row["text"]) == words(row["item_text"])
    by_id = {row["id"]: row for row in matches}
    assert by_id["whole"]["verdict"] == "question_and_answer"
    assert by_id["beginning"]["start"] == 0
    assert by_id["end"]["end"] == len(KINDS["end"]) - 1
    for kind in ("deleted", "inserted", "changed"):
        counts = {name: by_id[kind][name] for name in ("deleted", "inserted", "changed")}
        assert counts == {"deleted": 0, "inserted": 0, "changed": 0, kind: 1}
        assert by_id[kind]["verdict"] == "near_question"
    assert [row["field"] for row in matches if row["id"] == "passage"] == ["passage", "question"]
    assert by_id["label"]["verdict"] == "question_and_answer"
    several = [row["item"] for row in matches if row["id"] == "several"]
    assert several == ["sheep", "wool", "wool", "bread"]
    assert [row["start"] for row in matches if row["id"] == "twice"] == [0, len(BREAD) + 4]
    items = {row["item"]: row for row in rows_of(files / "out", "items")}
    assert items["sheep"]["documents"] == 8
    assert items["why"]["reason"] == "too_short"
    assert (summary["documents_read"], summary["documents_contaminated"]) == (16, 11)
    assert summary["items_not_judged"] == {
        "too_short": 1, "no_text": 0, "same_as_another": 0, "too_long": 0,
    }  # fmt: skip
    assert [(each["name"], each["items"], each["found"]) for each in summary["sets"]] == [
        ("farm", 2, 2), ("town", 2, 1),
    ]  # fmt: skip
    assert "items: 4 in 2 sets (1 too short); 3 found in documents" in said
    assert "contaminated: 11 (68.75 %), in " in said


def test_a_passage_counts_alone_on_request(files, capfd):
    write_jsonl(files / "news.jsonl", [{"id": "news", "text": f"News. {WOOL} More news."}])
    for number, (options, verdict) in enumerate(
        {(): "passage_alone", ("--passages", "alone"): "passage"}.items()
    ):
        out = f"out{number}"
        _, summary = decontaminated(capfd, files, *options, docs="news.jsonl", out=out)
        (row,) = rows_of(files / out, "matches")
        assert row["verdict"] == verdict
        assert summary["documents_contaminated"] == row["contaminated"] == bool(options)


def words(text):
    return [word.strip(".,?!-").lower() for word in text.split() if word.strip(".,?!-")]


def content_of(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def lines_of(folder):
    """The lines of kept documents in the order of their files, which tasks may have divided."""
    return [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("action", ["drop", "cut"])
def test_engines_and_divisions_give_the_same_result(
    files, capfd, small_chunks, monkeypatch, action
):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    results = []
    names = {"drop": "dropped", "cut": "cuts"}
    for engine in (*ENGINES, "whole"):
        if engine == "whole":
            monkeypatch.setattr(chunks, "CHUNK_BYTES", 1 << 20)
        runner = "memory" if engine == "whole" else engine
        decontaminated(capfd, files, "-r", runner, "--action", action, "--overwrite")
        out = files / "out"
        parts = sorted(path.name for path in (out / "matches").iterdir())
        assert parts == [f"part-{number:05}.parquet" for number in range(len(parts))]
        assert (len(parts) == 1) == (engine == "whole")
        tables = [rows_of(out, name) for name in ("matches", "items", names[action])]
        if action == "cut":
            # where cut documents are written follows the division
            tables[2] = [{**row, "written_file": None, "written_row": None} for row in tables[2]]
        read = {name: (out / name).read_bytes() for name in ("report.html", "summary.json")}
        results.append((tables, lines_of(out / "documents"), read))
    assert sorted(path.name for path in (files / "out").iterdir()) == sorted(
        [
            ".files.json",
            "documents",
            "items",
            "matches",
            names[action],
            "report.html",
            "summary.json",
        ]
    )
    for other in results[1:]:
        assert other == results[0]


def test_items_that_a_document_repeats_are_written_some_at_a_time(files, capfd, monkeypatch):
    """Texts of all of its matches together may be many times the document."""
    write_jsonl(files / "docs.jsonl", [{"id": "d", "text": f"{BREAD} " * 17_000}])
    tables = []
    write_matches = decontaminate._Writer.write_matches

    def recorded(writer, matches):
        tables.append(len(matches))
        write_matches(writer, matches)

    monkeypatch.setattr(decontaminate._Writer, "write_matches", recorded)
    decontaminated(capfd, files)
    assert sum(tables) == len(rows_of(files / "out", "matches")) >= 17_000
    assert max(tables) == decontaminate.ROWS_AT_ONCE < sum(tables)


def test_dropped_documents_are_listed_and_others_kept_as_they_came(files, capfd):
    said, summary = decontaminated(capfd, files, "--action", "drop")
    lines = (files / "docs.jsonl").read_text().splitlines(keepends=True)
    kept = (files / "out" / "documents" / "docs.jsonl").read_text()
    assert kept == "".join(lines[len(KINDS) :])
    dropped = rows_of(files / "out", "dropped")
    assert [row["id"] for row in dropped] == list(KINDS)
    several = dropped[list(KINDS).index("several")]
    assert (several["item"], several["items"], several["set"]) == ("sheep", 3, "farm")
    assert (summary["documents_kept"], summary["documents_dropped"]) == (5, 11)
    assert "kept: 5, in " in said


@pytest.mark.parametrize("kept", ["same", "jsonl", "parquet"])
def test_formats_of_documents_and_items(files, capfd, kept):
    (files / "docs").mkdir()
    pq.write_table(pa.Table.from_pylist(DOCUMENTS[:7]), files / "docs" / "a.parquet")
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in DOCUMENTS[7:])
    (files / "docs" / "b.jsonl.gz").write_bytes(gzip.compress(lines))
    (files / "exam.jsonl").unlink()
    for each in ITEMS:
        each = {
            **each,
            "answer": each["answer"] if isinstance(each["answer"], list) else [str(each["answer"])],
        }
        pq.write_table(pa.Table.from_pylist([each]), files / f"exam-{each['id']}.parquet")
    run.messages(
        capfd, files / "docs", "--evals", files / "exam-*.parquet", "-o", files / "out",
        "--action", "drop", "--documents", kept, "--set-field", "set",
    )  # fmt: skip
    matches = rows_of(files / "out", "matches")
    assert {row["id"] for row in matches if row["contaminated"]} == set(KINDS)
    folder = files / "out" / "documents"
    if kept == "same":
        assert [path.name for path in folder.iterdir()] == ["b.jsonl.gz"]
        found = gzip.decompress((folder / "b.jsonl.gz").read_bytes())
        assert [json.loads(line)["id"] for line in found.splitlines()] == list(CLEAN)
    elif kept == "parquet":
        assert pq.read_table(folder)["id"].to_pylist() == list(CLEAN)
    else:
        assert [path.suffix for path in folder.iterdir()] == [".zst"]


@pytest.mark.parametrize("kept", ["jsonl", "parquet"])
def test_tasks_that_keep_nothing_leave_no_gaps_between_parts(files, capfd, small_chunks, kept):
    documents = DOCUMENTS[:2] + DOCUMENTS[-3:-1] + DOCUMENTS[2:5]
    documents[3] = {**documents[3], "text": CLEAN["half"] * 10}
    write_jsonl(files / "docs.jsonl", documents)
    decontaminated(capfd, files, "--action", "drop", "--documents", kept)
    folder = files / "out" / "documents"
    names = sorted(path.name for path in folder.iterdir())
    suffix = {"jsonl": ".jsonl.zst", "parquet": ".parquet"}[kept]
    assert names == [f"part-{number:05}{suffix}" for number in range(len(names))]
    assert len(names) > 3
    if kept == "jsonl":
        found = [json.loads(line)["id"] for line in read_lines(folder).splitlines()]
    else:
        found = parts.read_parts(folder)["id"].to_pylist()
    assert found == [each["id"] for each in DOCUMENTS[-3:-1]]
    assert not [path for path in folder.rglob("*") if path.stat().st_size == 0]


def restored(text, cuts):
    """A text with what was cut out of it put back."""
    for row in cuts:
        assert text[row["start"] : row["start"] + row["space"]] in ("", " ")
        text = text[: row["start"]] + row["text"] + text[row["start"] + row["space"] :]
        assert len(row["text"]) == row["end"] - row["start"]
    return text


@pytest.mark.parametrize("engine", ENGINES)
def test_items_are_cut_out_with_a_record_of_what_was_there(files, capfd, small_chunks, engine):
    said, summary = decontaminated(capfd, files, "--action", "cut", "-r", engine)
    lines = lines_of(files / "out" / "documents")
    written = [json.loads(line) for line in lines]
    assert [each["id"] for each in written] == [each["id"] for each in DOCUMENTS]
    assert [(list(each), each["n"]) for each in written] == [
        (["id", "text", "n"], each["n"]) for each in DOCUMENTS
    ]
    before = (files / "docs.jsonl").read_text().splitlines()
    # nothing but texts has changed
    assert lines[len(KINDS) :] == before[len(KINDS) :]
    for line, other, each in zip(lines, before, written, strict=True):
        assert line.replace(json.dumps(each["text"]), "") == other.replace(
            json.dumps(json.loads(other)["text"]), ""
        )
    cuts = rows_of(files / "out", "cuts")
    texts = {each["id"]: each["text"] for each in written}
    for each in DOCUMENTS:
        of_document = [row for row in cuts if row["id"] == each["id"]]
        assert restored(texts[each["id"]], of_document) == each["text"]
        assert bool(of_document) == (each["id"] in KINDS)
    assert texts["whole"] == "Some words before. ? The answer is 23. And after."
    assert texts["several"] == "? . ? ? Spelt."
    assert [row["item"] for row in cuts if row["id"] == "several"] == [
        "sheep", "wool", "wool", "bread",
    ]  # fmt: skip
    assert summary["documents_cut"] == 11
    assert "cut: 11, in " in said
    # what is left has no item
    again = run.messages(
        capfd, files / "out" / "documents", "--evals", files / "exam.jsonl", "-o", files / "again"
    )
    assert "contaminated: 0 (0.00 %)" in again


@pytest.mark.parametrize("kept", ["same", "jsonl", "parquet"])
@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.large_binary(), pa.dictionary(pa.int8(), pa.string())],
)
def test_texts_of_parquet_are_cut_in_a_column_of_their_type(files, capfd, kind, kept):
    table = pa.Table.from_pylist(DOCUMENTS)
    texts = pa.array([each["text"] for each in DOCUMENTS])
    texts = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts
    table = table.set_column(1, "text", texts.cast(kind))
    pq.write_table(table, files / "docs.parquet", row_group_size=5)
    decontaminated(capfd, files, "--action", "cut", "--documents", kept, docs="docs.parquet")
    folder = files / "out" / "documents"
    if kept == "jsonl":
        assert [path.suffix for path in folder.iterdir()] == [".zst"]
        return
    written = pq.read_table(folder)
    assert written.column_names == ["id", "text", "n"]
    if kept == "same":
        assert written.schema.field("text").type == kind
    values = written["text"].cast(kind if kind == pa.large_binary() else pa.string()).to_pylist()
    assert values[0] in ("Some words before. ? The answer is 23. And after.",
                         b"Some words before. ? The answer is 23. And after.")  # fmt: skip
    assert len(values) == len(DOCUMENTS)


def test_pages_that_are_cut_become_records(files, capfd):
    (files / "docs").mkdir()
    (files / "docs" / "a.html").write_text(f"<html><body><p>News. {SHEEP} So.</p></body></html>")
    (files / "docs" / "b.txt").write_text(f"News. {SHEEP} So.")
    line = json.dumps({"id": "c", "html": f"<html><body><p>News. {SHEEP} So.</p></body></html>"})
    (files / "docs" / "c.jsonl").write_text(line + "\n")
    run.messages(
        capfd, files / "docs", "--evals", files / "exam.jsonl", "-o", files / "out",
        "--action", "cut",
    )  # fmt: skip
    documents = files / "out" / "documents"
    assert sorted(path.name for path in documents.iterdir()) == [
        "a.html.jsonl.zst", "b.txt.jsonl.zst", "c.jsonl",
    ]  # fmt: skip
    (record,) = (documents / "c.jsonl").read_text().splitlines()
    assert json.loads(record)["text"].strip() == "News. ? So."
    run.messages(
        capfd, files / "docs", "--evals", files / "exam.jsonl", "-o", files / "out",
        "--action", "cut", "--documents", "parquet", "--overwrite",
    )  # fmt: skip
    texts = pq.read_table(files / "out" / "documents")["text"].to_pylist()
    assert [text.strip() for text in texts] == ["News. ? So."] * 3


def test_cuts_join_no_words_and_overlap_nothing(files, capfd):
    one, other = (
        SHEEP,
        SHEEP[SHEEP.index("buys") :] + " Or on the Sunday that comes after it, says who?",
    )
    write_jsonl(files / "exam.jsonl", [{"question": one}, {"question": other}])
    inside = "NoSpaces"
    text = f"{inside}中{one} Or on the Sunday that comes after it, says who中{inside}"
    write_jsonl(files / "docs.jsonl", [{"id": "a", "text": text}])
    run.messages(
        capfd, files / "docs.jsonl", "--evals", files / "exam.jsonl", "-o", files / "out",
        "--action", "cut",
    )  # fmt: skip
    (cut,) = rows_of(files / "out", "cuts")
    (line,) = (files / "out" / "documents" / "docs.jsonl").read_text().splitlines()
    assert json.loads(line)["text"] == f"{inside}中中{inside}"
    assert restored(json.loads(line)["text"], [cut]) == text


def test_the_answer_that_was_found_is_shown(files, capfd):
    long = "He had nineteen sheep and bought four so that he has twenty three now"
    write_jsonl(files / "exam.jsonl", [{"question": SHEEP, "answer": ["...", "23", long]}])
    write_jsonl(files / "docs.jsonl", [{"id": "a", "text": f"{SHEEP} {long}"}])
    run.messages(capfd, files / "docs.jsonl", "--evals", files / "exam.jsonl", "-o", files / "out")
    rows = rows_of(files / "out", "matches")
    assert [(row["field"], row["item_text"]) for row in rows] == [
        ("question", SHEEP), ("answer", long),
    ]  # fmt: skip


def test_fields_of_other_names_and_sets_by_file(files, capfd):
    records = [{"key": 7, "ask": {"text": SHEEP}, "right": [{"text": "23"}], "about": ["x", WOOL]}]
    write_jsonl(files / "my.exam.jsonl", records)
    run.messages(
        capfd, files / "docs.jsonl", "--evals", files / "my.exam.jsonl", "-o", files / "out",
        "--question-field", "ask", "--answer-field", "right", "--passage-field", "about",
        "--item-id-field", "key",
    )  # fmt: skip
    rows = [row for row in rows_of(files / "out", "matches") if row["id"] == "whole"]
    assert [(row["set"], row["item"], row["verdict"]) for row in rows] == [
        ("my", "7", "question_and_answer")
    ]


def test_items_that_cannot_be_read_are_kept_with_the_reason(files, capfd):
    lines = [json.dumps(each).encode() for each in ITEMS]
    deep = b'{"question": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    bad = [b"{", b"[1]", b'{"text": "no question"}', deep,
           b'{"question": "\xff"}', b'{"question": "\\ud800 lone"}', b""]  # fmt: skip
    (files / "exam.jsonl").write_bytes(b"\n".join([*bad, *lines]))
    code, _, err = run(
        capfd, files / "docs.jsonl", "--evals", files / "exam.jsonl", "-o", files / "out"
    )
    assert code == 2
    assert "5 of 10 records could not be read, more than 10 %" in err
    assert err.count("Traceback") == 0
    assert not (files / "out" / "rejects").exists()
    (part,) = (files / "out" / "rejected_items").iterdir()
    assert part.name == "part-00000.jsonl.zst"
    assert read_lines(files / "out" / "rejected_items").count(b"exam.jsonl") == 5
    assert json.loads((files / "out" / "summary.json").read_text())["items"] == 5
    code, _, err = run(
        capfd, files / "docs.jsonl", "--evals", files / "exam.jsonl", "-o", files / "strict",
        "--strict",
    )  # fmt: skip
    assert code == 2
    assert "exam.jsonl, line 1 (byte 0): is not JSON" in err
    assert not (files / "strict").exists()


def read_lines(folder):
    return b"".join(parts.read_lines(folder))


def test_documents_that_cannot_be_read_are_kept_with_the_reason(files, capfd, small_chunks):
    """Of several chunks, of which some have none."""
    lines = (files / "docs.jsonl").read_bytes().splitlines(keepends=True)
    (files / "docs.jsonl").write_bytes(b"{first\n" + b"".join(lines) + b"{last\n[1]\n")
    _, summary = decontaminated(capfd, files, "--max-rejected", "0.5")
    assert summary["rejected_records"] == 3
    rejects = files / "out" / "rejects"
    assert [path.name for path in sorted(rejects.iterdir())] == [
        "part-00000.jsonl.zst", "part-00001.jsonl.zst",
    ]  # fmt: skip
    found = [json.loads(line) for line in read_lines(rejects).splitlines()]
    content = (files / "docs.jsonl").read_bytes()
    starts = [0, content.index(b"{last"), content.index(b"[1]")]
    assert [each["position"].split("byte ")[1].rstrip(")") for each in found] == list(
        map(str, starts)
    )
    code, _, err = run(
        capfd, files / "docs.jsonl", "--evals", files / "exam.jsonl", "-o", files / "few"
    )
    assert code == 2
    assert "3 of 19 records could not be read, more than 10 %" in err
    (files / "bad.jsonl").write_bytes(b"{bad\n" * 200)
    error = run.mistake(
        capfd, files / "bad.jsonl", "--evals", files / "exam.jsonl", "-o", files / "none"
    )
    assert "none of 200 records could be read; the first, " in error
    assert not list(files.glob("*none*[!k]"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--min-coverage", "0.3"], "--min-coverage: expected 0.5 to 1, got 0.3"),
        (["--max-edits", "2"], "--max-edits: expected 0 to 0.5, got 2"),
        (["--max-edits", "nan"], "--max-edits: expected 0 to 0.5, got nan"),
        (["--min-tokens", "2"], "--min-tokens: expected 3 to 1000, got 2"),
        (["--answer-window", "-1"], "--answer-window: expected 0 to 10000, got -1"),
        (["--documents", "jsonl"], "--documents jsonl: needs --action drop or cut"),
        (["--set-field", ""], "--set-field: expected the name of a field, got ''"),
        (["--question-field", ""], "--question-field: expected names of fields"),
        (
            ["--question-field", "no", "--passage-field", "no"],
            "contains no items; the first record, ",
        ),
        (["--min-tokens", "900"], "no item has a question or passage of 900 tokens or more"),
    ],
)
def test_usage_errors_leave_nothing(files, capfd, options, message):
    before = sorted(files.iterdir())
    error = run.mistake(
        capfd, files / "docs.jsonl", "--evals", files / "exam.jsonl", "-o", files / "out", *options
    )
    assert message in error
    assert [path for path in sorted(files.iterdir()) if path.name != ".out.lock"] == before


def test_what_cannot_be_read_or_written(files, capfd):
    exam = files / "exam.jsonl"
    assert "missing" in run.mistake(
        capfd, files / "docs.jsonl", "--evals", files / "missing.jsonl", "-o", files / "out"
    )
    (files / "exam.txt").write_text("a question")
    error = run.mistake(
        capfd, files / "docs.jsonl", "--evals", files / "exam.txt", "-o", files / "out"
    )
    assert "exam.txt: is text, expected JSON lines or Parquet" in error
    pq.write_table(pa.Table.from_pylist(ITEMS[:1]), files / "cut.parquet")
    content = (files / "cut.parquet").read_bytes()
    (files / "cut.parquet").write_bytes(content[:-20])
    error = run.mistake(
        capfd, files / "docs.jsonl", "--evals", files / "cut.parquet", "-o", files / "out"
    )
    assert "cut.parquet" in error
    error = run.mistake(capfd, files, "--evals", exam, "-o", files / "out")
    assert "out: is within " in error
    decontaminated(capfd, files)
    error = run.mistake(capfd, files / "docs.jsonl", "--evals", exam, "-o", files / "out")
    assert "exists; give --overwrite to replace it" in error
    (files / "mine").mkdir()
    (files / "mine" / "letter").write_text("keep me")
    error = run.mistake(
        capfd, files / "docs.jsonl", "--evals", exam, "-o", files / "mine", "--overwrite"
    )
    assert "is not replaced" in error
    assert (files / "mine" / "letter").read_text() == "keep me"


@pytest.fixture
def many(files):
    """Some thousand documents, which take several tasks."""
    lines = (files / "docs.jsonl").read_bytes() * 3000
    (files / "many.jsonl").write_bytes(lines)
    return files


@pytest.mark.slow
def test_a_killed_run_is_resumed_chunk_by_chunk(many, monkeypatch):
    """By SIGKILL, then SIGINT: the same files, and no chunk that was done is searched again."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    options = [
        many / "many.jsonl", "--evals", many / "exam.jsonl", "--action", "cut", "--cores", 1,
    ]  # fmt: skip
    subprocess.run(run.program(*options, "-o", many / "one"), check=True, capture_output=True)
    found = many / ".out.unfinished" / "found"
    for sent in (signal.SIGKILL, signal.SIGINT):
        started = run.start(*options, "-o", many / "out")
        while len(done := shards_in(found)) < 2:
            assert started.poll() is None, started.communicate()
            time.sleep(0.01)
        started.send_signal(sent)
        _, err = started.communicate()
        if sent == signal.SIGINT:
            assert started.returncode == 130
            assert ".out.unfinished: completed stages; --resume continues" in err
        assert not (many / "out").exists()
        done = shards_in(found)
        before = {path: path.stat().st_mtime_ns for path in done}
        resumed = run.start(*options, "-o", many / "out", "--resume")
        while len(shards_in(found)) <= len(done) and resumed.poll() is None:
            time.sleep(0.01)
        assert {path: path.stat().st_mtime_ns for path in done if path.exists()}.items() <= (
            before.items()
        )
        _, err = resumed.communicate()
        assert resumed.returncode == 0, err
        assert content_of(many / "out") == content_of(many / "one")
        assert not (many / ".out.unfinished").exists()
        shutil.rmtree(many / "out")


def shards_in(folder):
    return [path for path in folder.glob("*") if path.name.isdigit()] if folder.exists() else []


def test_a_run_with_a_missing_file_searches_its_chunk_again(files, capfd, small_chunks):
    options = ["--evals", files / "exam.jsonl", "--action", "drop", "--set-field", "set"]
    run.messages(capfd, files / "docs.jsonl", *options, "-o", files / "one")
    with mock.patch.object(Stages, "finish", side_effect=KeyboardInterrupt):
        assert run(capfd, files / "docs.jsonl", *options, "-o", files / "out")[0] == 130
    write_jsonl(
        files / "more.jsonl",
        [{"set": "farm", "question": "Who sold the wool to a trader from abroad?"}],
    )
    result = files / ".out.unfinished" / "result"
    (result / "matches" / "part-00003.parquet").unlink()
    for changed, message in (
        (["--min-coverage", "0.9"], "--min-coverage was 0.8, is 0.9"),
        (["--documents", "jsonl"], '--documents was "same", is "jsonl"'),
        (["--evals", files / "more.jsonl"], "items of --evals was"),
    ):
        error = run.mistake(
            capfd, files / "docs.jsonl", *options, *changed, "-o", files / "out", "--resume"
        )
        assert message in error
    run.messages(capfd, files / "docs.jsonl", *options, "-o", files / "out", "--resume")
    assert content_but_summaries(files / "out") == content_but_summaries(files / "one")


def content_but_summaries(folder):
    return {name: content for name, content in content_of(folder).items() if name != "report.html"}


def test_no_false_alarms_and_none_missed_among_pages(tmp_path, capfd):
    draw = random.Random(7)
    vocabulary = [f"word{number}" for number in range(3000)]

    def text(size):
        return " ".join(draw.choices(vocabulary, k=size))

    items = [{"id": str(number), "question": text(30)} for number in range(500)]
    pages = []
    for number in range(2000):
        page = text(200).split()
        if number % 4 == 0:
            page[100:100] = items[number // 4]["question"].split()
        pages.append({"id": str(number), "text": " ".join(page)})
    write_jsonl(tmp_path / "exam.jsonl", items)
    write_jsonl(tmp_path / "docs.jsonl", pages)
    run.messages(
        capfd, tmp_path / "docs.jsonl", "--evals", tmp_path / "exam.jsonl", "-o", tmp_path / "out"
    )
    matches = rows_of(tmp_path / "out", "matches")
    assert [(row["id"], row["item"], row["kind"]) for row in matches] == [
        (str(number), str(number // 4), "exact") for number in range(0, 2000, 4)
    ]


def test_from_python_as_by_the_command(files, capfd):
    decontaminated(capfd, files)
    with mr_dedup.decontaminate(
        files / "docs.jsonl", files / "exam.jsonl", set_field="set"
    ) as found:
        assert found.matches.drop_columns("file") == pq.read_table(
            files / "out" / "matches"
        ).drop_columns("file")
        assert found.summary["documents_contaminated"] == 11
        assert "<h1>Items of test sets" in found.report()._html
    with mr_dedup.decontaminate(DOCUMENTS, ITEMS, action="drop") as dropped:
        (path,) = dropped.kept_files
        assert pq.read_table(path)["id"].to_pylist() == list(CLEAN)
    with pytest.raises(mr_dedup.MrDedupError, match=r"min_coverage: expected 0\.5 to 1, got 0\.1"):
        mr_dedup.decontaminate(["a text"], ITEMS, min_coverage=0.1)
    with pytest.raises(TypeError, match="evals: expected paths or records, not int"):
        mr_dedup.decontaminate(["a text"], 7)
    assert capfd.readouterr() == ("", "")
