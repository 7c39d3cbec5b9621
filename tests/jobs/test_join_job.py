"""The join job by engines."""

import random
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from mr_dedup.engines.inputs import Input
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.engines.streaming import staging_folder
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.errors import FormatError
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import designs_for
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.jobs.contract import Counters, TaskInput
from mr_dedup.jobs.join import JoinJob, format_lines
from tests.oracles import flipped, pair_lines, pairs_among, pairs_within, signed


def arrays(values, parts):
    return np.array_split(np.array(values, dtype=np.uint64), parts)


def write_longs(path, values):
    path.write_bytes(np.array(values, dtype=">u8").tobytes())
    return path


def run(engine, job, paths):
    """Run a job by an engine; return its tables by key, and its counters."""
    with engine.run(job, [Input.file(Path(path)) for path in paths]) as output:
        return list(output), output.counters


def lines_of(job, paths):
    """Run a job on threads; return its lines, and its counters."""
    tables, counters = run(MemoryEngine(threads=2), job, paths)
    return b"".join(job.lines(table) for _, table in tables).decode(), counters


@pytest.mark.parametrize("k", [0, 1, 3, 6])
def test_every_design_and_split_gives_one_answer(corpus, k):
    expected = pair_lines(pairs_among(corpus.corpus, k))
    for number, design in enumerate(list(designs_for(k))[:5]):
        splits, partitions = [(1, 1), (3, 2), (7, 7), (2, 64)][number % 4]
        order = ["natural", "interleaved", str(BitOrder(tuple(reversed(range(64)))))][number % 3]
        job = JoinJob(k=k, design=design, partitions=partitions, bit_order=order)
        lines, counters = lines_of(job, corpus.split(splits))
        assert lines == expected
        assert counters["fingerprints"] == len(corpus.corpus)
        assert counters["chunks"] == splits
        assert counters["pairs"] == expected.count("\n")


@pytest.mark.parametrize("runner", ["inline", "local"])
def test_tasks_of_mrjob_give_the_same(corpus, runner):
    job = JoinJob(design="4-tables", partitions=2, max_buffered_pairs=500)
    with staging_folder() as staging:
        engine = StreamingEngine(runner, staging, cores=2)
        tables, counters = run(engine, job, corpus.split(3))
    expected = pair_lines(pairs_among(corpus.corpus, 3))
    assert b"".join(job.lines(table) for _, table in tables).decode() == expected
    assert counters["pairs"] == expected.count("\n")


@pytest.fixture
def two(corpus, tmp_path):
    """Files of two corpora, two of each, and the pairs of one fingerprint of each."""
    others = [*corpus.queries, *(flipped(x, {2, 50}) for x in corpus.corpus[:300])]
    right = [write_longs(tmp_path / f"right-{n}.longs", part)
             for n, part in enumerate(arrays(others, 2))]  # fmt: skip
    # the oracle's pairs begin with a query
    pairs = {(left, other) for left, other in pairs_within(others, corpus.corpus, 3)}
    return [*corpus.split(2), *right], pairs


@pytest.mark.parametrize("design", ["all-pairs", "4-tables", "10-tables"])
def test_two_corpora(two, design):
    paths, pairs = two
    job = JoinJob(others=(2, 3), design=design, with_distance=True)
    lines, counters = lines_of(job, paths)
    assert lines == pair_lines(pairs, with_distance=True)
    assert counters["others"] == 503


def test_another_corpus_without_inputs_has_no_pairs(corpus):
    assert lines_of(JoinJob(others=()), corpus.split(2))[0] == ""


def test_tasks_that_do_not_fit_their_memory_find_the_same(corpus, two):
    expected = pair_lines(pairs_among(corpus.corpus, 3))
    small = JoinJob(partitions=2, table_bytes=20000, design="4-tables")
    lines, counters = lines_of(small, corpus.split(3))
    assert lines == expected
    assert counters["partitions_split"] == 8
    lines, counters = lines_of(replace(small, design="all-pairs"), corpus.split(3))
    assert lines == expected
    assert counters["keys_sliced"] == 1
    paths, pairs = two
    lines, counters = lines_of(replace(small, others=(2, 3)), paths)
    assert lines == pair_lines(pairs)
    assert counters["partitions_split"] == 8


def test_a_flood_of_pairs_is_sent_on_in_parts(corpus):
    job = JoinJob(k=6, table_bytes=2000, partitions=1, max_buffered_pairs=50)
    assert lines_of(job, corpus.split(2))[0] == pair_lines(pairs_among(corpus.corpus, 6))


def test_pairs_that_are_not_ordered_are_keyed_by_ranges(corpus):
    tables, _ = run(MemoryEngine(threads=2), JoinJob(ordered=False), corpus.split(2))
    pairs = []
    for key, table in tables:
        left, right = (table[name].to_pylist() for name in ("left", "right"))
        assert {(signed(x) + (1 << 63)) >> 56 for x in left} == {key}
        pairs += zip(left, right, strict=True)
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == pairs_among(corpus.corpus, 3)


def test_damage_in_a_local_copy_is_told_of_what_was_copied(tmp_path):
    copy = tmp_path / "input-12345.longs"
    copy.write_bytes(bytes(803))
    part = TaskInput(copy, "hdfs:///pages/bad.longs")
    with pytest.raises(FormatError, match=r"^hdfs:///pages/bad\.longs, byte 800: ends inside"):
        list(JoinJob().map(part, Counters()))


def test_lines_equal_the_oracles():
    rng = random.Random(1)
    values = [rng.getrandbits(64) for _ in range(200)]
    pairs = {(x, flipped(x, {5, 60})) for x in values} | {(0, (1 << 64) - 1), (7, 7)}
    columns = zip(*sorted(pairs, key=lambda pair: tuple(map(signed, pair))), strict=True)
    ordered = Pairs(*(np.array(column, dtype=np.uint64) for column in columns))
    assert format_lines(ordered).decode() == pair_lines(pairs)
    assert format_lines(ordered, with_distance=True).decode() == pair_lines(pairs, True)
    assert format_lines(Pairs.merged([])) == b""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"k": -1}, "k must be from 0 to 64, not -1"),
        ({"design": "5-tables"}, "design for k = 3 must be one of all-pairs, 4-tables"),
        ({"bit_order": "1,2"}, "bit order must be natural, interleaved or 64 positions"),
        ({"bit_order": "best"}, "bit order must be natural, interleaved or 64 positions"),
        ({"table_bytes": 0}, "--table-bytes must be at least 1, not 0"),
        ({"partitions": 0}, "--partitions must be at least 1, not 0"),
        ({"expected": -5}, "--expected must be at least 1, not -5"),
    ],
)
def test_options_that_cannot_be_raise(options, said):
    with pytest.raises(ValueError, match=said):
        JoinJob(**options)
