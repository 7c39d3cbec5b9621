"""Counters of jobs, and those that Hadoop adds."""

from mr_dedup.engines.streaming.counters import total_counters


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
