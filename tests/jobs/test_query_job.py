"""The query job by engines, and run alone, as mrjob users run one, by mrjob's own runners."""

import contextlib
import gzip
import logging
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mr_dedup import jobs
from mr_dedup.engines.inputs import Input
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.engines.streaming import staging_folder
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.errors import FormatError
from mr_dedup.hamming import search
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.jobs.contract import Counters, TaskInput
from mr_dedup.jobs.query import QueryJob, format_lines
from tests.oracles import result_lines


class Ended(NamedTuple):
    """How a job ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@contextlib.contextmanager
def logging_as_it_was(name):
    """Take back what is done to a logger meanwhile: handlers that write to captured streams."""
    logger = logging.getLogger(name)
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture
def run_alone(corpus, tmp_path, monkeypatch, capfd):
    """Return a function that runs ``python -m mr_dedup.jobs.query`` in this process.

    It runs in the corpus's folder. With ``-r local`` tasks are processes of their own. A run that
    ends well must leave no temporary files.
    """
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def run(*arguments, stdin=None):
        script = str(Path(jobs.__file__).with_name("query.py"))
        capfd.readouterr()
        with monkeypatch.context() as patch, logging_as_it_was("mrjob"):
            patch.chdir(corpus.folder)
            patch.setattr(sys, "argv", [script, "--no-conf", *map(str, arguments)])
            if stdin is not None:
                patch.setattr(sys, "stdin", stdin)
            code = 0
            try:
                runpy.run_path(script, run_name="__main__")
            except SystemExit as ended:
                code = ended.code or 0
        captured = capfd.readouterr()
        named = re.search(r"Creating temp directory (.*)", captured.err)
        if named:
            # mrjob spells that path out, whatever TMPDIR says
            assert not Path(f"/tmp/wrapper.lock.{Path(named[1]).name}").exists()
        if code == 0:
            assert list(temporary.iterdir()) == []
        return Ended(code, captured.out, captured.err)

    return run


def in_query_order(output):
    """mrjob prints the reducers' files one after the other: a set of lines."""
    return "".join(
        sorted(output.splitlines(keepends=True), key=lambda line: int(line.split("\t")[0]))
    )


BOTH = pytest.mark.parametrize("runner", ["inline", "local"])


@BOTH
def test_the_job_runs_alone(corpus, run_alone, runner):
    done = run_alone("-r", runner, "--queries", "queries.longs", *corpus.split(3))
    assert done.returncode == 0, done.stderr
    assert in_query_order(done.stdout) == corpus.lines()
    assert f"fingerprints={len(corpus.corpus)}" in done.stderr
    assert f"matches={corpus.lines().count(chr(9))}" in done.stderr


def test_a_gzipped_chunk_is_read_whoever_unpacks_it(corpus, run_alone):
    """mrjob's local runner unpacks .gz before the task, inline does not."""
    packed = corpus.folder / "whole.longs.gz"
    packed.write_bytes(gzip.compress((corpus.folder / "corpus.longs").read_bytes()))
    for runner in ("inline", "local"):
        done = run_alone("-r", runner, "--queries", "queries.longs", "-k", "2",
                         "--with-distance", packed)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert in_query_order(done.stdout) == corpus.lines(2, with_distance=True)


def test_parquet_is_read_by_its_name(corpus, run_alone, tmp_path):
    for name, values in (("c", corpus.corpus), ("q", corpus.queries)):
        table = pa.table({"fingerprint": pa.array([*values, None], pa.uint64())})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    done = run_alone("-r", "inline", "--queries", tmp_path / "q.parquet", tmp_path / "c.parquet")
    assert done.returncode == 0, done.stderr
    assert in_query_order(done.stdout) == corpus.lines()


def test_formats_that_no_name_tells_are_told(corpus, run_alone, tmp_path):
    shutil.copy(corpus.folder / "corpus.longs", tmp_path / "corpus")
    (tmp_path / "queries").write_text("".join(f"{query}\n" for query in corpus.queries))
    done = run_alone("--queries", tmp_path / "queries", "--queries-format", "text",
                     "--corpus-format", "longs", tmp_path / "corpus")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert in_query_order(done.stdout) == corpus.lines()


def test_text_is_read_from_standard_input(corpus, run_alone, tmp_path):
    text = tmp_path / "corpus.txt"
    text.write_text("\n".join(map(str, corpus.corpus)))
    with text.open() as stdin:
        done = run_alone("--queries", "queries.longs", "--corpus-format", "text", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert in_query_order(done.stdout) == corpus.lines()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-k", "-1"], "k must be from 0 to 64, not -1"),
        (["-k", "65"], "k must be from 0 to 64, not 65"),
        (["--design", "5-tables"], "design for k = 3 must be one of all-pairs, 4-tables"),
        (["-k", "2", "--design", "4-tables"], "design for k = 2 must be one of"),
        (["--index", "both"], "argument --index: invalid choice: 'both'"),
        (["--table-bytes", "0"], "--table-bytes must be at least 1, not 0"),
        (["--queries", "missing.longs"], "missing.longs: cannot be read: No such file"),
        (["--queries", "."], ".: is a directory, expected a file of fingerprints"),
        (["--queries", "queries.dat"], "queries.dat: the format is not known by its ending"),
        (["--queries", "hdfs:///queries.dat"], "hdfs:///queries.dat: the format is not known"),
        (["missing.longs"], "missing.longs does not exist"),
        (["-r", "spark"], "-r spark passes lines to mappers, and those of this job"),
    ],
)
def test_mistakes_in_the_options_are_told_before_anything_starts(
    corpus, run_alone, tmp_path, options, said
):
    (corpus.folder / "queries.dat").touch()
    done = run_alone("-r", "local", "--queries", "queries.longs", "corpus.longs", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"query.py: error: {said}" in done.stderr.replace("error: Input path", "error:")
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_queries_are_required(corpus, run_alone):
    done = run_alone("corpus.longs")
    assert done.returncode == 2
    assert "error: --queries is required" in done.stderr


def test_a_corpus_is_required(corpus, run_alone):
    for arguments in ([], ["-"], ["--corpus-format", "longs"]):
        done = run_alone("--queries", "queries.longs", *arguments)
        assert done.returncode == 2
        assert "error: no corpus files; standard input is read with --cor" in done.stderr


def test_options_that_cannot_be_raise():
    with pytest.raises(ValueError, match="k must be from 0 to 64, not 70"):
        QueryJob(queries="queries.longs", k=70)
    with pytest.raises(ValueError, match="--table-bytes must be at least 1, not 0"):
        QueryJob(queries="queries.longs", table_bytes=0)


def test_a_reader_that_leaves_early_is_no_error(corpus, tmp_path):
    command = [sys.executable, "-m", "mr_dedup.jobs.query", "--no-conf", "--quiet", "-k", "6",
               "--queries", "queries.longs", "corpus.longs"]  # fmt: skip
    with subprocess.Popen(
        command, cwd=corpus.folder, env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damaged", ["corpus", "queries"])
def test_damage_is_one_line_inline_and_named_in_the_log_of_local(
    corpus, run_alone, tmp_path, damaged
):
    names = {"corpus": corpus.folder / "corpus.longs", "queries": corpus.folder / "queries.longs"}
    names[damaged] = tmp_path / "bad.longs"
    names[damaged].write_bytes(bytes(803))
    arguments = ["--queries", names["queries"], names["corpus"]]
    said = "bad.longs, byte 800: ends inside a long"
    done = run_alone("-r", "inline", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("query.py: error: ")
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    if damaged == "corpus":
        done = run_alone("-r", "local", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert said in done.stderr


def test_damage_in_a_local_copy_is_told_of_what_was_copied(corpus, tmp_path):
    copy = tmp_path / "input-12345.longs"
    copy.write_bytes(bytes(803))
    part = TaskInput(copy, "hdfs:///pages/bad.longs")
    with pytest.raises(FormatError, match=r"^hdfs:///pages/bad\.longs, byte 800: ends inside"):
        list(job_for(corpus).map(part, Counters()))


def job_for(corpus, **options):
    return QueryJob(queries=str(corpus.folder / "queries.longs"), **options)


def emitted(job, path):
    """What one map task yields."""
    return list(job.map(TaskInput(Path(path), str(path)), Counters()))


def lines_by(engine, job, paths):
    with engine.run(job, [Input.file(Path(path)) for path in paths]) as output:
        lines = b"".join(job.lines(table) for _, table in output)
    return lines.decode(), output.counters


@pytest.mark.parametrize("side", ["queries", "corpus"])
def test_tables_too_large_for_the_memory_are_built_in_slices(corpus, side):
    job = job_for(corpus, index=side, table_bytes=3000)
    lines, _ = lines_by(MemoryEngine(threads=1), job, corpus.split(1))
    assert lines == corpus.lines()


@pytest.mark.parametrize("runner", ["memory", "inline", "local"])
def test_a_flood_of_matches_is_sent_on_in_parts_and_merged(corpus, monkeypatch, runner):
    """Small limits, so that one task merges, sends and merges again; ranges of few queries."""
    monkeypatch.setattr(search, "_FLUSH", 2)
    job = job_for(corpus, k=5, max_buffered_pairs=100, queries_per_key=20)
    keys = [key for key, _ in emitted(job, corpus.folder / "corpus.longs")]
    assert len(set(keys)) == -(-len(set(corpus.queries)) // 20)
    assert len(keys) > len(set(keys))
    with staging_folder() as staging:
        engine = MemoryEngine() if runner == "memory" else StreamingEngine(runner, staging)
        lines, counters = lines_by(engine, job, corpus.split(3))
    assert lines == corpus.lines(5)
    assert counters["matches"] == sum(line.count("\t") for line in lines.splitlines())
    assert counters["queries_matched"] == lines.count("\n")
    assert (counters["chunks"], counters["fingerprints"]) == (3, len(corpus.corpus))


def test_lines_equal_the_oracles():
    rng = np.random.default_rng(1)
    queries = rng.choice(rng.integers(0, 2**64, 20, dtype=np.uint64), 300)
    near = queries ^ (np.uint64(1) << rng.integers(0, 64, 300, dtype=np.uint64))
    matches = Pairs.merged([Pairs(queries, near)])
    pairs = list(zip(queries.tolist(), near.tolist(), strict=True))
    assert format_lines(matches).decode() == result_lines(pairs)
    assert format_lines(matches, with_distance=True).decode() == result_lines(pairs, True)
    assert format_lines(Pairs.merged([])) == b""
