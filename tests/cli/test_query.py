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
import pytest
import zstandard

from mr_dedup.cli.main import main
from mr_dedup.cli.query import _copy_ordered
from mr_dedup.formats import fingerprint_files
from mr_dedup.hamming.design import designs_for
from mr_dedup.runners import RUNNERS, JobResult

BOTH = pytest.mark.parametrize("runner", RUNNERS)


def query(capfd, *arguments):
    """Run the command in this process; return exit code, output, errors."""
    code = main(["query", *map(str, arguments)])
    captured = capfd.readouterr()
    return code, captured.out, captured.err


def mistake(capfd, *arguments):
    """Run a command that must fail as a user's mistake; return its one line."""
    code, out, err = query(capfd, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("mr-dedup: error: ")
    assert err.count("\n") == 1
    return err


def outside(*arguments, **options):
    """Start the command as a process of its own."""
    command = [sys.executable, "-m", "mr_dedup", "query", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


@pytest.fixture
def queries(corpus):
    return corpus.folder / "queries.longs"


@BOTH
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_chunks_and_runners_give_one_answer(corpus, queries, capfd, runner, parts):
    code, out, err = query(capfd, *corpus.split(parts), "--queries", queries, "-r", runner)
    assert code == 0
    assert out == corpus.lines()
    assert f"chunks: {parts}, fingerprints: {len(corpus.corpus):,}" in err


@pytest.mark.parametrize("side", ["queries", "corpus"])
@pytest.mark.parametrize("k", [0, 3, 6])
def test_every_design_on_either_side_gives_one_answer(corpus, queries, capfd, k, side):
    for design in designs_for(k):
        code, out, _ = query(
            capfd, *corpus.split(2), "--queries", queries, "-k", k, "--design", design,
            "--index", side, "--with-distance",
        )  # fmt: skip
        assert code == 0
        assert out == corpus.lines(k, with_distance=True)


def test_every_format_globs_folders_and_odd_names_give_one_answer(
    corpus, queries, capfd, tmp_path, monkeypatch
):
    values = np.array(corpus.corpus, dtype=np.uint64)
    parts = np.array_split(values, 6)
    folder = tmp_path / "odd #1 é"
    folder.mkdir()
    (folder / "_SUCCESS").write_text("no fingerprints")
    for name, part in (
        ("a b.txt", parts[0]),
        ("b.fpz", np.unique(parts[1])),
        ("c.longs", parts[2]),
    ):
        with fingerprint_files.create(folder / name) as out:
            out.write(part)
    (tmp_path / "d-1.longs.gz").write_bytes(gzip.compress(parts[3].astype(">u8").tobytes()))
    lines = "".join(f"{value:#018x}\tpage {i}\n" for i, value in enumerate(parts[4].tolist()))
    (tmp_path / "d-2.tsv.zst").write_bytes(zstandard.compress(lines.encode()))
    (tmp_path / "e e.longs").write_bytes(parts[5].astype(">u8").tobytes())
    monkeypatch.chdir(tmp_path)
    address = (tmp_path / "e e.longs").as_uri()
    for runner in RUNNERS:
        arguments = [folder, "d-*", address, "--queries", queries, "-r", runner]
        code, out, _ = query(capfd, *arguments)
        assert code == 0
        assert out == corpus.lines()


def test_large_files_are_shared_out_among_the_tasks(corpus, queries, capfd, monkeypatch):
    monkeypatch.setattr("mr_dedup.formats.chunks.cut_into_chunks.__defaults__", (500,))
    code, out, err = query(
        capfd, corpus.folder / "corpus.longs", "--queries", queries, "-r", "local"
    )
    assert code == 0
    assert out == corpus.lines()
    assert f"chunks: {-(-len(corpus.corpus) // 500)}, " in err


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


def test_files_that_are_not_ascending_as_a_whole_are_merged(tmp_path):
    """What an engine leaves that deals reduce keys out by hash."""
    texts = [b"-5\t1\n3\t4\n9\t9\n", b"-4\t1\n-2\t7\t8\n10\t1\n", b""]
    parts = []
    for number, text in enumerate(texts):
        parts.append(tmp_path / f"part-{number}")
        parts[-1].write_bytes(text)
    with (tmp_path / "out").open("wb") as out:
        _copy_ordered(JobResult(tuple(parts), {}), out)
    merged = b"-5\t1\n-4\t1\n-2\t7\t8\n3\t4\n9\t9\n10\t1\n"
    assert (tmp_path / "out").read_bytes() == merged


def test_an_empty_corpus_is_said_and_no_error(queries, capfd, tmp_path):
    (tmp_path / "empty.longs").touch()
    for runner in RUNNERS:
        code, out, err = query(capfd, tmp_path / "empty.longs", "--queries", queries, "-r", runner)
        assert (code, out) == (0, "")
        assert "the corpus is empty" in err


def damaged_files(folder, values):
    """Files with one fault each, and what must be said of them."""
    longs = values.astype(">u8").tobytes()
    with fingerprint_files.create(folder / "good.fpz", overwrite=True) as out:
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


@BOTH
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
        ([tmp_path / "nothing", *good], "nothing: holds no files"),
        ([tmp_path / "what.dat", *good], "--"),
        (["file://elsewhere/x.longs", *good], "another machine"),
        ([good[0], "--queries", tmp_path / "empty.longs"], "holds no queries"),
        ([good[0], "--queries", tmp_path / "missing.longs"], "missing.longs"),
        ([good[0], "--queries", tmp_path], "folder"),
        ([*good, "-k", "-1"], "k must be from 0 to 64, not -1"),
        ([*good, "-k", "65"], "k must be from 0 to 64, not 65"),
        ([*good, "--design", "5-tables"], "design for k = 3 must be one of"),
        ([*good, "-o", tmp_path], "folder"),
        ([*good, "-o", tmp_path / "no" / "out.tsv"], "does not exist"),
    ):
        assert reason in mistake(capfd, *arguments), arguments


@pytest.mark.parametrize("cores", ["0", "-2", "two"])
def test_cores_are_checked(corpus, queries, capfd, cores):
    with pytest.raises(SystemExit) as raised:
        main(["query", *corpus.split(1), "--queries", str(queries), f"--cores={cores}"])
    assert raised.value.code == 2
    assert "is no whole number from 1 on" in capfd.readouterr().err


def test_a_k_that_explodes_is_refused_before_work_starts(corpus, queries, capfd, monkeypatch):
    monkeypatch.setattr("mr_dedup.hamming.planner.MAX_MATCHES", 1000)
    line = mistake(capfd, *corpus.split(1), "--queries", queries, "-k", "24")
    assert "choose a smaller k" in line


def default_interrupts():
    """As from a terminal, whatever the parents of the tests ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_an_interrupt_exits_130_and_leaves_nothing(corpus, queries, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    out_file = tmp_path / "out.tsv"
    rng = np.random.default_rng(0)
    big = tmp_path / "big.longs"
    big.write_bytes(rng.integers(0, 2**64, 3_000_000, dtype=np.uint64).tobytes())
    for sent in (signal.SIGINT, signal.SIGTERM):
        process = outside(
            big, "--queries", big, "-k", "7", "-r", "local", "-o", out_file,
            env={**os.environ, "TMPDIR": str(temporary)}, preexec_fn=default_interrupts,
        )  # fmt: skip
        while not list(temporary.glob("mr_dedup-*/*/step/*/mapper/*")):
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
            [sys.executable, "-m", "mr_dedup", "query", *map(str, arguments)],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert process.returncode == 2
    assert process.stderr == "mr-dedup: error: standard output: No space left on device\n"

    def no_growth():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    for runner in RUNNERS:
        process = outside(
            *arguments, "-r", runner, "-o", tmp_path / "out.tsv", preexec_fn=no_growth
        )
        out, err = process.communicate()
        assert (process.returncode, out) == (2, "")
        assert err.count("\n") == 1
        assert "File too large" in err
        assert list(tmp_path.iterdir()) == []


def test_progress_is_shown_on_a_terminal_and_not_in_a_pipe(corpus, queries):
    arguments = [*corpus.split(2), "--queries", queries, "-r", "local"]
    with outside(*arguments) as process:
        quiet = process.communicate()[1]
    assert "%" not in quiet
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "mr_dedup", "query", *map(str, arguments)]
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
    with outside(*corpus.split(1), "--queries", queries, "-k", "6") as process:
        process.stdout.close()
        assert "error" not in process.stderr.read()
    assert process.returncode == 0


def test_the_help_names_each_command():
    done = subprocess.run(
        [sys.executable, "-m", "mr_dedup", "--help"], capture_output=True, text=True, check=True
    )
    for name in ("query", "plan", "convert", "inspect"):
        assert name in done.stdout
