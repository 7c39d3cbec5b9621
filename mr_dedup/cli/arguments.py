"""Argument types and groups that several commands share."""

from __future__ import annotations

import argparse
import re

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import usage_errors
from mr_dedup.hamming.planner import DEFAULT_MEMORY_BYTES, SIDES, Plan, plan, plan_self

_UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def byte_size(text: str) -> int:
    """Return the bytes of a size such as ``400MB`` or ``1GB``, in powers of 1024."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]B)?", text.strip().upper())
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 64MB or 2GB")
    return int(match[1]) * _UNITS[match[2] or ""]


def count(text: str) -> int:
    """Return the integer of ``8_000_000``, ``1e9`` or ``8e9``."""
    try:
        value = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        value = -1.0
    if not (0 <= value <= 2**63 and value == int(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count such as 1000000 or 8e9")
    return int(value)


def positive(text: str) -> int:
    """Return an integer from 1 on."""
    if not re.fullmatch(r"[0-9]+", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 1 on")
    return int(text)


def add_search_arguments(parser: argparse.ArgumentParser, *, of_pairs: bool = False) -> None:
    """Add the options of a search: k, the indexed side, the design, the memory.

    A search ``of_pairs`` has no option for the indexed side.
    """
    parser.add_argument(
        "-k",
        type=int,
        default=3,
        help="the largest Hamming distance of a near-duplicate (default 3)",
    )
    parser.set_defaults(index="auto")
    if not of_pairs:
        parser.add_argument(
            "--index",
            choices=["auto", *SIDES],
            default="auto",
            help="the side to build tables of (default: the planner's choice)",
        )
    parser.add_argument(
        "--design",
        default="auto",
        metavar="NAME",
        help="the table design, by its name in mr-dedup plan (default: the planner's choice)",
    )
    parser.add_argument(
        "--table-memory",
        type=byte_size,
        default=DEFAULT_MEMORY_BYTES,
        metavar="SIZE",
        help="memory for the fingerprints and tables of a task; more use temporary files "
        "(default 400MB)"
        if of_pairs
        else "memory for the tables of a task; more are probed in slices (default 400MB)",
    )


def planned_for(
    corpus: int,
    queries: int,
    arguments: argparse.Namespace,
    *,
    corpus_sample: NDArray[np.uint64] | None = None,
    query_sample: NDArray[np.uint64] | None = None,
) -> Plan:
    """Return the plan of a search by its arguments.

    Args:
        corpus: the number of corpus fingerprints.
        queries: the number of queries.
        arguments: of ``add_search_arguments``.
        corpus_sample: a sample of the corpus fingerprints.
        query_sample: a sample of the queries.

    Raises:
        MrDedupError: for invalid arguments.
    """
    with usage_errors():
        return plan(
            corpus,
            queries,
            arguments.k,
            index=_chosen(arguments.index),
            design=_chosen(arguments.design),
            memory_bytes=arguments.table_memory,
            corpus_sample=corpus_sample,
            query_sample=query_sample,
        )


def planned_for_pairs(
    size: int,
    arguments: argparse.Namespace,
    *,
    partitioned: bool = False,
    sample: NDArray[np.uint64] | None = None,
) -> Plan:
    """Return the plan of a search for all pairs by its arguments.

    Args:
        size: the number of fingerprints.
        arguments: of ``add_search_arguments``.
        partitioned: whether reducers join partitions.
        sample: a sample of the fingerprints.

    Raises:
        MrDedupError: for invalid arguments.
    """
    with usage_errors():
        return plan_self(
            size,
            arguments.k,
            design=_chosen(arguments.design),
            memory_bytes=arguments.table_memory,
            sample=sample,
            partitioned=partitioned,
        )


def _chosen(value: str) -> str | None:
    """Return None for ``auto``, the choice of the planner."""
    return None if value == "auto" else value
