"""The mr-dedup command: parses arguments, runs a subcommand, maps errors to exit codes.

Exit codes: 0 done, 1 the data was examined and found damaged (inspect, index verify), 2 a usage
error or invalid input, 70 a bug of ours, 130 interrupted.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import NoReturn

from mr_dedup import __version__
from mr_dedup.cli.calling import call
from mr_dedup.cli.copy_names import forget_copies
from mr_dedup.cli.message_arguments import add_message_arguments
from mr_dedup.cli.parser import CommandParser
from mr_dedup.cli.streams import (
    STANDARD_OUTPUT,
    abandon,
    dependable_streams,
    messages_as_json,
    open_closed_streams,
    print_message,
    print_traceback,
    quiet_messages,
)
from mr_dedup.engines.process import (
    collect_rarely,
    leave_out_pandas,
    set_variables,
    use_one_arena,
)
from mr_dedup.errors import (
    MrDedupError,
    NothingReadError,
    OutOfMemoryError,
    TooManyRejectedError,
)
from mr_dedup.files.io_errors import located_reason
from mr_dedup.interrupts import INTERRUPTS, Watcher, at_forced_end, claim_end

COMMANDS = {
    "query": "find the near-duplicates of queries in a corpus of fingerprints",
    "pairs": "find all pairs of near-duplicates in a corpus of fingerprints, or between two",
    "fingerprint": "compute the fingerprints of documents",
    "idf": "count in how many documents each feature occurs",
    "dedup": "keep one of each cluster of near-duplicate documents",
    "decontaminate": "find the documents that contain items of test sets",
    "why": "explain why dedup kept or dropped documents",
    "counts": "count how often documents were found, over several results of dedup",
    "passages": "find passages that several documents have, and cut them out",
    "restore": "put back what passages or decontaminate has cut out",
    "plan": "show which design a query, or a search for all pairs, would use, and its cost",
    "convert": "convert fingerprint files between formats",
    "inspect": "describe fingerprint files, and check them for damage",
    "distance": "compare two documents by their fingerprints and features",
    "evaluate": "evaluate pairs or decisions against known similar pairs",
    "compare": "compare methods on documents whose similar pairs are known",
    "urls": "report which URLs are new, and store them",
    "index": "keep an index of fingerprints on disk, and query it",
    "serve": "serve an index over HTTP, with a web page that shows how it works",
    "warm-up": "make sure that the compiled kernels are there",
    "completion": "print a script for the completion of commands by a shell",
}
"""Commands and their lines of help.

Each is a module of this package with add_arguments(parser) and run(arguments) -> int, which is
imported only if the command line names it.
"""

_WITH_URIS = set(COMMANDS) - {"plan", "serve", "index", "urls", "warm-up", "completion"}
"""Commands with arguments for remote files; the actions of index and urls have their own."""

EXIT_OK, EXIT_USAGE, EXIT_BUG, EXIT_INTERRUPTED = 0, 2, 70, 130


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of the command line ``argv``.

    If it starts with a command, the parser has only this one; otherwise all of them, for help and
    errors. Only commands that it names are imported and get their arguments.
    """
    names = argv[:1] if argv and argv[0] in COMMANDS else COMMANDS
    return _parser_of(names, argv)


def whole_parser() -> argparse.ArgumentParser:
    """Return a parser with all commands and their arguments: imports everything."""
    return _parser_of(COMMANDS, tuple(COMMANDS))


def _parser_of(names: Iterable[str], loaded: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of commands, of which the ``loaded`` ones have their arguments."""
    parser = CommandParser(
        prog="mr-dedup",
        description="Find near-duplicates in web crawls and text corpora, and remove them.",
    )
    parser.add_argument("--version", action="version", version=f"mr-dedup {__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    for name in names:
        command = commands.add_parser(
            name, help=COMMANDS[name], formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name in loaded:
            module = importlib.import_module(f"mr_dedup.cli.{name.replace('-', '_')}")
            command.description = module.__doc__
            module.add_arguments(command)
            if name in _WITH_URIS:
                # it imports NumPy, which --help need not wait for
                from mr_dedup.cli.remote_files import add_storage_arguments

                add_storage_arguments(command)
            command.set_defaults(run=module.run, format_options=_format_options(command))
    add_message_arguments(parser)
    return parser


def _format_options(command: argparse.ArgumentParser) -> list[str]:
    """Return the options of ``command`` that name the format of a file."""
    from mr_dedup.formats.documents.files import FORMATS as DOCUMENT_FORMATS
    from mr_dedup.formats.fingerprint_files import FORMATS, WRITTEN_FORMATS

    return [
        action.option_strings[0]
        for action in command._actions
        if action.choices in (FORMATS, WRITTEN_FORMATS, DOCUMENT_FORMATS)
    ]


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    """Raise KeyboardInterrupt at the first signal; ignore further ones while cleaning up."""
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def command() -> NoReturn:
    """Run this process's command line, and end the process.

    At once: to take down all that was imported, piece by piece, is 0.1 s.
    """
    # before the watcher's pipe, which would take their descriptors
    open_closed_streams()
    with Watcher(EXIT_INTERRUPTED):
        try:
            code = main()
        except SystemExit as ended:
            code = int(ended.code or EXIT_OK)
    # others' exit functions, which may remove what they made
    atexit._run_exitfuncs()
    for stream in sys.stdout, sys.stderr:
        # what was printed has been written out; none if it was closed from the start
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    is_own_process = argv is None
    if is_own_process:
        set_variables()
        use_one_arena()
        collect_rarely()
    forget_copies()
    # what was ignored from the start, as under nohup, stays ignored
    usual = {number: signal.getsignal(number) for number in INTERRUPTS}
    for number, handler in usual.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        with dependable_streams(), at_forced_end(_report_interrupt):
            return _complete(sys.argv[1:] if argv is None else argv, is_own_process)
    finally:
        # a process that ends after an interrupt goes on ignoring further ones
        if not is_own_process:
            for number, handler in usual.items():
                signal.signal(number, handler)


def _complete(argv: Sequence[str], is_own_process: bool) -> int:
    """Parse a command line and run its command; return the exit code."""
    if not argv:
        from mr_dedup.cli.first_steps import FIRST_STEPS

        # a usage error: a script whose variable of the command is empty has not succeeded
        sys.stderr.write(FIRST_STEPS)
        return EXIT_USAGE
    if argv[0] == "help":
        argv = [*argv[1:], "--help"]
    # for usage errors too, and interrupts
    with messages_as_json(_is_json_wanted(argv)):
        return _completed(argv, is_own_process)


def _is_json_wanted(argv: Sequence[str]) -> bool:
    """Return whether a command line that may not be valid asks for messages as JSON."""
    for arg, following in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = arg.partition("=")
        # argparse takes abbreviations
        if name.startswith("--lo") and "--log-format".startswith(name):
            return (value if equals else following) == "json"
    return False


def _completed(argv: Sequence[str], is_own_process: bool) -> int:
    """Complete a command line of some arguments."""
    try:
        try:
            arguments = _parsed(argv)
            if is_own_process:
                leave_out_pandas()
            with quiet_messages(arguments.quiet):
                return _finish(_run(arguments))
        except SystemExit as ended:
            # argparse has printed help, the version or a usage error
            raise SystemExit(_finish(int(ended.code or EXIT_OK))) from None
    except KeyboardInterrupt:
        # one that went through source that was executed, as that of dataclasses is when they are
        # imported, makes python -m end by a signal, caught or not, unless more source is executed
        exec("")
        claim_end()
        _report_interrupt()
        return EXIT_INTERRUPTED


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    try:
        return build_parser(argv).parse_args(argv)
    except OSError as error:
        if error.filename != STANDARD_OUTPUT:
            raise
        # help, of more than the stream buffers
        raise SystemExit(_unprinted(error, EXIT_OK)) from None


def _run(arguments: argparse.Namespace) -> int:
    try:
        return int(call(arguments))
    except BrokenPipeError:
        # the reader of our output left, which is no error
        return EXIT_OK
    except Exception as error:
        if arguments.debug:
            print_traceback()
        message, code = _described(error, arguments)
        _print_error(message)
        return code


def _described(error: Exception, arguments: argparse.Namespace) -> tuple[str, int]:
    """Return the line for an exception, and the exit code."""
    if isinstance(error, MrDedupError):
        return f"{error}{_hint(error, arguments)}", EXIT_USAGE
    if isinstance(error, OSError):
        return located_reason(error), EXIT_USAGE
    if isinstance(error, MemoryError):
        return f"out of memory: {error}" if str(error) else "out of memory", EXIT_USAGE
    said = f"a bug in mr-dedup: {type(error).__name__}: {error} (--debug shows where)"
    return said, EXIT_BUG


def _hint(error: MrDedupError, arguments: argparse.Namespace) -> str:
    """Return the option to use after ``error``, as the library has no options."""
    from mr_dedup.formats.documents.rejects import OtherTextFieldError
    from mr_dedup.formats.fingerprint_files import UnknownFormatError

    hint = ""
    if isinstance(error, NothingReadError | OtherTextFieldError) and error.text_field is not None:
        hint = f"; --text-field {shlex.quote(error.text_field)} names another"
    if isinstance(error, TooManyRejectedError):
        hint += "; --max-rejected allows more"
    if hint:
        return hint
    if isinstance(error, OutOfMemoryError):
        names = {"cores": "fewer --cores", "table_memory": "a smaller --table-memory"}
        if getattr(arguments, "runner", None) in ("auto", "memory"):
            names["memory"] = "a smaller --memory"
        tries = [text for name, text in names.items() if hasattr(arguments, name)]
        return f"; try {' or '.join(tries)}" if tries else ""
    if not isinstance(error, UnknownFormatError):
        return ""
    return f"; name it with {' or '.join(arguments.format_options)}"


def _finish(code: int) -> int:
    """Flush standard output; return ``code``, or that of an error if this fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _unprinted(error, code)
    return code


def _unprinted(error: OSError, code: int) -> int:
    """Return ``code``, or that of an error of standard output, which is reported and abandoned."""
    # else Python would try again at exit, and complain
    abandon(sys.stdout)
    has_reader = not isinstance(error, BrokenPipeError)
    if has_reader and code not in (EXIT_USAGE, EXIT_BUG):
        _print_error(f"{STANDARD_OUTPUT}: {error.strerror}")
        return EXIT_USAGE
    return code


def _report_interrupt() -> None:
    _print_error("interrupted")


def _print_error(message: str) -> None:
    print_message(f"error: {message}")
