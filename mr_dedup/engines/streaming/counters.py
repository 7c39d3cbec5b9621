"""Counters of jobs among those of mrjob and Hadoop.

Hadoop allows a job 120 counters, its own among them. Histograms have more: the counts of their
buckets, by names such as ``distance_7``, are in tables of a key of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from mr_dedup.jobs.contract import Counters, Keyed

COUNTS_KEY = 1 << 62
"""The key of tables of counts, which follow those of all other keys."""

_COUNTS = pa.schema([pa.field("counter", pa.string()), pa.field("amount", pa.int64())])

_BUCKET = re.compile(r"_\d+$", re.ASCII)

GROUP = "mr_dedup"
"""The group of the counters of jobs."""

_HADOOP_GROUPS = re.compile(r"Counters *$|^Map-Reduce Framework$|^Shuffle Errors$")


def without_buckets(counters: Mapping[str, int]) -> tuple[dict[str, int], pa.Table]:
    """Return the counters that Hadoop adds up, and a table of the buckets of histograms."""
    buckets = {name: amount for name, amount in counters.items() if _BUCKET.search(name)}
    others = {name: amount for name, amount in counters.items() if name not in buckets}
    columns = {"counter": pa.array(buckets, pa.string()), "amount": [*buckets.values()]}
    return others, pa.table(columns, schema=_COUNTS)


def without_counts(tables: Iterable[Keyed], counters: Counters) -> Iterator[Keyed]:
    """Yield the tables of other keys; add what is in tables of counts to ``counters``."""
    for key, table in tables:
        if key == COUNTS_KEY:
            add_counts(table, counters)
        else:
            yield key, table


def add_counts(table: pa.Table, counters: Counters) -> None:
    """Add the counts in a table to ``counters``."""
    for name, amount in zip(*(column.to_pylist() for column in table.columns), strict=True):
        counters[name] += amount


def total_counters(steps: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, int]:
    """Return the sums of the counters of a job by name, over its steps and their groups.

    Args:
        steps: The counters of each step by group and name, as mrjob's runners return them.

    Returns:
        The sums, without the groups that Hadoop adds of its own.
    """
    totals: Counter[str] = Counter()
    for step in steps:
        for group, amounts in step.items():
            if not _HADOOP_GROUPS.search(group):
                totals.update(amounts)
    return dict(totals)
