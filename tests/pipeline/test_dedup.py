"""De-duplication in many chunks, against that of one chunk, on several engines; what goes wrong."""

import itertools
import json
import random
import re

import pytest

from mr_dedup.cli import dedup as command
from mr_dedup.cli import dedup_jobs
from mr_dedup.clusters.splitting import ClusterLimit
from mr_dedup.formats import lines
from mr_dedup.formats.documents import chunks
from mr_dedup.jobs import resolve as resolve_job
from mr_dedup.pipeline import dedup_stages
from tests.cli.documents import files_of, made_up_documents, write_jsonl
from tests.cli.result_tables import tables_of
from tests.cli.running import Command, by_turns
from tests.report.reports import elements, shown

dedup = Command("dedup")


@pytest.fixture(autouse=True)
def divide(monkeypatch):
    """Have small chunks; return what sets their size in bytes."""

    def into(size_bytes):
        for name in ("CHUNK_BYTES", "_MIN_BYTES"):
            monkeypatch.setattr(chunks, name, size_bytes)

    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)
    into(6000)
    return into


@pytest.fixture
def as_of_a_cluster(monkeypatch):
    """Have tasks write as those of other machines: files of theirs are not joined or summed up."""
    monkeypatch.setattr(dedup_jobs, "is_here", lambda runner: False)


@pytest.fixture
def pages(tmp_path):
    """Files of many near-duplicates, of which one is empty and one has bad records."""
    folder = tmp_path / "pages"
    folder.mkdir()
    documents = made_up_documents(1, 240)
    write_jsonl(folder / "a.jsonl", documents[:180])
    write_jsonl(folder / "c.jsonl", documents[180:])
    (folder / "b.jsonl").write_bytes(b"")
    with (folder / "c.jsonl").open("a") as file:
        file.write('no JSON\n{"id": "no text"}\n')
    return folder


METHODS = [
    [],
    ["--method", "simhash:k=5"],
    ["--method", "simhash:k=3", "--method", "minhash"],
    ["--method", "segments:count=4,min_shared_keys=2"],
    ["--method", "segments:count=12,min_shared_keys=6"],
    ["--method", "keywords:n=5,sim=0.5"],
    ["--method", "super-shingles", "--method", "text-profile", "--method", "abstract"],
    ["--method", "exact", "--verify", "off"],
    ["--method", "minhash:bands=40,rows=2,min_shared_keys=2", "--verify", "0.6"],
    ["--keep", "highest:score", "--keep", "longest", "--share-by", "score"],
    ["--verify", "contained:0.8", "--keep", "longest"],
    ["--verify", "contained:0.8", "--method", "minhash", "--method", "winnowing:window=2"],
]


def both(capfd, divide, folder, documents, runner, *words):
    """Run a command with one chunk, and in many; return both results."""
    words = (*words, "--max-rejected", "1")
    divide(1 << 30)
    dedup.done(capfd, *documents, "-o", folder / "one", "-r", "memory", *words)
    assert len(list((folder / "one" / "decisions").iterdir())) == 1
    divide(6000)
    dedup.done(capfd, *documents, "-o", folder / "many", "-r", runner, *words)
    assert len(list((folder / "many" / "decisions").iterdir())) > 1
    return folder / "one", folder / "many"


def without_lines(out):
    """The tables of a result; of a chunk within a file the lines of rejects are not known."""
    found = tables_of(out)
    found["rejects"] = [re.sub(r"line \d+ \((byte \d+)\)", r"\1", x) for x in found["rejects"]]
    return found


@by_turns(("words",), METHODS, ["memory", "inline", "memory", "local", "memory"])
def test_results_are_those_of_one_chunk(capfd, divide, pages, tmp_path, words, runner):
    one, other = both(capfd, divide, tmp_path, [pages], runner, *words)
    assert without_lines(other) == without_lines(one)
    assert files_of(other / "documents") == files_of(one / "documents")
    before, after = (json.loads((out / "summary.json").read_text()) for out in (one, other))
    for summary in (before, after):
        # of keys of different partitions; and of files that are divided otherwise
        for name in (
            "shared_key_links", "fingerprints_checksum", "signatures_checksum", "counts_checksum",
            "result_id",
        ):  # fmt: skip
            del summary[name]
    assert after == before


@pytest.mark.parametrize("limit", [500, 800])
@pytest.mark.parametrize("words", [["--verify", "off"], ["--method", "simhash:k=6"]])
def test_large_clusters_are_split_as_in_one_chunk(
    capfd, divide, pages, tmp_path, monkeypatch, limit, words
):
    for name in ("VERIFIED", "UNVERIFIED"):
        monkeypatch.setattr(dedup_stages, name, ClusterLimit(limit))
    one, other = both(capfd, divide, tmp_path, [pages], "memory", *words)
    assert without_lines(other) == without_lines(one)
    before, after = (json.loads((out / "summary.json").read_text()) for out in (one, other))
    names = ["clusters_split", "documents_in_split_clusters"]
    assert [after[name] for name in names] == [before[name] for name in names]
    assert after["clusters_split"]


@by_turns(("made",), ["one", "many"], ["local", "memory"])
def test_earlier_results(capfd, divide, tmp_path, made, runner):
    """Results of one chunk and of many are read by both, chained over three weeks."""
    documents = made_up_documents(3, 300)
    weeks = [
        write_jsonl(tmp_path / f"week{n}.jsonl", documents[100 * n : 100 * (n + 1)])
        for n in range(3)
    ]
    words = ["--keep", "lowest:score"]
    for number in range(2):
        divide(6000 if made == "many" else 1 << 30)
        against = ["--against", tmp_path / "kept0", "--follow"] if number else []
        out = tmp_path / f"kept{number}"
        dedup.done(capfd, weeks[number], "-o", out, "-r", runner, *words, *against)
    words += ["--against", tmp_path / "kept1", "--follow"]
    one, other = both(capfd, divide, tmp_path, [weeks[2]], runner, *words)
    assert without_lines(other) == without_lines(one)
    summaries = [json.loads((out / "summary.json").read_text()) for out in (one, other)]
    assert summaries[1]["against"] == summaries[0]["against"]
    for name in ("earlier_documents", "documents_dropped_for_earlier"):
        assert summaries[1][name] == summaries[0][name] > 0


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_documents_in_parts(capfd, divide, pages, tmp_path, kind):
    one, other = both(capfd, divide, tmp_path, [pages], "memory", "--documents", kind)
    assert without_lines(other) == without_lines(one)
    assert len(list((other / "documents").iterdir())) > 3


def test_parquet_of_tasks_that_keep_nothing(capfd, divide, tmp_path):
    text = " ".join(f"w{n}" for n in range(60))
    documents = [{"id": f"d{n}", "text": text} for n in range(90)]
    path = write_jsonl(tmp_path / "a.jsonl", documents)
    one, other = both(capfd, divide, tmp_path, [path], "memory", "--documents", "parquet")
    assert without_lines(other) == without_lines(one)
    assert len(list((other / "documents").iterdir())) > 3


NAMES = ["_a.jsonl", ".a.jsonl", "a.jsonl", "a-00000.jsonl", "a-00001.jsonl", "a-2.jsonl"]


@pytest.fixture
def named(tmp_path):
    """Files whose names look like parts or unfinished ones, of which one is divided."""
    folder = tmp_path / "pages"
    folder.mkdir()
    documents = made_up_documents(5, 240)
    edges = itertools.pairwise((0, 5, 10, 220, 230, 235, 240))
    for name, (start, stop) in zip(NAMES, edges, strict=True):
        write_jsonl(folder / name, documents[start:stop])
    return [folder / name for name in NAMES]


@pytest.mark.parametrize("runner", ["memory", "local"])
def test_files_whose_names_look_like_parts_or_unfinished_ones(
    capfd, divide, tmp_path, named, runner
):
    one, other = both(capfd, divide, tmp_path, named, runner)
    files = [files_of(out / "documents") for out in (one, other)]
    assert files[0] == files[1]
    assert len(files[0]) == len(NAMES)
    assert not any(name.startswith((".", "_")) for name in files[0])
    count = json.loads((one / "summary.json").read_text())["documents_kept"]
    lines = [line for content in files[0].values() for line in content.splitlines()]
    assert len(lines) == len(set(lines)) == count


@pytest.mark.usefixtures("as_of_a_cluster")
@pytest.mark.parametrize("runner", ["memory", "local"])
def test_files_of_several_tasks_of_a_cluster_have_names_of_their_own(
    capfd, divide, tmp_path, named, runner
):
    one, other = both(capfd, divide, tmp_path, named, runner)
    assert tables_of(one)["decisions"] == tables_of(other)["decisions"]
    kept = []
    for out in (one, other):
        lines = []
        for path in sorted((out / "documents").iterdir()):
            assert not path.name.startswith((".", "_"))
            lines += path.read_bytes().splitlines()
        kept.append(sorted(lines))
    assert kept[0] == kept[1]
    count = json.loads((one / "summary.json").read_text())["documents_kept"]
    assert len(kept[0]) == len(set(kept[0])) == count
    # a divided file and five others
    assert len(list((other / "documents").iterdir())) > len(NAMES)


@pytest.mark.parametrize("change", ["lengthen", "drop", "same length"])
def test_changed_earlier_documents_are_noticed(capfd, tmp_path, change):
    documents = made_up_documents(5, 80)
    before = write_jsonl(tmp_path / "before.jsonl", documents)
    dedup.done(capfd, before, "-o", tmp_path / "kept", "-r", "memory")
    files = sorted((tmp_path / "kept" / "documents").iterdir())
    for path in files:
        lines = path.read_text().splitlines(keepends=True)
        if change == "drop":
            lines = lines[1:]
        else:
            more = " more" if change == "lengthen" else ""
            lines = [line.replace('"text": "w', f'"text": "{more}v') for line in lines]
        path.write_text("".join(lines))
    words = [before, "-o", tmp_path / "out", "-r", "memory", "--against", tmp_path / "kept"]
    code, _, said = dedup(capfd, *words)
    assert code == 2
    assert re.search(r"kept/documents/before\.jsonl: has changed since it was kept", said)


def ended_in(capfd, monkeypatch, pages, tmp_path, module, name):
    """Run a command to its end, and again until it calls a function; return its arguments."""
    words = [pages, "--max-rejected", "1", "-r", "memory"]
    dedup.done(capfd, *words, "-o", tmp_path / "undisturbed")

    def ended(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, name, ended)
        assert dedup(capfd, *words, "-o", tmp_path / "out")[0] == 130
    return words


LOST = [
    ("cluster", "nothing"),
    ("keep", "nothing"),
    ("resolve", "a shard"),
    ("resolve", "a byte"),
    ("cluster", "records"),
]


def lose(work, lost):
    """Remove or change what the first stage has left; return the path of a shard."""
    shards = sorted(path for path in (work / "rows").iterdir() if path.stat().st_size > 100)
    if lost == "a shard":
        shards[0].unlink()
    elif lost == "a byte":
        content = bytearray(shards[0].read_bytes())
        content[len(content) // 2] ^= 1
        shards[0].write_bytes(content)
    elif lost == "records":
        (work / "rows.json").write_text("{}")
    return shards[0]


def resumed(capfd, monkeypatch, tmp_path, words):
    """Resume a run; return its exit code, messages, and whether it read documents anew."""
    calls = []
    fingerprint = dedup_stages.fingerprint
    monkeypatch.setattr(
        dedup_stages, "fingerprint", lambda plan: calls.append(1) or fingerprint(plan)
    )
    code, _, said = dedup(capfd, *words, "-o", tmp_path / "out", "--resume")
    return code, said, bool(calls)


@pytest.mark.parametrize(("stage", "lost"), LOST)
def test_a_run_that_was_ended_goes_on(capfd, pages, tmp_path, monkeypatch, stage, lost):
    words = ended_in(capfd, monkeypatch, pages, tmp_path, dedup_stages, stage)
    work = tmp_path / ".out.unfinished"
    lose(work, lost)
    code, said, reads = resumed(capfd, monkeypatch, tmp_path, words)
    assert code == 0, said
    assert reads == (lost != "nothing")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")
    assert not work.exists()


@pytest.mark.usefixtures("as_of_a_cluster")
@pytest.mark.parametrize(("stage", "lost"), LOST)
def test_a_run_of_tasks_of_a_cluster_goes_on(capfd, pages, tmp_path, monkeypatch, stage, lost):
    words = ended_in(capfd, monkeypatch, pages, tmp_path, dedup_stages, stage)
    work = tmp_path / ".out.unfinished"
    shard = lose(work, lost)
    code, said, reads = resumed(capfd, monkeypatch, tmp_path, words)
    if lost == "a byte":
        # its size is the same; its checksum is compared where it is read
        assert code == 2
        assert re.search(rf"{shard}, byte \d+: a table between tasks is damaged", said)
        return
    assert code == 0, said
    assert reads == (lost != "nothing")
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "undisturbed")
    assert not work.exists()


@pytest.mark.parametrize("lost", [None, "decisions", "documents", "clusters"])
def test_a_result_that_is_not_whole_is_written_again(capfd, pages, tmp_path, monkeypatch, lost):
    words = ended_in(capfd, monkeypatch, pages, tmp_path, command, "write_summaries")
    if lost:
        first = min((tmp_path / ".out.unfinished" / "result" / lost).iterdir())
        first.unlink()
    calls = []
    keep = dedup_stages.keep
    monkeypatch.setattr(dedup_stages, "keep", lambda *given: calls.append(1) or keep(*given))
    dedup.done(capfd, *words, "-o", tmp_path / "out", "--resume")
    assert bool(calls) == bool(lost)
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "undisturbed")


def test_documents_that_change_between_stages_are_noticed(capfd, pages, tmp_path, monkeypatch):
    resolve = dedup_stages.resolve

    def changing(*given):
        lines = (pages / "a.jsonl").read_text().splitlines(keepends=True)
        (pages / "a.jsonl").write_text("".join(lines[:-1]))
        return resolve(*given)

    monkeypatch.setattr(dedup_stages, "resolve", changing)
    code, _, said = dedup(capfd, pages, "-o", tmp_path / "out", "--max-rejected", "1")
    assert code == 2
    assert "has other documents than when it was first read" in said
    assert not (tmp_path / "out").exists()


def test_what_a_killed_task_was_writing_is_not_published(capfd, pages, tmp_path, monkeypatch):
    keep = dedup_stages.keep

    def with_rest(plan, *given):
        kept = keep(plan, *given)
        for folder in (".a1b2", "clusters/.c3d4"):
            path = tmp_path / ".out.unfinished" / "result" / folder
            path.mkdir()
            (path / "part-00000.parquet").write_bytes(b"cut")
        return kept

    monkeypatch.setattr(dedup_stages, "keep", with_rest)
    dedup.done(capfd, pages, "-o", tmp_path / "out", "--max-rejected", "1")
    assert [path.name for path in (tmp_path / "out").rglob(".*")] == [".files.json"]


def test_nothing_read_and_nothing_at_all(capfd, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{no JSON\n" * 5)
    said = dedup(capfd, bad, "-o", tmp_path / "out")[2].splitlines()[-1]
    assert said.startswith("mr-dedup: error: none of 5 records could be read; the first, ")
    assert not (tmp_path / ".out.unfinished").exists()
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    dedup.done(capfd, empty, "-o", tmp_path / "nothing")
    found = tables_of(tmp_path / "nothing")
    assert found["decisions"]["id"] == found["clusters"]["cluster"] == []
    # of which a later run reads nothing
    pages = write_jsonl(tmp_path / "pages.jsonl", made_up_documents(2, 20))
    dedup.done(capfd, pages, "-o", tmp_path / "later", "--against", tmp_path / "nothing")


def test_the_report_has_counts_and_samples(capfd, divide, pages, tmp_path):
    one, other = both(capfd, divide, tmp_path, [pages], "inline", "--share-by", "score")
    reports = [elements((out / "report.html").read_bytes()) for out in (one, other)]
    assert shown(reports[1]) == shown(reports[0])
    found = [child.get("class") for child in reports[1].iter()]
    assert found.count("cluster") > 10
    assert found.count("pair") > 10


def test_results_do_not_depend_on_chunks(capfd, divide, pages, tmp_path, monkeypatch):
    found, documents = [], []
    for number, size in enumerate((300, 5000, 1 << 20)):
        divide(size)
        monkeypatch.setattr(dedup_stages, "_MAX_GROUPS", (1, 3, 64)[number])
        monkeypatch.setattr(resolve_job, "_GROUP_BYTES", (500, 5000, 1 << 25)[number])
        monkeypatch.setattr(dedup_stages, "_CLUSTERS_PER_PART", (4, 1 << 20, 7)[number])
        out = tmp_path / str(number)
        dedup.done(capfd, pages, "-o", out, "-r", "memory", "--max-rejected", "1")
        found.append(tables_of(out))
        documents.append(files_of(out / "documents"))
        # a position has a line only if the chunk begins with the file
        assert len(found[-1].pop("rejects")) == 2
    assert found[0] == found[1] == found[2]
    assert documents[0] == documents[1] == documents[2]
    assert len(list((tmp_path / "0" / "decisions").iterdir())) > 50


def test_the_files_of_a_result_do_not_depend_on_batches(capfd, pages, tmp_path, monkeypatch):
    words = ["--method", "minhash", "--method", "minhash:bands=4,rows=3,estimate=0.5"]
    found = []
    for size in (1 << 20, 700):
        monkeypatch.setattr(lines, "_READ_BYTES", size)
        out = tmp_path / str(size)
        dedup.done(capfd, pages, "-o", out, "-r", "memory", "--max-rejected", "1", *words)
        found.append(files_of(out))
    assert found[0] == found[1]
    assert len([name for name in found[0] if name.startswith("signatures/")]) > 3
    dedup.done(capfd, pages, "-o", tmp_path / "exact", "--max-rejected", "1", "--method", "simhash")
    assert not (tmp_path / "exact" / "signatures").exists()


@pytest.fixture
def twice(tmp_path):
    """Files of two directories: large ones of one name, and small ones that look like parts."""
    rng = random.Random(1)
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        documents = made_up_documents(rng.random(), 60)
        write_jsonl(tmp_path / folder / "pages.jsonl", documents)
        documents = made_up_documents(rng.random(), 5)
        write_jsonl(tmp_path / folder / "pages-00001.jsonl", documents)
    names = ("pages.jsonl", "pages-00001.jsonl")
    return [tmp_path / folder / name for name in names for folder in "xy"]


def test_names_that_would_be_one(capfd, divide, tmp_path, twice):
    one, other = both(capfd, divide, tmp_path, twice, "memory", "--verify", "1")
    assert files_of(other / "documents") == files_of(one / "documents")
    names = {"pages.jsonl", "pages-2.jsonl", "pages-00001.jsonl", "pages-00001-2.jsonl"}
    assert files_of(one / "documents").keys() == names


@pytest.mark.usefixtures("as_of_a_cluster")
def test_names_that_would_be_one_of_several_tasks_of_a_cluster(capfd, divide, tmp_path, twice):
    one, other = both(capfd, divide, tmp_path, twice, "memory", "--verify", "1")
    lines = [
        sorted(b"".join(files_of(out / "documents").values()).splitlines()) for out in (one, other)
    ]
    assert lines[1] == lines[0]
    assert len(lines[0]) == json.loads((one / "summary.json").read_text())["documents_kept"]
