"""Argument types and groups that several commands share."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mr_dedup.hamming.planner import Plan

_UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def byte_size(text: str) -> int:
    """Return the bytes that ``400MB`` or ``1GB`` stand for, units being powers of 1024."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]B)?", text.strip().upper())
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 64MB or 2GB")
    return int(match[1]) * _UNITS[match[2] or ""]


def count(text: str) -> int:
    """Return the number that ``8_000_000``, ``1e9`` or ``8e9`` stand for."""
    try:
        value = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        value = -1.0
    if not (0 <= value <= 2**63 and value == int(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is no count such as 1000000 or 8e9")
    return int(value)


def positive(text: str) -> int:
    """Return a whole number from 1 on."""
    if not re.fullmatch(r"[0-9]+", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def add_search_arguments(parser: argparse.ArgumentParser, *, of_pairs: bool = False) -> None:
    """Add what narrows a search: k, the side to index, the design, the memory.

    One for all pairs has no side to index.
    """
    from mr_dedup.hamming.planner import DEFAULT_MEMORY_BYTES, SIDES

    parser.add_argument(
        "-k", type=int, default=3, help="largest Hamming distance of a near-duplicate (default 3)"
    )
    parser.set_defaults(index="auto")
    if not of_pairs:
        parser.add_argument(
            "--index",
            choices=["auto", *SIDES],
            default="auto",
            help="the side whose tables are built (default: the planner's choice)",
        )
    parser.add_argument(
        "--design",
        default="auto",
        metavar="NAME",
        help="the table design, as mr-dedup plan names it (default: the planner's choice)",
    )
    parser.add_argument(
        "--table-memory",
        type=byte_size,
        default=DEFAULT_MEMORY_BYTES,
        metavar="SIZE",
        help="what the fingerprints and tables of one task may take; more goes through temporary "
        "files (default 400MB)"
        if of_pairs
        else "what the tables of one task may take; more is probed in slices (default 400MB)",
    )


def planned_for(corpus: int, queries: int, arguments: argparse.Namespace) -> Plan:
    """Return the plan for so many fingerprints a side that the arguments of a search ask for.

    Raises MrDedupError for arguments that contradict each other.
    """
    from mr_dedup.errors import MrDedupError
    from mr_dedup.hamming.planner import plan

    try:
        return plan(
            corpus,
            queries,
            arguments.k,
            index=_chosen(arguments.index),
            design=_chosen(arguments.design),
            memory_bytes=arguments.table_memory,
        )
    except ValueError as error:
        raise MrDedupError(str(error)) from error


def planned_for_pairs(
    size: int,
    arguments: argparse.Namespace,
    *,
    partitioned: bool = False,
    sample: NDArray[np.uint64] | None = None,
) -> Plan:
    """Return the plan for all pairs of so many fingerprints that the arguments ask for.

    Raises MrDedupError for arguments that contradict each other.
    """
    from mr_dedup.errors import MrDedupError
    from mr_dedup.hamming.planner import plan_self

    try:
        return plan_self(
            size,
            arguments.k,
            design=_chosen(arguments.design),
            memory_bytes=arguments.table_memory,
            sample=sample,
            partitioned=partitioned,
        )
    except ValueError as error:
        raise MrDedupError(str(error)) from error


def _chosen(value: str) -> str | None:
    """Return None for ``auto``, which leaves the choice to the planner."""
    return None if value == "auto" else value
