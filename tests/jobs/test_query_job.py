"""The job run alone, as mrjob users run one, by mrjob's own runners."""

import subprocess
import sys

import numpy as np
import pytest

from mr_dedup.hamming import search
from mr_dedup.hamming.matches import Matches
from mr_dedup.jobs import query
from mr_dedup.jobs.query import QueryJob, format_lines
from tests.oracles import result_lines


def run_alone(*arguments, cwd):
    command = [sys.executable, "-m", "mr_dedup.jobs.query", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def in_query_order(output):
    """mrjob prints the reducers' files one after the other: a set of lines."""
    return "".join(
        sorted(output.splitlines(keepends=True), key=lambda line: int(line.split("\t")[0]))
    )


@pytest.mark.parametrize("runner", ["inline", "local"])
def test_the_job_runs_alone(corpus, runner):
    queries = corpus.folder / "queries.longs"
    done = run_alone(
        "-r", runner, "--no-conf", "--queries", queries, *corpus.split(3), cwd=corpus.folder
    )
    assert done.returncode == 0, done.stderr
    assert in_query_order(done.stdout) == corpus.lines()
    assert f"fingerprints={len(corpus.corpus)}" in done.stderr
    assert f"matches={corpus.lines().count(chr(9))}" in done.stderr


def test_a_gzipped_chunk_is_read_whoever_unpacks_it(corpus):
    """mrjob's local runner unpacks .gz before the task, inline does not."""
    import gzip

    packed = corpus.folder / "whole.longs.gz"
    packed.write_bytes(gzip.compress((corpus.folder / "corpus.longs").read_bytes()))
    for runner in ("inline", "local"):
        done = run_alone("-r", runner, "--no-conf", "--queries", corpus.folder / "queries.longs",
                         "-k", "2", "--with-distance", packed, cwd=corpus.folder)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert in_query_order(done.stdout) == corpus.lines(2, with_distance=True)


def test_queries_are_required(corpus):
    done = run_alone("-r", "inline", "--no-conf", *corpus.split(1), cwd=corpus.folder)
    assert done.returncode == 2
    assert "--queries is required" in done.stderr


def run_mapper(corpus, *options):
    """One map task in this process: its (key, block) pairs."""
    job = QueryJob(["--queries", str(corpus.folder / "queries.longs"), *options])
    job.sandbox()
    path = str(corpus.folder / "corpus.longs")
    return job, list(job.map_corpus_chunk(path, path))


@pytest.mark.parametrize("side", ["queries", "corpus"])
def test_tables_too_large_for_the_memory_are_built_in_slices(corpus, side):
    job, emitted = run_mapper(corpus, "--index", side, "--table-bytes", "3000")
    lines = reduced(job, emitted)
    assert lines == corpus.lines()


def reduced(job, emitted):
    grouped = {}
    job.start_counting()
    for key, block in emitted:
        grouped.setdefault(key, []).append(block)
    return "".join(
        text.decode()
        for key in sorted(grouped)
        for _, text in job.reduce_matches(key, iter(grouped[key]))
    )


def test_a_flood_of_matches_is_sent_on_in_parts_and_merged(corpus, monkeypatch):
    """Small limits, so that one task merges, sends and merges again; ranges of few queries."""
    monkeypatch.setattr(search, "_FLUSH", 2)
    monkeypatch.setattr(query, "_HELD_PAIRS", 100)
    monkeypatch.setattr(query, "QUERIES_A_KEY", 20)
    job, emitted = run_mapper(corpus, "-k", "5")
    assert len({key for key, _ in emitted}) == -(-len(set(corpus.queries)) // 20)
    assert len(emitted) > len({key for key, _ in emitted})
    assert reduced(job, emitted) == corpus.lines(5)


def test_lines_equal_the_oracles():
    rng = np.random.default_rng(1)
    queries = rng.choice(rng.integers(0, 2**64, 20, dtype=np.uint64), 300)
    near = queries ^ (np.uint64(1) << rng.integers(0, 64, 300, dtype=np.uint64))
    matches = Matches.merged([Matches(queries, near)])
    pairs = list(zip(queries.tolist(), near.tolist(), strict=True))
    assert format_lines(matches).decode() == result_lines(pairs)
    assert format_lines(matches, with_distance=True).decode() == result_lines(pairs, True)
    assert format_lines(Matches.merged([])) == b""
