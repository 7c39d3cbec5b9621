"""mr-dedup dedup with results of several parts: the same rows, whole results, later runs."""

import json
import re

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from mr_dedup.cli import runner_arguments
from mr_dedup.cli.main import main
from mr_dedup.files import outputs
from mr_dedup.formats import parts
from mr_dedup.formats.documents import chunks
from mr_dedup.jobs import keep
from mr_dedup.pipeline import dedup_stages
from tests.cli.documents import files_of, made_up_documents, rejects_in, write_jsonl
from tests.cli.running import Command, by_turns
from tests.cli.test_dedup import dedup, done, mistake, stopped_after

METHODS = ["--method", "minhash", "--method", "simhash:k=7"]
TABLES = ("decisions", "clusters", "fingerprints", "signatures")


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of a few documents, and of some clusters."""
    for name in ("CHUNK_BYTES", "_MIN_BYTES"):
        monkeypatch.setattr(chunks, name, 500)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)
    monkeypatch.setattr(dedup_stages, "_CLUSTERS_PER_PART", 3)


def documents_in(folder, seed, bad=0):
    path = write_jsonl(folder / f"{seed}.jsonl", made_up_documents(seed))
    with path.open("a") as file:
        file.write("no JSON\n" * bad)
    return path


@pytest.fixture
def whole(tmp_path, capfd):
    """The result of one task: one part of each table."""
    words = [*METHODS, "--cores", 1]
    done(capfd, documents_in(tmp_path, 4, bad=3), "-o", tmp_path / "whole", *words)
    return tmp_path / "whole"


@pytest.mark.parametrize("memory", ["4GB", "1"])
def test_several_parts_are_the_same_tables(
    tmp_path, capfd, monkeypatch, whole, small_parts, memory
):
    monkeypatch.setattr(runner_arguments, "MIN_MEMORY_BYTES", 1)
    out = tmp_path / "out"
    done(capfd, tmp_path / "4.jsonl", "-o", out, *METHODS, "--memory", memory)
    for name in TABLES:
        (one,) = (whole / name).iterdir()
        expected = pq.read_table(one)
        names = sorted(path.name for path in (out / name).iterdir())
        assert names == [f"part-{n:05}.parquet" for n in range(len(names))]
        assert len(names) > 1
        assert pa.dataset.dataset(out / name).to_table().equals(expected)
    assert len(list((out / "rejects").iterdir())) > 3
    # the number of a line is known where a task begins with the first
    found = [re.sub(r"line \d+ \((byte \d+)\)", r"\1", line) for line in rejects_in(whole)]
    assert rejects_in(out) == found
    assert len(found) == 3
    for name in files_of(whole):
        if name.startswith("documents/"):
            assert (out / name).read_bytes() == (whole / name).read_bytes()
    # the report is of all parts
    report = (out / "report.html").read_text().replace(str(out), "")
    assert report == (whole / "report.html").read_text().replace(str(whole), "")


def test_parts_are_the_same_on_every_engine(tmp_path, capfd, small_parts):
    path = documents_in(tmp_path, 5, bad=2)
    outs = [tmp_path / name for name in ("memory", "inline", "local")]
    for out in outs:
        done(capfd, path, "-o", out, *METHODS, "-r", out.name, "--cores", 2)
    found = [files_of(out) for out in outs]
    assert len(found[0]) > 20
    assert found[0] == found[1] == found[2]


def test_later_runs_read_all_parts(tmp_path, capfd, whole, small_parts):
    next_week = documents_in(tmp_path, 5)
    done(capfd, tmp_path / "4.jsonl", "-o", tmp_path / "parts", *METHODS)
    found = []
    for old in (whole, tmp_path / "parts"):
        out = tmp_path / f"against-{old.name}"
        done(capfd, next_week, "-o", out, *METHODS, "--against", old)
        table = pq.read_table(out / "decisions")
        earlier = table["earlier_result"].to_pylist()
        assert str(old) in earlier
        found.append(table.drop_columns("earlier_result"))
    assert found[0].equals(found[1])
    # and results that were made against them
    done(
        capfd, documents_in(tmp_path, 6), "-o", tmp_path / "third", *METHODS, "--against",
        tmp_path / "against-parts", "--follow",
    )  # fmt: skip
    summary = json.loads((tmp_path / "third" / "summary.json").read_text())
    assert [each["folder"] for each in summary["against"]] == ["../parts", "../against-parts"]


def test_other_commands_read_all_parts(tmp_path, capfd, whole, small_parts):
    out = tmp_path / "out"
    done(capfd, tmp_path / "4.jsonl", "-o", out, *METHODS)
    truth, queries = tmp_path / "truth.tsv", tmp_path / "queries.txt"
    truth.write_text("id_a\tid_b\tjaccard\nd20\td30\t0.9\n")
    assert "d20" in pq.read_table(out / "decisions")["id"].to_pylist()
    fingerprints = pq.read_table(out / "fingerprints")["fingerprint"].drop_null().to_pylist()
    queries.write_text("".join(f"{each ^ 1}\n" for each in fingerprints))
    found = {}
    for result in (whole, out):
        index, pairs = tmp_path / f"{result.name}.index", tmp_path / f"{result.name}.tsv"
        Command("index").messages(capfd, "create", index, result / "fingerprints")
        Command("index").messages(capfd, "add", index, result / "fingerprints")
        words = [result / "fingerprints", "--queries", queries, "-k", 3, "-o", pairs]
        Command("query").messages(capfd, *words)
        assert main(["evaluate", str(result), "--truth", str(truth), "--json"]) == 0
        shown = capfd.readouterr().out
        assert main(["evaluate", f"{result}/decisions", "--truth", str(truth), "--json"]) == 0
        assert capfd.readouterr().out == shown
        found[result] = sorted(pairs.read_text().splitlines()), shown
    assert found[whole] == found[out]
    assert len(found[whole][0]) >= len(fingerprints)


def test_missing_decisions_are_noticed(tmp_path, capfd, small_parts):
    out, truth = tmp_path / "out", tmp_path / "truth.tsv"
    done(capfd, documents_in(tmp_path, 4), "-o", out)
    truth.write_text("id_a\tid_b\tjaccard\nd20\td30\t0.9\n")
    *first, middle, last = sorted((out / "decisions").iterdir())
    content = last.read_bytes()
    count = 60 - len(pq.read_table(last))
    last.unlink()
    said = Command("evaluate").mistake(capfd, out, "--truth", truth)
    assert said == f"mr-dedup: error: {out}: has decisions on {count} documents, expected 60\n"
    last.write_bytes(content)
    middle.unlink()
    said = Command("evaluate").mistake(capfd, out, "--truth", truth)
    assert said == f"mr-dedup: error: {out / 'decisions'}: its part {len(first)} is missing\n"
    (out / "summary.json").write_text("{")
    assert "summary.json: is damaged" in Command("evaluate").mistake(capfd, out, "--truth", truth)


@pytest.mark.parametrize("table", ["fingerprints", "signatures"])
@pytest.mark.parametrize("damage", ["drop the first", "drop the last", "flip", "add", "swap"])
def test_damage_to_parts_of_an_earlier_result(tmp_path, capfd, small_parts, table, damage):
    kept = tmp_path / "kept"
    path = documents_in(tmp_path, 4)
    done(capfd, path, "-o", kept, *METHODS)
    first, second, *_, last = sorted((kept / table).iterdir())
    content = first.read_bytes()
    said = f"{kept / table}: contains other files than those that summary.json was written for"
    if damage == "drop the first":
        first.unlink()
        said = f"{kept / table}: its part 0 is missing"
    elif damage == "drop the last":
        last.unlink()
    elif damage == "flip":
        at = len(content) // 2
        first.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif damage == "add":
        (kept / table / "part-99999.parquet").write_bytes(content)
        count = len(list((kept / table).iterdir())) - 1
        said = f"{kept / table}: its part {count} is missing"
    else:
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    assert said in mistake(capfd, path, "-o", tmp_path / "out", *METHODS, "--against", kept)


@by_turns(("name",), ["decisions", "clusters", "rejects"])
@pytest.mark.parametrize("damage", ["drop", "cut"])
def test_a_part_of_a_finished_stage_is_made_again(
    tmp_path, capfd, monkeypatch, small_parts, name, damage, runner
):
    path, out = documents_in(tmp_path, 4, bad=3), tmp_path / "out"
    done(capfd, path, "-o", tmp_path / "undisturbed", *METHODS, "-r", runner)
    stopped_after("keep", path, out, monkeypatch, capfd, *METHODS, "-r", runner)
    second = sorted((tmp_path / ".out.unfinished" / "result" / name).iterdir())[1]
    if damage == "drop":
        second.unlink()
    else:
        second.write_bytes(second.read_bytes()[:-1])
    done(capfd, path, "-o", out, "--resume", *METHODS, "-r", runner)
    assert files_of(out) == files_of(tmp_path / "undisturbed")


@pytest.mark.parametrize("name", [*TABLES, "rejects"])
def test_a_run_that_was_killed_between_parts(tmp_path, capfd, monkeypatch, small_parts, name):
    path, out = documents_in(tmp_path, 4, bad=3), tmp_path / "out"
    done(capfd, path, "-o", tmp_path / "undisturbed", *METHODS)
    whole_file = outputs.whole_file

    def killed(path, *arguments, **options):
        # a job writes those of clusters, each to a directory of its own
        folder = "part" if name == "clusters" else name
        if path.parent.name == folder and path.name.startswith("part-00001"):
            raise KeyboardInterrupt
        return whole_file(path, *arguments, **options)

    write_rejects = keep.write_rejects

    def killed_before_rejects(result, number, tables):
        if name == "rejects" and number == 1:
            raise KeyboardInterrupt
        write_rejects(result, number, tables)

    with monkeypatch.context() as patch:
        patch.setattr(parts, "whole_file", killed)
        patch.setattr(keep, "write_rejects", killed_before_rejects)
        assert dedup(capfd, path, "-o", out, *METHODS)[0] == 130
    left = tmp_path / ".out.unfinished" / "result" / name
    left.mkdir(exist_ok=True)
    assert list(left.glob("part-00001*")) == []
    # which another number of parts would leave
    (left / "part-00077.parquet").write_bytes(b"")
    done(capfd, path, "-o", out, "--resume", *METHODS)
    assert files_of(out) == files_of(tmp_path / "undisturbed")


def test_an_empty_result_has_all_columns(tmp_path, capfd, whole):
    (tmp_path / "none.jsonl").write_text("")
    done(capfd, tmp_path / "none.jsonl", "-o", tmp_path / "out", *METHODS)
    for name in TABLES:
        (part,) = (tmp_path / "out" / name).iterdir()
        assert pq.read_schema(part).equals(pq.read_schema(next((whole / name).iterdir())))
        assert len(pq.read_table(part)) == 0
    assert not (tmp_path / "out" / "rejects").exists()
    done(capfd, tmp_path / "4.jsonl", "-o", tmp_path / "x", *METHODS, "--against", tmp_path / "out")
