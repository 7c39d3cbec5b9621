"""Call a command from Python: options by name, errors as exceptions, messages to the log."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from mr_dedup.cli.calling import call
from mr_dedup.cli.copy_names import forget_copies, name_copies
from mr_dedup.cli.parser import CommandParser
from mr_dedup.cli.streams import messages_to_log
from mr_dedup.errors import MrDedupError

_NOT_OPTIONS = {"help", "out", "dry_run", "price", "log_format", "runner", "documents", "corpus"}
"""Destinations that functions have no option for, or another one."""

_CALLING = threading.Lock()


class _Parser(CommandParser):
    """A parser that raises what argparse would print before it exits."""

    def error(self, message: str) -> NoReturn:
        raise MrDedupError(message)


def call_command(
    name: str,
    positional: list[str],
    options: Mapping[str, Any],
    *,
    called: Mapping[str, str] = MappingProxyType({}),
    run: Callable[[argparse.Namespace], Any] | None = None,
    prints: bool = False,
) -> Any:
    """Run a command, or ``run`` with its arguments; return what that returns.

    Calls of several threads run one after another. Messages go to the logger ``mr_dedup``.

    Args:
        name: Of the command.
        positional: Its positional arguments.
        options: By the names of the command's options, with ``_`` for ``-``: text or a number, a
            list for an option that may be repeated, True for one without a value. None and False
            leave the default.
        called: What messages and results call files, by their paths.
        run: A function of the command's parsed arguments, instead of the command.
        prints: The command prints to standard output, which is discarded.

    Raises:
        TypeError: The command has no such option.
        MrDedupError: As the command reports it.
    """
    parser = parser_of(name)
    words = [word for option in options for word in _words(parser, name, option, options[option])]
    arguments = parser.parse_args([*words, "--", *positional])
    if run is not None:
        arguments.run = run
    quiet = contextlib.redirect_stdout(io.StringIO()) if prints else contextlib.nullcontext()
    with _CALLING, messages_to_log(), quiet:
        forget_copies()
        name_copies(called)
        return call(arguments)


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command's arguments, which raises MrDedupError."""
    from mr_dedup.cli.remote_files import add_storage_arguments

    module = importlib.import_module(f"mr_dedup.cli.{name.replace('-', '_')}")
    parser = _Parser(prog=f"mr-dedup {name}", add_help=False)
    module.add_arguments(parser)
    add_storage_arguments(parser)
    parser.set_defaults(run=module.run, debug=True, command=name, format_options=["--format"])
    return parser


def option_names(name: str) -> set[str]:
    """Return the options that the function of a command takes, but for ``engine``."""
    return {
        option
        for action in parser_of(name)._actions
        for option in [_name_of(action)]
        if action.option_strings and option not in _NOT_OPTIONS - {"documents"}
    }


def _name_of(action: argparse.Action) -> str:
    longest = max(action.option_strings, key=len, default=action.dest)
    return longest.lstrip("-").replace("-", "_")


def _words(parser: argparse.ArgumentParser, name: str, option: str, value: Any) -> Iterator[str]:
    """Yield the words of a command line that give an option its value."""
    actions = {_name_of(each): each for each in parser._actions if each.option_strings}
    if option not in actions:
        raise TypeError(f"mr_dedup.{name}() got an unexpected option {option!r}")
    action = actions[option]
    word = max(action.option_strings, key=len)
    if value is None or value is False:
        return
    if action.nargs == 0:
        if value is not True:
            raise TypeError(f"{option}: expected True or False, got {value!r}")
        yield word
        return
    is_repeated = isinstance(action, argparse._AppendAction)
    for each in value if isinstance(value, list | tuple) and is_repeated else [value]:
        if not isinstance(each, str | int | float | Path) or each is True:
            raise TypeError(f"{option}: expected text or a number, got {each!r}")
        yield f"{word}={each}" if word.startswith("--") else f"{word}{each}"
