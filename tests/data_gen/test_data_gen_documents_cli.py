"""data-gen documents from outside: options, messages, failures, memory."""

import functools
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import data_gen
from data_gen import document_files
from data_gen.cli import main
from tests.data_gen.document_oracles import read_documents, read_pairs

ROOT = Path(data_gen.__file__).parent.parent
NUMBERS = shlex.split("--documents 5 --duplicates-per-document 2 --seed 1 --length 80")


def run(*arguments: str | Path, before: str = "") -> subprocess.CompletedProcess[str]:
    code = before + "import sys; from data_gen.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, "documents", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_data_set_and_a_line_about_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(*NUMBERS, "--near-misses", "3", "--out", out)
    assert (done.returncode, done.stdout) == (0, "")
    sizes = {path.name: path.stat().st_size for path in out.iterdir()}
    assert sorted(sizes) == ["documents-00000.jsonl", "near-misses.tsv", "truth.tsv"]
    line, seconds = done.stderr.removesuffix(" s\n").rsplit(", ", 1)
    assert line == (
        f"data-gen: 5 documents, with 10 duplicates planted (15 pairs) and 15 near misses: "
        f"3 files, {sum(sizes.values()):,} bytes in {out}"
    )
    assert 0 <= float(seconds) < 120
    assert len(read_documents(out)) == 30
    assert len(read_pairs(out / "truth.tsv")) == 15
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("others", "option"),
    [
        ("", "--documents 6"),
        ("", "--duplicates-per-document 3"),
        ("", "--near-misses 1"),
        ("", "--seed 2"),
        ("", "--kinds date,advert"),
        ("", "--language chinese"),
        ("--language chinese", "--language mixed"),
        ("", "--length 90"),
        ("", "--format jsonl.gz"),
        ("--format jsonl.gz", "--format jsonl.zst"),
        ("--html 1", "--format html"),
        ("", "--html 0.5"),
        ("", "--chunk-size 4KB"),
    ],
)
def test_every_option_reaches_the_data(tmp_path: Path, others: str, option: str) -> None:
    written = []
    # of one option given twice the last counts: the others must not be it
    for number, options in enumerate(
        (others, option if others[:6] == option[:6] else f"{others} {option}")
    ):
        if "--format html" in options:
            options = "--format html"
        out = tmp_path / str(number)
        assert main(["documents", *NUMBERS, *options.split(), "--out", str(out)]) == 0
        written.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert written[0] != written[1]


def test_the_defaults_are_what_the_help_says(tmp_path: Path) -> None:
    numbers = shlex.split("--documents 5 --duplicates-per-document 9 --seed 1")
    defaults = shlex.split(
        "--near-misses 0 --language english --length 300 --format jsonl --html 0 --chunk-size 64MB "
        "--kinds advert,date,counter,navigation,reordered,truncated,re-encoded,spun,exact"
    )
    written = []
    for number, options in enumerate((defaults, [])):
        out = tmp_path / str(number)
        assert main(["documents", *numbers, *options, "--out", str(out)]) == 0
        written.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--documents -1", "documents must be from 0 to 1,099,511,627,776, not -1"),
        (
            "--kinds date,rewrite",
            "kinds must be one of advert, date, counter, navigation, reordered, truncated, "
            "re-encoded, spun, exact, not 'rewrite'",
        ),
        ("--html nan", "html_share must be from 0 to 1, not nan"),
        (
            "--format html --html 1",
            "--html cannot be used with --format html: all its pages are HTML",
        ),
        ("--chunk-size 0", "chunk_bytes must be positive, not 0"),
        ("--length 9", "length must be from 64 to 1,000,000, not 9"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    arguments = [*NUMBERS, *options.split(), "--out", str(tmp_path / "out")]
    assert main(["documents", *arguments]) == 2
    assert capsys.readouterr() == ("", f"data-gen: error: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_too_many_files_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = functools.partial(document_files.NumberedFiles, max_files=14)
    monkeypatch.setattr(document_files, "NumberedFiles", limited)
    arguments = ["documents", *NUMBERS, "--chunk-size", "1", "--out", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert capsys.readouterr().err == (
        "data-gen: error: chunk_bytes must be large enough for at most 14 files, not 1\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_", ["jsonl", "html"])
def test_overwrite_replaces_own_files_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format_: str
) -> None:
    out = tmp_path / "out"
    arguments = ["documents", *NUMBERS, "--out", str(out)]
    assert main([*arguments, "--format", format_]) == 0
    assert main(arguments) == 2
    assert main([*arguments, "--overwrite"]) == 0
    assert len(list(out.iterdir())) == 3
    (out / "notes.html").write_text("mine")
    capsys.readouterr()
    assert main([*arguments, "--overwrite"]) == 2
    assert "contains notes.html, which is not of data-gen" in capsys.readouterr().err


@pytest.mark.parametrize("format_", ["jsonl", "jsonl.gz", "jsonl.zst", "html"])
@pytest.mark.parametrize("limit", [0, 500, 20_000])
def test_a_failed_write_leaves_no_files(tmp_path: Path, format_: str, limit: int) -> None:
    """No file may grow past the limit."""
    arguments = [*NUMBERS, "--documents", "100", "--format", format_, "--out", tmp_path / "out"]
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
    failed = run(*arguments, before=limits)
    message = f"data-gen: error: {tmp_path / 'out'}: cannot be written: File too large\n"
    assert failed.stderr == message
    assert (failed.returncode, failed.stdout) == (2, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_memory_does_not_grow_with_the_documents(tmp_path: Path) -> None:
    # the peak of the process itself; that of wait4 includes its parent's, before the exec
    peak = (
        "import atexit, re; from pathlib import Path; atexit.register(lambda: print(re.search("
        "r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])); "
    )
    peaks = []
    for documents in ("400", "4000"):
        arguments = [*NUMBERS, "--documents", documents, "--language", "mixed"]
        done = run(*arguments, "--out", tmp_path / documents, before=peak)
        assert done.returncode == 0
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.05 * peaks[0]
    assert peaks[1] < 120_000
