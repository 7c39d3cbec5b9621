"""The command from outside: exit codes, messages, interrupts, memory."""

import fcntl
import os
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

import data_gen
from data_gen.cli import main
from data_gen.cli.command import COMMANDS, FIRST_STEPS

ROOT = Path(data_gen.__file__).parent.parent
DATA = set(COMMANDS) - {"completion"}
NUMBERS = shlex.split("--queries 10 --corpus 500 --duplicates-per-query 2 -k 3 --seed 1")
# some 20 s of work on 160 MB: interrupted long before its end
SLOW = shlex.split(
    "--queries 10 --corpus 20_000_000 --duplicates-per-query 2 -k 3 --seed 1 "
    "--distribution clustered --cluster-radius 64"
)
# as from a terminal, whatever the test runner's parents ignore
DEFAULT_SIGNALS = (
    "import signal; "
    "[signal.signal(s, signal.SIG_DFL) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]; "
)
RUN = "import sys; from data_gen.cli import main; sys.exit(main())"


def command(*arguments: str | Path, before: str = "") -> list[str]:
    return [sys.executable, "-c", before + RUN, "fingerprints", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def run(*arguments: str | Path, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, before=before),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def started(tmp_path: Path, *arguments: str | Path, before: str) -> "subprocess.Popen[str]":
    """Start the command, and return once it is writing the corpus."""
    process = subprocess.Popen(
        command(*arguments, before=before), env=environment(), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob(".*.part/corpus-00000.longs")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def test_without_arguments_the_commands_are_shown_at_once() -> None:
    program = "import sys; from data_gen.cli import main; code = main(); print(*sys.modules); " + (
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "numpy" not in done.stdout.split()
    examples = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("  data-")]
    assert sorted(examples) == sorted(DATA)


@pytest.mark.parametrize("name", sorted(DATA))
def test_the_shown_commands_run(name: str, tmp_path: Path) -> None:
    words = next(
        line.split()[1:]
        for line in FIRST_STEPS.splitlines()
        if line.startswith(f"  data-gen {name} ")
    )
    done = subprocess.run(
        [sys.executable, "-m", "data_gen", *words], cwd=tmp_path, env=environment(),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "planted" in done.stderr or name == "urls"


def test_python_m_writes_a_data_set_and_one_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--near-misses", "3", "--chunk-size", "1KB"]
    done = subprocess.run(
        [sys.executable, "-m", "data_gen", "fingerprints", *NUMBERS, *options, "--out", str(out)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    files = {path.name: path.stat().st_size for path in out.iterdir()}
    truth = files.pop("truth.tsv")
    assert files == {
        "queries.longs": 80,
        "corpus-00000.longs": 1024,
        "corpus-00001.longs": 1024,
        "corpus-00002.longs": 1024,
        "corpus-00003.longs": 928,
    }
    pairs = (out / "truth.tsv").read_text().count("\t")
    line, seconds = done.stderr.removesuffix(" s\n").rsplit(", ", 1)
    assert line == (
        f"data-gen: 10 queries and a corpus of 500, with 20 duplicates planted ({pairs} distinct "
        f"pairs) and 30 near misses: 6 files, {4080 + truth:,} bytes in {out}"
    )
    assert 0 <= float(seconds) < 60
    assert list(tmp_path.iterdir()) == [out]


def shown_on_a_terminal(*arguments: str | Path) -> str:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))  # 24 lines of 80
    done = subprocess.run(command(*arguments), env=environment(), stderr=theirs, check=False)
    # so that there is something to read
    os.write(theirs, b"end")
    shown = os.read(ours, 1 << 16).decode()
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 0
    return shown


def test_a_progress_bar_on_a_terminal(tmp_path: Path) -> None:
    shown = shown_on_a_terminal(*NUMBERS, "--out", tmp_path / "out")
    assert "100%|" in shown
    assert "510/510" in shown


def test_quiet_is_silent_before_and_after_the_command(tmp_path: Path) -> None:
    assert shown_on_a_terminal(*NUMBERS, "--out", tmp_path / "out", "--quiet") == "end"
    words = ["--quiet", "fingerprints", *NUMBERS, "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], env=environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("data-gen: error: ")
    words[-1] += "2"
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], env=environment(), capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.parametrize(
    ("size", "file_sizes"),
    [("4000", {4000}), ("2000", {2000}), ("2kb", {2048, 1952}), ("1MB", {4000}), ("1GB", {4000})],
)
def test_chunk_sizes(tmp_path: Path, size: str, file_sizes: set[int]) -> None:
    assert main(["fingerprints", *NUMBERS, "--chunk-size", size, "--out", str(tmp_path / "o")]) == 0
    assert {path.stat().st_size for path in (tmp_path / "o").glob("corpus-*")} == file_sizes


@pytest.mark.parametrize(
    ("others", "option"),
    [
        ("", "--distribution prefix"),
        ("--distribution prefix", "--prefix-bits 30"),
        ("--distribution prefix", "--prefix-share 0.5"),
        ("--distribution clustered", "--clusters 5"),
        ("--distribution clustered", "--cluster-radius 1"),
        ("--distribution zipf", "--zipf-distinct 9"),
        ("--distribution zipf", "--zipf-exponent 0.5"),
        ("", "--flips exactly"),
        ("", "--near-misses 4"),
        ("", "--duplicates-per-query 3"),
        ("", "--seed 2"),
        ("", "-k 9"),
    ],
)
def test_every_option_reaches_the_data(tmp_path: Path, others: str, option: str) -> None:
    written = []
    for number, options in enumerate((others, f"{others} {option}")):
        out = tmp_path / str(number)
        assert main(["fingerprints", *NUMBERS, *options.split(), "--out", str(out)]) == 0
        written.append(b"".join(path.read_bytes() for path in sorted(out.iterdir())))
    assert written[0] != written[1]


def test_the_defaults_are_what_the_help_says(tmp_path: Path) -> None:
    defaults = {
        "uniform": "",
        "prefix": "--prefix-bits 24 --prefix-share 1.0",
        "clustered": "--clusters 1000 --cluster-radius 3",
        "zipf": "--zipf-distinct 100000 --zipf-exponent 1.0",
    }
    others = "--flips up-to --near-misses 0 --chunk-size 64MB"
    for name, options in defaults.items():
        written = []
        for number, some in enumerate((f"{options} {others}", "")):
            out = tmp_path / f"{name}{number}"
            arguments = [*NUMBERS, "--distribution", name, *some.split(), "--out", str(out)]
            assert main(["fingerprints", *arguments]) == 0
            written.append({path.name: path.read_bytes() for path in out.iterdir()})
        assert written[0] == written[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--corpus 19",
            "corpus must be at least 20, to contain 2 duplicates and 0 near misses of each of 10 "
            "queries, not 19",
        ),
        ("--queries -1", "queries must be from 0 to 281,474,976,710,656, not -1"),
        ("-k 65", "k must be from 0 to 64, not 65"),
        ("-k 63 --near-misses 1", "k must be at most 62 for near misses at k + 2 bits, not 63"),
        ("--seed -1", "seed must be from 0 to 2**64 - 1, not -1"),
        ("--chunk-size 12", "chunk_bytes must be a positive multiple of 8, not 12"),
        ("--prefix-bits 3", "--prefix-bits needs --distribution prefix"),
        ("--distribution zipf --clusters 3", "--clusters needs --distribution clustered"),
        ("--distribution prefix --prefix-bits 65", "prefix_bits must be from 0 to 64, not 65"),
        ("--distribution prefix --prefix-share nan", "prefix_share must be from 0 to 1, not nan"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    arguments = [*NUMBERS, *options.split(), "--out", str(tmp_path / "out")]
    assert main(["fingerprints", *arguments]) == 2
    assert capsys.readouterr() == ("", f"data-gen: error: {message}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        ["--queries", "many"],
        ["--chunk-size", "64XB"],
        ["--chunk-size", ""],
        ["--chunk-size", "-8"],
        ["--flips", "never"],
        ["--distribution", "normal"],
        ["--unknown"],
    ],
)
def test_an_option_that_does_not_parse_is_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["fingerprints", *NUMBERS, "--out", str(tmp_path / "out"), *options])
    assert exit_.value.code == 2
    assert "error: " in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_overwrite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = ["fingerprints", *NUMBERS, "--out", str(out)]
    assert main([*arguments, "--chunk-size", "8"]) == 0
    assert len(list(out.iterdir())) == 502
    capsys.readouterr()
    assert main(arguments) == 2
    assert capsys.readouterr().err == (
        f"data-gen: error: {out}: not empty; give --overwrite to replace it\n"
    )
    assert main([*arguments, "--overwrite"]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "corpus-00000.longs",
        "queries.longs",
        "truth.tsv",
    ]
    (out / "notes.txt").write_text("mine")
    capsys.readouterr()
    assert main([*arguments, "--overwrite"]) == 2
    assert "contains notes.txt, which is not of data-gen" in capsys.readouterr().err
    assert len(list(out.iterdir())) == 4
    assert list(tmp_path.iterdir()) == [out]


def test_more_than_the_free_space_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--corpus", str(2**48), "--queries", str(2**40), "--duplicates-per-query", "0"]
    out = tmp_path / "out"
    arguments = [*NUMBERS, *sizes, "--chunk-size", "1000000GB", "--out", str(out)]
    assert main(["fingerprints", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"data-gen: error: {out}: needs 2,260,595,906,707,456 bytes, but its ")
    assert error.endswith(" free\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [100, 500, 5_000_000])
@pytest.mark.parametrize("before", [False, True])
def test_a_failed_write_leaves_no_files(tmp_path: Path, limit: int, before: bool) -> None:
    """Files may not grow past the limit: in the queries, in the truth, in the corpus."""
    out = tmp_path / "out"
    arguments = [*NUMBERS, "--queries", "20", "--corpus", "1_000_000"]
    if before:
        assert main(["fingerprints", *NUMBERS, "--out", str(out)]) == 0
    was = {path.name: path.read_bytes() for path in out.glob("*")}
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
    failed = run(*arguments, "--overwrite", "--out", out, before=limits)
    assert failed.stderr == f"data-gen: error: {out}: cannot be written: File too large\n"
    assert (failed.returncode, failed.stdout) == (2, "")
    assert list(tmp_path.iterdir()) == [out] * before
    assert {path.name: path.read_bytes() for path in out.glob("*")} == was


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_leaves_no_files(tmp_path: Path, name: str) -> None:
    process = started(tmp_path, *SLOW, "--out", tmp_path / "out", before=DEFAULT_SIGNALS)
    process.send_signal(signal.Signals[name])
    _, error = process.communicate(timeout=15)
    assert error == "data-gen: interrupted\n"
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_the_old_data_set(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["fingerprints", *NUMBERS, "--out", str(out)]) == 0
    was = {path.name: path.read_bytes() for path in out.iterdir()}
    process = started(tmp_path, *SLOW, "--overwrite", "--out", out, before=DEFAULT_SIGNALS)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=15)
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == [out]
    assert {path.name: path.read_bytes() for path in out.iterdir()} == was


def test_a_signal_ignored_from_the_start_stays_ignored(tmp_path: Path) -> None:
    arguments = [*SLOW, "--corpus", "1_000_000", "--out", tmp_path / "out"]
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    process = started(tmp_path, *arguments, before=ignoring)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_signal_handlers_are_restored(tmp_path: Path) -> None:
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(each) for each in signals]
    assert main(["fingerprints", *NUMBERS, "--out", str(tmp_path / "out")]) == 0
    assert main(["fingerprints", *NUMBERS, "--out", str(tmp_path / "out")]) == 2
    assert [signal.getsignal(each) for each in signals] == before


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryError(), 2, "out of memory: use fewer queries or planted values"),
        (ValueError("odd"), 70, "a bug in data-gen: ValueError: odd (--debug shows where)"),
    ],
)
def test_errors_other_than_usage_errors(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    message: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("data_gen.fingerprints.make_duplicates", fail)
    arguments = ["fingerprints", *NUMBERS, "--out", str(tmp_path / "out")]
    assert main(arguments) == code
    assert capsys.readouterr().err == f"data-gen: error: {message}\n"
    with pytest.raises(type(error)):
        main(["--debug", *arguments])
    assert list(tmp_path.iterdir()) == []


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    # the peak of the process itself; that of wait4 includes its parent's, before the exec
    peak = (
        "import atexit, re; from pathlib import Path; atexit.register(lambda: print(re.search("
        "r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])); "
    )
    peaks = []
    for corpus in ("2_000_000", "20_000_000"):
        arguments = [*NUMBERS, "--queries", "1000", "--corpus", corpus, "--near-misses", "2"]
        done = run(*arguments, "--out", tmp_path / corpus, before=peak)
        assert done.returncode == 0
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.1 * peaks[0]
    assert peaks[1] < 150_000  # of 160,000 kB of corpus
