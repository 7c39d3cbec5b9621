"""mr-dedup dedup --dry-run: what it says is what a run does, and it leaves nothing."""

import contextlib
import gzip
import re
import tempfile

import pytest

from mr_dedup.engines.streaming import engine
from mr_dedup.jobs import resolve
from tests.cli.documents import files_of, made_up_documents, write_jsonl
from tests.cli.test_dedup import dedup, done, mistake, stopped_after


def plan(capfd, *arguments):
    """Return the lines of the plan, by their first words."""
    code, out, err = dedup(capfd, *arguments, "--dry-run")
    assert (code, err) == (0, "")
    return dict(line.split(maxsplit=1) for line in out.splitlines() if re.match(r"\w+:? ", line))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A folder in which nothing may appear: of the command, and of temporary files."""
    place = tmp_path / "tree"
    (place / "tmp").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(place / "tmp"))
    return place


def test_stages_write_the_files_that_the_plan_names(tree, capfd, monkeypatch):
    path = write_jsonl(tree / "docs.jsonl", made_up_documents(1))
    arguments = [path, "-o", tree / "out", "--method", "minhash"]
    code, out, _ = dedup(capfd, *arguments, "--dry-run")
    assert code == 0
    named = re.findall(r"^  writes  (.*)$", out, re.MULTILINE)
    assert named == ["rows/", "attached/", "decided/", "result/, by the tasks"]
    stopped_after("keep", path, tree / "out", monkeypatch, capfd, *arguments[3:])
    work = tree / ".out.unfinished"
    folders = {path.name for path in work.iterdir() if path.is_dir()}
    assert folders == {name.partition("/")[0] for name in named}
    assert all(any((work / name).iterdir()) for name in folders)


def test_the_plan_is_what_a_run_does(tree, capfd, monkeypatch, small_chunks):
    path = write_jsonl(tree / "docs.jsonl", made_up_documents(1))
    arguments = [path, "-o", tree / "out", "-r", "local", "--cores", 2]
    before = files_of(tree)
    printed = plan(capfd, *arguments)
    assert files_of(tree) == before
    assert list((tree / "tmp").iterdir()) == []
    assert not (tree / ".out.unfinished").exists()
    assert printed["documents"] == f"1 file, {path.stat().st_size:,} bytes here"
    assert printed["runner"] == "local, 2 tasks at a time"
    assert printed["result"] == str(tree / "out")
    assert printed["cluster:"].startswith("1 job for keys or pairs, some rounds for labels, one")
    both = ["--method", "simhash", "--method", "minhash"]
    assert plan(capfd, *arguments, *both)["cluster:"].startswith("2 jobs for keys or pairs")
    ran = {}

    class Counted(engine.StreamingEngine):
        @contextlib.contextmanager
        def run(self, job, inputs):
            ran[type(job).__name__] = len(inputs)
            with super().run(job, inputs) as output:
                yield output

    stopped_after("cluster", path, tree / "out", monkeypatch, capfd, *arguments[3:])
    later = plan(capfd, *arguments, "--resume")
    assert later["fingerprint:"] == later["cluster:"] == "done, is not run again"
    monkeypatch.setattr(engine, "StreamingEngine", Counted)
    done(capfd, *arguments, "--resume")
    maps = int(re.match(r"(\d+) map tasks", printed["fingerprint:"])[1])
    assert 1 < maps == ran.pop("ResolveJob") == ran.pop("KeepJob")
    assert printed["keep:"] == later["keep:"] == f"{maps} map tasks"
    size = resolve._GROUP_BYTES >> 20
    keys = f"{maps} map tasks, a reduce key for each {size} MB of texts in clusters"
    assert printed["resolve:"] == later["resolve:"] == keys
    # no stage that was done
    assert set(ran) == {"OrderDecisionsJob", "ShardPartsJob"}
    done(capfd, *arguments, "--overwrite")
    assert ran["FingerprintJob"] == maps
    assert "JoinJob" in ran
    # and documents of an earlier result, a file a task
    earlier = [path, "-o", tree / "later", "-r", "local", "--against", tree / "out"]
    found = re.match(r"(\d+) map tasks", plan(capfd, *earlier)["resolve:"])
    done(capfd, *earlier)
    assert int(found[1]) == ran["ResolveJob"] == maps + 1


def test_the_plan_against_earlier_results(tree, capfd):
    first = write_jsonl(tree / "1.jsonl", made_up_documents(2))
    second = write_jsonl(tree / "2.jsonl", made_up_documents(3))
    done(capfd, first, "-o", tree / "kept")
    printed = plan(capfd, second, "-o", tree / "out", "--against", tree / "kept")
    assert re.fullmatch(rf"{tree}/kept, \d+ documents", printed["against"])
    assert printed["resolve:"].startswith("2 map tasks, ")
    assert re.fullmatch(r"memory, \d+ threads?", printed["runner"])
    alone = plan(capfd, second, "-o", tree / "out")
    assert "against" not in alone
    assert alone["resolve:"].startswith("1 map task, ")


@pytest.mark.parametrize("size", [100, 40_000_000])
def test_the_plan_of_a_cluster_sends_nothing(tree, capfd, size):
    path = write_jsonl(tree / "docs.jsonl", made_up_documents(1))
    (tree / "large.jsonl.gz").write_bytes(gzip.compress(b"\n" * size))
    before = files_of(tree)
    printed = plan(capfd, path, tree / "large.jsonl.gz", "-o", tree / "out", "-r", "hadoop")
    assert printed["runner"].startswith("hadoop, as many tasks at a time as")
    assert printed["fingerprint:"] == "1 part, about 1 GB of them a map task"
    split = ["-D", "mapreduce.input.fileinputformat.split.maxsize=1000"]
    printed = plan(capfd, path, "-o", tree / "out", "-r", "hadoop", *split)
    parts = -(-path.stat().st_size // 1000)
    assert printed["fingerprint:"] == f"{parts} parts, about 1 GB of them a map task"
    assert files_of(tree) == before
    assert list((tree / "tmp").iterdir()) == []


def test_mistakes_are_those_of_a_run(tree, capfd, monkeypatch):
    path = write_jsonl(tree / "docs.jsonl", made_up_documents(4))
    (tree / "result").mkdir()
    (tree / "result" / "mine.txt").write_text("precious")
    out = tree / "out"
    stopped_after("cluster", path, tree / "begun", monkeypatch, capfd)
    before = files_of(tree)
    cluster = ["-r", "hadoop", "--hadoop-bin", "/no/hadoop"]
    for arguments in [
        [tree / "no.jsonl", "-o", out],
        [path, "-o", tree / "no" / "out"],
        [path, "-o", tree / "result"],
        [path, "-o", tree / "result", "--overwrite"],
        [path, "-o", out, "--keep", "best"],
        [path, "-o", out, "-k", "65"],
        [path, "-o", out, "--resume"],
        [path, "-o", out, "--against", tree / "result"],
        [path, "-o", tree / "begun"],
        [path, "-o", tree / "begun", "--resume", "-k", 3],
        [path, "-o", out, *cluster, "--archive", tree / "no.zip"],
        [path, "-o", out, *cluster, "-c", tree / "no.conf"],
        ["s4://crawl", "-o", out, *cluster],
        ["s4://crawl", "-o", out],
        [path, "-o", "https://crawl/out"],
    ]:
        said = mistake(capfd, *arguments, "--dry-run")
        assert files_of(tree) == before, arguments
        real = mistake(capfd, *arguments)
        assert said == real, arguments


def test_an_unfinished_run_is_not_forgotten_by_a_plan(tree, capfd, monkeypatch):
    path = write_jsonl(tree / "docs.jsonl", made_up_documents(4))
    stopped_after("resolve", path, tree / "out", monkeypatch, capfd)
    before = files_of(tree)
    printed = plan(capfd, path, "-o", tree / "out", "--overwrite")
    assert printed["until"].endswith("; the unfinished run there is removed")
    assert printed["fingerprint:"] != "done, is not run again"
    assert files_of(tree) == before
    done(capfd, path, "-o", tree / "out", "--resume")


@pytest.mark.parametrize("engine", ["memory", "local"])
def test_the_plan_says_that_texts_are_short(tree, capfd, engine):
    titles = [{"id": str(n), "text": f"The title of book {n}"} for n in range(30)]
    path = write_jsonl(tree / "titles.jsonl", titles)
    arguments = [path, "-o", tree / "out", "-r", engine]
    said = plan(capfd, *arguments)["texts"]
    assert said.startswith("30 of 30 documents at the beginning of files have fewer than 56 words")
    assert "--shingles words:1 or characters:4" in said
    assert "texts" not in plan(capfd, *arguments, "--shingles", "characters:4")
    assert list((tree / "tmp").iterdir()) == []
    write_jsonl(tree / "few.jsonl", titles[:19])
    assert "texts" not in plan(capfd, tree / "few.jsonl", "-o", tree / "out", "-r", engine)
    long = [{"id": str(n), "text": f"word{n} " * 60} for n in range(16)]
    write_jsonl(tree / "mixed.jsonl", [*titles[:15], *long])
    assert "texts" not in plan(capfd, tree / "mixed.jsonl", "-o", tree / "out", "-r", engine)
    (tree / "bad.jsonl").write_text("no json\n" * 30)
    assert "texts" not in plan(capfd, tree / "bad.jsonl", "-o", tree / "out", "-r", engine)
