"""Counts of duplicates: five weekly crawls with planted repeats, however results are chained."""

import json
import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mr_dedup
from mr_dedup.cli.dedup_options import result_id
from mr_dedup.formats.documents import chunks
from mr_dedup.formats.parts import read_parts
from mr_dedup.pipeline import dedup_stages
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.result_tables import kept_records, tables_of
from tests.cli.running import Command

dedup, counts = Command("dedup"), Command("counts")

WEEKS = 5


def weekly_crawls(seed):
    """Five weeks of pages, some more than once a week: ``PAGE-WEEK-NUMBER``, a date and a text.

    Every two copies of a page differ in their last word, by equally much; pages share nothing.
    """
    rng = random.Random(seed)
    weeks = [[] for _ in range(WEEKS)]
    for page in range(30):
        words = [f"p{page}w{n}" for n in range(60)]
        for week in range(WEEKS):
            for number in range(rng.choice([0, 0, 1, 1, 3])):
                name = f"{page}-{week}-{number}"
                text = " ".join([*words, f"only{page}x{week}x{number}"])
                date = f"2024-0{week + 1}-{rng.randrange(1, 29):02}"
                weeks[week].append({"id": name, "text": text, "crawled": date})
    for week in weeks:
        rng.shuffle(week)
    return weeks


def everything(week):
    return list(range(week)), False


def one_before(week):
    return [week - 1] if week else [], False


def one_before_followed(week):
    return one_before(week)[0], True


def tree(week):
    return [[], [0], [0], [1], [2, 3]][week], False


def tree_followed(week):
    return tree(week)[0], True


def backwards_and_twice(week):
    return [*reversed(range(week)), *range(week)], False


CHAINS = [
    everything, one_before, one_before_followed, tree, tree_followed, backwards_and_twice
]  # fmt: skip


class Expected:
    """What five runs find, by hand."""

    def __init__(self, weeks, chain):
        self.compared = []
        """The weeks that each run is compared with, in their order."""
        self.kept = []
        """The kept documents of each week, in order."""
        self.dropped = []
        """By week, the kept document (its week and id) of each that is dropped, by its id."""
        for week, documents in enumerate(weeks):
            named, follow = chain(week)
            compared = []
            for each in named:
                for one in [*(self.compared[each] if follow else []), each]:
                    if one not in compared:
                        compared.append(one)
            known = {}
            for one in compared:
                for document in self.kept[one]:
                    known.setdefault(document["id"].split("-")[0], (one, document["id"]))
            kept, dropped = [], {}
            for document in documents:
                page = document["id"].split("-")[0]
                if page in known:
                    dropped[document["id"]] = known[page]
                else:
                    known[page] = week, document["id"]
                    kept.append(document)
            self.compared.append(compared)
            self.kept.append(kept)
            self.dropped.append(dropped)
        self.dates = {document["id"]: document["crawled"] for week in weeks for document in week}

    def of(self, week, id, over):
        """The duplicates of a kept document in the runs ``over``, first seen and last seen."""
        names = [
            name for run in over for name, kept in self.dropped[run].items() if kept == (week, id)
        ]
        dates = sorted([self.dates[id], *map(self.dates.get, names)])
        return len(names), dates[0], dates[-1]


def run_weeks(capfd, folder, weeks, chain, *words):
    for week, documents in enumerate(weeks):
        path = folder / f"week{week}"
        path.mkdir(exist_ok=True)
        write_jsonl(path / "pages.jsonl", documents)
        named, follow = chain(week)
        against = [word for each in named for word in ("--against", folder / f"kept{each}")]
        more = ["--follow"] if follow and named else []
        dedup.done(
            capfd, path, "-o", folder / f"kept{week}", "--seen", "crawled", *against, *more, *words
        )


def check_run(folder, week, expected):
    """The counts of one run: of its decisions, its kept documents and earlier ones."""
    out = folder / f"kept{week}"
    over = [*expected.compared[week], week]
    decisions = read_parts(out / "decisions").to_pylist()
    assert sum(row["duplicates"] for row in decisions) + sum(
        kept != week for kept, _ in expected.dropped[week].values()
    ) == len(expected.dropped[week])
    for row in decisions:
        kept = expected.dropped[week].get(row["id"], (week, row["id"]))
        assert row["kept_id"] == kept[1]
        assert row["duplicates"] == (expected.of(week, row["id"], [week])[0])
        found = row["duplicates_total"], row["first_seen"], row["last_seen"]
        assert found == expected.of(*kept, over)
    kept = read_parts(out / "counts").to_pylist()
    ids = read_parts(out / "fingerprints")["id"].to_pylist()
    assert [tuple(row.values()) for row in kept] == [expected.of(week, id, [week]) for id in ids]
    if not expected.compared[week]:
        assert not (out / "earlier_counts").exists()
        return
    summaries = [
        json.loads((folder / f"kept{n}" / "summary.json").read_text()) for n in range(WEEKS)
        if (folder / f"kept{n}").exists()
    ]  # fmt: skip
    found = {}
    for row in read_parts(out / "earlier_counts").to_pylist():
        of = next(n for n, each in enumerate(summaries) if each["result_id"] == row["result"])
        document = expected.kept[of][row["row"]]
        assert row["id"] == document["id"]
        content = (folder / f"kept{of}" / "documents" / row["file"]).read_bytes()
        assert json.loads(content[row["position"] :].partition(b"\n")[0])["id"] == document["id"]
        found[of, row["id"]] = (
            row["duplicates"], row["duplicates_total"], row["first_seen"], row["last_seen"],
        )  # fmt: skip
    wanted = {kept for kept in expected.dropped[week].values() if kept[0] != week}
    assert found == {
        kept: (expected.of(*kept, [week])[0], *expected.of(*kept, over)) for kept in wanted
    }


def check_totals(folder, expected, names=None):
    """The totals over all results, named in any order, also more than once."""
    names = names or [folder / f"kept{n}" for n in range(WEEKS)]
    table = mr_dedup.counts(names).to_pylist()
    found = {}
    for row in table:
        week = int(row["result"][-1])
        assert expected.kept[week][row["row"]]["id"] == row["id"]
        found[week, row["id"]] = row["duplicates_total"], row["first_seen"], row["last_seen"]
    assert len(found) == len(table)
    assert found == {
        (week, document["id"]): expected.of(week, document["id"], range(WEEKS))
        for week in range(WEEKS)
        for document in expected.kept[week]
    }
    # each document is kept, or counted once
    total = sum(map(len, expected.dropped)) + len(table)
    assert sum(row["duplicates_total"] for row in table) + len(table) == total


@pytest.fixture
def parts(monkeypatch):
    """Set how large the chunks of documents are."""

    def of(size):
        for name in ("CHUNK_BYTES", "_MIN_BYTES"):
            monkeypatch.setattr(chunks, name, size)
        monkeypatch.setattr(chunks, "_FILE_BYTES", 10)

    return of


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("size", [1 << 20, 6000])
def test_totals_are_what_was_planted(capfd, tmp_path, parts, chain, size):
    parts(size)
    weeks = weekly_crawls(CHAINS.index(chain))
    run_weeks(capfd, tmp_path, weeks, chain, "-r", "memory")
    expected = Expected(weeks, chain)
    assert any(map(len, expected.dropped))
    for week in range(WEEKS):
        check_run(tmp_path, week, expected)
    check_totals(tmp_path, expected)


@pytest.mark.parametrize(
    ("runner", "size"),
    [("memory", 4000), ("inline", 600), ("inline", 3000),
     ("local", 12_000), pytest.param("local", 40_000, marks=pytest.mark.slow)],
)  # fmt: skip
def test_engines_and_parts_make_no_difference(capfd, tmp_path, parts, runner, size):
    weeks = weekly_crawls(11)
    (tmp_path / "memory").mkdir()
    run_weeks(capfd, tmp_path / "memory", weeks, one_before_followed, "-r", "memory")
    parts(size)
    words = ["-r", runner, "--cores", 2] if runner == "local" else ["-r", runner]
    run_weeks(capfd, tmp_path, weeks, one_before_followed, *words)
    expected = Expected(weeks, one_before_followed)
    for week in range(WEEKS):
        check_run(tmp_path, week, expected)
        one, other = tmp_path / "memory" / f"kept{week}", tmp_path / f"kept{week}"
        found = [tables_of(one), tables_of(other)]
        for tables in found:
            # paths, ids of results in other directories, files that tasks divided
            for name in ("earlier_result", "kept_file", "kept_position"):
                del tables["decisions"][name]
            for name in ("result", "file", "position"):
                tables.get("earlier_counts", {}).pop(name, None)
        assert found[0] == found[1]
    check_totals(tmp_path, expected)


def test_results_that_were_moved_copied_and_named_twice(capfd, tmp_path):
    weeks = weekly_crawls(21)
    run_weeks(capfd, tmp_path, weeks, everything, "-r", "memory")
    expected = Expected(weeks, everything)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "kept0").rename(moved / "kept0")
    shutil.copytree(tmp_path / "kept1", moved / "kept1")
    names = [moved / "kept1", tmp_path / "kept4", moved / "kept0", tmp_path / "kept3",
             tmp_path / "kept2", tmp_path / "kept1", tmp_path / "kept4"]  # fmt: skip
    check_totals(tmp_path, expected, names)
    # a copy is the same result, also for a run
    more = write_jsonl(tmp_path / "more.jsonl", weeks[4])
    against = ["--against", tmp_path / "kept1", "--against", moved / "kept1"]
    dedup.done(capfd, more, "-o", tmp_path / "out", *against)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [each["folder"] for each in summary["against"]] == ["../kept1"]


def test_equal_crawls_of_two_weeks_are_two(capfd, tmp_path, monkeypatch):
    """Whose files differ in nothing but the directory, and which keep nothing."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    page = {"id": "a", "text": "the quick brown fox jumps over the lazy dog on a sunny day"}
    for week in range(3):
        (tmp_path / f"week{week}").mkdir()
        write_jsonl(tmp_path / f"week{week}" / "pages.jsonl", [page])
        against = ["--against", tmp_path / "kept0"] if week else []
        dedup.done(capfd, tmp_path / f"week{week}", "-o", tmp_path / f"kept{week}", *against)
    names = [tmp_path / f"kept{week}" for week in range(3)]
    assert mr_dedup.counts(names)["duplicates_total"].to_pylist() == [2]
    assert mr_dedup.counts(names[:2])["duplicates_total"].to_pylist() == [1]


@pytest.mark.parametrize("name", ["_write_clusters", "_kept", "_write_earlier_counts"])
def test_a_run_that_was_ended_counts_once(capfd, tmp_path, monkeypatch, parts, name):
    parts(6000)
    weeks = weekly_crawls(31)[:3]
    run_weeks(capfd, tmp_path, weeks, everything, "-r", "memory", "--add-counts")
    shutil.rmtree(tmp_path / "kept2")
    words = [tmp_path / "week2", "-o", tmp_path / "kept2", "--seen", "crawled", "--add-counts"]
    words += ["--against", tmp_path / "kept0", "--against", tmp_path / "kept1"]

    def ended(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dedup_stages, name, ended)
        assert dedup(capfd, *words)[0] == 130
    dedup.done(capfd, *words, "--resume")
    check_run(tmp_path, 2, Expected(weeks, everything))


@pytest.mark.parametrize("kept", ["same", "jsonl", "parquet"])
@pytest.mark.parametrize("source", ["jsonl", "parquet", "txt"])
def test_records_with_counts(capfd, tmp_path, parts, kept, source):
    parts(3000)
    documents = [each for week in weekly_crawls(41) for each in week]
    folder = tmp_path / "pages"
    folder.mkdir()
    if source == "jsonl":
        lines = [json.dumps(each).replace('{"id"', '{ "n": 1.50, "id"') for each in documents]
        (folder / "a.jsonl").write_text("\r\n".join(lines))
    elif source == "parquet":
        pq.write_table(pa.Table.from_pylist(documents), folder / "a.parquet", row_group_size=20)
    else:
        for each in documents:
            (folder / f"{each['id']}.txt").write_text(each["text"])
    words = [folder, "-o", tmp_path / "out", "--documents", kept, "--add-counts"]
    names = ["duplicates", "duplicates_total"]
    if source != "txt":
        words += ["--seen", "crawled"]
        names += ["first_seen", "last_seen"]
    if source == "txt" and kept == "same":
        said = dedup.mistake(capfd, *words)
        assert "--add-counts: records of text have no fields; give --documents jsonl" in said
        return
    dedup.done(capfd, *words)
    decisions = read_parts(tmp_path / "out" / "decisions")
    wanted = [
        [row[name] for name in names]
        for row in decisions.to_pylist()
        if row["kept_position"] == row["position"] and row["kept_file"] == row["file"]
    ]
    found = tables_of(tmp_path / "out")
    if found["parquet"] is not None:
        rows = pa.table(found["parquet"]).to_pylist()
    else:
        (content,) = kept_records(tmp_path / "out").values()
        rows = [json.loads(line) for line in content.splitlines()]
        if source == "jsonl":
            assert all(line.startswith(b'{ "n": 1.50, "id"') for line in content.splitlines())
    assert [[row[name] for name in names] for row in rows] == wanted
    assert len(rows) == 30


def test_fields_that_clash_or_are_missing(capfd, tmp_path):
    documents = made_up_documents(1, 10)
    plain = write_jsonl(tmp_path / "plain.jsonl", documents)
    out = tmp_path / "out"
    clashing = [*documents, {"id": "x", "text": "some text", "duplicates": 7}]
    path = write_jsonl(tmp_path / "clash.jsonl", clashing)
    said = dedup.mistake(capfd, path, "-o", out, "--add-counts")
    assert said.endswith("--add-counts: 1 document has a field duplicates already\n")
    assert not list(tmp_path.glob(".out*"))
    # a null is found where the record is written
    path = write_jsonl(tmp_path / "null.jsonl", [{**clashing[-1], "duplicates": None}])
    code, _, said = dedup(capfd, path, "-o", out, "--add-counts", "--overwrite")
    assert code == 2
    assert said.endswith("a document has a field duplicates already\n")
    said = dedup.mistake(capfd, plain, "-o", out, "--seen", "date", "--overwrite")
    assert "--seen: no document has the field date with a time or a number; the first has" in said
    said = dedup.mistake(capfd, plain, "-o", out, "--seen", "length", "--overwrite")
    assert "--seen: length is the name of a column that is written" in said
    dedup.done(capfd, plain, "-o", out, "--seen", "score", "--overwrite")
    assert "documents_without_seen" not in json.loads((out / "summary.json").read_text())
    some = [{**each, "score": "n/a"} if n % 2 else each for n, each in enumerate(documents)]
    path = write_jsonl(tmp_path / "some.jsonl", some)
    dedup.done(capfd, path, "-o", out, "--seen", "score", "--overwrite")
    assert json.loads((out / "summary.json").read_text())["documents_without_seen"] == 5


def test_a_record_that_becomes_too_long(capfd, tmp_path):
    line = json.dumps({"id": "a", "text": "some words of a text"})
    (tmp_path / "a.jsonl").write_text(line + "\n")
    words = [tmp_path / "a.jsonl", "-o", tmp_path / "out", "--max-record-size", len(line)]
    dedup.done(capfd, *words)
    code, _, said = dedup(capfd, *words, "--add-counts", "--overwrite")
    assert code == 2
    assert "with --add-counts a record has" in said


class TestCounts:
    """The command."""

    @pytest.fixture
    def two(self, capfd, tmp_path):
        weeks = weekly_crawls(51)[:2]
        run_weeks(capfd, tmp_path, weeks, everything, "-r", "memory")
        return [tmp_path / "kept0", tmp_path / "kept1"]

    def test_results_that_are_not_named(self, capfd, tmp_path, two):
        said = counts.messages(capfd, two[1], "-o", tmp_path / "c.parquet")
        assert f"of {two[0]}, which is not named; --follow includes it" in said
        assert set(pq.read_table(tmp_path / "c.parquet")["result"].to_pylist()) == {str(two[1])}
        words = [two[1], "--follow", "-o", tmp_path / "c.parquet", "--overwrite"]
        assert "not named" not in counts.messages(capfd, *words)
        both = mr_dedup.counts(two)
        assert pq.read_table(tmp_path / "c.parquet").equals(both)

    def test_faults(self, capfd, tmp_path, two):
        out = tmp_path / "c.parquet"
        assert "expected a name that ends in .parquet" in counts.mistake(
            capfd, two[0], "-o", tmp_path / "c.tsv"
        )
        assert "no such directory" in counts.mistake(capfd, tmp_path / "none", "-o", out)
        summary = json.loads((two[0] / "summary.json").read_text())
        for name in ("counts_checksum", "result_id"):
            del summary[name]
        (two[0] / "summary.json").write_text(json.dumps(summary))
        said = counts.mistake(capfd, two[0], "-o", out)
        assert "kept0: is of an mr_dedup that did not count duplicates; de-dup" in said
        more = write_jsonl(tmp_path / "more.jsonl", weekly_crawls(51)[2])
        said = dedup.messages(capfd, more, "-o", tmp_path / "kept2", "--against", two[0])
        assert "totals are without those that its own run dropped" in said
        assert not out.exists()

    @pytest.mark.parametrize("dataset", ["counts", "earlier_counts"])
    def test_damage(self, capfd, tmp_path, two, dataset):
        path = two[1] / dataset / "part-00000.parquet"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        said = counts.mistake(capfd, *two, "-o", tmp_path / "c.parquet")
        assert f"{dataset}: contains other files than those that summary.json" in said
        assert not (tmp_path / "c.parquet").exists()


def test_the_id_of_a_result_does_not_depend_on_where_it_was_made():
    run = {"files": [["a", 1, 2]], "earlier_ids": [], "methods": ["minhash"]}
    ids = {
        result_id({**run, **where}, {})
        for where in ({}, {"address": "hdfs:///tmp/1"}, {"directory": "1"}, {"runner": "spark"})
    }
    assert len(ids) == 1
    assert result_id({**run, "methods": ["exact"]}, {}) not in ids
