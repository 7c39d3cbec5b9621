"""Programs for Spark, run on this machine by the PySpark of their environment."""

from __future__ import annotations

import re

from bench.field.spark_events import SETTINGS
from bench.field.tools.tool import Task, program

_OPTIONS = " ".join(f"--conf {name}={value}" for name, value in SETTINGS.items())
_VARIABLES = {"PYSPARK_SUBMIT_ARGS": f"--master local[*] {_OPTIONS} pyspark-shell"}


def stage_reached(task: Task, said: str) -> str:
    """Return the last step that a program has reported, and what Spark has of its last stage.

    >>> from pathlib import Path
    >>> task = Task(Path(), 1, Path(), Path())
    >>> stage_reached(task, "INFO - Step 6: Marking...\\n[Stage 8:=====>    (3 + 2) / 10]")
    'step 6 (Marking), stage 8 of Spark: 3 of 10 tasks done'
    """
    reached = []
    if steps := re.findall(r"Step (\d+): ([^.\n]*)", said):
        reached.append("step {} ({})".format(*steps[-1]))
    if stages := re.findall(r"\[Stage (\d+):[=> ]*\((\d+) \+ \d+\) / (\d+)\]", said):
        reached.append("stage {} of Spark: {} of {} tasks done".format(*stages[-1]))
    return ", ".join(reached)


TOOLS = (
    program(
        "mllib",
        "mllib",
        "MinHashLSH of Spark MLlib with 5 hash tables: sets of words, approxSimilarityJoin at 0.8",
        "mllib_minhash.py",
        progress=stage_reached,
        variables=_VARIABLES,
    ),
    program(
        "mllib aligned",
        "mllib",
        "MinHashLSH of Spark MLlib with 5 hash tables: shingles of 3 words, at 0.8",
        "mllib_minhash.py",
        *("--shingle", "3"),
        progress=stage_reached,
        variables=_VARIABLES,
    ),
    program(
        "distributed-curator",
        "distributed-curator",
        "its defaults: 9-grams of characters, threshold 0.8, 64 hashes in 16 bands, 1,000 "
        "partitions",
        "distributed_curator_spark.py",
        progress=stage_reached,
        variables=_VARIABLES,
    ),
    program(
        "distributed-curator 8 partitions",
        "distributed-curator",
        "the same with 8 partitions, which suit one machine better",
        "distributed_curator_spark.py",
        *("--partitions", "8"),
        progress=stage_reached,
        variables=_VARIABLES,
    ),
)
