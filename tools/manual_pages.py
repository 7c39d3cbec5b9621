"""Write the manual pages of all commands, one a command, from the parsers of their arguments.

setup.py runs it for a wheel. docutils writes what man reads:

    python tools/manual_pages.py FOLDER
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from docutils.core import publish_from_doctree
from docutils.utils import new_document

sys.path.insert(0, str(Path(__file__).parents[1]))

import data_gen.cli.command
from mr_dedup import __version__
from mr_dedup.cli.main import whole_parser

_EXIT_STATUS = {
    "mr-dedup": {
        "0": "The command has done what it was to do.",
        "1": "Files were examined and found damaged (inspect, index verify).",
        "2": "A usage error, or input that is not valid.",
        "70": "A bug in mr-dedup.",
        "130": "Interrupted.",
    },
    "data-gen": {
        "0": "The data set is written.",
        "2": "A usage error, or an output that cannot be written.",
        "70": "A bug in data-gen.",
        "130": "Interrupted.",
    },
}


class Page(NamedTuple):
    """A manual page.

    Args:
        name: of the program or command, as in ``mr-dedup-dedup``.
        text: what it does, in a line.
        sections: titles, and the nodes below each.
        others: the names of pages to see also.
    """

    name: str
    text: str
    sections: list[tuple[str, list[nodes.Element]]]
    others: list[str]


def manual_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page, such as ``mr-dedup-dedup.1``."""
    for parser in (whole_parser(), data_gen.cli.command.whole_parser()):
        program = parser.prog
        (actions,) = _subcommands(parser)
        helps = {action.dest: action.help or "" for action in actions._choices_actions}
        pages = [f"{program}-{name}" for name in helps]
        sections = [("COMMANDS", [_definitions(helps.items())]), *_arguments(parser)]
        text = (parser.description or "").rstrip(".")
        synopsis = _line(f"{program} [options] COMMAND …")
        yield _written(
            Page(program, text[:1].lower() + text[1:], [("SYNOPSIS", [synopsis]), *sections], pages)
        )
        for name, command in actions.choices.items():
            page = f"{program}-{name}"
            others = [program, *(other for other in pages if other != page)]
            yield _written(Page(page, helps[name], _sections(command), others))


def _sections(command: argparse.ArgumentParser) -> list[tuple[str, list[nodes.Element]]]:
    """Return the sections of a command's page; each of its actions has one."""
    found = list(_subcommands(command))
    actions = found[0].choices if found else {}
    synopsis = nodes.line_block("", *(_usage(each) for each in actions.values() or [command]))
    sections = [
        ("SYNOPSIS", [synopsis]),
        ("DESCRIPTION", list(_description(command.description or ""))),
        *_arguments(command),
    ]
    # options of all actions are described once
    common = {option for action in command._actions for option in action.option_strings}
    for action in actions.values():
        title = action.prog.partition(" ")[2].upper()
        described = list(_description(action.description or ""))
        for _, nodes_of_group in _arguments(action, without=common):
            described += nodes_of_group
        sections.append((title, described))
    return sections


def _subcommands(
    parser: argparse.ArgumentParser,
) -> Iterator[argparse._SubParsersAction[argparse.ArgumentParser]]:
    return (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))


def _usage(parser: argparse.ArgumentParser) -> nodes.line:
    """Return a line with the required options and the positional arguments."""
    words = [parser.prog, "[options]"]
    for action in parser._actions:
        if action.option_strings and action.required:
            words.append(f"{action.option_strings[0]} {_metavar(action)}")
    for action in parser._actions:
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction):
            word = f"{_metavar(action)} …" if action.nargs in ("*", "+") else _metavar(action)
            words.append(f"[{word}]" if action.nargs in ("*", "?") else word)
    return _line(" ".join(words))


def _arguments(
    parser: argparse.ArgumentParser, without: Iterable[str] = ()
) -> Iterator[tuple[str, list[nodes.Element]]]:
    """Yield the title and the lists of each group of arguments that has any."""
    for group in parser._action_groups:
        shown = [
            action
            for action in group._group_actions
            if not isinstance(action, argparse._SubParsersAction)
            and not set(without).intersection(action.option_strings)
        ]
        options = [_option(each, parser) for each in shown if each.option_strings]
        positional = [
            (_metavar(each), _help(each, parser)) for each in shown if not each.option_strings
        ]
        lists = [_definitions(positional)] if positional else []
        lists += [nodes.option_list("", *options)] if options else []
        if lists:
            title = (group.title or "options").upper().replace("POSITIONAL ARGUMENTS", "ARGUMENTS")
            yield title, [*_description(group.description or ""), *lists]


def _option(action: argparse.Action, parser: argparse.ArgumentParser) -> nodes.option_list_item:
    group = nodes.option_group()
    for name in action.option_strings:
        option = nodes.option("", nodes.option_string(text=name))
        if action.nargs != 0:
            option += nodes.option_argument(text=_metavar(action), delimiter=" ")
        group += option
    text = nodes.description("", nodes.paragraph(text=_help(action, parser)))
    return nodes.option_list_item("", group, text)


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return " ".join(text.split())


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _description(text: str) -> Iterator[nodes.Element]:
    """Yield paragraphs; indented lines of a name, spaces and a text become a list."""
    for paragraph in filter(str.strip, re.split(r"\n\s*\n", text.strip("\n"))):
        lines = paragraph.splitlines()
        if not lines[0].startswith("  "):
            yield nodes.paragraph(text=" ".join(paragraph.split()))
            continue
        margin = len(lines[0]) - len(lines[0].lstrip())
        items: list[list[str]] = []
        for line in lines:
            if len(line) - len(line.lstrip()) > margin:
                items[-1].append(line.strip())
            else:
                items.append(re.split(r"  +", line.strip(), maxsplit=1))
        yield _definitions((name, " ".join(said)) for name, *said in items)


def _definitions(items: Iterable[tuple[str, str]]) -> nodes.definition_list:
    return nodes.definition_list(
        "",
        *(
            nodes.definition_list_item(
                "", nodes.term(text=name), nodes.definition("", nodes.paragraph(text=text))
            )
            for name, text in items
        ),
    )


def _line(text: str) -> nodes.line:
    return nodes.line(text=text)


def _written(page: Page) -> tuple[str, str]:
    """Return the name of the page's file, and what man reads."""
    document = new_document(page.name)
    document += nodes.title(text=page.name)
    document += nodes.subtitle(text=page.text)
    document += nodes.docinfo(
        "",
        nodes.date(text=f"{_day():%Y-%m-%d}"),
        nodes.version(text=f"mr_dedup {__version__}"),
        _field("manual_section", "1"),
        _field("manual_group", "mr_dedup"),
    )
    program = "data-gen" if page.name.startswith("data-gen") else "mr-dedup"
    see_also = nodes.paragraph(text=", ".join(f"{other}(1)" for other in page.others))
    for title, content in (
        *page.sections,
        ("EXIT STATUS", [_definitions(_EXIT_STATUS[program].items())]),
        ("SEE ALSO", [see_also]),
    ):
        document += nodes.section("", nodes.title(text=title), *content)
    text = publish_from_doctree(
        document, writer="manpage", settings_overrides={"output_encoding": "unicode"}
    )
    return f"{page.name}.1", text


def _field(name: str, text: str) -> nodes.field:
    body = nodes.field_body("", nodes.paragraph(text=text))
    return nodes.field("", nodes.field_name(text=name), body)


def _day() -> datetime.date:
    """Return today, or the day of a release that SOURCE_DATE_EPOCH gives."""
    zone = datetime.timezone.utc
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.datetime.now(zone)
    return (datetime.datetime.fromtimestamp(int(seconds), zone) if seconds else now).date()


def main() -> None:
    """Write the pages into the directory of the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in manual_pages():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
