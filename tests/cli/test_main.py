"""What every command shares: what it imports, what it says of mistakes, and its exit codes."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mr_dedup
from mr_dedup.cli import inspect
from mr_dedup.cli.first_steps import FIRST_STEPS
from mr_dedup.cli.main import COMMANDS, _hint, main
from mr_dedup.errors import OutOfMemoryError

ROOT = Path(mr_dedup.__file__).parents[1]
HEAVY = {"numpy", "zstandard", "zlib_ng", "xxhash", "mrjob", "tqdm"}


def imported(*arguments):
    """The modules that a command line leaves imported, and what it prints."""
    program = """
import sys
from mr_dedup.cli.main import main
try:
    main(sys.argv[1:])
finally:
    sys.stderr.write(" ".join(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    return set(done.stderr.split()), done.stdout


def test_the_version_and_the_help_need_no_heavy_imports():
    modules, printed = imported("--version")
    assert not modules & HEAVY
    assert printed.startswith("mr-dedup 0.")
    modules, printed = imported("--help")
    assert not modules & HEAVY
    for name in COMMANDS:
        assert re.search(rf"\n    {name}\s", printed)
    # as it would be seen if it were not so
    assert HEAVY & imported("inspect", "--help")[0] == {"numpy", "xxhash", "zlib_ng", "zstandard"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: mr-dedup {command} ")


def test_without_arguments_the_first_commands_are_shown():
    """And they run as they are shown; standard output stays empty."""
    done = subprocess.run(
        [sys.executable, "-m", "mr_dedup"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == FIRST_STEPS
    assert max(map(len, done.stderr.splitlines())) <= 100
    modules, _ = imported()
    assert "mr_dedup.cli.main" in modules
    assert not modules & HEAVY


def test_the_first_commands_run_as_they_are_shown(tmp_path):
    programs = {"data-gen": "data_gen", "mr-dedup": "mr_dedup"}
    lines = [line for line in FIRST_STEPS.splitlines() if line.startswith("  ")]
    commands = [line.partition("     ")[0].split() for line in lines]
    assert [line[:2] for line in commands] == [
        ["data-gen", "documents"], ["mr-dedup", "dedup"], ["mr-dedup", "pairs"],
    ]  # fmt: skip
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    for program, *words in commands:
        subprocess.run(
            [sys.executable, "-m", programs[program], *words],
            cwd=tmp_path, env=variables, check=True, capture_output=True,
        )  # fmt: skip
    (report,) = re.findall(r"open (\S+) in a browser", FIRST_STEPS)
    assert (tmp_path / report).is_file()


@pytest.mark.parametrize("arguments", [["frobnicate"], ["--frobnicate"], ["inspect"]])
def test_other_words_are_refused_by_the_parser(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "mr-dedup" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "printed", "reported"),
    [
        (["--version"], 0, "mr-dedup 0.", ""),
        (["frobnicate"], 2, "", "mr-dedup: error: "),
        (["inspect", "none.longs"], 2, "", "mr-dedup: error: none.longs: "),
    ],
)
def test_a_process_says_all_and_ends_in_order(arguments, code, printed, reported, tmp_path):
    program = """
import atexit
from mr_dedup.cli.main import command
atexit.register(print, "at exit")
command()
print("not reached")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == code
    assert done.stdout.startswith(printed)
    assert done.stdout.endswith("at exit\n")
    assert "not reached" not in done.stdout
    assert done.stderr.startswith(reported)


_OF_QUERY = "--corpus-format or --queries-format or --format"


def test_a_command_may_be_what_another_one_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan").write_text("1\n")
    assert main(["inspect", "plan", "--format", "text"]) == 0
    assert capsys.readouterr().out.startswith("plan\n")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["inspect", "x.dat"], "--format"),
        (["convert", "x.dat", "-o", "y.txt"], "--from or --to"),
        (["convert", "x.txt", "-o", "y.dat"], "--from or --to"),
        (["query", "x.dat", "--queries", "x.txt"], _OF_QUERY),
        (["query", "x.txt", "--queries", "x.dat"], _OF_QUERY),
    ],
)
def test_an_unknown_ending_is_answered_with_options_the_command_has(
    tmp_path, monkeypatch, capsys, arguments, options
):
    monkeypatch.chdir(tmp_path)
    for name in ("x.dat", "x.txt"):
        (tmp_path / name).write_text("1\n")
    assert main(arguments) == 2
    name = next(argument for argument in arguments if argument.endswith(".dat"))
    assert capsys.readouterr().err == (
        f"mr-dedup: error: {name}: the format is not known by its ending (.longs, .txt, .tsv, "
        ".fpz, .parquet, each but .parquet perhaps with .gz, .zst or .lz4 after it); "
        f"name it with {options}\n"
    )


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ZeroDivisionError("a\nb"), 70, "a bug in mr-dedup: ZeroDivisionError: a\\nb (--debug "),
        (MemoryError("no 8 TiB"), 2, "out of memory: no 8 TiB"),
        (MemoryError(), 2, "out of memory"),
        (OSError(5, "Input/output error", "x"), 2, "x: Input/output error"),
        (OSError(28, "No space left on device"), 2, "a temporary file in "),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_whatever_happens_is_one_line_and_an_exit_code(monkeypatch, capsys, error, code, said):
    def fail(arguments):
        raise error

    monkeypatch.setattr(inspect, "run", fail)
    assert main(["inspect", "x"]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"mr-dedup: error: {said}")
    assert output.err.count("\n") == 1
    if code in (2, 70):
        assert main(["--debug", "inspect", "x"]) == code
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[-1].startswith(f"mr-dedup: error: {said}")


INTERRUPTED = """
import sys
import mr_dedup
from mr_dedup.cli import inspect
from mr_dedup.cli.first_steps import FIRST_STEPS
from mr_dedup.cli.main import main

def run(arguments):
    exec("raise KeyboardInterrupt")

inspect.run = run
sys.exit(main(["inspect", "x"]))
"""


def test_an_interrupt_in_executed_source_ends_with_its_code_as_well(tmp_path):
    """CPython would end by a signal, though it was caught."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (130, "mr-dedup: error: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "tries"),
    [
        ({"runner": "auto", "cores": None, "memory": None}, "fewer --cores or a smaller --memory"),
        ({"runner": "local", "cores": 2, "memory": None}, "fewer --cores"),
        (
            {"runner": "local", "cores": 2, "table_memory": 1, "memory": None},
            "fewer --cores or a smaller --table-memory",
        ),
        ({}, ""),
    ],
)
def test_options_that_need_less_memory_are_those_of_the_command(arguments, tries):
    hint = _hint(OutOfMemoryError("out of memory"), argparse.Namespace(**arguments))
    assert hint == (f"; try {tries}" if tries else "")
