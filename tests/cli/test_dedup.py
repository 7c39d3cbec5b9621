"""mr-dedup dedup from outside: its decisions against brute force, its files, its faults."""

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from mr_dedup.cli import runner_arguments
from mr_dedup.cli.main import main
from mr_dedup.engines.streaming import RUNNERS
from mr_dedup.features.options import FeatureOptions
from mr_dedup.fingerprints import simhash
from mr_dedup.formats.decision_file import read_decisions
from mr_dedup.formats.documents import chunks as document_chunks
from mr_dedup.jobs import keep as keep_job
from mr_dedup.pipeline import dedup_stages
from mr_dedup.pipeline.stages import Stages, has_finished
from mr_dedup.signatures import columns
from tests.cli.documents import (
    KEPT,
    files_of,
    made_up_documents,
    record_at,
    rejects_in,
    similarity,
    write_jsonl,
)
from tests.cli.result_tables import tables_of
from tests.cli.running import Command, by_turns
from tests.fingerprints.test_simhash import oracle
from tests.formats.documents.test_document_parquet import damaged_group
from tests.formats.documents.test_document_warc import page
from tests.report.reports import elements, shown

BOTH = pytest.mark.parametrize("runner", RUNNERS)
DEFAULTS = FeatureOptions("words", 2)


class _Dedup(Command):
    """By simhash unless another method is named: its candidates take no time."""

    def argv(self, arguments):
        method = [] if "--method" in arguments else ["--method", "simhash"]
        return [*super().argv(arguments), *method]


dedup = _Dedup("dedup")
done = dedup.messages


def mistake(capfd, *arguments):
    code, out, err = dedup(capfd, *arguments)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("mr-dedup: error: ")
    return err.splitlines()[-1]


def expected(documents, k, threshold=0.8, rank=None, similar=None, features=DEFAULTS):
    """Return for each document its original and why, by brute force; ``rank`` sorts documents.

    Those are neighbours that ``similar`` says by their numbers, else by their fingerprints.
    """
    values = [oracle(document["text"], features) for document in documents]
    numbers = [n for n, value in enumerate(values) if value is not None]
    cluster = {n: n for n in numbers}
    for n in numbers:
        for m in numbers:
            near = similar(n, m) if similar else (values[n] ^ values[m]).bit_count() <= k
            # those of one fingerprint are one
            if (near or values[n] == values[m]) and cluster[n] != cluster[m]:
                old, new = cluster[m], cluster[n]
                cluster = {i: new if c == old else c for i, c in cluster.items()}
    decided = [(n, "unclustered") for n in range(len(documents))]
    key = rank or (lambda n: n)
    for label in set(cluster.values()):
        members = sorted((n for n in numbers if cluster[n] == label), key=key)
        originals = []
        for n in members:
            text = documents[n]["text"]
            found = [
                (-similarity(text, documents[m]["text"]), i, m) for i, m in enumerate(originals)
            ]
            best = min(found, default=(0, 0, n))
            if threshold is None and originals:
                decided[n] = (members[0], "same_cluster")
                continue
            if -best[0] >= (threshold or 2):
                exact = text == documents[best[2]]["text"]
                decided[n] = (best[2], "exact_duplicate" if exact else "near_duplicate")
                continue
            originals.append(n)
            reason = "dissimilar"
            if len(members) == 1:
                reason = "unclustered"
            elif len(originals) == 1:
                reason = "first_of_cluster"
            decided[n] = (n, reason)
    return decided


def check(out, documents, decided, features=DEFAULTS):
    """Assert that a result is what was expected of it."""
    table = pq.read_table(out / "decisions")
    assert table["id"].to_pylist() == [document["id"] for document in documents]
    assert table["kept_id"].to_pylist() == [documents[original]["id"] for original, _ in decided]
    assert table["reason"].to_pylist() == [reason for _, reason in decided]
    for n, (original, _) in enumerate(decided):
        row = table.slice(n, 1).to_pylist()[0]
        assert record_at(row["file"], row["position"]) == documents[n]
        assert record_at(row["kept_file"], row["kept_position"]) == documents[original]
    for n, (original, reason) in enumerate(decided):
        values = [oracle(documents[m]["text"], features) for m in (n, original)]
        row = table.slice(n, 1).to_pylist()[0]
        if reason in KEPT:
            assert (row["distance_bits"], row["similarity"]) == (None, None)
            continue
        assert row["distance_bits"] == (values[0] ^ values[1]).bit_count()
        if row["similarity"] is not None:
            both = similarity(documents[n]["text"], documents[original]["text"])
            assert row["similarity"] == pytest.approx(both)
    summary = json.loads((out / "summary.json").read_text())
    kept = [n for n, (_, reason) in enumerate(decided) if reason in KEPT]
    assert summary["documents_read"] == len(documents)
    assert summary["documents_kept"] == len(kept)
    assert summary["documents_read"] == summary["documents_kept"] + summary["documents_dropped"]
    return kept


@by_turns(("seed",), [1, 3, 4])
def test_decisions_equal_brute_force(tmp_path, capfd, small_chunks, runner, seed):
    documents = made_up_documents(seed)
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    done(capfd, path, "-o", tmp_path / "out", "-r", runner, "--cores", 3)
    kept = check(tmp_path / "out", documents, expected(documents, 10))
    assert 5 < len(kept) < 55
    lines = path.read_text().splitlines(keepends=True)
    assert (tmp_path / "out" / "documents" / "docs.jsonl").read_text() == "".join(
        lines[n] for n in kept
    )
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        ".files.json", "clusters", "counts", "decisions", "documents", "fingerprints",
        "report.html", "summary.json",
    ]  # fmt: skip


def test_splits_make_no_difference(tmp_path, capfd, small_chunks):
    documents = made_up_documents(4)
    outs = []
    for number, counts in enumerate([(60,), (1, 2, 57), (20, 20, 20)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        first = 0
        for part, count in enumerate(counts):
            write_jsonl(folder / f"{part}.jsonl", documents[first : first + count])
            first += count
        outs.append(tmp_path / f"out-{number}")
        done(capfd, folder, "-o", outs[-1], "-r", "local", "--cores", 2)
    assert len({(out / "clusters/part-00000.parquet").read_bytes() for out in outs}) == 1
    located = ["file", "position", "kept_file", "kept_position"]
    tables = [pq.read_table(out / "decisions").drop_columns(located) for out in outs]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
    # of the same files all is the same
    decided = files_of(outs[1] / "decisions")
    for cores in (1, 3, 8):
        done(capfd, tmp_path / "1", "-o", tmp_path / f"by-{cores}", "-r", "local", "--cores", cores)
        assert files_of(tmp_path / f"by-{cores}" / "decisions") == decided


@pytest.mark.parametrize("memory", ["4GB", "100KB", "1"])
def test_what_exceeds_the_memory_is_read_again(tmp_path, capfd, monkeypatch, small_chunks, memory):
    monkeypatch.setattr(runner_arguments, "MIN_MEMORY_BYTES", 1)
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(4))
    outs = [tmp_path / name for name in ("threads", "one", "inline")]
    done(capfd, path, "-o", outs[0], "--cores", 3, "--memory", memory)
    done(capfd, path, "-o", outs[1], "--cores", 1, "--memory", memory)
    done(capfd, path, "-o", outs[2], "-r", "inline")
    for name in ("decisions", "clusters", "fingerprints", "documents"):
        found = [files_of(out / name) for out in outs]
        assert found[0] == found[1] == found[2]


def by_score(documents):
    return lambda n: (-int(documents[n]["score"]), documents[n]["id"], n)


def by_id(documents):
    # ids are no numbers: what the id and the row decide is left
    return lambda n: (documents[n]["id"], n)


def by_length(documents):
    return lambda n: (-len(documents[n]["text"].encode()), documents[n]["id"], n)


@by_turns(
    ("policies", "rank"),
    [
        (["first"], lambda documents: lambda n: n),
        (["highest:score"], by_score),
        (["longest"], by_length),
        (["lowest:none", "highest:score"], by_score),
        # fields that are called as columns of rows
        (["highest:length"], by_score),
        (["lowest:fingerprint", "highest:chunk"], by_score),
        (["lowest:id"], by_id),
    ],
)
def test_kept_documents_are_chosen_by_policy(tmp_path, capfd, runner, policies, rank):
    documents = made_up_documents(5)
    for document in documents:
        # a field that only a policy reads
        document |= dict.fromkeys(("length", "chunk", "file", "position"), document["score"])
    # fields of one document, which are no numbers
    documents[-1] |= dict.fromkeys(("none", "fingerprint"), "no number")
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    keep = [f"--keep={policy}" for policy in policies]
    done(capfd, path, "-o", tmp_path / "out", "-r", runner, *keep)
    check(tmp_path / "out", documents, expected(documents, 10, rank=rank(documents)))


@pytest.mark.parametrize("runner", ["memory", "inline"])
def test_values_that_keep_cannot_order_are_counted(tmp_path, capfd, runner):
    path = tmp_path / "pages.jsonl"
    dates = ["Mon, 01 Jan 2024 00:00:00 GMT", "2024-01-02", None, "soon"]
    path.write_text(
        "".join(json.dumps({"text": "a b c d e", "day": day, "n": 1}) + "\n" for day in dates)
    )
    out = tmp_path / "out"
    said = done(
        capfd, path, "-o", out, "-r", runner, "--keep=newest:day", "--keep=highest:n",
        "--keep=lowest:day",
    )  # fmt: skip
    assert "--keep newest:day: day is not a time that can be read in 2 of 4 documents" in said
    assert "--keep lowest:day: day is not a number that can be read in 3 of 4 documents" in said
    assert "highest:n" not in said
    summary = json.loads((out / "summary.json").read_bytes())
    assert summary["documents_unordered"] == {"newest:day": 2, "lowest:day": 3}
    assert (out / "documents" / "pages.jsonl").read_text().count("2024-01-02") == 1


@pytest.mark.parametrize(("verify", "k"), [("0.5", 3), ("1.0", 10), ("off", 3)])
def test_verification_is_as_asked_for(tmp_path, capfd, verify, k):
    documents = made_up_documents(6)
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    done(capfd, path, "-o", tmp_path / "out", "--verify", verify, "-k", k, "--keep", "first")
    threshold = None if verify == "off" else float(verify)
    decided = expected(documents, k, threshold, rank=lambda n: n)
    check(tmp_path / "out", documents, decided)


def test_formats_come_out_as_they_came_in(tmp_path, capfd):
    folder = tmp_path / "in"
    (folder / "pages").mkdir(parents=True)
    text = " ".join(f"w{n}" for n in range(50))
    rows = [{"id": "p1", "text": text, "n": 1}, {"id": "p2", "text": "other words", "n": None}]
    table = pa.Table.from_pylist(rows).replace_schema_metadata({b"kept": b"metadata"})
    pq.write_table(table, folder / "a.parquet")
    (folder / "b.jsonl.gz").write_bytes(
        gzip.compress(json.dumps({"id": "j1", "text": text, "more": [1, {"a": None}]}).encode())
    )
    (folder / "c.jsonl").write_text('{"id": "j2", "text": "unlike all",  "odd":1e400}')
    (folder / "d.warc").write_bytes(page(1, f"<p>{text}".encode()) + page(2, b"<p>its own page"))
    (folder / "pages" / "e.txt").write_text(f"{text}!")
    (folder / "pages" / "f.html").write_text("<p>a page of its own kind")
    out = tmp_path / "out"
    done(capfd, folder, "-o", out, "--keep", "first")
    kept = sorted(str(p.relative_to(out)) for p in (out / "documents").rglob("*") if p.is_file())
    assert kept == [
        "documents/a.parquet", "documents/c.jsonl", "documents/d.warc", "documents/pages/f.html",
    ]  # fmt: skip
    assert pq.read_table(out / "documents" / "a.parquet").equals(table, check_metadata=True)
    assert (out / "documents" / "c.jsonl").read_text() == (folder / "c.jsonl").read_text() + "\n"
    assert (out / "documents" / "d.warc").read_bytes() == page(2, b"<p>its own page")
    assert (out / "documents" / "pages" / "f.html").read_bytes() == (
        folder / "pages" / "f.html"
    ).read_bytes()


def test_names_that_leave_the_folder_or_repeat_find_a_place(tmp_path, capfd, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_jsonl(tmp_path / name / "a.jsonl", [{"id": name, "text": f"text of {name} alone"}])
    monkeypatch.chdir(tmp_path / "one")
    out = tmp_path / "out"
    done(capfd, "../two/a.jsonl", tmp_path / "one" / "a.jsonl", "-o", out)
    assert sorted(path.name for path in (out / "documents").iterdir()) == ["a-2.jsonl", "a.jsonl"]


@BOTH
def test_a_file_given_twice_has_each_record_on_a_line_of_its_own(tmp_path, capfd, runner):
    path = tmp_path / "a.dat"
    path.write_text('{"id": "1", "text": "one text"}\n{"id": "2", "text": ""}')
    out = tmp_path / "out"
    done(capfd, path, path, "-o", out, "--format", "jsonl", "-r", runner)
    lines = (out / "documents" / "a.dat").read_text().splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    assert ids[:2] == ["1", "2"]
    assert set(ids[2:]) <= {"2"}


@BOTH
def test_a_damaged_row_group_is_one_reject_on_every_runner(tmp_path, capfd, small_chunks, runner):
    path = damaged_group(tmp_path, "text")
    said = done(capfd, path, "-o", tmp_path / "out", "-r", runner, "--cores", 3)
    kept = pq.read_table(tmp_path / "out" / "documents" / "a.parquet")
    lost = 1000 - len(kept)
    assert f"rejected: {lost}\n" in said
    (reject,) = rejects_in(tmp_path / "out")
    assert json.loads(reject)["records"] == lost
    assert 0 < lost < 100
    expected = [f"name {number}" for number in [*range(500 - lost), *range(500, 1000)]]
    assert kept["id"].to_pylist() == expected
    decisions = pq.read_table(tmp_path / "out" / "decisions")
    assert decisions["id"].to_pylist() == expected


def test_bad_records_are_kept_and_nothing_else_is_lost(tmp_path, capfd):
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "a", "text": "one"}\nbad\n{"id": "b", "text": "two"}\n')
    said = done(capfd, path, "-o", tmp_path / "out")
    assert "rejected: 1" in said
    (reject,) = rejects_in(tmp_path / "out")
    assert json.loads(reject)["position"] == "line 2 (byte 27)"
    kept = (tmp_path / "out" / "documents" / "docs.jsonl").read_text()
    assert kept == '{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n'


def test_what_cannot_be_is_one_line(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", [{"text": "a"}])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("precious")
    out = tmp_path / "out"
    for arguments, said in [
        ([tmp_path / "no.jsonl", "-o", out], "no.jsonl: no such file"),
        ([path, "-o", tmp_path / "no" / "out"], "its directory"),
        ([path, "-o", tmp_path / "full"], "exists; give --overwrite"),
        ([path, "-o", tmp_path / "full", "--overwrite"], "not a result of mr-dedup, and is not"),
        ([path, "-o", out, "--keep", "best"], "best"),
        ([path, "-o", out, "-k", "65"], "65"),
        ([path, "-o", out, "--shingles", "words:0"], "0"),
        ([path, "-o", out, "--resume"], f"{out}: nothing to resume"),
    ]:
        assert said in mistake(capfd, *arguments), arguments
        assert not out.exists()
    assert (tmp_path / "full" / "mine.txt").read_text() == "precious"


@pytest.mark.parametrize("size", ["4", "4KB", "63MB"])
def test_too_little_memory_is_refused(tmp_path, capfd, size):
    path = write_jsonl(tmp_path / "docs.jsonl", [{"text": "a"}])
    with pytest.raises(SystemExit) as ended:
        main(["dedup", str(path), "-o", str(tmp_path / "out"), "--memory", size])
    assert ended.value.code == 2
    message = capfd.readouterr().err.splitlines()[-1]
    assert "less than the 64MB that a run needs; see mr-dedup dedup --help" in message
    done(capfd, path, "-o", tmp_path / "out", "--memory", "64MB")


def test_a_result_is_replaced_only_on_demand(tmp_path, capfd):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(7))
    out = tmp_path / "out"
    done(capfd, path, "-o", out)
    before = files_of(out)
    assert "exists; give --overwrite" in mistake(capfd, path, "-o", out)
    done(capfd, path, "-o", out, "--overwrite")
    assert files_of(out) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["docs.jsonl", "out"]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A file of some thousand documents, and the result of an undisturbed run."""
    folder = tmp_path_factory.mktemp("many")
    documents = [
        {**document, "id": f"{seed}-{document['id']}"}
        for seed in range(40)
        for document in made_up_documents(seed)
    ]
    path = write_jsonl(folder / "docs.jsonl", documents)
    assert main(["dedup", str(path), "-o", str(folder / "out"), "-r", "local"]) == 0
    return path, files_of(folder / "out")


STAGES = ["fingerprint", "cluster", "resolve", "keep"]

KILLED = """
import os, signal, sys

from mr_dedup.cli import dedup as command
from mr_dedup.cli import runner_arguments
from mr_dedup.cli.main import main
from mr_dedup.pipeline.stages import Stages
from mr_dedup.engines.streaming import local

moment, name = sys.argv[1:3]
finish, run_task = Stages.finish, local._run_task

def killed_at_the_end_of_a_stage(self, stage, *completed):
    if stage != name or moment == "after":
        finish(self, stage, *completed)
    if stage == name:
        os.killpg(0, signal.SIGKILL)

def killed_in_a_task(job_class, arguments, *rest):
    job = arguments[arguments.index("--job") + 1].partition(":")[2] if "--job" in arguments else ""
    if moment == "task of" and job == name:
        os.killpg(0, signal.SIGKILL)
    run_task(job_class, arguments, *rest)

Stages.finish, local._run_task = killed_at_the_end_of_a_stage, killed_in_a_task
main(sys.argv[3:])
"""
"""A run that ends itself and its tasks: in a task, or as a stage is or is about to be noted."""


@pytest.mark.parametrize(
    ("moment", "name", "done_before"),
    [
        ("task of", "FingerprintJob", 0),
        *(("before", stage, number) for number, stage in enumerate(STAGES)),
        ("task of", "KeepJob", 3),
        ("after", "keep", 4),
    ],
)
def test_a_killed_run_goes_on(many, tmp_path, capfd, monkeypatch, moment, name, done_before):
    path, undisturbed = many
    out, unfinished = tmp_path / "out", tmp_path / ".out.unfinished"
    words = ["dedup", path, "-o", out, "-r", "local"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, moment, name, *words],
        start_new_session=True, env={**os.environ, "TMPDIR": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    assert not out.exists()
    manifest = json.loads((unfinished / "manifest.json").read_bytes())
    assert list(manifest["done"]) == STAGES[:done_before]
    finished, finish = [], Stages.finish

    def noted(self, stage, *completed):
        finished.append(stage)
        finish(self, stage, *completed)

    monkeypatch.setattr(Stages, "finish", noted)
    assert main([*map(str, words), "--resume"]) == 0, capfd.readouterr().err
    assert finished == STAGES[done_before:]
    assert files_of(out) == undisturbed
    # what is left of the temporary files of the killed run is not the next one's
    assert [p.name for p in tmp_path.iterdir() if "mr_dedup" not in p.name] == ["out"]


def test_a_run_killed_when_its_result_was_there_is_ended(tmp_path, capfd, monkeypatch):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(9))
    out, unfinished = tmp_path / "out", tmp_path / ".out.unfinished"
    stopped_after("keep", path, out, monkeypatch, capfd)
    (unfinished / "result").rename(out)
    assert "is complete already" in done(capfd, path, "-o", out, "--resume")
    assert not unfinished.exists()
    # before it had a manifest nothing was done
    (tmp_path / ".new.unfinished").mkdir()
    done(capfd, path, "-o", tmp_path / "new", "--resume")


@pytest.mark.parametrize("moment", range(12))
def test_a_run_killed_while_its_result_appears_is_ended(tmp_path, capfd, monkeypatch, moment):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(9))
    out = tmp_path / "out"
    write_jsonl(tmp_path / "old.jsonl", made_up_documents(10))
    done(capfd, path, "-o", tmp_path / "undisturbed")
    done(capfd, tmp_path / "old.jsonl", "-o", out)
    old = files_of(out)
    calls = []

    def counted(usual):
        def call(*arguments, **options):
            # from the moment at which the earlier result is put aside
            if arguments[0] == out or (calls and ".out" in str(arguments[0])):
                calls.append(usual)
            if len(calls) == moment + 1:
                raise KeyboardInterrupt
            return usual(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for module, name in ((os, "rename"), (shutil, "rmtree"), (Path, "unlink"), (Path, "rmdir")):
            patch.setattr(module, name, counted(getattr(module, name)))
        assert dedup(capfd, path, "-o", out, "--overwrite")[0] == 130
    # what was put aside is put back
    assert len(calls) > moment
    assert files_of(out) in (old, files_of(tmp_path / "undisturbed"))
    done(capfd, path, "-o", out, "--overwrite", "--resume")
    assert files_of(out) == files_of(tmp_path / "undisturbed")
    names = {item.name for item in tmp_path.iterdir()}
    assert names == {"docs.jsonl", "old.jsonl", "out", "undisturbed"}


@by_turns(
    ("name",),
    [
        "result/decisions/part-00000.parquet",
        "result/clusters/part-00000.parquet",
        "rows/*",
        "attached/*",
        "decided/*",
        "decided.json",
        "kept.json",
    ],
)
def test_what_was_decided_is_mended_when_all_was_done(tmp_path, capfd, monkeypatch, name, runner):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(9))
    out = tmp_path / "out"
    done(capfd, path, "-o", tmp_path / "undisturbed", "-r", runner)
    stopped_after("keep", path, out, monkeypatch, capfd, "-r", runner)
    damaged = min((tmp_path / ".out.unfinished").glob(name))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    done(capfd, path, "-o", out, "-r", runner, "--resume")
    assert files_of(out) == files_of(tmp_path / "undisturbed")


def test_decisions_that_cannot_be_written_end_the_run(tmp_path, capfd, monkeypatch):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(9))
    out = tmp_path / "out"

    def write(*_):
        raise OSError(28, "No space left on device", "part-00000.parquet")

    with monkeypatch.context() as patch:
        patch.setattr(keep_job.KeepJob, "_decisions", write)
        assert "No space left on device" in mistake(capfd, path, "-o", out)
    assert not has_finished(tmp_path / ".out.unfinished", "keep")
    assert not out.exists()
    done(capfd, path, "-o", tmp_path / "undisturbed")
    done(capfd, path, "-o", out, "--resume")
    assert files_of(out) == files_of(tmp_path / "undisturbed")


def test_what_was_being_written_is_not_published(tmp_path, capfd, monkeypatch):
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(9))
    out = tmp_path / "out"
    stopped_after("keep", path, out, monkeypatch, capfd)
    (tmp_path / ".out.unfinished" / "result" / ".report.html.abc").write_text("half")
    done(capfd, path, "-o", out, "--resume")
    assert [item.name for item in out.glob(".*")] == [".files.json"]


def stopped_after(stage, path, out, monkeypatch, capfd, *arguments):
    """Run until ``stage`` is done, and no further."""
    from mr_dedup.pipeline.stages import Stages

    usual = Stages.finish

    def finish(self, name, *completed):
        usual(self, name, *completed)
        if name == stage:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Stages, "finish", finish)
        code, _, err = dedup(capfd, path, "-o", out, *arguments)
    assert code == 130
    assert "--resume continues" in err
    assert not out.exists()


@pytest.mark.parametrize("stage", ["fingerprint", "resolve"])
def test_another_number_of_cores_may_resume(tmp_path, capfd, small_chunks, monkeypatch, stage):
    """Intermediate results belong to chunks, whose number otherwise follows from the cores."""
    monkeypatch.setattr(document_chunks, "_MIN_BYTES", 100)
    monkeypatch.setattr(document_chunks, "CHUNK_BYTES", 64 << 20)
    path = write_jsonl(tmp_path / "docs.jsonl", made_up_documents(8))
    for before, now in (1, 7), (7, 1):
        out, expected = tmp_path / f"out-{before}", tmp_path / f"expected-{before}"
        done(capfd, path, "-o", expected, "--cores", before)
        stopped_after(stage, path, out, monkeypatch, capfd, "--cores", before)
        manifest = tmp_path / f".out-{before}.unfinished" / "manifest.json"
        content = manifest.read_text()
        write_manifest(manifest, re.sub(r'"chunk_bytes": \d+', '"chunk_bytes": "x"', content))
        said = mistake(capfd, path, "-o", out, "--resume", "--cores", now)
        assert '--resume: chunk bytes was "x", is ' in said
        manifest.write_text(content)
        done(capfd, path, "-o", out, "--resume", "--cores", now)
        assert files_of(out) == files_of(expected)
    one, several = (tmp_path / f"out-{cores}" for cores in (1, 7))
    few, many = (len(list((out / "decisions").iterdir())) for out in (one, several))
    assert few < many
    assert tables_of(one) == tables_of(several)


def write_manifest(path, content):
    """Write a manifest that states other options, as a run with these would."""
    manifest = json.loads(content)
    stated = json.dumps({"run": manifest["run"], "done": manifest["done"]})
    manifest["checksum"] = xxhash.xxh3_128_hexdigest(stated.encode())
    path.write_text(json.dumps(manifest))


def test_a_changed_option_input_or_intermediate_is_noticed(tmp_path, capfd, monkeypatch):
    documents = made_up_documents(8)
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    out, unfinished = tmp_path / "out", tmp_path / ".out.unfinished"
    stopped_after("resolve", path, out, monkeypatch, capfd)
    assert "--resume: --method was" in mistake(capfd, path, "-o", out, "--resume", "-k", 3)
    for options, said in [
        (["--verify", 0.5], "--verify was 0.8, is 0.5"),
        # bands follow from --verify, and are not what was given
        (["--method", "minhash"], '--method was "simhash:k=10", is "minhash:bands=20,rows=5'),
        (["--keep", "longest"], '--keep was "first", is "longest"'),
        (["--text-field", "body"], '--text-field was "text", is "body"'),
        (["--format", "jsonl"], '--format was null, is "jsonl"'),
    ]:
        assert f"--resume: {said}" in mistake(capfd, path, "-o", out, "--resume", *options)
    assert "a run was interrupted; --resume" in mistake(capfd, path, "-o", out)
    # those of another mr_dedup may be others of the same documents
    for module, name in [(simhash, "fingerprint version"), (columns, "signature version")]:
        with monkeypatch.context() as patch:
            patch.setattr(module, "VERSION", 99)
            said = mistake(capfd, path, "-o", out, "--resume")
        assert f"--resume: {name} was {module.VERSION}, is 99; start another run" in said
    # a damaged intermediate is made again
    for name in ("rows", "attached", "decided"):
        shard = min((unfinished / name).iterdir())
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
    done(capfd, path, "-o", out, "--resume")
    check(out, documents, expected(documents, 10))
    stopped_after("cluster", path, tmp_path / "out2", monkeypatch, capfd)
    write_jsonl(path, documents[:-1])
    assert "--resume: files was" in mistake(capfd, path, "-o", tmp_path / "out2", "--resume")
    manifest = tmp_path / ".out2.unfinished" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-20])
    assert "manifest.json: is damaged" in mistake(capfd, path, "-o", tmp_path / "out2", "--resume")
    done(capfd, path, "-o", tmp_path / "out2", "--overwrite")


# what users of other tools complain of


@by_turns(("method",), ["minhash", "simhash", "exact", "keywords", "segments"])
@pytest.mark.parametrize("verify", ["0.8", "off"])
def test_texts_without_words_are_compared_as_they_are(tmp_path, capfd, runner, method, verify):
    equal = {"\u200b": "", "\u2000": " ", "…": "..."}
    without = ["", "-----", "🙂", "🙃", "...", " ", " \n", *equal]
    texts = [*without, "a text of some words", *without, "another text of other words"]
    documents = [{"id": str(n), "text": text} for n, text in enumerate(texts)]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    options = ["--method", method, "-r", runner, "--verify", verify]
    done(capfd, path, "-o", tmp_path / "out", *options)
    rows = pq.read_table(tmp_path / "out" / "decisions").to_pylist()
    originals = {row["id"]: row["kept_id"] for row in rows}
    assert originals == {
        str(n): str(texts.index(equal.get(text, text))) for n, text in enumerate(texts)
    }
    dropped = [row["reason"] for row in rows if row["id"] != row["kept_id"]]
    assert len(dropped) == len(without) + len(equal)
    assert all(reason not in KEPT for reason in dropped)


def test_boilerplate_does_not_join_what_is_unlike(tmp_path, capfd):
    frame = " ".join(f"menu{n}" for n in range(60))
    documents = [
        {"id": f"{n:02}", "text": f"{frame} " + " ".join(f"own{n}x{i}" for i in range(n % 20))}
        for n in range(40)
    ]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    done(capfd, path, "-o", tmp_path / "out", "-k", 20)
    decided = expected(documents, 20)
    check(tmp_path / "out", documents, decided)
    for n, (original, reason) in enumerate(decided):
        if reason not in KEPT:
            assert similarity(documents[n]["text"], documents[original]["text"]) >= 0.8


def test_a_short_text_matches_only_its_like(tmp_path, capfd):
    texts = ["yes", "no", "yes", "ok", "yes no", "no yes"]
    documents = [{"id": str(n), "text": text} for n, text in enumerate(texts)]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    done(capfd, path, "-o", tmp_path / "out", "-k", 30)
    table = pq.read_table(tmp_path / "out" / "decisions")
    assert table["kept_id"].to_pylist() == ["0", "1", "0", "3", "4", "5"]


@pytest.mark.parametrize("text", ["هذا نص عربي قصير عن الطقس", "这是关于天气的一篇短文章"])
def test_texts_of_every_script_have_tokens(tmp_path, capfd, text):
    documents = [{"id": str(n), "text": t} for n, t in enumerate([text, text + "!", "another one"])]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    done(capfd, path, "-o", tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "decisions")
    assert table["kept_id"].to_pylist() == ["0", "0", "2"]
    assert table["reason"].to_pylist()[1] == "near_duplicate"


def test_two_documents_of_one_id_are_two(tmp_path, capfd):
    documents = [{"id": "x", "text": t} for t in ("a text of five words", "other words", "a text")]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    done(capfd, path, "-o", tmp_path / "out")
    assert len((tmp_path / "out" / "documents" / "docs.jsonl").read_text().splitlines()) == 3


@BOTH
def test_decisions_name_files_and_positions(tmp_path, capfd, monkeypatch, runner):
    monkeypatch.chdir(tmp_path)
    # three texts, all with one id, in three files
    texts = [" ".join(f"{letter}{n}" for n in range(40)) for letter in "abc"]
    records = [{"id": "same", "text": text} for text in texts]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(f"no JSON\n\n{lines}".encode()))
    columns = {"id": ["same"] * 4, "text": [None, *reversed(texts)]}
    pq.write_table(pa.table(columns), tmp_path / "b.parquet", row_group_size=2)
    first = page(1, b"<p>" + texts[1].encode())
    (tmp_path / "c.warc").write_bytes(first + page(2, b"<p>" + texts[2].encode()))
    words = ["c.warc", "b.parquet", "a.jsonl.gz", "-o", "out", "-r", runner]
    done(capfd, *words, "--max-rejected", "1")
    rows = pq.read_table("out/decisions").to_pylist()
    size = len(json.dumps(records[0])) + 1
    expected = [
        ("c.warc", 0, "c.warc", 0),
        ("c.warc", len(first), "c.warc", len(first)),
        ("b.parquet", 1, "c.warc", len(first)),
        ("b.parquet", 2, "c.warc", 0),
        ("b.parquet", 3, "b.parquet", 3),
        ("a.jsonl.gz", 9, "b.parquet", 3),
        ("a.jsonl.gz", 9 + size, "c.warc", 0),
        ("a.jsonl.gz", 9 + 2 * size, "c.warc", len(first)),
    ]
    names = ("file", "position", "kept_file", "kept_position")
    assert [tuple(row[name] for name in names) for row in rows] == expected
    assert read_decisions(Path("out")).kept_rows.tolist() == [0, 1, 1, 0, 4, 4, 0, 1]


def test_a_file_without_documents(tmp_path, capfd):
    path = tmp_path / "docs.jsonl"
    path.write_text("")
    done(capfd, path, "-o", tmp_path / "out")
    assert len(pq.read_table(tmp_path / "out" / "decisions")) == 0
    assert Path(tmp_path / "out" / "documents").is_dir()


@pytest.mark.parametrize("method", ["simhash", "minhash"])
@by_turns(("change",), ["lengthen", "drop", "add", "blank", "no json", "overlong"])
def test_documents_that_change_between_stages_are_noticed(
    tmp_path, capfd, monkeypatch, runner, change, method
):
    text = " ".join(f"w{n}" for n in range(50))
    lines = [json.dumps({"id": str(n), "text": text}) + "\n" for n in range(3)]
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(lines))
    resolve = dedup_stages.resolve

    def changed(*arguments):
        new = {
            "lengthen": [lines[0].replace("w0", "w00"), *lines[1:]],
            "drop": lines[:2],
            "blank": [" " * (len(line) - 1) + "\n" for line in lines],
            "no json": [line.replace("{", "[") for line in lines],
            "overlong": [lines[0][:-1] + "x" * 1_000_000 + "\n", *lines[1:]],
        }
        path.write_text("".join(new.get(change, [*lines, lines[0]])))
        return resolve(*arguments)

    monkeypatch.setattr(dedup_stages, "resolve", changed)
    arguments = "--max-record-size", 2000, "-r", runner, "--method", method
    said = mistake(capfd, path, "-o", tmp_path / "out", *arguments)
    assert re.search(r"pages\.jsonl(, byte \d+)?: has other documents than when it was first", said)


@pytest.mark.parametrize("runner", ["inline", "local", "hadoop"])
def test_an_amount_of_memory_that_no_runner_uses_is_refused(tmp_path, capfd, runner):
    status = main(
        ["dedup", str(tmp_path), "-o", str(tmp_path / "out"), "-r", runner, "--memory", "1GB"]
    )
    assert status == 2
    assert f"--memory: not used by -r {runner}" in capfd.readouterr().err


@pytest.mark.parametrize("runner", ["memory", "local"])
def test_a_field_of_a_policy_that_no_document_has_is_refused(tmp_path, capfd, runner):
    documents = [{"id": "a", "text": "one two"}, {"id": "b", "text": "three", "date": "2024"}]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    out = tmp_path / "out"
    found = mistake(capfd, path, "-o", out, "-r", runner, "--keep", "newest:dtae")
    assert found == (
        "mr-dedup: error: --keep: no document has the field dtae, which decides what is kept; "
        "the first has id, text"
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["docs.jsonl"]
    # other documents may lack the field
    done(capfd, path, "-o", out, "-r", runner, "--keep", "newest:date")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--keep", "newst"], "newest"),
        (["--keep", "newest:txet"], "text"),
        (["--seen", "tekst"], "text"),
        (["--method", "minhsh"], "minhash"),
        (["--method", "minhsh:rows=5"], "minhash"),
        (["--method", "minhash:band=5"], "bands"),
        (["--features", "wrds:3"], "words"),
        (["--weights", "tfidf"], "tf-idf"),
        (["--stem", "englsh"], "english"),
        (["--documents", "parqet"], "parquet"),
        (["-r", "lcal"], "local"),
    ],
)
def test_values_that_are_not_known_are_suggested(tmp_path, capfd, words, said):
    path = write_jsonl(tmp_path / "docs.jsonl", [{"id": "a", "text": "one two"}])
    with contextlib.suppress(SystemExit):
        assert main(["dedup", str(path), "-o", str(tmp_path / "out"), *words]) == 2
    assert f"; did you mean {said}?" in capfd.readouterr().err


def test_the_fields_of_parquet_are_named(tmp_path, capfd):
    path = tmp_path / "docs.parquet"
    pq.write_table(pa.table({"id": ["a"], "text": ["one two"], "day": ["2024"]}), path)
    found = mistake(capfd, path, "-o", tmp_path / "out", "--keep", "prefer:lang=en")
    assert found.endswith("no document has the field lang, which decides what is kept; "
                          "the first has id, text, day")  # fmt: skip


@pytest.mark.parametrize("runner", ["memory", "local"])
def test_ids_that_no_record_has_are_warned_of(tmp_path, capfd, runner):
    documents = [{"id": "a", "text": "one two"}, {"id": "b", "text": "three", "key": "c"}]
    path = write_jsonl(tmp_path / "docs.jsonl", documents)
    warning = (
        "mr-dedup: warning: no record has the field kye; ids are positions; the first has id, text"
    )
    options = ("-r", runner, "--overwrite")
    messages = done(capfd, path, "-o", tmp_path / "out", *options, "--id-field", "kye")
    assert warning in messages.splitlines()
    for field in ("id", "key"):
        messages = done(capfd, path, "-o", tmp_path / "out", *options, "--id-field", field)
        assert "warning" not in messages


def test_files_of_other_kinds_are_counted(tmp_path, capfd):
    folder = tmp_path / "docs"
    folder.mkdir()
    write_jsonl(folder / "docs.jsonl", [{"id": "a", "text": "one two"}])
    (folder / "x.doc").write_bytes(b"of another kind")
    messages = done(capfd, folder, "-o", tmp_path / "out")
    assert "files: 1 (1 of other kinds skipped: 1 .doc), documents: 1, rejected: 0" in messages
    summary = json.loads((tmp_path / "out" / "summary.json").read_bytes())
    assert (summary["files_read"], summary["skipped_files"]) == (1, 1)
    assert summary["skipped_files_by_ending"] == {".doc": 1}
    assert "Files of other kinds: 1 .doc." in shown(
        elements((tmp_path / "out" / "report.html").read_bytes())
    )


def test_a_result_that_would_be_read_next_is_refused(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine/deep").mkdir(parents=True)
    write_jsonl(Path("mine/docs.jsonl"), [{"id": "a", "text": "one two"}])
    for name, out in [
        ("mine", "mine/out"),
        ("mine", "mine/deep/out"),
        ("mine/", tmp_path / "mine" / "out"),
        (".", "out"),
        (tmp_path.as_uri() + "/mine", "mine/out"),
    ]:
        found = mistake(capfd, name, "-o", out)
        assert found == (
            f"mr-dedup: error: {out}: is within {name}, which is read; choose another name for "
            "the result"
        )
    assert sorted(map(str, Path().rglob("*"))) == ["mine", "mine/deep", "mine/docs.jsonl"]
    # beside a file, and where it is not read
    done(capfd, "mine/docs.jsonl", "-o", "mine/out")
    shutil.rmtree("mine/out")
    done(capfd, "mine", "-o", "mine/_out")
    done(capfd, "mine", "-o", "mine2")
    found = mistake(capfd, "s3://bucket/mine", "-o", "s3://bucket/mine/out")
    assert "s3://bucket/mine/out: is within s3://bucket/mine, which is read" in found
