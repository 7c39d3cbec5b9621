"""data-gen with streams that are closed, full or left, and folders whose names do not print."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from data_gen.cli import main

Shell = Callable[..., subprocess.CompletedProcess[bytes]]

FINGERPRINTS = "fingerprints --queries 9 --corpus 99 --duplicates-per-query 1 -k 3 --seed 1"
DOCUMENTS = "documents --documents 3 --duplicates-per-document 1 --seed 1"
# Python writes at once, or late: a failure then comes while printing, or at the end
buffering = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["late", "at once"])


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Run a line of shell in an empty folder, G being the command."""

    def run(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=tmp_path,
            env={**os.environ, "G": f"{sys.executable} -m data_gen", **environment},
            capture_output=True,
            check=False,
            timeout=60,
        )

    return run


# each of the streams, with both commands and both ways of buffering
@pytest.mark.parametrize(
    ("streams", "arguments", "unbuffered"),
    [
        (">&-", FINGERPRINTS, ""),
        ("2>&-", DOCUMENTS, "1"),
        ("<&- >&- 2>&-", FINGERPRINTS, "1"),
        ("<&- >&- 2>&-", DOCUMENTS, ""),
        (">/dev/full", DOCUMENTS, "1"),
        ("2>/dev/full", FINGERPRINTS, ""),
        ("2>/dev/full", DOCUMENTS, "1"),
        (">/dev/full 2>&1", FINGERPRINTS, ""),
    ],
)
def test_a_data_set_is_complete_with_any_streams(
    shell: Shell, tmp_path: Path, arguments: str, streams: str, unbuffered: str
) -> None:
    done = shell(f"$G {arguments} --out some {streams}", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.count(b"\n") == ("2>" not in streams)
    assert main([*arguments.split(), "--out", str(tmp_path / "regular")]) == 0
    some, others = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("some", "regular")
    )
    assert some == others


USAGE_ERRORS = [
    "",
    "nothing",
    r"documents $'--\xff'",
    f"{DOCUMENTS} --length 1 --out some",
    f"{FINGERPRINTS} --out no/folder",
]


# each usage error, and one of them with all streams and both ways of buffering
@pytest.mark.parametrize(
    ("arguments", "streams", "unbuffered"),
    [
        *((arguments, "2>/dev/full", "1") for arguments in USAGE_ERRORS),
        *(
            (USAGE_ERRORS[-1], streams, unbuffered)
            for streams in ("2>&-", "2>/dev/full", ">&- 2>&-")
            for unbuffered in ("", "1")
            if (streams, unbuffered) != ("2>/dev/full", "1")
        ),
    ],
)
def test_a_usage_error_ends_with_2_without_streams(
    shell: Shell, tmp_path: Path, arguments: str, streams: str, unbuffered: str
) -> None:
    done = shell(f"$G {arguments} {streams}", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")
    assert list(tmp_path.iterdir()) == []


@buffering
@pytest.mark.parametrize("arguments", ["--help", "documents --help"])
@pytest.mark.parametrize(
    ("target", "reason"),
    [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")],
)
def test_help_that_cannot_be_printed_is_one_line(
    shell: Shell, arguments: str, target: str, reason: str, unbuffered: str
) -> None:
    done = shell(f"$G {arguments} {target}", PYTHONUNBUFFERED=unbuffered)
    message = f"data-gen: error: standard output: {reason}\n"
    assert (done.returncode, done.stderr.decode()) == (2, message)


@buffering
def test_a_closed_pipe_is_not_an_error(shell: Shell, unbuffered: str) -> None:
    done = shell("$G documents --help | true", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


ODD = b"\xff\n\x1b[31m\xc3\xa9"


@pytest.mark.parametrize(
    ("arguments", "locale", "accented"),
    [
        (DOCUMENTS, {"LC_ALL": "C.UTF-8"}, "é"),
        (
            FINGERPRINTS,
            {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
            r"\udcc3\udca9",
        ),
        (FINGERPRINTS, {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii"}, r"\xe9"),
    ],
)
def test_a_folder_of_any_name_is_written_and_named_on_one_line(
    shell: Shell, tmp_path: Path, arguments: str, locale: dict[str, str], accented: str
) -> None:
    locale = {**locale, "ODD": os.fsdecode(ODD)}
    name = rf"\udcff\n\x1b[31m{accented}"
    done = shell(f'$G {arguments} --out "$ODD"', **locale)
    assert done.returncode == 0
    assert f" bytes in {name}, " in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert os.listdir(os.fsencode(tmp_path)) == [ODD]  # noqa: PTH208 (bytes)
    again = shell(f'$G {arguments} --out "$ODD"', **locale)
    line = f"data-gen: error: {name}: not empty; give --overwrite to replace it\n"
    assert (again.returncode, again.stderr.decode()) == (2, line)
