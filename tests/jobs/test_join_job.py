"""The join job, task by task and run alone by mrjob's own runners."""

import functools
import random

import numpy as np
import pytest

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats import fingerprint_writer
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import designs_for
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.jobs import join
from mr_dedup.jobs.batches import Kind, decode_columns, encode_columns
from mr_dedup.jobs.inputs import NUMBER_VARIABLE
from mr_dedup.jobs.join import JoinJob, format_lines
from tests.oracles import flipped, pair_lines, pairs_among, pairs_within, signed


def arrays(values, parts):
    return np.array_split(np.array(values, dtype=np.uint64), parts)


def write_longs(path, values):
    path.write_bytes(np.array(values, dtype=">u8").tobytes())
    return path


class Tasks:
    """Runs the job's tasks in this process, as an engine does; keeps what is told of them."""

    def __init__(self, *options):
        self.job = JoinJob(list(options))
        self.job.increment_counter = self.count
        self.counters = {}

    def count(self, group, name, amount):
        assert group == "mr_dedup"
        self.counters[name] = self.counters.get(name, 0) + amount

    def partitions(self, paths):
        return [line for path in paths for line in self.job.map_fingerprints(str(path), str(path))]

    def pairs(self, emitted, reducers):
        job = self.job
        return reduced(
            emitted, reducers, job.start_joining, job.reduce_partition, job.send_the_rest
        )

    def lines(self, paths, reducers=2):
        """Return what the files of the last reducers hold, one after the other."""
        pairs = self.pairs(self.partitions(paths), reducers)
        job = self.job
        # of ranges one reducer, so that its file is in order
        texts = reduced(pairs, 1, job.start_counting, job.reduce_range, job.count_pairs)
        return b"".join(text for _, text in texts).decode()


def reduced(emitted, reducers, begin, reduce, end):
    """Hand each reduce task the keys that are its own, ascending."""
    written = []
    for task in range(reducers):
        grouped = {}
        for key, batch in emitted:
            if key % reducers == task:
                grouped.setdefault(key, []).append(batch)
        begin()
        for key in sorted(grouped):
            written += reduce(key, iter(grouped[key]))
        written += end() or ()
    return written


@pytest.mark.parametrize("k", [0, 1, 3, 6])
def test_every_design_and_split_gives_one_answer(corpus, k):
    expected = pair_lines(pairs_among(corpus.corpus, k))
    for number, design in enumerate(list(designs_for(k))[:5]):
        splits, partitions, reducers = [(1, 1, 1), (3, 2, 2), (7, 7, 3), (2, 64, 1)][number % 4]
        order = ["natural", "dealt", str(BitOrder(tuple(reversed(range(64)))))][number % 3]
        tasks = Tasks("-k", str(k), "--design", design, "--partitions", str(partitions),
                      "--bit-order", order)  # fmt: skip
        assert tasks.lines(corpus.split(splits), reducers) == expected
        assert tasks.counters["fingerprints"] == len(corpus.corpus)
        assert tasks.counters["chunks"] == splits
        assert tasks.counters["pairs"] == expected.count("\n")


@pytest.fixture
def two(corpus, tmp_path):
    """Files of two corpora, and the pairs of one fingerprint of each."""
    others = [*corpus.queries, *(flipped(x, {2, 50}) for x in corpus.corpus[:300])]
    right = [write_longs(tmp_path / f"right-{n}.longs", part)
             for n, part in enumerate(arrays(others, 2))]  # fmt: skip
    listed = tmp_path / "others.txt"
    listed.write_text("".join(f"{path}\n" for path in right))
    # the oracle's pairs begin with a query
    pairs = {(left, other) for left, other in pairs_within(others, corpus.corpus, 3)}
    return [*corpus.split(2), *right], listed, pairs


@pytest.mark.parametrize("design", ["all-pairs", "4-tables", "10-tables"])
def test_two_corpora(two, design):
    paths, listed, pairs = two
    tasks = Tasks("--others", str(listed), "--design", design, "--with-distance")
    assert tasks.lines(paths) == pair_lines(pairs, with_distance=True)
    assert tasks.counters["others"] == 503


def test_inputs_of_the_other_corpus_may_be_named_by_number(two, monkeypatch):
    paths, listed, pairs = two
    listed.write_text("#2\n#3\n")
    tasks = Tasks("--others", str(listed))
    emitted = []
    for number, path in enumerate(paths):
        monkeypatch.setenv(NUMBER_VARIABLE, str(number))
        emitted += tasks.partitions([path])
    found = tasks.pairs(emitted, 1)
    columns = [decode_columns(Kind.MATCHES, batch, 2) for _, batch in found]
    assert {pair for left, right in columns
            for pair in zip(left.tolist(), right.tolist(), strict=True)} == pairs  # fmt: skip


def test_tasks_that_do_not_fit_their_memory_find_the_same(corpus, two):
    expected = pair_lines(pairs_among(corpus.corpus, 3))
    options = ["--design", "4-tables", "--partitions", "2", "--table-bytes", "20000"]
    tasks = Tasks(*options)
    assert tasks.lines(corpus.split(3)) == expected
    assert tasks.counters["partitions split"] == 8
    tasks = Tasks(*options[2:], "--design", "all-pairs")
    assert tasks.lines(corpus.split(3)) == expected
    assert tasks.counters["keys sliced"] == 1
    paths, listed, pairs = two
    tasks = Tasks(*options, "--others", str(listed))
    assert tasks.lines(paths) == pair_lines(pairs)
    assert tasks.counters["partitions split"] == 8


def test_a_flood_of_pairs_is_sent_on_in_parts(corpus, monkeypatch):
    monkeypatch.setattr(join, "_HELD_PAIRS", 50)
    tasks = Tasks("-k", "6", "--table-bytes", "2000", "--partitions", "1")
    assert tasks.lines(corpus.split(2)) == pair_lines(pairs_among(corpus.corpus, 6))


def test_batches_have_the_pairs_keyed_by_ranges(corpus):
    tasks = Tasks("--as-batches")
    found = tasks.pairs(tasks.partitions(corpus.split(2)), 2)
    pairs = []
    for key, batch in found:
        left, right = decode_columns(Kind.MATCHES, batch, 2)
        assert {(signed(x) + (1 << 63)) >> 56 for x in left.tolist()} == {key}
        pairs += zip(left.tolist(), right.tolist(), strict=True)
    assert len(pairs) == len(set(pairs)) == tasks.counters["pairs"]
    assert set(pairs) == pairs_among(corpus.corpus, 3)


def test_what_no_task_could_have_sent_is_refused():
    tasks = Tasks()
    columns = [np.arange(3, dtype=np.uint64)] * 2
    (batch,) = encode_columns(Kind.MATCHES, columns)
    with pytest.raises(MrDedupError, match="is of kind 1, expected fingerprints"):
        tasks.pairs([(0, batch)], 1)


def test_damage_in_a_local_copy_is_told_of_what_was_copied(tmp_path):
    copy = tmp_path / "input-12345.longs"
    copy.write_bytes(bytes(803))
    with pytest.raises(FormatError, match=r"^hdfs:///pages/bad\.longs, byte 800: ends inside"):
        list(JoinJob([]).map_fingerprints(str(copy), "hdfs:///pages/bad.longs"))


def test_lines_equal_the_oracles():
    rng = random.Random(1)
    values = [rng.getrandbits(64) for _ in range(200)]
    pairs = {(x, flipped(x, {5, 60})) for x in values} | {(0, (1 << 64) - 1), (7, 7)}
    columns = zip(*sorted(pairs, key=lambda pair: tuple(map(signed, pair))), strict=True)
    ordered = Pairs(*(np.array(column, dtype=np.uint64) for column in columns))
    assert format_lines(ordered).decode() == pair_lines(pairs)
    assert format_lines(ordered, with_distance=True).decode() == pair_lines(pairs, True)
    assert format_lines(Pairs.merged([])) == b""


@pytest.fixture
def run_alone(run_alone):
    return functools.partial(run_alone, "join")


def in_order(output):
    """mrjob prints the reducers' files one after the other."""

    def numbers(line):
        return tuple(int(number.partition(":")[0]) for number in line.split("\t"))

    return "".join(sorted(output.splitlines(keepends=True), key=numbers))


def test_the_job_runs_alone(corpus, two, run_alone, tmp_path):
    parts = corpus.split(2)
    packed = tmp_path / "packed.fpz"
    with fingerprint_writer.create(packed) as out:
        out.write(np.unique(np.fromfile(parts[1], ">u8").astype(np.uint64)))
    done = run_alone("-r", "inline", parts[0], packed)
    assert done.returncode == 0, done.stderr
    assert in_order(done.stdout) == pair_lines(pairs_among(corpus.corpus, 3))
    assert "pairs=" in done.stderr
    paths, listed, pairs = two
    done = run_alone("-r", "inline", "--others", listed, *paths)
    assert in_order(done.stdout) == pair_lines(pairs)


def test_a_design_and_one_partition_give_the_same(corpus, run_alone):
    done = run_alone("-r", "inline", "--partitions", 1, "--design", "4-tables", *corpus.split(2))
    assert done.returncode == 0, done.stderr
    assert in_order(done.stdout) == pair_lines(pairs_among(corpus.corpus, 3))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-k", "-1"], "k must be from 0 to 64, not -1"),
        (["--design", "5-tables"], "design for k = 3 must be one of all-pairs, 4-tables"),
        (["--bit-order", "1,2"], "bit order must be natural, dealt or 64 positions"),
        (["--bit-order", "best"], "bit order must be natural, dealt or 64 positions"),
        (["--table-bytes", "0"], "--table-bytes must be at least 1, not 0"),
        (["--partitions", "0"], "--partitions must be at least 1, not 0"),
        (["--expected", "-5"], "--expected must be at least 1, not -5"),
        (["--others", "missing.txt"], "missing.txt: cannot be read: No such file"),
        (["-r", "spark"], "-r spark hands mappers lines"),
    ],
)
def test_options_that_cannot_be_raise(options, said):
    with pytest.raises(ValueError, match=said):
        JoinJob(options)


def test_mistakes_are_one_line_and_exit_with_2(corpus, run_alone):
    for arguments, said in (
        (["-k", 65, *corpus.split(1)], "error: k must be from 0 to 64, not 65"),
        ([], "error: no corpus files; standard input is read with --corpus-format text only"),
    ):
        done = run_alone(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
