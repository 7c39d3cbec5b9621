"""The parser of commands: options and positional arguments in any order."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from mr_dedup.cli.streams import are_messages_json, coloured, print_message
from mr_dedup.errors import suggestion


class CommandParser(argparse.ArgumentParser):
    """A parser that takes options between and after positional arguments, and suggests names.

    argparse takes positional arguments of any number where the first of them are, and calls those
    after a later option unrecognized.

    >>> parser = CommandParser()
    >>> _ = parser.add_argument("folder")
    >>> _ = parser.add_argument("files", nargs="*")
    >>> _ = parser.add_argument("-k", type=int)
    >>> parser.parse_args(["index", "a", "-k", "3", "b"])
    Namespace(folder='index', files=['a', 'b'], k=3)
    """

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or an error; argparse would ignore an OSError, as of a disk that is full."""
        if message:
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        """Print a usage error in one line, and exit; the usage of most commands is long."""
        hint = f"see {self.prog} --help"
        if are_messages_json():
            print_message(f"error: {message}; {hint}")
            self.exit(2)
        self.exit(2, f"{self.prog}: {coloured(f'error: {message}')}; {hint}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += suggestion(str(value), map(str, action.choices or ()))
            raise

    def _refuse_unknown(self, args: Sequence[str]) -> None:
        """Exit for an option that there is not, before argparse misses others."""
        if self._subparsers is not None:
            # each of its commands does that
            return
        options = [name for name in self._option_string_actions if name.startswith("--")]
        for arg in args:
            name = arg.partition("=")[0]
            if name == "--":
                return
            if name.startswith("--") and not any(option.startswith(name) for option in options):
                self.error(f"unrecognized arguments: {name}{suggestion(name, options)}")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments as argparse does; what it leaves goes to the last positional argument.

        That has to be of any number, and what is left may have no option in it.
        """
        args = sys.argv[1:] if args is None else list(args)
        self._refuse_unknown(args)
        namespace, left = super().parse_known_args(args, namespace)
        positional = self._get_positional_actions()
        if not left or not positional or positional[-1].nargs not in ("*", "+"):
            return namespace, left
        # some versions of Python leave the -- itself
        named = args[args.index("--") + 1 :] if "--" in args else []
        left = [each for each in left if each != "--"]
        if any(each.startswith("-") and each != "-" and each not in named for each in left):
            return namespace, left
        action = positional[-1]
        try:
            values = self._get_values(action, left)
        except argparse.ArgumentError as error:
            self.error(str(error))
        setattr(namespace, action.dest, [*(getattr(namespace, action.dest) or ()), *values])
        return namespace, []
