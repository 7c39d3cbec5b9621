"""Show how a query of given sizes would be searched, and what it would cost.

Sizes may be far past this machine: 8e9 is the paper's corpus. Times are for one core of the
machine the cost model was fitted on; their proportions carry over, the seconds only roughly.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from mr_dedup.cli.arguments import add_search_arguments, byte_size, count, planned_for

if TYPE_CHECKING:
    from mr_dedup.hamming.planner import Option, Plan

HELP = "show which design a query would use, and its cost"

_FINGERPRINT_BYTES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    parser.add_argument("--corpus", type=count, required=True, metavar="N", help="fingerprints")
    parser.add_argument(
        "--queries", type=count, required=True, metavar="N", help="distinct queries"
    )
    parser.add_argument(
        "--chunk-size",
        type=byte_size,
        default=64 << 20,
        metavar="SIZE",
        help="corpus bytes a map task reads (default 64MB)",
    )
    add_search_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    chunk = max(1, min(arguments.corpus, arguments.chunk_size // _FINGERPRINT_BYTES))
    planned = planned_for(chunk, arguments.queries, arguments)
    tasks = math.ceil(arguments.corpus / chunk)
    print("\n".join(_report(planned, tasks, arguments.corpus)))
    planned.refuse_explosion()
    return 0


def _report(plan: Plan, tasks: int, corpus: int) -> list[str]:
    option = plan.chosen
    seconds = option.nanoseconds / 1e9
    random_matches = plan.random_matches * tasks
    indexed, probing = option.index, "corpus" if option.index == "queries" else "queries"
    slices = f", in {option.slices} slices" if option.slices > 1 else ""
    lines = [
        f"{corpus:,} corpus fingerprints x {plan.query_size:,} queries, k = {plan.k}",
        f"{tasks:,} map tasks of up to {plan.corpus_size:,} fingerprints, each:",
        "",
        "    design                 index     tables  key bits  candidates/probe   memory  seconds",
    ]
    lines += [_row(other, other is option) for other in plan.options]
    lines += [
        "",
        f"chosen: {option.design.name}, tables over the {indexed}{slices}, probed by the {probing}",
        f"  the cheapest of these: {option.candidates_per_probe:,.1f} candidates a probe, "
        f"compared 32 at a time, {plan.candidates:.2e} a task",
        f"  memory a task: {_mebibytes(option.memory_bytes)} of tables, "
        f"and about 250 MB for Python, its libraries and batches",
        f"  time: {seconds:,.2f} s a task, {seconds * tasks / 3600:,.2f} core hours in all",
        f"  matches by chance of uniform fingerprints: {random_matches:,.3g}",
    ]
    return lines


def _row(option: Option, is_chosen: bool) -> str:
    widths = sorted(set(option.design.key_widths))
    bits = f"{widths[0]}-{widths[-1]}" if len(widths) > 1 else str(widths[0])
    return (
        f"  {'>' if is_chosen else ' '} {option.design.name:<22} {option.index:<8} "
        f"{len(option.design.masks):>7} {bits:>9} {option.candidates_per_probe:>17,.2f} "
        f"{_mebibytes(option.memory_bytes):>8} {option.nanoseconds / 1e9:>8,.2f}"
    )


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MB"
