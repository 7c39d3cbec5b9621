"""Write the manual pages of all commands, one a command, from the parsers of their arguments.

setup.py runs it for a wheel:

    python tools/manual_pages.py FOLDER
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import data_gen.cli.command
from mr_dedup import __version__
from mr_dedup.cli.main import whole_parser

_ESCAPES = {
    "\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", "…": "...",
}  # fmt: skip

_COMMAND_GROUPS = {"positional arguments": "ARGUMENTS", "options": "OPTIONS"}

_EXIT_STATUS = {
    "mr-dedup": [
        ("0", "The command has done what it was to do."),
        ("1", "Files were examined and found damaged (inspect, index verify)."),
        ("2", "A usage error, or input that is not valid."),
        ("70", "A bug in mr-dedup."),
        ("130", "Interrupted."),
    ],
    "data-gen": [
        ("0", "The data set is written."),
        ("2", "A usage error, or an output that cannot be written."),
        ("70", "A bug in data-gen."),
        ("130", "Interrupted."),
    ],
}


def manual_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page, such as ``mr-dedup-dedup.1``."""
    for parser in (whole_parser(), data_gen.cli.command.whole_parser()):
        commands = _commands(parser)
        assert commands is not None
        helps = {action.dest: action.help or "" for action in commands._choices_actions}
        names = [f"{parser.prog}-{name}" for name in helps]
        yield f"{parser.prog}.1", _program_page(parser, helps, names)
        for name, command in commands.choices.items():
            page = f"{parser.prog}-{name}"
            others = [parser.prog, *(other for other in names if other != page)]
            yield f"{page}.1", _command_page(parser.prog, name, helps[name], command, others)


def _program_page(parser: argparse.ArgumentParser, helps: dict[str, str], names: list[str]) -> str:
    text = parser.description or ""
    lines = [*_head(parser.prog, text[:1].lower() + text[1:].rstrip("."))]
    lines += [".SH SYNOPSIS", rf"{_bold(parser.prog)} [\fIoptions\fR] \fICOMMAND\fR ..."]
    lines += [".SH COMMANDS", f"Each has a page of its own, such as {_bold(names[0])}(1)."]
    for name, text in helps.items():
        lines += [".TP", _bold(name), *_flowed(_sentence(text))]
    for group in parser._action_groups:
        options = [action for action in group._group_actions if action.option_strings]
        if options:
            lines += _group(parser, group, options)
    return _text([*lines, *_tail(parser.prog, names)])


def _command_page(
    program: str, name: str, text: str, command: argparse.ArgumentParser, others: list[str]
) -> str:
    lines = [*_head(f"{program}-{name}", text), ".SH SYNOPSIS"]
    actions = _commands(command)
    if actions is None:
        lines += _synopsis(command)
    for number, each in enumerate(actions.choices.values() if actions else ()):
        lines += [*([".br"] if number else []), *_synopsis(each)]
    lines += [".SH DESCRIPTION", *_described(command.description or "")]
    for group in command._action_groups:
        shown = [
            action
            for action in group._group_actions
            if not isinstance(action, argparse._SubParsersAction)
        ]
        if shown:
            lines += _group(command, group, shown)
    common = {option for action in command._actions for option in action.option_strings}
    for word, each in actions.choices.items() if actions else ():
        title = _escaped(f"{name} {word}".upper())
        lines += [f'.SH "{title}"', *_described(each.description or "")]
        for group in each._action_groups:
            # those of all actions are described once
            shown = [
                action
                for action in group._group_actions
                if not common.intersection(action.option_strings)
            ]
            for action in shown:
                lines += _argument(action, each)
    return _text([*lines, *_tail(program, others)])


def _commands(parser: argparse.ArgumentParser) -> argparse._SubParsersAction | None:  # type: ignore[type-arg]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action
    return None


def _head(name: str, text: str) -> list[str]:
    """Return the lines before the synopsis; without hyphens, that options do not get some."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    zone = datetime.timezone.utc
    now = (
        datetime.datetime.fromtimestamp(int(seconds), zone)
        if seconds
        else datetime.datetime.now(zone)
    )
    title = _escaped(name.upper())
    return [
        f'.TH "{title}" "1" "{now:%Y-%m-%d}" "mr_dedup {__version__}" "Manual of mr_dedup"',
        ".nh",
        ".ad l",
        ".SH NAME",
        rf"{_escaped(name)} \- {_escaped(text)}",
    ]


def _tail(program: str, others: list[str]) -> list[str]:
    lines = ['.SH "EXIT STATUS"']
    for code, text in _EXIT_STATUS[program]:
        lines += [".TP", _bold(code), *_flowed(text)]
    pages = ",\n".join(f".BR {_escaped(other)} (1)" for other in others)
    return [*lines, '.SH "SEE ALSO"', *pages.replace(" (1),", " (1),").split("\n")]


def _synopsis(parser: argparse.ArgumentParser) -> list[str]:
    """Return a line with the required options and the positional arguments."""
    words = [_bold(parser.prog), r"[\fIoptions\fR]"]
    for action in parser._actions:
        if action.option_strings and action.required:
            words.append(_invocation(action, action.option_strings[:1]))
    for action in parser._actions:
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction):
            metavar = _italic(_metavar(action))
            many = action.nargs in ("*", "+")
            word = f"{metavar} ..." if many else metavar
            words.append(f"[{word}]" if action.nargs in ("*", "?") else word)
    return [" ".join(words)]


def _group(
    parser: argparse.ArgumentParser, group: argparse._ArgumentGroup, actions: list[argparse.Action]
) -> list[str]:
    title = group.title or "options"
    lines = [f'.SH "{_COMMAND_GROUPS.get(title, _escaped(title.upper()))}"']
    if group.description:
        lines += _flowed(_sentence(group.description))
    for action in actions:
        lines += _argument(action, parser)
    return lines


def _argument(action: argparse.Action, parser: argparse.ArgumentParser) -> list[str]:
    head = (
        _invocation(action, action.option_strings)
        if action.option_strings
        else _italic(_metavar(action))
    )
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return [".TP", head, *_flowed(_sentence(text))]


def _invocation(action: argparse.Action, names: Sequence[str]) -> str:
    value = "" if action.nargs == 0 else f" {_italic(_metavar(action))}"
    return ", ".join(f"{_bold(name)}{value}" for name in names)


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _described(text: str) -> Iterator[str]:
    """Yield paragraphs; indented lines of a name, spaces and a text become a list."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip("\n"))):
        lines = paragraph.splitlines()
        if not lines[0].startswith("  "):
            yield from ([".PP"] if number else [])
            yield from _flowed(" ".join(lines))
            continue
        margin = len(lines[0]) - len(lines[0].lstrip())
        items: list[list[str]] = []
        for line in lines:
            if len(line) - len(line.lstrip()) > margin:
                items[-1].append(line.strip())
            else:
                items.append(re.split(r"  +", line.strip(), maxsplit=1))
        for name, *said in items:
            yield from (".TP", _bold(name), *_flowed(" ".join(said)))


def _sentence(text: str) -> str:
    """Return a text of help with a capital, but for a value with a colon, and a full stop."""
    text = " ".join(text.split())
    if re.match(r"[a-z]+(-[a-z]+)*[ ,;]", text):
        text = text[0].upper() + text[1:]
    return text if not text or text.endswith(".") else f"{text}."


def _flowed(text: str) -> Iterator[str]:
    """Yield lines that are filled to a paragraph; long words may break after a comma."""
    line = ""
    for each in text.split():
        word = _escaped(each)
        if len(each) > 60:
            word = word.replace(",", r",\:")
        if line and len(line) + len(word) >= 80:
            yield line
            line = ""
        line = f"{line} {word}".lstrip()
    if line:
        yield line


def _bold(text: str) -> str:
    return rf"\fB{_escaped(text)}\fR"


def _italic(text: str) -> str:
    return rf"\fI{_escaped(text)}\fR"


def _escaped(text: str) -> str:
    r"""Return text of which troff changes nothing.

    >>> print(_escaped(".a-b…"))
    \&.a\-b...
    """
    escaped = "".join(
        _ESCAPES.get(character) or (character if character.isascii() else _named(character))
        for character in text
    )
    # else such a line would be a request
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _named(character: str) -> str:
    return f"\\[u{ord(character):04X}]"


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Write the pages into the directory of the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in manual_pages():
        (folder / name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
