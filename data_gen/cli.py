"""The data-gen command: parses arguments, writes a data set, maps errors to exit codes.

Exit codes: 0 done, 2 a mistake in the arguments or an output that cannot be written, 70 a bug of
ours, 130 interrupted (Ctrl-C, or told to end). Whatever the code but 0, nothing is left behind.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tqdm import tqdm

from data_gen.distributions import DISTRIBUTIONS, Clustered, Distribution, Prefix, Zipf
from data_gen.fingerprints import FLIPS, FingerprintParameters, write
from data_gen.outputs import OutputError

EXIT_OK, EXIT_MISTAKE, EXIT_BUG, EXIT_INTERRUPTED = 0, 2, 70, 130

_SIZES = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_FINGERPRINTS_TEXT = """\
Write random query fingerprints, and a corpus that holds copies of them with up to K bits
flipped, scattered among other fingerprints.

DIR then holds queries.longs, corpus-00000.longs, corpus-00001.longs, … (8-byte big-endian
longs, as Java's writeLong writes them) and truth.tsv: for each query that has planted
near-duplicates, a line of the query and these, in ascending signed decimals. A search for
distance K must find all of them; it may find more, where values happen to be close, which is
certain in the dense distributions and next to impossible in uniform data.

The same options give the same bytes on every machine; --chunk-size only cuts them elsewhere.
"""


class _Mistake(Exception):
    """Options that do not fit; the message is for the user."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="data-gen", description="Make data sets whose near-duplicates are known."
    )
    parser.add_argument(
        "--debug", action="store_true", help="show the traceback of an error, for a bug report"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_fingerprints(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        with _orderly_end():
            arguments.run(arguments)
        return EXIT_OK
    except KeyboardInterrupt:
        print("data-gen: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        if arguments.debug:
            raise
        if isinstance(error, (_Mistake, OutputError)):
            return _fail(str(error), EXIT_MISTAKE)
        if isinstance(error, MemoryError):
            return _fail("not enough memory for so many queries and planted values", EXIT_MISTAKE)
        return _fail(
            f"a bug in data-gen: {type(error).__name__}: {error} (--debug shows where)", EXIT_BUG
        )


def _add_fingerprints(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "fingerprints",
        help="fingerprints with planted near-duplicates, and their truth",
        description=_FINGERPRINTS_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_run_fingerprints)
    add = parser.add_argument
    add("--queries", type=int, required=True, metavar="N", help="how many queries")
    add("--corpus", type=int, required=True, metavar="N", help="fingerprints of the corpus, in all")
    add(
        "--duplicates-per-query",
        type=int,
        required=True,
        metavar="N",
        help="near-duplicates planted for each query",
    )
    add("-k", type=int, required=True, metavar="K", help="the largest distance, in bits, 0 to 64")
    add("--seed", type=int, required=True, metavar="N", help="0 to 2**64 - 1")
    add("--out", type=Path, required=True, metavar="DIR", help="a folder, new or empty")
    add(
        "--chunk-size",
        type=_size,
        default="64MB",
        metavar="SIZE",
        help="bytes of a corpus file, a multiple of 8; KB, MB and GB are binary (default: 64MB)",
    )
    add(
        "--flips",
        choices=FLIPS,
        default="up-to",
        help="bits flipped in a near-duplicate: 0 to K, equally likely (the default), or K",
    )
    add(
        "--near-misses",
        type=int,
        default=0,
        metavar="N",
        help="decoys planted for each query, K + 1 and K + 2 bits from it in turn (default: 0)",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace DIR if it holds nothing but what this command wrote",
    )
    _add_distributions(parser)


def _add_distributions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the distribution of the queries and of the filler")
    add = group.add_argument
    add("--distribution", choices=DISTRIBUTIONS, default="uniform", help="(default: uniform)")
    add(
        "--prefix-bits",
        type=int,
        metavar="N",
        help=f"prefix: leading bits that values share (default: {Prefix.prefix_bits})",
    )
    add(
        "--prefix-share",
        type=float,
        metavar="P",
        help=f"prefix: share of the values that have them (default: {Prefix.prefix_share})",
    )
    add(
        "--clusters",
        type=int,
        metavar="N",
        help=f"clustered: how many centres (default: {Clustered.clusters})",
    )
    add(
        "--cluster-radius",
        type=int,
        metavar="N",
        help=f"clustered: 0 to N bits from one (default: {Clustered.cluster_radius})",
    )
    add(
        "--zipf-distinct",
        type=int,
        metavar="N",
        help=f"zipf: how many different values (default: {Zipf.zipf_distinct})",
    )
    add(
        "--zipf-exponent",
        type=float,
        metavar="S",
        help=f"zipf: the r-th is likely as 1 / r**S (default: {Zipf.zipf_exponent})",
    )


def _run_fingerprints(arguments: argparse.Namespace) -> None:
    started = time.monotonic()
    try:
        parameters = FingerprintParameters(
            queries=arguments.queries,
            corpus=arguments.corpus,
            duplicates_per_query=arguments.duplicates_per_query,
            k=arguments.k,
            seed=arguments.seed,
            flips=arguments.flips,
            near_misses=arguments.near_misses,
            distribution=_distribution(arguments),
            chunk_bytes=arguments.chunk_size,
        )
    except ValueError as error:
        raise _Mistake(str(error)) from error
    with tqdm(total=parameters.steps, unit="fp", unit_scale=True, disable=None) as bar:
        summary = write(
            parameters, arguments.out, overwrite=arguments.overwrite, progress=bar.update
        )
    print(
        f"data-gen: {parameters.queries:,} queries and a corpus of {parameters.corpus:,}, with "
        f"{parameters.queries * parameters.duplicates_per_query:,} duplicates planted "
        f"({summary.truth_pairs:,} distinct pairs) and "
        f"{parameters.queries * parameters.near_misses:,} near misses: {summary.files:,} files, "
        f"{summary.bytes:,} bytes in {arguments.out}, {time.monotonic() - started:.1f} s",
        file=sys.stderr,
    )


def _distribution(arguments: argparse.Namespace) -> Distribution:
    """Return the distribution asked for; an option of another one is a mistake."""
    chosen = DISTRIBUTIONS[arguments.distribution]
    given = {}
    for name, distribution in DISTRIBUTIONS.items():
        for field in dataclasses.fields(distribution):
            value = getattr(arguments, field.name)
            if value is None:
                continue
            if distribution is not chosen:
                option = field.name.replace("_", "-")
                raise _Mistake(f"--{option} needs --distribution {name}")
            given[field.name] = value
    return chosen(**given)


def _size(text: str) -> int:
    """Return the bytes that ``64MB`` and the like stand for."""
    match = re.fullmatch(r"([0-9]+)([KMG]B)?", text.upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"expected bytes, as 4096, 64MB or 1GB, not {text!r}")
    return int(match[1]) * _SIZES[match[2] or ""]


@contextlib.contextmanager
def _orderly_end() -> Iterator[None]:
    """Turn the signals that end a program into one KeyboardInterrupt: half-done work is removed.

    A second signal is ignored: it must not stop the clearing up. One that was ignored from the
    start (nohup) stays so.
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
    line = " ".join(message.splitlines())
    print(f"data-gen: error: {line}", file=sys.stderr)
    return code
