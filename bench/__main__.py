"""``python -m bench``: run the benchmarks, print the machine and one Markdown table.

Exits with 1 if a search found something else than its rival, or lost what was planted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.machine import describe
from bench.measure import Mismatch, Row, table

BENCHMARKS = (
    "hamming",
    "self_join",
    "simhash",
    "minwise",
    "documents",
    "scaling",
    "constants",
    "formats",
    "whole_command",
    "urls",
    "dedup",
    "index",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what ``argv`` asks for; return the exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.seeds and not arguments.seeds.is_file():
        parser.error(f"--seeds: {arguments.seeds}: no such file")
    rounds = arguments.rounds or (3 if arguments.quick else 5)
    options = {"urls": {"seeds": arguments.seeds}}
    print(describe())
    print(
        f"Medians of {rounds} interleaved rounds; ratios are medians of the rounds' own. Seconds "
        "are one thread's processor time; for whole commands, the clock's. Memory is what a call "
        "adds to its process at its peak, or what tables hold.",
        flush=True,
    )
    rows: list[Row] = []
    try:
        for name in arguments.only or BENCHMARKS:
            module = importlib.import_module(f"bench.{name}")
            rows += module.run(arguments.quick, rounds, **options.get(name, {}))
        if arguments.large:
            from bench.whole_command import run_large

            rows += run_large(arguments.quick, rounds)
    except Mismatch as mismatch:
        print(f"bench: {mismatch}", file=sys.stderr)
        return 1
    finally:
        if rows:
            print(f"\n{table(rows)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: do they still run?")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, help="these only")
    parser.add_argument("--rounds", type=int, metavar="N", help="timed rounds (5, quick 3)")
    parser.add_argument(
        "--seeds", type=Path, metavar="FILE", help="a crawl's URLs, a line each, for urls; also .gz"
    )
    parser.add_argument(
        "--large", action="store_true", help="also 100 million fingerprints, two distributions"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
