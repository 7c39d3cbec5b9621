"""De-duplication by tasks that write shards, against that of one process, on several engines."""

import itertools
import json
import random
import re

import pytest

from mr_dedup.cli import dedup as command
from mr_dedup.clusters.splitting import ClusterLimit
from mr_dedup.formats.documents import chunks
from mr_dedup.jobs import resolve as resolve_job
from mr_dedup.pipeline.dedup_stages import cluster
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.result_tables import tables_of
from tests.cli.running import Command, by_turns
from tests.report.reports import elements, shown

dedup = Command("dedup")


@pytest.fixture
def sharded(monkeypatch):
    """Have a command write shards, whatever its runner; called with False, not any longer."""

    def switch(on=True):
        monkeypatch.setattr(command, "is_sharded", lambda runner: on)

    return switch


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 6000)
    monkeypatch.setattr(chunks, "_MIN_BYTES", 6000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)


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


def both(capfd, sharded, folder, documents, runner, *words):
    """Run a command in one process and with shards; return both results."""
    sharded(False)
    words = (*words, "--max-rejected", "1")
    dedup.done(capfd, *documents, "-o", folder / "one", "-r", "memory", *words)
    sharded()
    dedup.done(capfd, *documents, "-o", folder / "shards", "-r", runner, *words)
    return folder / "one", folder / "shards"


@by_turns(("words",), METHODS, ["memory", "inline", "memory", "local", "memory"])
def test_results_are_those_of_one_process(capfd, sharded, pages, tmp_path, words, runner):
    one, other = both(capfd, sharded, tmp_path, [pages], runner, *words)
    assert tables_of(other) == tables_of(one)
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
def test_large_clusters_are_split_as_in_one_process(
    capfd, sharded, pages, tmp_path, monkeypatch, limit, words
):
    for module in (cluster, stages):
        monkeypatch.setattr(module, "VERIFIED", ClusterLimit(limit))
        monkeypatch.setattr(module, "UNVERIFIED", ClusterLimit(limit))
    one, other = both(capfd, sharded, tmp_path, [pages], "memory", *words)
    assert tables_of(other) == tables_of(one)
    before, after = (json.loads((out / "summary.json").read_text()) for out in (one, other))
    names = ["clusters_split", "documents_in_split_clusters"]
    assert [after[name] for name in names] == [before[name] for name in names]
    assert after["clusters_split"]


@by_turns(("made",), ["one", "shards"], ["local", "memory"])
def test_earlier_results(capfd, sharded, tmp_path, made, runner):
    """Results of either kind are read by either kind, chained over three weeks."""
    documents = made_up_documents(3, 300)
    weeks = [
        write_jsonl(tmp_path / f"week{n}.jsonl", documents[100 * n : 100 * (n + 1)])
        for n in range(3)
    ]
    words = ["--keep", "lowest:score"]
    for number in range(2):
        sharded(made == "shards")
        against = ["--against", tmp_path / "kept0", "--follow"] if number else []
        out = tmp_path / f"kept{number}"
        dedup.done(capfd, weeks[number], "-o", out, "-r", runner, *words, *against)
    words += ["--against", tmp_path / "kept1", "--follow"]
    one, other = both(capfd, sharded, tmp_path, [weeks[2]], runner, *words)
    assert tables_of(other) == tables_of(one)
    summaries = [json.loads((out / "summary.json").read_text()) for out in (one, other)]
    assert summaries[1]["against"] == summaries[0]["against"]
    for name in ("earlier_documents", "documents_dropped_for_earlier"):
        assert summaries[1][name] == summaries[0][name] > 0


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_documents_in_parts(capfd, sharded, pages, tmp_path, kind):
    one, other = both(capfd, sharded, tmp_path, [pages], "memory", "--documents", kind)
    assert tables_of(other) == tables_of(one)
    assert len(list((other / "documents").iterdir())) > 3


def test_parquet_of_tasks_that_keep_nothing(capfd, sharded, tmp_path):
    text = " ".join(f"w{n}" for n in range(60))
    documents = [{"id": f"d{n}", "text": text} for n in range(90)]
    path = write_jsonl(tmp_path / "a.jsonl", documents)
    one, other = both(capfd, sharded, tmp_path, [path], "memory", "--documents", "parquet")
    assert tables_of(other) == tables_of(one)
    assert len(list((other / "documents").iterdir())) > 3


@pytest.mark.parametrize("runner", ["memory", "local"])
def test_files_whose_names_look_like_parts_or_unfinished_ones(capfd, sharded, tmp_path, runner):
    folder = tmp_path / "pages"
    folder.mkdir()
    documents = made_up_documents(5, 240)
    names = ["_a.jsonl", ".a.jsonl", "a.jsonl", "a-00000.jsonl", "a-00001.jsonl", "a-2.jsonl"]
    edges = itertools.pairwise((0, 5, 10, 220, 230, 235, 240))
    for name, (start, stop) in zip(names, edges, strict=True):
        write_jsonl(folder / name, documents[start:stop])
    paths = [folder / name for name in names]
    one, other = both(capfd, sharded, tmp_path, paths, runner)
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
    assert len(list((other / "documents").iterdir())) > 6


@pytest.mark.parametrize("change", ["lengthen", "drop", "same length"])
def test_changed_earlier_documents_are_noticed(capfd, sharded, tmp_path, change):
    documents = made_up_documents(5, 80)
    before = write_jsonl(tmp_path / "before.jsonl", documents)
    sharded()
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
    assert re.search(r"kept/documents/before-\d+\.jsonl: has changed since it was kept", said)


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


@pytest.mark.parametrize(
    ("stage", "lost"),
    [
        ("cluster", "nothing"),
        ("keep", "nothing"),
        ("resolve", "a shard"),
        ("resolve", "a byte"),
        ("cluster", "records"),
    ],
)
def test_a_run_that_was_ended_goes_on(capfd, sharded, pages, tmp_path, monkeypatch, stage, lost):
    sharded()
    words = ended_in(capfd, monkeypatch, pages, tmp_path, stages, stage)
    work = tmp_path / ".out.unfinished"
    shards = sorted(path for path in (work / "rows").iterdir() if path.stat().st_size > 100)
    if lost == "a shard":
        shards[0].unlink()
    elif lost == "a byte":
        content = bytearray(shards[0].read_bytes())
        content[len(content) // 2] ^= 1
        shards[0].write_bytes(content)
    elif lost == "records":
        (work / "rows.json").write_text("{}")
    calls = []
    fingerprint = stages.fingerprint
    monkeypatch.setattr(stages, "fingerprint", lambda plan: calls.append(1) or fingerprint(plan))
    code, _, said = dedup(capfd, *words, "-o", tmp_path / "out", "--resume")
    if lost == "a byte":
        # its size is the same; its checksum is compared where it is read
        assert code == 2
        assert re.search(rf"{shards[0]}, byte \d+: a table between tasks is damaged", said)
        return
    assert code == 0, said
    assert bool(calls) == (lost != "nothing")
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "undisturbed")
    assert not work.exists()


@pytest.mark.parametrize("lost", [None, "decisions", "documents", "clusters"])
def test_a_result_that_is_not_whole_is_written_again(
    capfd, sharded, pages, tmp_path, monkeypatch, lost
):
    sharded()
    words = ended_in(capfd, monkeypatch, pages, tmp_path, command, "write_sharded_summaries")
    if lost:
        first = min((tmp_path / ".out.unfinished" / "result" / lost).iterdir())
        first.unlink()
    calls = []
    keep = stages.keep
    monkeypatch.setattr(stages, "keep", lambda *given: calls.append(1) or keep(*given))
    dedup.done(capfd, *words, "-o", tmp_path / "out", "--resume")
    assert bool(calls) == bool(lost)
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "undisturbed")


def test_documents_that_change_between_stages_are_noticed(
    capfd, sharded, pages, tmp_path, monkeypatch
):
    sharded()
    resolve = stages.resolve

    def changing(*given):
        lines = (pages / "a.jsonl").read_text().splitlines(keepends=True)
        (pages / "a.jsonl").write_text("".join(lines[:-1]))
        return resolve(*given)

    monkeypatch.setattr(stages, "resolve", changing)
    code, _, said = dedup(capfd, pages, "-o", tmp_path / "out", "--max-rejected", "1")
    assert code == 2
    assert "has other documents than when it was first read" in said
    assert not (tmp_path / "out").exists()


def test_what_a_killed_task_was_writing_is_not_published(
    capfd, sharded, pages, tmp_path, monkeypatch
):
    sharded()
    keep = stages.keep

    def with_rest(plan, *given):
        kept = keep(plan, *given)
        for folder in (".a1b2", "clusters/.c3d4"):
            path = tmp_path / ".out.unfinished" / "result" / folder
            path.mkdir()
            (path / "part-00000.parquet").write_bytes(b"cut")
        return kept

    monkeypatch.setattr(stages, "keep", with_rest)
    dedup.done(capfd, pages, "-o", tmp_path / "out", "--max-rejected", "1")
    assert [path.name for path in (tmp_path / "out").rglob(".*")] == [".files.json"]


def test_nothing_read_and_nothing_at_all(capfd, sharded, tmp_path):
    sharded()
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


def without_samples(page):
    """The text of a report, and of its listed clusters, without samples: others were chosen."""
    page = elements(page)
    for parent in [*page.iter()]:
        for child in [*parent]:
            if child.get("class") in ("pair", "name") or shown(child) == "with texts":
                parent.remove(child)
    clusters = []
    for parent in [*page.iter("ul")]:
        for item in parent.findall("li[@class='cluster']"):
            clusters.append(shown(item))
            parent.remove(item)
    return shown(page), sorted(clusters)


def test_the_report_has_counts_and_samples(capfd, sharded, pages, tmp_path):
    one, other = both(capfd, sharded, tmp_path, [pages], "memory", "--share-by", "score")
    reports = [without_samples((out / "report.html").read_bytes()) for out in (one, other)]
    assert reports[1] == reports[0]
    assert len(reports[0][1]) > 10
    assert tables_of(other)["documents"]
    again = tmp_path / "again"
    words = ["--max-rejected", "1", "--share-by", "score"]
    dedup.done(capfd, pages, "-o", again, "-r", "inline", *words)
    found = [elements((out / "report.html").read_bytes()) for out in (other, again)]
    assert shown(found[0]) == shown(found[1])


def test_results_do_not_depend_on_chunks(capfd, sharded, pages, tmp_path, monkeypatch):
    found = []
    for number, size in enumerate((300, 5000, 1 << 20)):
        for name in ("CHUNK_BYTES", "_MIN_BYTES"):
            monkeypatch.setattr(chunks, name, size)
        monkeypatch.setattr(stages, "_MAX_GROUPS", (1, 3, 64)[number])
        monkeypatch.setattr(resolve_job, "_GROUP_BYTES", (500, 5000, 1 << 25)[number])
        monkeypatch.setattr(stages, "_CLUSTERS_PER_PART", (4, 1 << 20, 7)[number])
        sharded()
        out = tmp_path / str(number)
        dedup.done(capfd, pages, "-o", out, "-r", "memory", "--max-rejected", "1")
        found.append(tables_of(out))
        # a position has a line only if the chunk begins with the file
        assert len(found[-1].pop("rejects")) == 2
    assert found[0] == found[1] == found[2]
    assert len(list((tmp_path / "0" / "decisions").iterdir())) > 50


def test_names_that_would_be_one(capfd, sharded, tmp_path):
    rng = random.Random(1)
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        documents = made_up_documents(rng.random(), 60)
        write_jsonl(tmp_path / folder / "pages.jsonl", documents)
        write_jsonl(tmp_path / folder / "pages-00001.jsonl", documents[:5])
    named = [tmp_path / name / "pages.jsonl" for name in "xy"]
    named += [tmp_path / name / "pages-00001.jsonl" for name in "xy"]
    one, other = both(capfd, sharded, tmp_path, named, "memory", "--verify", "1")
    lines = [
        sorted(b"".join(path.read_bytes() for path in (out / "documents").iterdir()).splitlines())
        for out in (one, other)
    ]
    assert lines[1] == lines[0]
