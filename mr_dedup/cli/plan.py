"""Show the table design for a search of given sizes, and its cost.

Without --queries: of a search for all pairs of a corpus, as by mr-dedup pairs. Sizes may be far
larger than this machine: 8e9 is the corpus of the paper. Times are for one core of the machine that
the cost model was fitted on: their ratios are valid on others, the seconds only roughly.
"""

from __future__ import annotations

import argparse
import math

from mr_dedup.cli.arguments import (
    add_search_arguments,
    byte_size,
    count,
    planned_for,
    planned_for_pairs,
)
from mr_dedup.errors import MrDedupError
from mr_dedup.hamming.planner import BUFFERED_BYTES, Option, Plan, parts_for

_FINGERPRINT_BYTES = 8

_SENT_BYTES = 11
"""The size of a fingerprint between map and reduce tasks: base64 makes four bytes of three."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to ``parser``."""
    parser.add_argument("--corpus", type=count, required=True, metavar="N", help="fingerprints")
    parser.add_argument(
        "--queries", type=count, metavar="N", help="distinct queries (default: all pairs)"
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
    if arguments.queries is None:
        _plan_pairs(arguments, chunk)
        return 0
    planned = planned_for(chunk, arguments.queries, arguments)
    tasks = math.ceil(arguments.corpus / chunk)
    print("\n".join(_report(planned, tasks, arguments.corpus)))
    planned.refuse_explosion()
    return 0


def _plan_pairs(arguments: argparse.Namespace, chunk: int) -> None:
    if arguments.index != "auto":
        raise MrDedupError("--index: needs --queries; a search for all pairs has one side only")
    size = arguments.corpus
    planned = planned_for_pairs(size, arguments)
    print("\n".join(_report_pairs(planned)))
    partitioned = planned_for_pairs(size, arguments, partitioned=True)
    design = partitioned.chosen.design
    tables, tasks = len(design.masks), math.ceil(size / chunk)
    partitions = tables * parts_for(size, arguments.table_memory)
    sent = size * tables * _SENT_BYTES
    print(
        f"by reducers: {design.name}, {tasks:,} map tasks of up to {chunk:,} fingerprints\n"
        f"  {partitions:,} partitions of about {size * tables / partitions:,.0f} fingerprints, "
        f"{sent / (1 << 30):,.1f} GB between map and reduce\n"
        f"  time: {partitioned.chosen.nanoseconds / 3.6e12:,.2f} core hours in total"
    )
    if size * BUFFERED_BYTES <= arguments.table_memory:
        planned.refuse_explosion()
    else:
        partitioned.refuse_explosion(tasks=partitions)


def _report_pairs(plan: Plan) -> list[str]:
    option = plan.chosen
    slices = f", in {option.slices} slices" if option.slices > 1 else ""
    return [
        f"all pairs of {plan.corpus_size:,} fingerprints, k = {plan.k}",
        "",
        "    design                 tables  key bits   candidates each   memory  seconds",
        *(_row(other, other is option, "") for other in plan.options),
        "",
        f"chosen: {option.design.name}{slices}, in one process",
        f"  the cheapest of these: {option.candidates_per_probe:,.1f} candidates per fingerprint, "
        f"compared 32 at a time, {plan.candidates:.2e} in total",
        f"  memory: {_mebibytes(option.memory_bytes)} besides the fingerprints' "
        f"{_mebibytes(plan.corpus_size * _FINGERPRINT_BYTES)}, and about 250 MB for Python",
        f"  time: {option.nanoseconds / 1e9:,.2f} s",
        f"  expected pairs of uniform random fingerprints: {plan.random_matches:,.3g}",
    ]


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
    lines += [_row(other, other is option, f" {other.index:<8}") for other in plan.options]
    lines += [
        "",
        f"chosen: {option.design.name}, tables over the {indexed}{slices}, probed by the {probing}",
        f"  the cheapest of these: {option.candidates_per_probe:,.1f} candidates per probe, "
        f"compared 32 at a time, {plan.candidates:.2e} per task",
        f"  memory per task: {_mebibytes(option.memory_bytes)} of tables, "
        f"and about 250 MB for Python, its libraries and batches",
        f"  time: {seconds:,.2f} s per task, {seconds * tasks / 3600:,.2f} core hours in total",
        f"  expected matches of uniform random fingerprints: {random_matches:,.3g}",
    ]
    return lines


def _row(option: Option, is_chosen: bool, index: str) -> str:
    widths = sorted(set(option.design.key_widths))
    bits = f"{widths[0]}-{widths[-1]}" if len(widths) > 1 else str(widths[0])
    return (
        f"  {'>' if is_chosen else ' '} {option.design.name:<22}{index} "
        f"{len(option.design.masks):>7} {bits:>9} {option.candidates_per_probe:>17,.2f} "
        f"{_mebibytes(option.memory_bytes):>8} {option.nanoseconds / 1e9:>8,.2f}"
    )


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MB"
