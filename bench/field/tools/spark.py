"""Programs for Spark, run on this machine by the PySpark of their environment."""

from __future__ import annotations

from bench.field.tools.tool import program

_VARIABLES = {"PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell"}

TOOLS = (
    program(
        "mllib",
        "mllib",
        "MinHashLSH of Spark MLlib with 5 hash tables: sets of words, approxSimilarityJoin at 0.8",
        "mllib_minhash.py",
        variables=_VARIABLES,
    ),
    program(
        "mllib aligned",
        "mllib",
        "MinHashLSH of Spark MLlib with 5 hash tables: shingles of 3 words, at 0.8",
        "mllib_minhash.py",
        *("--shingle", "3"),
        variables=_VARIABLES,
    ),
    program(
        "distributed-curator",
        "distributed-curator",
        "its defaults: 9-grams of characters, threshold 0.8, 64 hashes in 16 bands, 1,000 "
        "partitions",
        "distributed_curator_spark.py",
        variables=_VARIABLES,
    ),
    program(
        "distributed-curator 8 partitions",
        "distributed-curator",
        "the same with 8 partitions, which suit one machine better",
        "distributed_curator_spark.py",
        *("--partitions", "8"),
        variables=_VARIABLES,
    ),
)
