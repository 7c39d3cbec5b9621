"""Counters of jobs among those of mrjob and Hadoop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

GROUP = "mr_dedup"
"""The group of the counters of jobs."""

_HADOOP_GROUPS = re.compile(r"Counters$|^Map-Reduce Framework$|^Shuffle Errors$")


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
