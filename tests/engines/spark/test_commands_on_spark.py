"""Whole commands on Spark leave what they leave in memory."""

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mr_dedup.cli.main import main
from mr_dedup.formats.documents import chunks
from mr_dedup.formats.parts import read_parts
from tests.cli.result_tables import tables_of
from tests.engines.spark import sessions

pytestmark = list(sessions.MARKS)

MASTERS = ["local[2]", "local-cluster[2,1,1024]"]


@pytest.fixture(scope="module", params=MASTERS)
def spark(request):
    with sessions.master(request.param):
        yield ["-r", "spark", "--master", request.param]


@pytest.fixture
def pages(made):
    return made / "pages"


def run(capfd, *words):
    assert main([str(word) for word in words]) == 0, capfd.readouterr().err
    return capfd.readouterr()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Have several tasks for these few pages."""
    monkeypatch.setattr(chunks, "_MIN_BYTES", 50_000)
    monkeypatch.setattr(chunks, "_FILE_BYTES", 10)


METHODS = [
    ["--method", "minhash"],
    ["--method", "simhash:k=3"],
    ["--method", "exact"],
    ["--method", "minhash", "--method", "simhash:k=3", "--verify", "0.7"],
]


@pytest.mark.smoke
def test_one_command(pages, tmp_path, capfd):
    run(capfd, "dedup", pages, "-o", tmp_path / "memory")
    with sessions.master("local[2]"):
        run(capfd, "dedup", pages, "-o", tmp_path / "out", "-r", "spark", "--master", "local[2]")
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "memory")


@pytest.mark.parametrize("method", METHODS, ids=" ".join)
def test_dedup(spark, pages, tmp_path, capfd, method):
    for name, words in {"memory": ["-r", "memory"], "spark": spark}.items():
        run(capfd, "dedup", pages, "-o", tmp_path / name, *words, *method)
    assert tables_of(tmp_path / "spark") == tables_of(tmp_path / "memory")
    before, after = (
        json.loads((tmp_path / name / "summary.json").read_text()) for name in ("memory", "spark")
    )
    assert after["reading"] == before["reading"]
    assert after.keys() == before.keys()


@pytest.mark.usefixtures("in_the_command")
def test_few_shards_are_read_by_the_command(spark, pages, tmp_path, capfd):
    for name, words in {"memory": ["-r", "memory"], "spark": spark}.items():
        run(capfd, "dedup", pages, "-o", tmp_path / name, *words)
    assert tables_of(tmp_path / "spark") == tables_of(tmp_path / "memory")


def test_dedup_against_a_result(spark, pages, tmp_path, capfd):
    first = sorted(pages.iterdir())
    run(capfd, "dedup", first[0], "-o", tmp_path / "before")
    for name, words in {"memory": ["-r", "memory"], "spark": spark}.items():
        out = tmp_path / name
        run(
            capfd, "dedup", *first[1:], "-o", out, *words, "--against", tmp_path / "before",
            "--add-counts", "--sample", "weight:0.3",
        )  # fmt: skip
    assert tables_of(tmp_path / "spark") == tables_of(tmp_path / "memory")


def test_fingerprint(spark, pages, tmp_path, capfd):
    for name, words in {"memory": ["-r", "memory"], "spark": spark}.items():
        run(capfd, "fingerprint", pages, "-o", tmp_path / f"{name}.tsv", *words)
    assert (tmp_path / "spark.tsv").read_bytes() == (tmp_path / "memory.tsv").read_bytes()


def test_decontaminate(spark, pages, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    lines = [line for path in sorted(pages.glob("*.jsonl")) for line in path.open()][:40:4]
    words = [json.loads(line)["text"].split() for line in lines]
    items = [{"id": str(n), "question": " ".join(each[20:60])} for n, each in enumerate(words)]
    exam = tmp_path / "exam.jsonl"
    exam.write_text("".join(json.dumps(each) + "\n" for each in items))
    for name, options in {"memory": ["-r", "memory"], "spark": spark}.items():
        out = tmp_path / name
        run(capfd, "decontaminate", pages, "--evals", exam, "-o", out, *options, "--action", "drop")
    assert tables_of(tmp_path / "spark") == tables_of(tmp_path / "memory")
    for name in ("matches", "items", "dropped"):
        found, expected = (tmp_path / each / name for each in ("spark", "memory"))
        assert read_parts(found).to_pydict() == read_parts(expected).to_pydict()
    for name in ("summary.json", "report.html"):
        found, expected = (tmp_path / each / name for each in ("spark", "memory"))
        assert found.read_bytes() == expected.read_bytes()
    assert json.loads((tmp_path / "spark" / "summary.json").read_text())["items_found"] == 10
    run(capfd, "decontaminate", pages, "--evals", exam, "-o", tmp_path / "cut", *spark,
        "--action", "cut")  # fmt: skip
    run(capfd, "restore", tmp_path / "cut", "-o", tmp_path / "again")
    assert records_below(tmp_path / "again") == records_below(pages)
    assert records_below(tmp_path / "cut" / "documents") != records_below(pages)


@pytest.mark.parametrize("words", [["--unit", "tokens:12"], ["--unit", "lines"]])
def test_passages(spark, pages, tmp_path, capfd, words):
    words = [*words, "--cut", "all-but-first"]
    for name, options in {"memory": ["-r", "memory"], "spark": spark}.items():
        run(capfd, "passages", pages, "-o", tmp_path / name, *options, *words)
        run(capfd, "restore", tmp_path / name, "-o", tmp_path / f"{name}-restored")
    for name in ("passages", "occurrences", "cuts"):
        found, expected = (read_parts(tmp_path / each / name) for each in ("spark", "memory"))
        # files that several tasks read are divided otherwise
        same = [column for column in expected.column_names if not column.startswith("written")]
        assert found.select(same).to_pylist() == expected.select(same).to_pylist()
    assert len(expected)
    for where in ("documents", None):
        found, expected = (
            lines_below(tmp_path / (f"{each}/{where}" if where else f"{each}-restored"))
            for each in ("spark", "memory")
        )
        assert found == expected
    one, other = (
        json.loads((tmp_path / each / "summary.json").read_text()) for each in ("memory", "spark")
    )
    assert one == other


def records_below(folder):
    """All lines of shown files below a directory, which may be compressed, by their names."""
    content = b""
    for path in sorted(path for path in folder.rglob("[!.]*") if path.is_file()):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as file:
            content += file.read()
    return content.splitlines()


def lines_below(folder):
    """All lines of the files of a directory, in the order of their names."""
    paths = sorted(path for path in folder.rglob("[!.]*") if path.is_file())
    return b"".join(path.read_bytes() for path in paths).splitlines()


@pytest.mark.parametrize("reducers", [1, 5])
def test_other_jobs(spark, made, pages, tmp_path, capfd, reducers):
    longs, queries = made / "longs" / "corpus-00000.longs", made / "longs" / "queries.longs"
    for name, words in {"memory": ["-r", "memory"], "spark": spark}.items():
        out = tmp_path / name
        out.mkdir()
        more = ["--reducers", reducers] if name == "spark" else []
        run(capfd, "idf", pages, "-o", out / "idf.parquet", *words, *more)
        run(capfd, "pairs", longs, "-k", "3", "-o", out / "pairs.tsv", *words, *more)
        run(capfd, "pairs", pages, "--method", "minhash", "-o", out / "similar", *words, *more)
        run(capfd, "query", longs, "--queries", queries, "-o", out / "found", *words, *more)
        if name == "memory":
            words = ["-r", "inline"]
        run(capfd, "urls", "bulk", made / "urls.txt", "-o", out / "urls.txt", *words, *more)
    assert sorted(path.name for path in (tmp_path / "spark").iterdir()) == sorted(
        path.name for path in (tmp_path / "memory").iterdir()
    )
    for path in (tmp_path / "memory").iterdir():
        found = (tmp_path / "spark" / path.name).read_bytes()
        if path.suffix != ".parquet":
            assert sorted(found.splitlines()) == sorted(path.read_bytes().splitlines()), path
        assert found, path


@pytest.mark.parametrize("master", MASTERS)
def test_a_step_of_spark_submit(master, pages, tmp_path, capfd):
    run(capfd, "dedup", pages, "-o", tmp_path / "memory")
    submit = Path(sys.executable).with_name("spark-submit")
    root = Path(__file__).parents[3]
    command = [submit, "--master", master, root / "examples" / "spark_step.py", "dedup", pages,
               "-o", tmp_path / "out", "-r", "spark"]  # fmt: skip
    variables = {**os.environ, "PYTHONPATH": str(root), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        list(map(str, command)), env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert tables_of(tmp_path / "out") == tables_of(tmp_path / "memory")


def test_mistakes_are_one_line(spark, tmp_path, capfd):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": 1, "text": "a"}\nno JSON\n')
    assert main(["dedup", str(bad), "-o", str(tmp_path / "out"), "--strict", *spark]) == 2
    said = capfd.readouterr().err.splitlines()
    # before it, that --resume continues
    assert said[-1].startswith(f"mr-dedup: error: {bad}, line 2 (byte 23): is not JSON")
    assert len(said) <= 2, said
    assert not (tmp_path / "out").exists()


def test_another_master_is_refused_in_one_line(tmp_path, capfd):
    """Of a cluster out of reach, and of none."""
    with sessions.master("local[2]"):
        (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a"}\n')
        words = ["dedup", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "out"), "-r", "spark"]
        assert main([*words, "--master", "nonsense"]) == 2
        said = capfd.readouterr().err.splitlines()[-1]
        assert said.startswith("mr-dedup: error: Spark does not start with --master ")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--master", "loca[2]"], "aster"),
        (["--master", "local[2]", "-D", "spark.driver.memory=abc"], "abc"),
        (["--master", "local[2]", "--archive", "none.tar.gz"], "none.tar.gz"),
        (["--master", "sc://127.0.0.1:1/;token=x"], "--master sc://127.0.0.1:1: it cannot be re"),
        (["--master", "sc://127.0.0.1:99999"], "--master sc://127.0.0.1:99999: it cannot be re"),
    ],
)
def test_what_spark_cannot_use_is_one_line_before_anything_is_written(tmp_path, words, reason):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a"}\n')
    command = [sys.executable, "-m", "mr_dedup", "dedup", "a.jsonl", "-o", "out", "-r", "spark"]
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [*command, *words], env=variables, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("mr-dedup: error: Spark")
    assert reason in last
    assert "--resume" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


def test_java_is_missing(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a"}\n')
    command = [sys.executable, "-m", "mr_dedup", "dedup", str(tmp_path / "a.jsonl"),
               "-o", str(tmp_path / "out"), "-r", "spark"]  # fmt: skip
    found = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    variables = {**found, "PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("mr-dedup: error: Spark does not start with --master ")
    assert "Traceback" not in done.stderr


def test_pyspark_is_missing(tmp_path, capfd, monkeypatch):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a"}\n')
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    words = ["dedup", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "out"), "-r", "spark"]
    assert main(words) == 2
    said = capfd.readouterr().err
    assert said == "mr-dedup: error: -r spark needs PySpark: pip install 'mr-dedup[spark]'\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_java_prints_nothing(pages, tmp_path):
    command = [sys.executable, "-m", "mr_dedup", "pairs", str(pages), "--method", "minhash",
               "-r", "spark", "--master", "local[2]"]  # fmt: skip
    with sessions.master("local[2]"):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") > 10
    assert all(len(line.split("\t")) >= 2 for line in done.stdout.splitlines())
    assert all(line.startswith("mr-dedup: ") for line in done.stderr.splitlines()), done.stderr


def test_options_of_other_engines_are_refused(tmp_path, capfd):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a"}\n')
    words = ["dedup", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "out")]
    for options, said in [
        (["-r", "spark", "--cores", "2"], "--cores: not used by -r spark; see --master"),
        (["-r", "spark", "--task-memory", "1GB"], "--task-memory: needs -r hadoop or -r emr"),
        (["-r", "spark", "--memory", "1GB"], "--memory: not used by -r spark"),
        (["-r", "memory", "--master", "local"], "--master: needs -r spark"),
        (["-r", "hadoop", "--master", "local"], "--master: needs -r spark"),
    ]:
        assert main([*words, *options]) == 2
        assert capfd.readouterr().err.startswith(f"mr-dedup: error: {said}")
