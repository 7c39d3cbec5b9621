"""``python -m bench``: run the benchmarks, print the machine and one Markdown table.

The exit code is 1 if two implementations disagree, or if a planted near-duplicate is not found.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.machine import describe
from bench.measure import Mismatch, Row, table
from bench.results import write

BENCHMARKS = {
    "hamming": "search for near-duplicates of queries, beside NumPy, faiss and C",
    "self_join": "all pairs of a corpus, beside NumPy, by size and distribution",
    "simhash": "simhash of texts, beside a Python reference and the simhash package",
    "minwise": "min-wise hashing of texts, beside datasketch and rensa, and its error",
    "documents": "fingerprints of a file of documents, beside a JSON parser alone",
    "scaling": "the search by the sizes of both sides, and by distribution",
    "cost_model": "the constants of the planner's cost model, fitted on this machine",
    "formats": "size and speed of the packed format, beside plain longs",
    "query_command": "mr-dedup query as a process, beside the time of its kernels",
    "urls": "sets of visited URLs, beside RocksDB, a Python set and Bloom filters",
    "dedup": "de-duplication of documents, beside MinHash packages",
    "containment": "de-duplication of contained documents, beside the default",
    "spark": "de-duplication by tasks that write shards, beside one process",
    "stores": "documents and objects in a store on this machine, beside the same files on disk",
    "index": "the online index: single queries, cold and warm, beside faiss",
}
"""Benchmarks and what they measure, in the order of the table."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks that ``argv`` selects; return the exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.seeds and not arguments.seeds.is_file():
        parser.error(f"--seeds: {arguments.seeds}: no such file")
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    options = {"urls": {"seeds": arguments.seeds}}
    print(describe())
    print(
        f"Medians of {rounds} interleaved rounds; a ratio is the median of the ratios of all "
        "rounds. Seconds are CPU time of one thread; for whole commands, wall time. Memory is what "
        "a call adds to its process at its peak, or the size of tables.",
        flush=True,
    )
    rows: list[Row] = []
    try:
        for name in arguments.only or BENCHMARKS:
            module = importlib.import_module(f"bench.{name}")
            measured: list[Row] = []
            for row in module.run(arguments.quick, rounds, **options.get(name, {})):
                # those before a mismatch are printed too
                rows.append(row)
                measured.append(row)
            if arguments.out:
                write(arguments.out, name, BENCHMARKS[name], rounds, arguments.quick, measured)
        if arguments.large:
            from bench.query_command import run_large

            rows += run_large(arguments.quick, rounds)
    except Mismatch as mismatch:
        print(f"bench: {mismatch}", file=sys.stderr)
        return 1
    finally:
        if rows:
            print(f"\n{table(rows)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(f"  {name:<14} {what}" for name, what in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__.split("\n")[0],
        epilog=f"benchmarks:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to test that all run")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, help="run only these")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="timed rounds (default 5, with --quick 1)"
    )
    parser.add_argument(
        "--seeds",
        type=Path,
        metavar="FILE",
        help="for urls: a list of URLs, one a line, also as .gz",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="also write the rows of each benchmark to a file there, as JSON",
    )
    parser.add_argument(
        "--large",
        action="store_true",
        help="also query 100 million fingerprints of two distributions",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
