"""The options of all commands for messages, before or after the name of the command."""

from __future__ import annotations

import argparse


def add_message_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them to the parser of the command line, and to those of its commands and their actions.

    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_subparsers().add_parser("plan")
    >>> add_message_arguments(parser)
    >>> parser.parse_args(["plan", "--quiet"]) == parser.parse_args(["--quiet", "plan"])
    True
    """
    _add(parser, quiet=False, log_format="text", debug=False)
    for command in _commands(parser):
        _add_to_command(command)


def _add_to_command(parser: argparse.ArgumentParser) -> None:
    # a default would replace what is given before the command
    _add(parser, argparse.SUPPRESS, argparse.SUPPRESS, argparse.SUPPRESS)
    for action in _commands(parser):
        _add_to_command(action)


def _commands(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    return [
        command
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for command in action.choices.values()
    ]


def _add(
    parser: argparse.ArgumentParser, quiet: bool | str, log_format: str, debug: bool | str
) -> None:
    add = parser.add_argument_group("messages").add_argument
    add("-q", "--quiet", action="store_true", default=quiet,
        help="print no messages but warnings and errors, and no progress")  # fmt: skip
    add("--log-format", choices=("text", "json"), default=log_format,
        help="json: messages as lines of JSON on standard error, and how far jobs are, with or "
        "without a terminal (default text)")  # fmt: skip
    add("--debug", action="store_true", default=debug,
        help="show the traceback of an error, for a bug report")  # fmt: skip
