"""Runs of which too much cannot be read: an error that says why, and what to do."""

import gzip
import itertools
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup.cli.main import main
from mr_dedup.engines.streaming import RUNNERS
from tests.cli.documents import rejects_in
from tests.cli.running import by_turns
from tests.formats.documents.test_document_warc import page

BOTH = pytest.mark.parametrize("runner", RUNNERS)

COMMANDS = {
    "dedup": "dedup DOCS -o OUT -r RUNNER",
    "pairs": "pairs DOCS --method minhash -o OUT -r RUNNER",
    "fingerprint": "fingerprint DOCS -o OUT.parquet -r RUNNER",
    "idf": "idf DOCS -o OUT.parquet -r RUNNER",
    "query": "query DOCS --queries q.jsonl -o OUT -r RUNNER",
    "query by": "query q.jsonl --queries DOCS -o OUT -r RUNNER",
    "index create": "index create OUT DOCS",
    "index add": "index add INDEX DOCS",
    "index add --check": "index add INDEX DOCS --check",
    "index query": "index query INDEX DOCS",
    "compare": "compare DOCS --truth truth.tsv --method exact -o OUT",
    "evaluate": "evaluate truth.tsv --truth truth.tsv --kind decisions --documents DOCS",
    "distance": "distance a b --in DOCS",
}

# the runners by turns: rejects are the readers' matter
EVERY = [
    pytest.param(name, runner, id=f"{name}-{runner}")
    for name, runner in zip(COMMANDS, itertools.cycle(RUNNERS), strict=False)
    if name != "evaluate"
]


def lines_of(*documents):
    return "".join(json.dumps(document) + "\n" for document in documents)


def named(number, **more):
    return {"id": f"d{number}", **more}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.jsonl").write_text(lines_of({"id": "q", "text": "one two three"}))
    (tmp_path / "truth.tsv").write_text("a\tb\t1.0\n")
    return tmp_path


def run(capfd, name, documents, runner="inline", *more):
    if "INDEX" in COMMANDS[name]:
        assert main(["index", "create", "INDEX"]) == 0
    words = COMMANDS[name].replace("DOCS", documents).replace("RUNNER", runner).split()
    capfd.readouterr()
    code = main([*words, *map(str, more)])
    return code, capfd.readouterr()


def error(captured):
    *_, last = captured.err.splitlines()
    return last.removeprefix("mr-dedup: error: ")


@pytest.mark.parametrize(
    ("name", "runner"), [each for each in EVERY if not each.values[0].startswith("query")]
)
def test_texts_in_another_column_are_an_error(folder, capfd, name, runner):
    columns = {"id": ["a", "b"], "url": ["u", "v"], "content": ["x y", "x y"], "n": [1, 2]}
    pq.write_table(pa.table(columns), folder / "x.parquet")
    code, captured = run(capfd, name, "x.parquet", runner)
    assert (code, captured.out) == (2, "")
    assert error(captured) == (
        "no document was read: x.parquet: has neither a column 'text' nor 'html'; its columns are "
        "id, url, content, n; --text-field content names another"
    )
    names = {path.name for path in folder.iterdir()}
    assert names <= {"x.parquet", "q.jsonl", "truth.tsv", "INDEX"}
    if "INDEX" not in COMMANDS[name]:
        code, captured = run(capfd, name, "x.parquet", runner, "--text-field", "content")
        assert code == 0, captured.err


@pytest.mark.parametrize("name", ["query", "query by"])
def test_a_table_to_search_without_fingerprints_and_texts_is_an_error(folder, capfd, name):
    columns = {"id": ["a", "b"], "url": ["u", "v"], "content": ["one two three", "x y"]}
    pq.write_table(pa.table(columns), folder / "x.parquet")
    code, captured = run(capfd, name, "x.parquet", "inline", "--overwrite")
    assert (code, captured.out) == (2, "")
    assert error(captured) == (
        "x.parquet: has no column 'fingerprint' of fingerprints, nor 'text' or 'html' of texts; "
        "its columns are id, url, content; --text-field content names another"
    )
    columns["text"] = columns.pop("content")
    pq.write_table(pa.table(columns), folder / "x.parquet")
    code, captured = run(capfd, name, "x.parquet", "inline", "--overwrite")
    assert (code, captured.err.count("documents: ")) == (0, 2), captured.err
    columns["fingerprint"] = [1, 2]
    pq.write_table(pa.table(columns), folder / "x.parquet")
    code, captured = run(capfd, name, "x.parquet", "inline", "--overwrite")
    assert (code, captured.err.count("documents: ")) == (0, 1), captured.err


@pytest.mark.parametrize(("name", "runner"), EVERY)
def test_texts_in_another_member_are_an_error(folder, capfd, name, runner):
    documents = [named(n, url="u", body=f"one two {n}", n=n) for n in range(30)]
    (folder / "x.jsonl").write_text(lines_of(*documents))
    code, captured = run(capfd, name, "x.jsonl", runner)
    assert (code, captured.out) == (2, "")
    assert error(captured) == (
        "none of 30 records could be read; the first, x.jsonl, line 1 (byte 0): has neither 'text' "
        "nor 'html'; its fields are id, url, body, n; --text-field body names another"
    )
    assert {path.name for path in folder.iterdir()} <= {"x.jsonl", "q.jsonl", "truth.tsv", "INDEX"}


@pytest.mark.parametrize("name", ["dedup", "fingerprint"])
def test_texts_of_most_records_in_another_member_are_named(folder, capfd, name):
    others = [named(n, content=f"one two {n}", date="2024") for n in range(30)]
    # one of these is of another kind
    lines = lines_of(named(30, text="one two"), *others) + "no JSON\n"
    (folder / "x.jsonl").write_text(lines)
    code, captured = run(capfd, name, "x.jsonl")
    assert code == 2
    assert error(captured).startswith("31 of 32 records could not be read, more than 10 %")
    assert error(captured).endswith(
        "its fields are id, content, date; --text-field content names another; "
        "--max-rejected allows more"
    )


@by_turns(
    ("content", "said"),
    [
        (json.dumps([named(1, text="a"), named(2, text="b")]), "is a JSON array, not a record"),
        (json.dumps([named(1, text="a")], indent=1), "is a JSON array, not a record"),
        ("\ufeff\n \n[ {\n}\n]", "is a JSON array, not a record"),
        (json.dumps(named(1, text="a"), indent=1), "is JSON over several lines, not a record"),
        (
            '{"id": "a", "text": null}',
            "x.json, line 1 (byte 0): its 'text' is null",
        ),
        ("{}\n", "has neither 'text' nor 'html'"),
        ("no JSON", "is not JSON"),
    ],
)
def test_what_is_not_lines_is_said(folder, capfd, runner, content, said):
    (folder / "x.json").write_text(content)
    code, captured = run(capfd, "dedup", "x.json", runner)
    assert code == 2
    assert said in error(captured)
    assert not list(folder.glob(".*"))


OTHER_FORMATS = {
    "is HTML": b"<!DOCTYPE html>\n<style>\n{ color: red }\n</style>\n" + b"<p>words</p>\n" * 9000,
    "is XML": b'<?xml version="1.0"?>\n<rows>\n' + b"<row>words</row>\n" * 90 + b"</rows>",
    "is a table with commas": b"id,text\n" + b'1,"words, and others"\n'.replace(b", ", b" ") * 90,
    "is a table with tabs": b"id\ttext\n" + b"1\twords\n" * 90,
    "is text": b"--- one\nid: a\ntext: words\n" * 90,
    "is PDF": b"%PDF-1.4\n" + b"1 0 obj\n<< /Type /Catalog >>\nendobj\n" * 90,
    "is Parquet": b"PAR1\x15\x04" + b"words\n" * 90,
    "is gzip data": gzip.compress(b'{"text": "words"}\n' * 90),
    "is an SQLite database": b"SQLite format 3\0\x10\0\n" + b"words\n" * 90,
    "is binary data": random.Random(1).randbytes(9000),
}


@pytest.mark.parametrize("reason", OTHER_FORMATS)
def test_files_of_other_formats_are_one_reject_each(folder, capfd, reason):
    (folder / "x").mkdir()
    (folder / "x" / "b.jsonl").write_text(lines_of(*(named(n, text=f"a {n}") for n in range(20))))
    for name in "a.jsonl", "c.json":
        (folder / "x" / name).write_bytes(OTHER_FORMATS[reason])
    code, captured = run(capfd, "dedup", "x", "inline", "--max-rejected", "70%")
    assert code == 0, captured.err
    assert "files: 3, documents: 20, rejected: 2, files not read to the end: 2" in captured.err
    assert f"a.jsonl, line 1 (byte 0): {reason}" in captured.err
    (folder / "x" / "b.jsonl").unlink()
    code, captured = run(capfd, "dedup", "x", "inline", "--overwrite")
    assert code == 2
    assert f"none of 2 files could be read; the first, a.jsonl, line 1 (byte 0): {reason}" in (
        error(captured)
    )


@pytest.mark.parametrize(
    "damaged", [b"\xff\0\n" * 40, b"no JSON\n" * 5, b"<p>rest</p>" * 9000 + b"\n", b"a,b\n<"]
)
def test_damaged_lines_before_records_are_rejects_of_their_own(folder, capfd, damaged):
    records = lines_of(*(named(n, text=f"one two {n}") for n in range(20))).encode()
    (folder / "x.jsonl").write_bytes(damaged + b"\n" + records)
    code, captured = run(capfd, "dedup", "x.jsonl", "inline", "--max-rejected", "1")
    assert code == 0, captured.err
    assert "documents: 20" in captured.err
    assert "to their end" not in captured.err


def test_names_of_fields_are_bounded(folder, capfd):
    document = {f"{n}{'x' * 1000}\n": "y" for n in range(10_000)}
    (folder / "x.jsonl").write_text(lines_of(document))
    code, captured = run(capfd, "dedup", "x.jsonl")
    assert code == 2
    assert len(captured.err.encode()) < 3000
    assert captured.err.count("\n") == 1
    assert "and 9,998 more" in captured.err


def some_rejected(folder, sound, rejected):
    documents = [named(n, text=f"one two {n}") for n in range(sound)]
    (folder / "x.jsonl").write_text(lines_of(*documents) + "no JSON\n" * rejected)


@pytest.mark.parametrize(
    ("name", "runner"), [each for each in EVERY if each.values[0] != "distance"]
)
def test_many_rejects_are_an_error_and_the_result_is_there(folder, capfd, name, runner):
    some_rejected(folder, 8, 2)
    if name == "compare":
        (folder / "x.jsonl").write_text(
            lines_of({"id": "a", "text": "x y"}, {"id": "b", "text": "x y"}) + "no JSON\n" * 2
        )
    code, captured = run(capfd, name, "x.jsonl", runner)
    share = "2 of 4" if name == "compare" else "2 of 10"
    assert code == 2
    assert f"{share} records could not be read, more than 10 %; the result is" in error(captured)
    assert error(captured).endswith("; --max-rejected allows more")
    before = {path: path.read_bytes() for path in folder.glob("OUT*") if path.is_file()}
    more = ["--overwrite"] if "-o OUT" in COMMANDS[name] else []
    if "INDEX" in COMMANDS[name] or name == "index create":
        return
    code, captured = run(capfd, name, "x.jsonl", runner, *more, "--max-rejected", "50%")
    assert code == 0, captured.err
    assert {path: path.read_bytes() for path in folder.glob("OUT*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("sound", "rejected", "limit", "code"),
    [
        (4, 1, None, 0),
        (1, 1, None, 0),
        (1, 2, None, 2),
        (90, 10, None, 0),
        (90, 11, None, 2),
        (200, 1, "0", 2),
        (200, 0, "0", 0),
        (98, 2, "2%", 0),
        (97, 3, "0.02", 2),
        (1, 99, "1", 0),
        (0, 0, "0", 0),
        (0, 1, "1", 2),
    ],
)
def test_the_limit(folder, capfd, sound, rejected, limit, code):
    some_rejected(folder, sound, rejected)
    more = [] if limit is None else ["--max-rejected", limit]
    assert run(capfd, "fingerprint", "x.jsonl", "inline", *more)[0] == code
    assert (folder / "OUT.parquet").exists() == (sound > 0 or rejected == 0)


@pytest.mark.parametrize("limit", ["-1", "1.5", "101%", "x", "5%x", "nan", ""])
def test_a_limit_that_is_none_is_refused(folder, capfd, limit):
    with pytest.raises(SystemExit):
        main(["fingerprint", "x.jsonl", "-o", "OUT.parquet", f"--max-rejected={limit}"])
    assert "is not a share from 0 to 1" in capfd.readouterr().err


def test_a_result_that_is_complete_is_judged_again(folder, capfd):
    some_rejected(folder, 8, 2)
    assert run(capfd, "dedup", "x.jsonl")[0] == 2
    (folder / ".OUT.ended").mkdir()
    code, captured = run(capfd, "dedup", "x.jsonl", "inline", "--resume")
    assert (code, "is complete already" in captured.err) == (2, True)
    assert len(rejects_in(folder / "OUT")) == 2


@BOTH
def test_a_reject_is_reported_once(folder, capfd, runner, monkeypatch):
    from mr_dedup.formats.documents import chunks

    monkeypatch.setattr(chunks, "_MIN_BYTES", 1 << 10)
    columns = {"id": [str(n) for n in range(900)], "content": ["one two"] * 900}
    pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=100)
    some_rejected(folder, 10, 1)
    code, captured = run(capfd, "dedup", "x.jsonl x.parquet", runner, "--cores", 2)
    assert code == 2, captured.err
    lines = rejects_in(folder / "OUT")
    rejects = [json.loads(line) for line in lines]
    assert [reject["file"] for reject in rejects] == ["x.jsonl", "x.parquet"]
    assert rejects[1]["text_field"] == "content"


def damaged_groups(path, groups, damaged):
    """Write a Parquet file of 100 rows a row group, some of the groups without a sound text."""
    texts = [f"text {n} {random.Random(n).random()}" for n in range(100 * groups)]
    table = pa.table({"id": [f"p{n}" for n in range(100 * groups)], "text": texts})
    pq.write_table(table, path, row_group_size=100, compression="none", use_dictionary=False)
    metadata = pq.ParquetFile(path).metadata
    data = bytearray(path.read_bytes())
    for group in damaged:
        at = metadata.row_group(group).column(1).data_page_offset
        data[at : at + 30] = b"\xff" * 30
    path.write_bytes(data)


def summary_of(folder):
    return json.loads((folder / "OUT" / "summary.json").read_text())


@BOTH
def test_rows_of_damaged_row_groups_count(folder, capfd, runner):
    damaged_groups(folder / "x.parquet", 10, range(1, 10))
    code, captured = run(capfd, "dedup", "x.parquet", runner)
    assert code == 2
    assert "900 of 1,000 records could not be read, more than 10 %" in error(captured)
    assert "rejected: 900\n" in captured.err
    assert summary_of(folder)["rejected_records"] == 900
    lines = rejects_in(folder / "OUT")
    assert [json.loads(line)["records"] for line in lines] == [100] * 9
    damaged_groups(folder / "x.parquet", 10, [3])
    assert run(capfd, "dedup", "x.parquet", runner, "--overwrite")[0] == 0
    damaged_groups(folder / "x.parquet", 9, [3])
    assert run(capfd, "dedup", "x.parquet", runner, "--overwrite")[0] == 2


@by_turns(("kind",), ["no column", "no text"])
def test_rows_of_a_file_without_texts_count(folder, capfd, runner, kind):
    some_rejected(folder, 10, 0)
    rows = {"content": ["one two"] * 900} if kind == "no column" else {"text": [1.5] * 900}
    pq.write_table(pa.table(rows), folder / "y.parquet", row_group_size=100)
    code, captured = run(capfd, "dedup", "x.jsonl y.parquet", runner)
    assert code == 2
    assert "900 of 910 records could not be read, more than 10 %" in error(captured)
    assert summary_of(folder)["rejected_records"] == 900


@pytest.mark.parametrize(
    ("name", "runner"), [each for each in EVERY if each.values[0] not in ("distance", "compare")]
)
def test_a_file_cut_short_is_an_error_and_the_result_is_there(folder, capfd, name, runner):
    lines = [json.dumps(named(n, text=f"text {random.Random(n).random()}")) for n in range(5000)]
    data = gzip.compress("\n".join(lines).encode())
    (folder / "x.jsonl.gz").write_bytes(data[: len(data) // 10])
    code, captured = run(capfd, name, "x.jsonl.gz", runner)
    assert code == 2
    assert error(captured).startswith("1 of 1 files could not be read to the end, more than 10 %")
    assert error(captured).endswith("the gzip data is cut short; --max-rejected allows more")
    warning = "mr-dedup: warning: 1 of 1 files could not be read to their end"
    assert captured.err.count(warning) == 1
    if "-o OUT" in COMMANDS[name]:
        assert list(folder.glob("OUT*"))
        more = ["--overwrite", "--max-rejected", "1"]
        code, captured = run(capfd, name, "x.jsonl.gz", runner, *more)
        assert (code, captured.err.count(warning)) == (0, 1)


@by_turns(("files", "cut", "code"), [(10, 1, 0), (9, 1, 2), (20, 3, 2)])
def test_a_few_of_many_files_may_be_cut_short(folder, capfd, runner, files, cut, code):
    (folder / "in").mkdir()
    for n in range(files):
        lines = lines_of(*(named(f"{n}-{m}", text=f"one {n} {m}") for m in range(20)))
        data = gzip.compress(lines.encode())
        (folder / "in" / f"{n}.jsonl.gz").write_bytes(data[:-9] if n < cut else data)
    found, captured = run(capfd, "dedup", "in", runner)
    assert found == code, captured.err
    assert f"warning: {cut} of {files} files could not be read to their end" in captured.err
    assert f"files not read to the end: {cut}\n" in captured.err
    summary = summary_of(folder)
    assert (summary["files_read"], summary["incomplete_files"]) == (files, cut)
    (folder / ".OUT.ended").mkdir()
    assert run(capfd, "dedup", "in", runner, "--resume")[0] == code


@BOTH
def test_a_damaged_page_is_one_record(folder, capfd, runner):
    (folder / "a.txt.gz").write_bytes(gzip.compress(b"one two three" * 99)[:-9])
    (folder / "b.txt").write_text("one two")
    code, captured = run(capfd, "dedup", "a.txt.gz b.txt", runner)
    assert (code, "warning" in captured.err) == (0, False), captured.err


@by_turns(
    ("name", "content"),
    [
        ("y.json", json.dumps([named(n, text=f"one {n}") for n in range(900)]).encode()),
        ("y.warc", b"<html><p>no records" * 999),
        ("y.warc.gz", b""),
        ("y.parquet", b"PAR1 not at all"),
    ],
)
def test_a_file_of_which_nothing_is_read_is_not_one_record(folder, capfd, runner, name, content):
    some_rejected(folder, 50, 0)
    (folder / name).write_bytes(content)
    code, captured = run(capfd, "dedup", f"x.jsonl {name}", runner)
    assert code == 2
    assert error(captured).startswith("1 of 2 files could not be read to the end, more than 10 %")


@BOTH
def test_a_damaged_member_of_warc_gz_loses_one_record(folder, capfd, runner):
    members = [gzip.compress(page(number)) for number in range(100)]
    middle = bytearray(members[20])
    middle[len(middle) // 2] ^= 0xFF
    members[20] = bytes(middle)
    (folder / "x.warc.gz").write_bytes(b"".join(members))
    code, captured = run(capfd, "dedup", "x.warc.gz", runner, "--verify", "1")
    assert (code, "warning: the rest" in captured.err) == (0, False), captured.err
    summary = summary_of(folder)
    assert (
        summary["documents_read"],
        summary["rejected_records"],
        summary["incomplete_files"],
    ) == (99, 1, 0)
    (path,) = (folder / "OUT" / "documents").iterdir()
    kept = gzip.decompress(path.read_bytes())
    assert kept.count(b"WARC/1.0\r\n") == summary["documents_kept"]
