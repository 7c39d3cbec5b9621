"""Counters of jobs, and those that Hadoop adds."""

from mr_dedup.engines.streaming.counters import (
    COUNTS_KEY,
    total_counters,
    without_buckets,
    without_counts,
)
from mr_dedup.jobs.contract import Counters


def test_total_counters_are_those_of_the_job_without_those_of_hadoop():
    steps = [
        {
            "mr_dedup": {"pairs": 5, "chunks": 1},
            "File System Counters": {"FILE: Number of bytes read": 2},
            "Job Counters": {"Launched map tasks": 1},
            "Map-Reduce Framework": {"Map input records": 3},
            "Shuffle Errors": {"BAD_ID": 0},
        },
        {},
        {"mr_dedup": {"pairs": 7}, "another group": {"chunks": 2}},
    ]
    assert total_counters(steps) == {"pairs": 12, "chunks": 3}
    assert total_counters([]) == {}


def test_buckets_of_histograms_go_from_task_to_task_as_tables():
    first, buckets = without_buckets({"pairs": 3, "distance_0": 2, "distance_10": 1})
    second, others = without_buckets({"distance_10": 4, "too_many0": 1})
    assert (first, second) == ({"pairs": 3}, {"too_many0": 1})
    counters = Counters(pairs=5)
    tables = [(7, buckets), (COUNTS_KEY, buckets), (COUNTS_KEY, others)]
    assert list(without_counts(tables, counters)) == [(7, buckets)]
    assert counters == {"pairs": 5, "distance_0": 2, "distance_10": 5}
