"""The manual pages: one a command, with all its options, in what every man can show."""

import argparse
import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

import data_gen.cli.command
from mr_dedup.cli.main import whole_parser
from tools import manual_pages

PAGES = dict(manual_pages.manual_pages())
ROOT = Path(__file__).parents[1]


def commands(parser):
    """The commands of a parser, as ``subparsers`` are nested, and their names."""
    return {
        command.prog: command
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for command in action.choices.values()
    }


PROGRAMS = {parser.prog: parser for parser in (whole_parser(), data_gen.cli.command.whole_parser())}
COMMANDS = {name: each for parser in PROGRAMS.values() for name, each in commands(parser).items()}


def page_of(name):
    return f"{name.replace(' ', '-')}.1"


def shown(text):
    """The text of a page as a reader sees it, on one line."""
    text = re.sub(r"^\.BI? |^\.[A-Za-z\\].*\n", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"\\f[BIRP]|\\&|\\c", "", text)
    characters = {
        r"\-": "-", r"\(aq": "'", r"\(ga": "`", r"\(ti": "~", r"\(dq": '"', r"\(ha": "^",
        r"\e": "\\", r"\ ": " ",
    }  # fmt: skip
    for escape, character in characters.items():
        text = text.replace(escape, character)
    return " ".join(text.split())


def require_arguments(parser, text):
    for action in parser._actions:
        for option in action.option_strings:
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", text), option
        if action.help:
            said = " ".join(parser._get_formatter()._expand_help(action).split())
            assert said in text


def test_there_is_a_page_for_every_command():
    assert {page_of(name) for name in (*PROGRAMS, *COMMANDS)} == set(PAGES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_page_of_a_program_has_its_commands(name):
    text = shown(PAGES[page_of(name)])
    require_arguments(PROGRAMS[name], text)
    for command in commands(PROGRAMS[name]):
        assert f"{command.replace(' ', '-')}(1)" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_all_arguments_with_their_help(name):
    text = shown(PAGES[page_of(name)])
    for parser in (COMMANDS[name], *commands(COMMANDS[name]).values()):
        require_arguments(parser, text)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_begins_with_what_man_and_apropos_read(name):
    title = re.search(r'^\.TH "(.*?)" "1" "\d{4}-\d\d-\d\d" "mr_dedup ', PAGES[name], re.MULTILINE)
    assert title.group(1) == name.removesuffix(".1")
    sections = re.findall(r"^\.SH (.*)\n(.*)", PAGES[name], re.MULTILINE)
    assert [title for title, _ in sections[:2]] == ["Name", "SYNOPSIS"]
    assert re.fullmatch(rf"{name.removesuffix('.1')} \\- [A-Za-z].*[^.]", sections[0][1])


def test_the_date_is_that_of_a_release_if_it_is_given(tmp_path):
    subprocess.run(
        [sys.executable, ROOT / "tools" / "manual_pages.py", tmp_path / "man1"],
        check=True, env={"SOURCE_DATE_EPOCH": "86400"}, cwd=tmp_path,
    )  # fmt: skip
    assert {path.name for path in (tmp_path / "man1").iterdir()} == set(PAGES)
    page = (tmp_path / "man1" / "mr-dedup-plan.1").read_text()
    assert '"1970-01-02"' in page


ONLY = """
import runpy, sys

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

missing, sys.argv = sys.argv[2:], ["manual_pages", "man1"]
sys.meta_path.insert(0, Missing)
runpy.run_path(SCRIPT, run_name="__main__")
"""


def names_of(requirements):
    return {re.split(r"[<>=;]", line)[0] for line in requirements}


def test_pages_are_written_with_what_a_build_requires(tmp_path):
    """setup.py writes them in an environment with these packages alone."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    lines = parser["options"]["install_requires"].splitlines()
    installed = {line for line in lines if line and not line.startswith("#")}
    block = re.search(r"requires = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.S | re.M)
    built_with = set(re.findall(r'^ +"(.*)"', block[1], re.MULTILINE))
    assert {line for line in built_with - installed if ";" not in line} == {
        "docutils>=0.21", "numba>=0.61", "setuptools>=77",
    }  # fmt: skip
    others = names_of(installed) - names_of(built_with)
    assert {"fsspec", "mrjob", "shtab"} <= others
    script = str(ROOT / "tools" / "manual_pages.py")
    program = ONLY.replace("SCRIPT", repr(script))
    subprocess.run([sys.executable, "-c", program, "-", *others], check=True, cwd=tmp_path)
    assert len(list((tmp_path / "man1").iterdir())) == len(PAGES)
