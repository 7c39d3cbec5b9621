"""Standard streams that are closed, full or left by their reader, and names that do not print."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from mr_dedup.cli.streams import printable
from tests.cli.terminals import on_terminal

# Python writes at once, or late: a failure then comes while printing, or at the end
buffering = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["late", "at once"])

INSPECT, QUERY = "inspect x.longs --bits 16", "query x.longs --queries x.longs -k 0"


@pytest.fixture
def shell(tmp_path):
    """Run a line of shell in a folder with x.longs in it, M being the command."""
    np.arange(9, dtype=">u8").tofile(tmp_path / "x.longs")

    def run(line, unbuffered="", **environment):
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=tmp_path,
            env={
                **os.environ,
                "M": f"{sys.executable} -m mr_dedup",
                "PYTHONUNBUFFERED": unbuffered,
                **environment,
            },
            capture_output=True,
            check=False,
            timeout=60,
        )

    return run


@buffering
@pytest.mark.parametrize("arguments", [INSPECT, QUERY, "plan --corpus 1e9 --queries 1e5"])
@pytest.mark.parametrize(
    ("target", "reason"),
    [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")],
)
def test_a_result_that_cannot_be_printed_is_one_line(shell, arguments, target, reason, unbuffered):
    done = shell(f"$M {arguments} {target}", unbuffered)
    assert (done.returncode, done.stdout) == (2, b"")
    *summary, line = done.stderr.decode().splitlines()
    assert line == f"mr-dedup: error: standard output: {reason}"
    assert all(line.startswith("mr-dedup: ") and "error" not in line for line in summary)


@buffering
@pytest.mark.parametrize("arguments", ["--help", "--version", "query --help", "dedup --help"])
def test_help_that_cannot_be_printed_is_one_line(shell, arguments, unbuffered):
    done = shell(f"$M {arguments} >/dev/full", unbuffered)
    message = b"mr-dedup: error: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, message)


@pytest.mark.parametrize("streams", ["<&-", "2>&-", "<&- 2>&-", "2>/dev/full"])
def test_no_other_stream_matters_to_the_result(shell, streams):
    for arguments, lines in ((INSPECT, 9 + (1 << 16)), (f"{QUERY} -r local", 9)):
        done = shell(f"$M {arguments} {streams}")
        assert (done.returncode, done.stdout.count(b"\n")) == (0, lines)


@pytest.mark.parametrize("streams", ["<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["dedup -", "fingerprint -", "pairs - --method exact"])
def test_a_closed_standard_input_is_empty(shell, command, streams):
    """It is not a pipe of this process's own, which would never end."""
    assert shell(f"timeout -s KILL 20 $M {command} -o out.tsv {streams}").returncode == 0


@buffering
@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full", ">/dev/full"])
def test_a_file_is_written_whole_without_any_stream(shell, tmp_path, streams, unbuffered):
    done = shell(f"$M convert x.longs -o y.txt {streams}", unbuffered)
    assert (done.returncode, done.stdout) == (0, b"")
    # and nothing that was printed has landed in it
    assert (tmp_path / "y.txt").read_text() == "".join(f"{value}\n" for value in range(9))


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", ">&- 2>&-"])
def test_a_mistake_ends_with_2_even_if_nobody_hears_of_it(shell, streams):
    for arguments in ("inspect none.longs", r"inspect $'--\xff'", "convert x.longs -o x.longs"):
        done = shell(f"$M {arguments} {streams}")
        assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


@buffering
def test_a_reader_that_leaves_is_no_error(shell, unbuffered):
    done = shell(f"$M {INSPECT} | head -n 1", unbuffered)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"x.longs\n", b"")
    done = shell("$M dedup --help | head -c 1", unbuffered)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"u", b"")


# names

ODD, ACCENTED = b"\xff\n\x1b[31m.longs", "é.longs".encode()

# and what becomes of é
LOCALES = [
    ({"LC_ALL": "C.UTF-8"}, "é"),
    ({"LC_ALL": "C"}, "é"),
    ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, r"\udcc3\udca9"),
    ({"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii"}, r"\xe9"),
]


@pytest.mark.parametrize(("locale", "accented"), LOCALES)
def test_every_name_is_read_written_and_shown_under_every_locale(shell, tmp_path, locale, accented):
    folder = os.fsencode(tmp_path) + b"/"
    for name in (ODD, ACCENTED):
        os.link(folder + b"x.longs", folder + name)
    (tmp_path / "x.longs").unlink()
    locale = {**locale, "ODD": os.fsdecode(ODD)}

    shown = shell("$M inspect *.longs", **locale)
    assert (shown.returncode, shown.stderr) == (0, b"")
    titles = {line for line in shown.stdout.decode().splitlines() if not line.startswith(" ")}
    assert titles == {r"\udcff\n\x1b[31m.longs", f"{accented}.longs"}
    listed = shell("$M inspect --json *.longs", **locale)
    assert len(json.loads(listed.stdout)) == 2

    found = shell('$M query *.longs --queries "$ODD" -k 0 -r local', **locale)
    assert (found.returncode, found.stdout.count(b"\n")) == (0, 9)

    written = shell('mkdir out && $M convert *.longs -o "out/$ODD"', **locale)
    assert written.returncode == 0
    assert rb"fingerprints to out/\udcff\n\x1b[31m.longs, 8.000" in written.stderr
    assert os.listdir(folder + b"out") == [ODD]  # noqa: PTH208 (bytes)

    missing = shell('$M inspect "none$ODD"', **locale)
    line = b"mr-dedup: error: none\\udcff\\n\\x1b[31m.longs: no such file\n"
    assert (missing.returncode, missing.stderr) == (2, line)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 你 \\n.txt", "plain é 你 \\n.txt"),
        ("\udcff\n\r\t\0\x1b[2J\x85\u2028\ud800", r"\udcff\n\r\t\x00\x1b[2J\x85\u2028\ud800"),
    ],
)
def test_what_does_not_print_is_escaped(text, shown):
    assert printable(text) == shown


# colours

FEW_BANDS = ["--method", "minhash:bands=1,rows=9", "-o"]
RED, YELLOW, PLAIN = "\x1b[1;31m", "\x1b[1;33m", "\x1b[0m"


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb", "NO_COLOR": ""}, False),
    ],
)
def test_errors_are_in_colour_where_a_terminal_shows_it(tmp_path, variables, is_coloured):
    red, yellow, plain = (RED, YELLOW, PLAIN) if is_coloured else ("", "", "")
    missing = tmp_path / "none.longs"
    code, shown = on_terminal("inspect", missing, **variables)
    assert (code, shown) == (2, f"mr-dedup: {red}error:{plain} {missing}: no such file\r\n")
    code, shown = on_terminal("frobnicate", **variables)
    assert (code, shown.startswith(f"mr-dedup: {red}error:{plain} argument COMMAND: inv")) == (
        2,
        True,
    )
    pages = tmp_path / "pages.jsonl"
    pages.write_text('{"id": "a", "text": "one two three"}\n')
    code, shown = on_terminal("dedup", pages, *FEW_BANDS, tmp_path / "out", **variables)
    assert (code, f"\nmr-dedup: {yellow}warning:{plain} near-dup" in shown) == (0, True)
    # of messages that are neither, nothing is
    assert shown.count("\x1b[1;") == is_coloured


def test_a_pipe_gets_no_colours(shell):
    for arguments in ("inspect none.longs", "frobnicate"):
        done = shell(f"$M {arguments} 2>&1 | cat", TERM="xterm", NO_COLOR="")
        assert b"error: " in done.stdout
        assert b"\x1b" not in done.stdout
