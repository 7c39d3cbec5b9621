"""Lines of standard input: a line of output for each, in linear time."""

import argparse
import json
import random

import pytest

from mr_dedup.cli import index as index_command
from mr_dedup.cli.index_lines import respond_to_lines
from mr_dedup.cli.main import main
from mr_dedup.index.reader import IndexReader
from tests.cli.test_standard_input import standard_input
from tests.formats.test_linear_reading import calls

WORDS = [f"word{n}" for n in range(1000)]


def document(number):
    text = " ".join(random.Random(number).choices(WORDS, k=30))
    return json.dumps({"id": f"d{number}", "text": text}).encode(), f"d{number}"


def wordless(number):
    return b'{"id": "e%d", "text": ""}' % number, f"e{number}"


ANSWERS = {
    "document": document,
    "no words": wordless,
    "empty": lambda _: (b"", "\tis empty"),
    "blanks": lambda _: (b" \t", "\tis empty"),
    "not JSON": lambda _: (b"{", "\tis not JSON: Input data was truncated"),
    "no text": lambda _: (b'{"id": 1}', "\thas neither 'text' nor 'html'; its fields are id"),
    "not UTF-8": lambda _: (b'{"id": "\xff", "text": "x"}', None),
}


@pytest.fixture
def folder(tmp_path, capfd):
    name = str(tmp_path / "index")
    assert main(["index", "create", name]) == 0
    with standard_input(document(0)[0] + b"\n"):
        assert main(["index", "add", name]) == 0
    capfd.readouterr()
    return name


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CR LF"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["", "byte order mark"])
def test_each_line_has_its_answer(folder, capfd, end, mark):
    rng = random.Random(1)
    kinds = ["document", *rng.choices(list(ANSWERS), k=3000), "document"]
    lines, answers = zip(*(ANSWERS[kind](n) for n, kind in enumerate(kinds, 1)), strict=True)
    with standard_input(mark + end.join(lines)):
        assert main(["index", "query", folder]) == 0
    found = capfd.readouterr().out.split("\n")
    assert found.pop() == ""
    for answer, expected, kind in zip(found, answers, kinds, strict=True):
        # an id that is not text is replaced by the position
        assert answer == expected or (expected is None and answer.startswith("standard ")), kind


@pytest.mark.parametrize("kind", ["empty", "not JSON", "no words"])
def test_empty_lines_before_all_say_nothing_of_the_others(folder, capfd, kind):
    lines = [b"", b" ", document(1)[0], ANSWERS[kind](1)[0]]
    with standard_input(b"\n".join(lines) + b"\n"):
        assert main(["index", "query", folder]) == 0
    assert capfd.readouterr().out.split("\n")[2:4] == ["d1", ANSWERS[kind](1)[1]]


def test_a_line_that_is_too_long_is_reported(folder, capfd):
    parser = argparse.ArgumentParser()
    index_command.add_arguments(parser)
    arguments = parser.parse_args(["query", folder])
    lines = b"x" * (1 << 20) + b"\n" + document(1)[0] + b"\n"
    with standard_input(lines), IndexReader.open(folder) as reader:
        assert respond_to_lines(reader, arguments, max_line_bytes=1 << 19) == 0
    assert capfd.readouterr().out == "\tis longer than 524288 bytes\nd1\n"


@pytest.mark.parametrize(
    ("kind", "max_calls"),
    # with some 6 for each character of the reason; 400 more to read a line by itself
    [("empty", 100), ("not JSON", 500), ("no text", 500)],
)
def test_lines_that_are_no_documents_take_linear_time(folder, capfd, kind, max_calls):
    """Each has its line of output, but all are decoded together."""
    main(["index", "query", folder])
    steps = []
    for count in (1000, 2000):
        lines = [ANSWERS[of](n)[0] for n in range(count // 2) for of in ("document", kind)]
        with standard_input(b"\n".join(lines) + b"\n"):
            steps.append(calls(lambda: main(["index", "query", folder])))
        assert capfd.readouterr().out.count("\n") == count
    assert steps[1] - steps[0] < max_calls * 500
