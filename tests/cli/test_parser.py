"""Options may stand before, between and after positional arguments."""

import itertools

import pytest

from mr_dedup.cli.main import build_parser, main


def parsed(*argv):
    options = vars(build_parser(argv).parse_args(argv))
    others = ("run", "format_options", "cluster_arguments")
    return {name: options[name] for name in options if name not in others}


@pytest.mark.parametrize(
    ("command", "pieces"),
    [
        (["index", "create"], [["seen"], ["a.jsonl"], ["b.jsonl"], ["-k", "5"], ["--no-ids"]]),
        (["index", "add"], [["seen"], ["a.jsonl"], ["--check"], ["--limit", "2"]]),
        (["dedup"], [["a.jsonl"], ["b.jsonl"], ["-o", "result"], ["--overwrite"]]),
        (["urls", "filter"], [["a.txt"], ["b.txt"], ["--store", "seen"]]),
    ],
)
def test_options_in_any_order(command, pieces):
    positional = [piece for piece in pieces if not piece[0].startswith("-")]
    expected = parsed(*command, *itertools.chain(*pieces))
    for order in itertools.permutations(pieces):
        if [piece for piece in order if piece in positional] == positional:
            assert parsed(*command, *itertools.chain(*order)) == expected


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["index", "create"], "the following arguments are required: DIR"),
        (["index", "create", "-k", "3"], "the following arguments are required: DIR"),
        (["index", "create", "seen", "--unknown", "a"], "unrecognized arguments: --unknown"),
        (["dedup", "a", "--verfy", "1"], "unrecognized arguments: --verfy; did you mean --verify?"),
        (["dedup", "a", "--kep=first"], "unrecognized arguments: --kep; did you mean --keep?"),
        (["urls", "bulk", "--overwrit"], "required"),
        (["deduplicate", "a"], "; did you mean dedup?"),
        (["urls", "filters"], "; did you mean filter?"),
        (["index", "stats", "seen", "more"], "unrecognized arguments: more"),
        (["index", "create", "seen", "-k", "x", "a"], "argument -k: invalid int value: 'x'"),
    ],
)
def test_usage_errors(argv, reason, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(*argv)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def test_names_that_begin_with_a_minus():
    for options in ([], ["-k", "2"]):
        argv = ["index", "create", "seen", *options, "--", "-a.jsonl", "b.jsonl"]
        assert parsed(*argv)["files"] == ["-a.jsonl", "b.jsonl"]
    assert parsed("index", "query", "seen", "-", "-k", "2", "a", "-")["files"] == ["-", "a", "-"]
    files = parsed("index", "create", "seen", "a", "-k", "2", "b", "--", "-c", "-k")["files"]
    assert files == ["a", "b", "-c", "-k"]


def test_help_is_a_command_too(capsys):
    for argv, usage in (
        (["help"], "usage: mr-dedup [-h]"),
        (["help", "why"], "usage: mr-dedup why "),
        (["help", "index", "query"], "usage: mr-dedup index query "),
    ):
        with pytest.raises(SystemExit) as ended:
            main(argv)
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(usage)
