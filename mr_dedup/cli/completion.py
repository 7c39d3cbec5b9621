"""Print a script by which a shell completes commands, options, their values and file names.

  bash  mr-dedup completion bash > ~/.local/share/bash-completion/completions/mr-dedup
  zsh   mr-dedup completion zsh > DIR/_mr-dedup
  tcsh  mr-dedup completion tcsh > ~/.mr-dedup.tcsh

A new shell then has it. bash needs the package bash-completion; without it, ~/.bashrc may contain:
eval "$(mr-dedup completion bash)". DIR is one of the directories in $fpath of zsh. tcsh needs in
~/.tcshrc: source ~/.mr-dedup.tcsh

data-gen completion is the same for data-gen.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

SHELLS = ("bash", "zsh", "tcsh")

_FILES = {
    "A",
    "B",
    "CORPUS",
    "DOCS",
    "FILE",
    "FILES",
    "INPUT",
    "LISTS",
    "OTHER",
    "OUT",
    "PAIRS",
    "TRUTH",
}
"""What arguments are called in help that name a file or a directory."""

_DIRECTORIES = {"DIR", "STORE"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that the script is for")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    import shtab

    print(shtab.complete(completed_parser(), arguments.shell))
    return 0


def completed_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, whose actions say what completes their values."""
    import shtab

    from mr_dedup.cli.main import whole_parser

    parser = whole_parser()
    for action in actions_of(parser):
        metavar = action.metavar
        if not isinstance(metavar, str) or isinstance(action, argparse._SubParsersAction):
            continue
        if metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif metavar in _DIRECTORIES:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif metavar.startswith("{"):
            # values that the command itself checks, for a better message
            action.choices = metavar.strip("{}").split(",")
    return parser


def actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the actions of a parser, and of the parsers of its commands and their actions."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from actions_of(command)
