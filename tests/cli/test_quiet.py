"""--quiet: no message but warnings and errors, and no progress, before or after the command."""

import argparse
import json

import numpy as np
import pytest

from mr_dedup.cli.main import COMMANDS, build_parser, main
from mr_dedup.cli.streams import print_message, print_warning, quiet_messages
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.running import Command
from tests.cli.terminals import on_terminal

ROWS = 200_000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with documents, fingerprints and URLs, in which commands run."""
    monkeypatch.chdir(tmp_path)
    write_jsonl(
        tmp_path / "pages.jsonl",
        [document for document in made_up_documents(1) if document["text"].strip()],
    )
    np.arange(9, dtype=">u8").tofile("x.longs")
    (tmp_path / "urls.txt").write_text("http://a.example/\n")
    assert main(["index", "create", "seen", "pages.jsonl"]) == 0
    return tmp_path


SPEAKING = [
    "query x.longs --queries x.longs -k 0",
    "pairs x.longs -k 1",
    "pairs pages.jsonl --method minhash",
    "fingerprint pages.jsonl -o prints.parquet",
    "idf pages.jsonl -o idf.parquet",
    "dedup pages.jsonl -o kept --verify 1",
    "convert x.longs -o x.txt",
    "urls filter --store store urls.txt",
    "urls bulk urls.txt -o distinct.txt",
    "index create new pages.jsonl",
    "index compact seen",
    "index remove seen urls.txt",
]


@pytest.mark.parametrize("line", SPEAKING)
def test_nothing_but_the_result_is_printed(line, folder, capfd):
    words = line.split()
    capfd.readouterr()
    assert main([*words, "--quiet"]) == 0
    quiet = capfd.readouterr()
    assert quiet.err == ""
    # where the same output may not be made twice
    again = [word.replace("kept", "kept2").replace("new", "new2") for word in words]
    again = [f"2{word}" if words[number - 1] == "-o" else word for number, word in enumerate(again)]
    again = ["store2" if word == "store" else word for word in again]
    assert main(["--log-format", "json", *again]) == 0
    spoken = capfd.readouterr()
    assert all(json.loads(each)["time"] for each in spoken.err.splitlines())
    assert spoken.err
    assert spoken.out == quiet.out


def actions(parser, name=()):
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                yield from actions(command, (*name, word))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_action_has_the_options(command):
    parser = build_parser([command])
    names = [name for name, _ in actions(parser)]
    assert (command,) in names
    for _, each in actions(parser):
        options = each._option_string_actions
        assert {"-q", "--quiet", "--log-format", "--debug"} <= set(options)


@pytest.mark.parametrize(
    "argv",
    [
        ["-q", "--log-format=json", "--debug", "urls", "stats", "--store", "s"],
        ["urls", "-q", "--log-format=json", "--debug", "stats", "--store", "s"],
        ["urls", "stats", "--store", "s", "-q", "--log-format=json", "--debug"],
        ["-q", "urls", "--log-format=json", "stats", "--debug", "--store", "s"],
    ],
)
def test_the_options_may_stand_anywhere(argv):
    parsed = build_parser(["urls"]).parse_args(argv)
    assert (parsed.quiet, parsed.log_format, parsed.debug) == (True, "json", True)
    plain = build_parser(["urls"]).parse_args(["urls", "stats", "--store", "s"])
    assert (plain.quiet, plain.log_format, plain.debug) == (False, "text", False)


def test_errors_and_warnings_are_printed(folder, capfd):
    dedup = Command("dedup", "--quiet")
    assert "none.jsonl: no such file" in dedup.mistake(capfd, "none.jsonl", "-o", "kept")
    # bands that miss most pairs at 0.8
    few = ["pages.jsonl", "-o", "kept", "--method", "minhash:bands=1,rows=9"]
    warning, of_short = dedup.messages(capfd, *few).splitlines()
    assert warning.startswith("mr-dedup: warning: near-duplicates of similarity 0.8 may be missed")
    assert "35 of 51 documents have fewer than 56 words" in of_short
    with quiet_messages(True):
        print_message("a", "warning: b", "error: c", "of error: d")
        print_warning("e")
    assert capfd.readouterr().err.splitlines() == [
        "mr-dedup: warning: b", "mr-dedup: error: c", "mr-dedup: warning: e",
    ]  # fmt: skip
    print_message("f")
    assert capfd.readouterr().err == "mr-dedup: f\n"


def test_events_are_left_out_too(folder, capfd):
    words = ["dedup", "pages.jsonl", "-r", "inline", "--log-format", "json", "-q"]
    assert main([*words, "-o", "kept", "--verify", "1"]) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "line", ["inspect {}/many.longs", "query {0}/many.longs --queries {0}/x.longs -k 0 -r inline"]
)
def test_progress_is_shown_on_a_terminal_unless_it_is_quiet(line, folder):
    np.arange(ROWS, dtype=">u8").tofile("many.longs")
    words = line.format(folder).split()
    code, shown = on_terminal(*words)
    assert code == 0
    assert "%|" in shown
    assert on_terminal(*words, "--quiet") == (0, "")
