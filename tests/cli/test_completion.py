"""What a shell completes, by the script that a command prints: bash does it here."""

import subprocess
import sys

import pytest

from mr_dedup.cli import remote_files
from mr_dedup.cli.completion import SHELLS, actions_of, completed_parser
from mr_dedup.cli.main import COMMANDS

PROGRAMS = {"mr-dedup": "mr_dedup", "data-gen": "data_gen"}

# as bash does it when Tab is pressed behind the last word
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
function=$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" "$1" "${@: -1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(program, shell):
    done = subprocess.run(
        [sys.executable, "-m", PROGRAMS[program], "completion", shell],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    for program in PROGRAMS:
        (folder / program).write_text(script(program, "bash"))
    return folder


@pytest.fixture
def completed(scripts, tmp_path):
    """A function of the words so far, the last one incomplete; in a folder with files."""
    (tmp_path / "pages one.jsonl").write_text("")
    (tmp_path / "b.parquet").write_text("")
    (tmp_path / "seen").mkdir()

    def complete(*words):
        done = subprocess.run(
            ["bash", "--norc", "-c", COMPLETE, "bash", str(scripts / words[0]), *words],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        return [line for line in done.stdout.split("\n") if line]

    return complete


FILES = ["b.parquet", "pages one.jsonl", "seen"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("mr-dedup |", list(COMMANDS)),
        ("mr-dedup de|", ["decontaminate", "dedup"]),
        ("mr-dedup index |", ["create", "add", "remove", "query", "compact", "verify", "stats"]),
        ("mr-dedup urls f|", ["filter", "folds"]),
        ("mr-dedup dedup --me|", ["--method", "--memory"]),
        ("mr-dedup dedup pages --keep first --qui|", ["--quiet"]),
        ("mr-dedup index create seen --no-|", ["--no-ids"]),
        ("mr-dedup dedup -r s|", ["spark"]),
        ("mr-dedup --quiet dedup --documents |", ["same", "jsonl", "parquet"]),
        ("mr-dedup dedup |", FILES),
        ("mr-dedup dedup b.parquet p|", ["pages one.jsonl"]),
        ("mr-dedup dedup b.parquet -o |", FILES),
        ("mr-dedup dedup --overwrite b|", ["b.parquet"]),
        ("mr-dedup dedup --against |", ["seen"]),
        ("mr-dedup index query |", ["seen"]),
        ("mr-dedup index query seen b|", ["b.parquet"]),
        ("mr-dedup serve |", ["seen"]),
        ("mr-dedup completion |", list(SHELLS)),
        ("data-gen |", ["fingerprints", "documents", "urls", "completion"]),
        ("data-gen documents --lang|", ["--language"]),
        ("data-gen documents --language |", ["english", "chinese", "mixed"]),
        ("data-gen documents --out |", ["seen"]),
    ],
)
def test_bash_completes(completed, line, offered):
    words = line.removesuffix("|").split(" ")
    assert sorted(completed(*words)) == sorted(offered)


@pytest.mark.parametrize("program", PROGRAMS)
def test_there_is_a_script_for_every_shell(program):
    assert f"complete -o bashdefault -F _shtab_{PROGRAMS[program]} {program}" in script(
        program, "bash"
    )
    assert script(program, "zsh").startswith(f"#compdef {program}\n")
    assert f"\ncomplete {program} " in script(program, "tcsh")
    done = subprocess.run(
        [sys.executable, "-m", PROGRAMS[program], "completion", "ksh"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "'ksh'" in done.stderr


def test_all_arguments_that_name_files_are_completed():
    names = {"input_file", "input_name", "input_names", "corpus_name", "document_name"}
    names |= {"local_name", "local_path", "output_file", "result_name", "Path", "_folder"}
    # those of the module, without what only has the form of one
    assert {name for name in names if hasattr(remote_files, name)} >= {
        name for name in vars(remote_files) if name.endswith(("_file", "_name", "_names", "_path"))
    } - {"file_name"}
    found = set()
    for action in actions_of(completed_parser()):
        name = getattr(action.type, "__name__", "")
        if name in names:
            found.add(name)
            assert action.complete, action
    assert found == names
