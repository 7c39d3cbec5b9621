"""The data-gen command: parses arguments, writes a data set, maps errors to exit codes.

Exit codes: 0 success, 2 a usage error or an output that cannot be written, 70 a bug in data-gen,
130 interrupted (SIGINT, SIGTERM, SIGHUP). After any code but 0 no files are left behind.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

from data_gen.cli.arguments import UsageError
from data_gen.cli.standard_streams import discard, log, usable_streams
from data_gen.outputs import OutputError

EXIT_OK, EXIT_USAGE, EXIT_BUG, EXIT_INTERRUPTED = 0, 2, 70, 130

COMMANDS = {
    "fingerprints": "fingerprints with planted near-duplicates, and a list of these",
    "documents": "pages with planted near-duplicates, and their similarity",
    "urls": "URLs visited repeatedly, some by aliases, and a list of the pages",
    "completion": "print a script for the completion of commands by a shell",
}
"""Commands and their lines of help.

Each is a module of this package with OUT_OF_MEMORY, add_arguments(parser) and run(arguments),
which returns a message or none; it is imported only if the command line names it.
"""

FIRST_STEPS = """\
data-gen generates data sets with known near-duplicates, to try mr-dedup on.

  data-gen documents --documents 1000 --duplicates-per-document 2 --seed 1 --out pages
  data-gen fingerprints --queries 100 --corpus 9000 --duplicates-per-query 3 -k 3 --seed 1 --out fp
  data-gen urls --pages 1000 --visits 5000 --seed 1 --out urls

data-gen COMMAND --help describes a command.
"""
"""What is printed without arguments."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Parser(argparse.ArgumentParser):
    """A parser that raises an error if its help cannot be printed."""

    def print_help(self, file: Any = None) -> None:
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Print a usage error in one line, and exit."""
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command line ``argv``.

    Only commands that it names are imported and get their arguments.
    """
    parser = _Parser(prog="data-gen", description="Generate data sets with known near-duplicates.")
    _add_message_arguments(parser, quiet=False, debug=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        command = commands.add_parser(
            name, help=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name in argv:
            module = importlib.import_module(f"data_gen.cli.{name}")
            command.description = module.__doc__
            module.add_arguments(command)
            # a default would replace what is given before the command
            _add_message_arguments(command, argparse.SUPPRESS, argparse.SUPPRESS)
            command.set_defaults(run=module.run, out_of_memory=module.OUT_OF_MEMORY)
    return parser


def whole_parser() -> argparse.ArgumentParser:
    """Return a parser with all commands and their arguments: imports everything."""
    return build_parser(tuple(COMMANDS))


def _add_message_arguments(
    parser: argparse.ArgumentParser, quiet: bool | str, debug: bool | str
) -> None:
    """Add the options that may stand before or after the name of the command."""
    add = parser.add_argument_group("messages").add_argument
    add("-q", "--quiet", action="store_true", default=quiet,
        help="print no messages but errors, and no progress")  # fmt: skip
    add("--debug", action="store_true", default=debug,
        help="show the traceback of an error, for a bug report")  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    with usable_streams():
        if not argv:
            # a usage error: a script whose variable of the command is empty has not succeeded
            sys.stderr.write(FIRST_STEPS)
            return EXIT_USAGE
        try:
            with _interruptible():
                return _run(_parsed(argv))
        except KeyboardInterrupt:
            log("interrupted")
            return EXIT_INTERRUPTED


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments; raise SystemExit if argparse has printed help or an error."""
    try:
        try:
            return build_parser(argv).parse_args(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the help has closed the pipe
        discard(sys.stdout)
        raise SystemExit(EXIT_OK) from None
    except OSError as error:
        discard(sys.stdout)
        raise SystemExit(_fail(f"standard output: {error.strerror}", EXIT_USAGE)) from None


def _run(arguments: argparse.Namespace) -> int:
    try:
        said = arguments.run(arguments)
        if said and not arguments.quiet:
            log(said)
        return EXIT_OK
    except Exception as error:
        if arguments.debug:
            raise
        if isinstance(error, (UsageError, OutputError)):
            return _fail(str(error), EXIT_USAGE)
        if isinstance(error, MemoryError):
            return _fail(arguments.out_of_memory, EXIT_USAGE)
        return _fail(
            f"a bug in data-gen: {type(error).__name__}: {error} (--debug shows where)", EXIT_BUG
        )


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Convert signals to one KeyboardInterrupt, after which partial output is removed.

    Further signals are ignored, so that the removal is complete. Signals that are ignored from the
    start (nohup) stay ignored.
    """

    def interrupt(signum: int, frame: FrameType | None) -> NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in _SIGNALS}
    before = {each: was for each, was in before.items() if was not in (signal.SIG_IGN, None)}
    try:
        for each in before:
            signal.signal(each, interrupt)
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _fail(message: str, code: int) -> int:
    log(f"error: {message}")
    return code
