"""mr-dedup query from outside: what it prints, and one clear line for every mistake."""

import contextlib
import fcntl
import gzip
import os
import pty
import resource
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from mr_dedup.cli.main import main
from mr_dedup.engines import streaming
from mr_dedup.engines.streaming.engine import StreamingEngine
from mr_dedup.errors import MrDedupError
from mr_dedup.formats import fingerprint_chunks, fingerprint_writer
from mr_dedup.hamming import search
from mr_dedup.hamming.design import designs_for
from tests.cli.running import Command, by_turns
from tests.oracles import result_lines

RUNNERS = ("memory", *streaming.RUNNERS)
ALL = pytest.mark.parametrize("runner", RUNNERS)


query = Command("query")
mistake = query.mistake


@pytest.fixture
def queries(corpus):
    return corpus.folder / "queries.longs"


@pytest.fixture
def small_chunks(monkeypatch):
    """Let the small corpora of the tests take several tasks, of at most 500 fingerprints each."""
    monkeypatch.setattr(fingerprint_chunks, "CHUNK_FINGERPRINTS", 500)
    monkeypatch.setattr(fingerprint_chunks, "_FILE_COST", 10)


@by_turns(("parts",), [1, 7, 2], RUNNERS)
def test_files_and_runners_give_one_answer(corpus, queries, capfd, staged, runner, parts):
    code, out, err = query(capfd, *corpus.split(parts), "--queries", queries, "-r", runner)
    assert code == 0
    assert out == corpus.lines()
    assert len(staged) == 1
    assert f"files: {parts}, fingerprints: {len(corpus.corpus):,}, distinct queries: 203" in err


@pytest.mark.parametrize("side", ["queries", "corpus"])
@by_turns(("k",), [0, 3, 6], RUNNERS)
def test_every_design_on_either_side_gives_one_answer(
    corpus, queries, capfd, monkeypatch, staged, runner, k, side
):
    monkeypatch.setattr(fingerprint_chunks, "CHUNK_FINGERPRINTS", 1600)
    for design in designs_for(k):
        staged.clear()
        code, out, err = query(
            capfd, corpus.folder / "corpus.longs", "--queries", queries, "-k", k,
            "--design", design, "--index", side, "--with-distance", "-r", runner,
        )  # fmt: skip
        assert code == 0
        assert out == corpus.lines(k, with_distance=True)
        assert f"k = {k}, {design} over the {side}\n" in err
        assert len(staged) == 2


@ALL
@pytest.mark.parametrize("side", ["queries", "corpus"])
def test_tables_past_the_memory_are_built_in_slices(
    corpus, queries, capfd, monkeypatch, runner, side
):
    sizes = []
    usual = search.Tables.__init__

    def noting(tables, fingerprints, *others):
        sizes.append(fingerprints.size)
        usual(tables, fingerprints, *others)

    monkeypatch.setattr(search.Tables, "__init__", noting)
    code, out, _ = query(
        capfd, *corpus.split(2), "--queries", queries, "--index", side, "--table-memory", "4KB",
        "--design", "4-tables", "-r", runner,
    )  # fmt: skip
    assert (code, out) == (0, corpus.lines())
    if runner != "local":  # a forked task notes in a memory of its own
        assert len(sizes) > 1
        assert max(sizes) * 44 <= 4096


def test_thousands_of_tiny_files_share_a_few_tasks(capfd, tmp_path, staged):
    rng = np.random.default_rng(3)
    values = rng.integers(0, 2**64, 4000, dtype=np.uint64)
    (tmp_path / "corpus").mkdir()
    for number, part in enumerate(np.array_split(values, 2000)):
        (tmp_path / "corpus" / f"{number:04}.longs").write_bytes(part.astype(">u8").tobytes())
    (tmp_path / "q.longs").write_bytes(values[::40].astype(">u8").tobytes())
    lines = result_lines((value, value) for value in values[::40].tolist())
    for runner in RUNNERS:
        staged.clear()
        code, out, _ = query(
            capfd, tmp_path / "corpus", "--queries", tmp_path / "q.longs", "-r", runner,
            "--cores", 2,
        )  # fmt: skip
        assert (code, out) == (0, lines)
        assert len(staged) <= 3
        assert sum(len(chunk.parts) for chunk in staged) == 2000


def test_chunks_that_are_searched_differently_are_told_apart(
    corpus, queries, capfd, tmp_path, monkeypatch
):
    """Of a large chunk the queries are indexed, the small one is indexed itself."""
    monkeypatch.setattr(fingerprint_chunks, "CHUNK_FINGERPRINTS", 3000)
    (tmp_path / "few.longs").write_bytes(np.arange(3, dtype=">u8").tobytes())
    code, _, err = query(capfd, corpus.folder / "corpus.longs", tmp_path / "few.longs",
                         "--queries", queries)  # fmt: skip
    assert code == 0
    used = err.splitlines()[0].partition("k = 3, ")[2].split(", ")
    assert len(used) == 2
    assert "all-pairs over the corpus (1 chunk)" in used
    assert sum("over the queries (1 chunk)" in name for name in used) == 1


def test_every_format_globs_folders_and_odd_names_give_one_answer(
    corpus, queries, capfd, tmp_path, monkeypatch
):
    values = np.array(corpus.corpus, dtype=np.uint64)
    parts = np.array_split(values, 7)
    folder = tmp_path / "odd #1 é"
    folder.mkdir()
    (folder / "_SUCCESS").write_text("no fingerprints")
    for name, part in (
        ("a b.txt", parts[0]),
        ("b.fpz", np.unique(parts[1])),
        ("c.longs", parts[2]),
    ):
        with fingerprint_writer.create(folder / name) as out:
            out.write(part)
    (tmp_path / "d-1.longs.gz").write_bytes(gzip.compress(parts[3].astype(">u8").tobytes()))
    lines = "".join(f"{value:#018x}\tpage {i}\n" for i, value in enumerate(parts[4].tolist()))
    (tmp_path / "d-2.tsv.zst").write_bytes(zstandard.compress(lines.encode()))
    (tmp_path / "e e.longs").write_bytes(parts[5].astype(">u8").tobytes())
    rows = pa.table({"id": [f"page {i}" for i in range(parts[6].size)], "fingerprint": parts[6]})
    pq.write_table(rows, folder / "f.parquet")
    monkeypatch.chdir(tmp_path)
    address = (tmp_path / "e e.longs").as_uri()
    for runner in RUNNERS:
        arguments = [folder, "d-*", address, "--queries", queries, "-r", runner]
        code, out, _ = query(capfd, *arguments)
        assert code == 0
        assert out == corpus.lines()


@ALL
@pytest.mark.parametrize("ending", [".longs", ".parquet"])
def test_large_files_are_shared_out_among_the_tasks(
    corpus, queries, capfd, tmp_path, small_chunks, staged, runner, ending
):
    path = corpus.folder / "corpus.longs"
    if ending == ".parquet":
        path = tmp_path / "corpus.parquet"
        values = np.array(corpus.corpus, dtype=np.uint64).view(np.int64)
        pq.write_table(pa.table({"fingerprint": values}), path, row_group_size=1024)
    code, out, _ = query(capfd, path, "--queries", queries, "-r", runner)
    assert (code, out) == (0, corpus.lines())
    assert len(staged) == -(-len(corpus.corpus) // 500)


def test_queries_in_parquet(corpus, capfd, tmp_path):
    rows = [*corpus.queries, None]
    ids = [f"page {number}" for number in range(len(rows))]
    table = pa.table({"id": ids, "fingerprint": pa.array(rows, pa.uint64())})
    pq.write_table(table, tmp_path / "q.parquet")
    arguments = [*corpus.split(1), "--queries", tmp_path / "q.parquet"]
    code, out, err = query(capfd, *arguments, "--print-fingerprints")
    assert (code, out) == (0, corpus.lines())
    assert "distinct queries: 203" in err
    code, out, err = query(capfd, *arguments)
    signed = {str(value - (value >> 63 << 64)): id for value, id in zip(rows[:-1], ids[:-1])}  # noqa: B905 (as long)
    lines = (line.split("\t") for line in corpus.lines().splitlines())
    by_id = {signed[first]: "\t".join([signed[first], *rest]) + "\n" for first, *rest in lines}
    assert (code, out) == (0, "".join(by_id[id] for id in ids if id in by_id))
    pq.write_table(table.select(["id"]), tmp_path / "q.parquet")
    line = mistake(capfd, *corpus.split(1), "--queries", tmp_path / "q.parquet")
    assert "q.parquet: has no column 'fingerprint' of fingerprints, nor 'text' or 'html'" in line
    assert line.endswith("; its columns are id\n")


def test_a_cluster_is_sent_what_is_told_to_be_parquet_whole(
    corpus, queries, capfd, tmp_path, monkeypatch, small_chunks
):
    sent = []

    def noting(engine, job, inputs):
        sent.append(sorted(Path(each.location).name for each in inputs))
        raise MrDedupError("this far")

    monkeypatch.setattr(StreamingEngine, "run", noting)
    values = np.array(corpus.corpus, dtype=np.uint64)
    for name in ("a.parquet", "b"):
        pq.write_table(pa.table({"fingerprint": values}), tmp_path / name)
    arguments = [tmp_path / "a.parquet", "--queries", queries, "-r", "hadoop"]
    assert "this far" in mistake(capfd, *arguments)
    assert "this far" in mistake(capfd, tmp_path / "b", *arguments, "--corpus-format", "parquet")
    parts = -(-values.size // 500)
    assert sent == [[f"{number:06}.longs" for number in range(parts)], ["a.parquet", "b"]]


@ALL
def test_formats_that_no_name_tells_are_told(corpus, capfd, tmp_path, runner):
    (tmp_path / "corpus").write_text("".join(f"{value:#018x}\n" for value in corpus.corpus))
    (tmp_path / "queries.dat").write_bytes(np.array(corpus.queries, dtype=">u8").tobytes())
    arguments = [tmp_path / "corpus", "--queries", tmp_path / "queries.dat", "-r", runner]
    assert "corpus: the format is not known" in mistake(capfd, *arguments)
    arguments += ["--corpus-format", "text"]
    assert "queries.dat: the format is not known" in mistake(capfd, *arguments)
    code, out, _ = query(capfd, *arguments, "--queries-format", "longs")
    assert (code, out) == (0, corpus.lines())


def test_a_wrong_format_is_named(corpus, queries, capfd):
    line = mistake(capfd, corpus.split(1)[0], "--queries", queries, "--corpus-format", "packed")
    assert "part-1-0.longs, header: " in line


def test_little_endian_longs(corpus, capfd, tmp_path):
    for name, values in (("c.longs", corpus.corpus), ("q.longs", corpus.queries)):
        (tmp_path / name).write_bytes(np.array(values, dtype="<u8").tobytes())
    code, out, _ = query(
        capfd, tmp_path / "c.longs", "--queries", tmp_path / "q.longs", "--byte-order", "little"
    )
    assert (code, out) == (0, corpus.lines())


def test_out_is_written_whole_and_never_replaced_unasked(corpus, queries, capfd, tmp_path):
    out_file = tmp_path / "out.tsv"
    arguments = [*corpus.split(1), "--queries", queries, "-o", out_file]
    code, out, _ = query(capfd, *arguments)
    assert (code, out) == (0, "")
    assert out_file.read_text() == corpus.lines()
    assert "exists; give --overwrite" in mistake(capfd, *arguments)
    out_file.write_text("old")
    assert query(capfd, *arguments, "--overwrite")[0] == 0
    assert out_file.read_text() == corpus.lines()
    assert sorted(tmp_path.iterdir()) == [out_file]


def test_out_is_none_of_the_inputs(corpus, queries, capfd, tmp_path):
    (tmp_path / "corpus.longs").symlink_to(corpus.split(1)[0])
    for arguments in (
        ["--queries", queries, "-o", tmp_path / "corpus.longs"],
        ["--queries", tmp_path / "corpus.longs", "-o", corpus.split(1)[0]],
    ):
        before = Path(arguments[-1]).read_bytes()
        line = mistake(capfd, corpus.folder / "corpus.longs", *corpus.split(1), "--overwrite",
                       *arguments)  # fmt: skip
        assert "is read as well; choose another name" in line
        assert Path(arguments[-1]).read_bytes() == before


def test_an_empty_corpus_is_said_and_no_error(queries, capfd, tmp_path):
    (tmp_path / "empty.longs").touch()
    for runner in RUNNERS:
        code, out, err = query(capfd, tmp_path / "empty.longs", "--queries", queries, "-r", runner)
        assert (code, out) == (0, "")
        assert "the corpus is empty" in err


def damaged_files(folder, values):
    """Files with one fault each, and what must be said of them."""
    longs = values.astype(">u8").tobytes()
    with fingerprint_writer.create(folder / "good.fpz", overwrite=True) as out:
        out.write(np.unique(values))
    packed = (folder / "good.fpz").read_bytes()
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 4
    faults = {
        "short.longs": (longs[:-3], "byte "),
        "cut.longs.gz": (gzip.compress(longs)[:-20], "cut short"),
        "nogzip.longs.gz": (longs, "gzip"),
        "bad.txt": (b"1\n2\nthree\n4\n", "line 3"),
        "flipped.fpz": (bytes(flipped), "block "),
        "magic.fpz": (b"X" + packed[1:], "header"),
        "cut.fpz": (packed[:-9], ""),
    }
    for name, (content, reason) in faults.items():
        (folder / name).write_bytes(content)
        yield folder / name, reason


@ALL
def test_damaged_corpora_are_named(corpus, queries, capfd, tmp_path, runner):
    out_file = tmp_path / "out.tsv"
    good = corpus.split(1)
    for path, reason in damaged_files(tmp_path, np.array(corpus.corpus, dtype=np.uint64)):
        line = mistake(capfd, *good, path, "--queries", queries, "-r", runner, "-o", out_file)
        assert path.name in line
        assert reason in line
        assert not out_file.exists()


def test_damaged_queries_are_named(corpus, capfd, tmp_path):
    good = corpus.split(1)
    for path, reason in damaged_files(tmp_path, np.array(corpus.corpus, dtype=np.uint64)):
        line = mistake(capfd, *good, "--queries", path)
        assert path.name in line
        assert reason in line


def test_other_mistakes_are_one_line(corpus, queries, capfd, tmp_path):
    good = [*corpus.split(1), "--queries", queries]
    (tmp_path / "empty.longs").touch()
    (tmp_path / "what.dat").touch()
    (tmp_path / "nothing").mkdir()
    for arguments, reason in (
        ([tmp_path / "missing.longs", *good], "missing.longs: no such file"),
        ([tmp_path / "nothing", *good], "nothing: contains no files"),
        ([tmp_path / "what.dat", *good], "--"),
        (["file://elsewhere/x.longs", *good], "another host"),
        ([good[0], "--queries", tmp_path / "empty.longs"], "contains no queries"),
        ([good[0], "--queries", tmp_path / "missing.longs"], "missing.longs"),
        ([good[0], "--queries", tmp_path], "is a directory"),
        ([*good, "-k", "-1"], "k must be from 0 to 64, not -1"),
        ([*good, "-k", "65"], "k must be from 0 to 64, not 65"),
        ([*good, "--design", "5-tables"], "design for k = 3 must be one of"),
        ([*good, "-o", tmp_path], "is a directory"),
        ([*good, "-o", tmp_path / "no" / "out.tsv"], "does not exist"),
    ):
        assert reason in mistake(capfd, *arguments), arguments


@pytest.mark.parametrize("cores", ["0", "-2", "two"])
def test_cores_are_checked(corpus, queries, capfd, cores):
    with pytest.raises(SystemExit) as raised:
        main(["query", *corpus.split(1), "--queries", str(queries), f"--cores={cores}"])
    assert raised.value.code == 2
    assert "is not an integer from 1 on" in capfd.readouterr().err


def test_a_k_that_explodes_is_refused_before_work_starts(corpus, queries, capfd, monkeypatch):
    monkeypatch.setattr("mr_dedup.hamming.planner.MAX_MATCHES", 1000)
    line = mistake(capfd, *corpus.split(1), "--queries", queries, "-k", "24")
    assert "choose a smaller k" in line


@ALL
def test_work_that_explodes_for_a_skewed_chunk_is_refused_by_its_task(
    queries, capfd, tmp_path, staged, runner
):
    """Uniform values would not match that often: only a sample of the chunk tells."""
    rng = np.random.default_rng(4)
    skewed = rng.integers(0, 2**16, 200_000, dtype=np.uint64)
    for name in ("corpus.longs", "q.longs"):
        (tmp_path / name).write_bytes(np.unique(skewed).astype(">u8").tobytes())
    line = mistake(capfd, tmp_path / "corpus.longs", "--queries", tmp_path / "q.longs",
                   "-k", "16", "-r", runner)  # fmt: skip
    assert "pairs match by chance alone" in line
    assert staged


def test_debug_shows_where_an_error_came_from(corpus, queries, tmp_path):
    (tmp_path / "bad.longs").write_bytes(bytes(9))
    command = [sys.executable, "-m", "mr_dedup", "--debug", "query", str(tmp_path / "bad.longs"),
               "--queries", str(queries)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert "bad.longs, byte 8: ends inside a long" in done.stderr.splitlines()[-1]


MEASURED_TASKS = """
import resource, sys
from pathlib import Path
from mr_dedup.cli.main import main
from mr_dedup.jobs.query import QueryJob

usual = QueryJob.map

def measured(job, part, counters):
    yield from usual(job, part, counters)
    with open(sys.argv[1], "a") as peaks:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=peaks)

QueryJob.map = measured
sys.exit(main(sys.argv[2:]))
"""


def peaks_of_tasks(folder, *arguments):
    """Return the bytes that each task of a query took at most, by the system's count.

    Each is a process of its own, forked; of a forked one that becomes another program, such as
    sort, the system would count what its parent had.
    """
    peaks = folder / "peaks"
    peaks.unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-c", MEASURED_TASKS, peaks, "query", *map(str, arguments)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [1024 * int(line) for line in peaks.read_text().split()]


@pytest.mark.slow
def test_a_task_holds_neither_the_corpus_nor_its_chunk(queries, tmp_path):
    """Of 256 MB, in chunks of 64: a few batches of 16 MB, and the tables that are allowed."""
    small, large = tmp_path / "small.longs", tmp_path / "large.longs"
    small.write_bytes(bytes(800))
    rng = np.random.default_rng(5)
    with large.open("wb") as file:
        for _ in range(4):
            rng.integers(0, 2**64, 1 << 23, dtype=np.uint64).tofile(file)
    arguments = ["--queries", queries, "-k", "2", "-o", tmp_path / "out.tsv", "--overwrite",
                 "-r", "local", "--cores", "1"]  # fmt: skip
    tables = ["--index", "corpus", "--table-memory", "32MB"]
    (least,) = peaks_of_tasks(tmp_path, small, *arguments)
    streamed = peaks_of_tasks(tmp_path, large, *arguments)
    indexed = peaks_of_tasks(tmp_path, large, *arguments, *tables)
    # at once: pytest keeps the folders of its last runs
    large.unlink()
    assert len(streamed) == len(indexed) == 4
    assert max(streamed) - least < 48 << 20
    # tables of all of a chunk would take nearly 300 MB; those of one slice, 32, are still there
    # while those of the next are built
    assert max(indexed) - least < 160 << 20


def default_interrupts():
    """As from a terminal, whatever the parents of the tests ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("runner", "begun"), [("memory", "*.chunk.json"), ("local", "**/step/*/mapper/*")]
)
def test_an_interrupt_exits_130_and_leaves_nothing(tmp_path, runner, begun):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    out_file = tmp_path / "out.tsv"
    rng = np.random.default_rng(0)
    big = tmp_path / "big.longs"
    big.write_bytes(rng.integers(0, 2**64, 3_000_000, dtype=np.uint64).tobytes())
    for sent in (signal.SIGINT, signal.SIGTERM):
        process = query.start(
            big, "--queries", big, "-k", "7", "-r", runner, "-o", out_file,
            env={**os.environ, "TMPDIR": str(temporary)}, preexec_fn=default_interrupts,
        )  # fmt: skip
        while not list(temporary.glob(f"mr_dedup-*/{begun}")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(sent)
        out, err = process.communicate()
        assert (process.returncode, out, err) == (130, "", "mr-dedup: error: interrupted\n")
        assert list(temporary.iterdir()) == []
        assert not out_file.exists()


def test_a_full_disk_is_one_line(corpus, queries, tmp_path):
    """Standard output on a full device, and files that may not grow."""
    arguments = [*corpus.split(2), "--queries", queries]
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            query.program(*arguments),
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert process.returncode == 2
    assert process.stderr == "mr-dedup: error: standard output: No space left on device\n"

    def no_growth():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    for runner in RUNNERS:
        process = query.start(
            *arguments, "-r", runner, "-o", tmp_path / "out.tsv", preexec_fn=no_growth
        )
        out, err = process.communicate()
        assert (process.returncode, out) == (2, "")
        assert err.count("\n") == 1
        assert "File too large" in err
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("runner", ["memory", "local"])
def test_progress_is_shown_on_a_terminal_and_not_in_a_pipe(corpus, queries, runner):
    arguments = [*corpus.split(2), "--queries", queries, "-r", runner]
    with query.start(*arguments) as process:
        quiet = process.communicate()[1]
    assert "%" not in quiet
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = query.program(*arguments)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a pseudo-terminal
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    assert process.wait() == 0
    assert b"map: 100%" in shown
    assert b"reduce: 100%" in shown
    assert shown.endswith(b"fingerprints a second\r\n")


def test_a_reader_that_leaves_early_is_no_error(corpus, queries):
    with query.start(*corpus.split(1), "--queries", queries, "-k", "6") as process:
        process.stdout.close()
        assert "error" not in process.stderr.read()
    assert process.returncode == 0


def test_the_help_names_each_command():
    done = subprocess.run(Command("--help").program(), capture_output=True, text=True, check=True)
    for name in ("query", "plan", "convert", "inspect"):
        assert name in done.stdout
