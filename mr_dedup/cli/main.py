"""The mr-dedup command: parses arguments, runs a subcommand, maps errors to exit codes.

Exit codes: 0 done, 1 the data was examined and found damaged (inspect), 2 a mistake in the
arguments or the input, 70 a bug of ours, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from mr_dedup import __version__
from mr_dedup.errors import MrDedupError

# Each is a module of this package with HELP, add_arguments(parser) and run(arguments) -> int.
COMMANDS = ("query", "plan", "convert", "inspect")

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

EXIT_OK, EXIT_MISTAKE, EXIT_BUG, EXIT_INTERRUPTED = 0, 2, 70, 130


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="mr-dedup", description="Find near-duplicates by fingerprints, as MapReduce."
    )
    parser.add_argument("--version", action="version", version=f"mr-dedup {__version__}")
    parser.add_argument(
        "--debug", action="store_true", help="show the traceback of an error, for a bug report"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = importlib.import_module(f"mr_dedup.cli.{name}")
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    """End in order, once: what cleans up after the first interrupt is not to be interrupted."""
    for number in _INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    # what was ignored from the start, as under nohup, stays ignored
    usual = {number: signal.getsignal(number) for number in _INTERRUPTS}
    for number, handler in usual.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        return _run(build_parser().parse_args(argv))
    except KeyboardInterrupt:
        _say("interrupted")
        return EXIT_INTERRUPTED
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _run(arguments: argparse.Namespace) -> int:
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except MrDedupError as error:
        if arguments.debug:
            raise
        _say(str(error))
        return EXIT_MISTAKE
    except BrokenPipeError:
        # the reader of our output left; point stdout elsewhere so that exit does not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except OSError as error:
        if arguments.debug:
            raise
        _say(f"{error.filename or 'standard output'}: {error.strerror or error}")
        return EXIT_MISTAKE
    except Exception as error:
        if arguments.debug:
            raise
        _say(f"a bug in mr-dedup: {type(error).__name__}: {error} (--debug shows where)")
        return EXIT_BUG


def _say(message: str) -> None:
    line = " ".join(message.split("\n"))
    print(f"mr-dedup: error: {line}", file=sys.stderr)
