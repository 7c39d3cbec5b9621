"""Print a script by which a shell completes commands, options, their values and directories.

  bash  data-gen completion bash > ~/.local/share/bash-completion/completions/data-gen
  zsh   data-gen completion zsh > DIR/_data-gen
  tcsh  data-gen completion tcsh > ~/.data-gen.tcsh

A new shell then has it. bash needs the package bash-completion; without it, ~/.bashrc may contain:
eval "$(data-gen completion bash)". DIR is one of the directories in $fpath of zsh. tcsh needs in
~/.tcshrc: source ~/.data-gen.tcsh
"""

from __future__ import annotations

import argparse

OUT_OF_MEMORY = "out of memory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    parser.add_argument(
        "shell", choices=("bash", "zsh", "tcsh"), help="the shell that the script is for"
    )


def run(arguments: argparse.Namespace) -> str:
    """Print the script; return no message."""
    import shtab

    from data_gen.cli.command import whole_parser

    parser = whole_parser()
    (commands,) = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    for command in commands.choices.values():
        for action in command._actions:
            if action.metavar == "DIR":
                action.complete = shtab.DIRECTORY
    print(shtab.complete(parser, arguments.shell))
    return ""
