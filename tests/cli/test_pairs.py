"""mr-dedup pairs from outside: one answer however it is found, one line for every mistake."""

import gzip

import numpy as np
import pytest

from mr_dedup.engines.streaming import RUNNERS
from mr_dedup.formats import fingerprint_chunks, fingerprint_writer
from mr_dedup.hamming import search
from mr_dedup.hamming.design import designs_for
from tests.cli.running import Command
from tests.oracles import flipped, pair_lines, pairs_among, pairs_within

ALL = pytest.mark.parametrize("runner", ["memory", *RUNNERS])

# less than the corpora of these tests take in memory
AS_A_JOB = ["--table-memory", "64KB"]


pairs = Command("pairs")
mistake = pairs.mistake


@pytest.fixture
def small_chunks(monkeypatch):
    """Let the small corpora of the tests take several tasks."""
    monkeypatch.setattr(fingerprint_chunks, "CHUNK_FINGERPRINTS", 900)
    monkeypatch.setattr(fingerprint_chunks, "_FILE_COST", 10)


@pytest.fixture
def others(corpus, tmp_path):
    """A file of another corpus, and the pairs of one fingerprint of each."""
    values = [*corpus.queries, *(flipped(x, {2, 50}) for x in corpus.corpus[:300])]
    path = tmp_path / "others.longs"
    path.write_bytes(np.array(values, dtype=">u8").tobytes())
    return path, {(left, right) for left, right in pairs_within(values, corpus.corpus, 3)}


@pytest.mark.parametrize("k", [0, 3])
def test_one_answer_by_every_runner_in_memory_or_not(corpus, capfd, small_chunks, staged, k):
    expected = pair_lines(pairs_among(corpus.corpus, k))
    count = f"{expected.count(chr(10)):,} pairs in "
    for options, how, tasks in (
        ([], "in memory", 0),
        (["-r", "memory"], "in memory", 0),
        (["-r", "inline"], "in memory", 0),
        (["-r", "local"], "partitions", 4),
        (["-r", "inline", *AS_A_JOB], "partitions", 4),
        (AS_A_JOB, "partitions", 4),
    ):
        staged.clear()
        code, out, err = pairs(capfd, *corpus.split(2), "-k", k, *options)
        assert (code, out) == (0, expected), options
        assert f"files: 2, fingerprints: {len(corpus.corpus):,}, k = {k}, " in err
        assert how in err.splitlines()[0]
        assert count in err
        assert (len(staged) >= tasks) if tasks else not staged


@ALL
def test_every_design_gives_one_answer(corpus, capfd, runner):
    expected = pair_lines(pairs_among(corpus.corpus, 3))
    for design in designs_for(3):
        for options in ([], AS_A_JOB) if runner != "local" else ([],):
            code, out, err = pairs(
                capfd, *corpus.split(1), "--design", design, "-r", runner, *options
            )
            assert (code, out) == (0, expected)
            assert f"k = 3, {design} in " in err
        if runner == "local" and design == "4-tables":
            break


@ALL
@pytest.mark.parametrize("memory", ["400MB", "64KB"])
def test_two_corpora(corpus, others, capfd, small_chunks, runner, memory):
    path, found = others
    code, out, err = pairs(
        capfd, *corpus.split(2), "--with", path, "--with-distance", "-r", runner,
        "--table-memory", memory,
    )  # fmt: skip
    assert (code, out) == (0, pair_lines(found, with_distance=True))
    assert f"files: 3, fingerprints: {len(corpus.corpus):,} and 503, k = 3" in err


@ALL
def test_a_corpus_with_itself_pairs_all_with_themselves(corpus, capfd, runner):
    path = corpus.folder / "corpus.longs"
    code, out, _ = pairs(capfd, path, "--with", path, "-k", 1, "-r", runner)
    assert code == 0
    assert out == pair_lines(pairs_within(corpus.corpus, corpus.corpus, 1))


@ALL
def test_what_does_not_fit_is_split_and_said(corpus, capfd, runner):
    code, out, err = pairs(
        capfd, *corpus.split(2), "--design", "all-pairs", "-r", runner, "--table-memory", "20KB"
    )
    assert (code, out) == (0, pair_lines(pairs_among(corpus.corpus, 3)))
    assert "more than fitted the memory: 0 partitions were split, 1 keys joined in slices" in err


@ALL
def test_every_format_globs_folders_and_odd_names_give_one_answer(
    corpus, capfd, tmp_path, monkeypatch, runner
):
    parts = np.array_split(np.array(corpus.corpus, dtype=np.uint64), 4)
    folder = tmp_path / "odd #1 é"
    folder.mkdir()
    for name, part in (("a b.txt", parts[0]), ("b.fpz", np.unique(parts[1]))):
        with fingerprint_writer.create(folder / name) as out:
            out.write(part)
    (tmp_path / "c-1.longs.gz").write_bytes(gzip.compress(parts[2].astype(">u8").tobytes()))
    (tmp_path / "d").write_bytes(parts[3].astype(">u8").tobytes())
    monkeypatch.chdir(tmp_path)
    assert "the format is not known by its ending" in mistake(capfd, folder, "c-*", "d")
    (tmp_path / "d").rename("d.longs")
    code, out, _ = pairs(capfd, folder, "c-*", "d.longs", "-r", runner)
    assert (code, out) == (0, pair_lines(pairs_among(corpus.corpus, 3)))


def test_little_endian_longs_that_no_name_tells(corpus, capfd, tmp_path):
    path = tmp_path / "corpus"
    path.write_bytes(np.array(corpus.corpus, dtype="<u8").tobytes())
    for runner in RUNNERS:
        code, out, _ = pairs(capfd, path, "--corpus-format", "longs", "--byte-order", "little",
                             "-r", runner)  # fmt: skip
        assert (code, out) == (0, pair_lines(pairs_among(corpus.corpus, 3)))


@ALL
def test_nothing_is_nothing(corpus, capfd, tmp_path, runner):
    empty = tmp_path / "empty.longs"
    empty.touch()
    code, out, err = pairs(capfd, empty, "-r", runner)
    assert (code, out) == (0, "")
    assert "mr-dedup: the corpus is empty" in err
    code, out, err = pairs(capfd, *corpus.split(1), "--with", empty, "-r", runner)
    assert (code, out) == (0, "")
    assert "mr-dedup: the other corpus is empty" in err


@ALL
def test_skewed_values_and_copies_give_one_answer(capfd, tmp_path, runner):
    """A page that most files have, and a cluster that shares its leading bits."""
    rng = np.random.default_rng(1)
    skewed = rng.integers(0, 2**20, 600, dtype=np.uint64) | np.uint64(0xABCDE << 40)
    values = np.r_[np.zeros(5000, np.uint64), skewed, rng.integers(0, 2**64, 500, dtype=np.uint64)]
    rng.shuffle(values)
    path = tmp_path / "skewed.longs"
    path.write_bytes(values.astype(">u8").tobytes())
    for options in ([], ["--table-memory", "40KB"]):
        code, out, _ = pairs(capfd, path, "-r", runner, *options)
        assert (code, out) == (0, pair_lines(pairs_among(values.tolist(), 3)))


def test_the_design_that_is_printed_is_the_one_that_was_used(capfd, tmp_path, monkeypatch):
    """With skewed values it differs from the one for values without a pattern."""
    rng = np.random.default_rng(1)
    paths = [tmp_path / "a.longs", tmp_path / "b.longs"]
    for path in paths:
        values = rng.integers(0, 2**28, 30_000, dtype=np.uint64)
        path.write_bytes(values.astype(">u8").tobytes())
    used = []

    class Recorded(search.Tables):
        def __init__(self, values, design, *arguments):
            used.append(design.name)
            super().__init__(values, design, *arguments)

    monkeypatch.setattr(search, "Tables", Recorded)
    code, _, err = pairs(capfd, paths[0], "--with", paths[1])
    assert code == 0
    assert f"k = 3, {used[0]} in memory" in err


def test_out_is_written_whole_and_is_no_input(corpus, capfd, tmp_path):
    out_file = tmp_path / "pairs.tsv"
    arguments = [*corpus.split(1), "-o", out_file]
    assert pairs(capfd, *arguments)[:2] == (0, "")
    assert out_file.read_text() == pair_lines(pairs_among(corpus.corpus, 3))
    assert "exists; give --overwrite" in mistake(capfd, *arguments)
    copy = tmp_path / "copy.longs"
    copy.write_bytes(bytes(16))
    for arguments in ([copy], [*corpus.split(1), "--with", copy]):
        said = mistake(capfd, *arguments, "-o", copy, "--overwrite")
        assert "is read as well; choose another name" in said
    assert copy.read_bytes() == bytes(16)


@ALL
def test_mistakes_are_one_line(corpus, capfd, tmp_path, runner):
    good = corpus.split(1)
    (tmp_path / "bad.longs").write_bytes(bytes(803))
    for arguments, reason in (
        ([tmp_path / "missing.longs"], "missing.longs: no such file"),
        ([*good, "--with", tmp_path / "missing.longs"], "missing.longs: no such file"),
        ([tmp_path / "bad.longs"], "bad.longs, byte 800: ends inside a long"),
        ([*good, "--with", tmp_path / "bad.longs"], "bad.longs, byte 800: ends inside a long"),
        ([*good, "-k", "65"], "k must be from 0 to 64, not 65"),
        ([*good, "--design", "5-tables"], "design for k = 3 must be one of"),
        ([*good, "--reducers", "3"], "--reducers: needs -r hadoop, -r emr or -r spark"),
        (["s4://b/a.longs"], "s4://b/a.longs: not a URI of a known store"),
        ([*good, "--with", "s4://b/a.longs"], "s4://b/a.longs: not a URI of a known store"),
        ([*good, "-o", "https://b/pairs.tsv"], "https://b/pairs.tsv: https:// is only read"),
    ):
        assert reason in mistake(capfd, *arguments, "-r", runner), arguments


@ALL
def test_a_k_that_explodes_is_refused(corpus, capfd, monkeypatch, runner):
    monkeypatch.setattr("mr_dedup.hamming.planner.MAX_MATCHES", 100)
    assert "choose a smaller k" in mistake(capfd, *corpus.split(1), "-k", 30, "-r", runner)
