"""Call a command from Python: options by name, errors as exceptions, messages to the log."""

from __future__ import annotations

import argparse
import importlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from mr_dedup.cli.calling import call
from mr_dedup.cli.copy_names import as_named, forget_copies, name_copies
from mr_dedup.cli.parser import CommandParser
from mr_dedup.cli.streams import messages_to_log
from mr_dedup.errors import MrDedupError

_CALLING = threading.Lock()

_OPTION = re.compile(r"(?:(argument (?:-\w/)?)|(?<![\w/.-]))(--?[a-zA-Z][\w-]*)( \w+)?(:?)")
"""An option in a message, with ``argument`` before it and a value after it."""


class _Parser(CommandParser):
    """A parser that raises what argparse would print before it exits."""

    def error(self, message: str) -> NoReturn:
        raise MrDedupError(message) from None


def call_command(
    name: str,
    positional: list[str],
    kind: type,
    options: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    called: Mapping[str, str] = MappingProxyType({}),
    run: Callable[[argparse.Namespace], Any] | None = None,
) -> Any:
    """Run a command, or ``run`` with its arguments; return what that returns.

    Calls of several threads run one after another. Messages go to the logger ``mr_dedup``.

    Args:
        name: Of the command.
        positional: Its positional arguments.
        kind: The TypedDict of the options that a caller may give.
        options: Those of the caller, by the names of the command's options, with ``_`` for ``-``:
            text or a number, a list for an option that may be repeated, True for one without a
            value. None and False leave the default.
        given: Further options, of the function itself.
        called: What messages and results call files, by their paths.
        run: A function of the command's parsed arguments, instead of the command.

    Raises:
        TypeError: An option is not in ``kind``, or has a value of another type.
        MrDedupError: As the command reports it, with the names of options and files in Python.
    """
    parser = parser_of(name)
    for option in options:
        if option not in kind.__annotations__:
            raise TypeError(f"mr_dedup.{name}() got an unexpected option {option!r}")
    words = [
        word for option, value in {**options, **given}.items()
        for word in _words(parser, option, value)
    ]  # fmt: skip
    try:
        arguments = parser.parse_args([*words, "--", *positional])
        if run is not None:
            arguments.run = run
        with _CALLING, messages_to_log():
            forget_copies()
            name_copies(called)
            return _called(arguments)
    except MrDedupError as error:
        names = {*kind.__annotations__, *({"runner"} & given.keys())}
        error.args = (_spelled_in_python(str(error), parser, names),)
        # a usage error, so where in the command it was found does not matter
        raise error.with_traceback(None) from error.__cause__


def _called(arguments: argparse.Namespace) -> Any:
    """Run a command; in the message of an error files have the names that the caller gave them."""
    try:
        return call(arguments)
    except MrDedupError as error:
        error.args = (as_named(str(error)),)
        raise


def _spelled_in_python(message: str, parser: argparse.ArgumentParser, names: Set[str]) -> str:
    """Return an error of a command with its options, those of ``names``, as they are in Python.

    >>> parser = parser_of("dedup")
    >>> _spelled_in_python("argument -k: invalid int value: 'x'", parser, {"k"})
    "k: invalid int value: 'x'"
    >>> _spelled_in_python("kept: exists; give --overwrite to replace it", parser, {"overwrite"})
    'kept: exists; give overwrite=True to replace it'
    """
    spelled = {
        option: (name, action)
        for name, action in options_of(parser).items()
        if name in names
        for option in action.option_strings
    }

    def replaced(found: re.Match[str]) -> str:
        argument, option, value, colon = found.groups()
        if option not in spelled:
            return found[0]
        name, action = spelled[option]
        if name == "runner":
            return (
                f"engine={value.strip()!r}{colon}" if value and not argument else f"engine{colon}"
            )
        if action.nargs == 0 and not colon:
            name = f"{name}=True"
        return f"{name}{value or ''}{colon}"

    return _OPTION.sub(replaced, message)


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command's arguments, which raises MrDedupError."""
    from mr_dedup.cli.remote_files import add_storage_arguments

    module = importlib.import_module(f"mr_dedup.cli.{name.replace('-', '_')}")
    parser = _Parser(prog=f"mr-dedup {name}", add_help=False)
    module.add_arguments(parser)
    add_storage_arguments(parser)
    parser.set_defaults(run=module.run, debug=True, command=name, format_options=["--format"])
    return parser


def options_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return the options of a command by their names in Python."""
    return {
        max(action.option_strings, key=len).lstrip("-").replace("-", "_"): action
        for action in parser._actions
        if action.option_strings
    }


def _words(parser: argparse.ArgumentParser, option: str, value: Any) -> Iterator[str]:
    """Yield the words of a command line that give an option its value."""
    action = options_of(parser)[option]
    word = max(action.option_strings, key=len)
    if value is None or value is False:
        return
    if action.nargs == 0:
        if value is not True:
            raise TypeError(f"{option}: expected True or False, got {value!r}")
        yield word
        return
    is_repeated = isinstance(action, argparse._AppendAction)
    is_list = str(action.metavar).endswith(",…")
    values = value if isinstance(value, list | tuple) and (is_repeated or is_list) else [value]
    for each in values:
        if not isinstance(each, str | int | float | Path) or each is True:
            raise TypeError(f"{option}: expected text or a number, got {each!r}")
    for each in [",".join(map(str, values))] if is_list else values:
        yield f"{word}={each}" if word.startswith("--") else f"{word}{each}"
