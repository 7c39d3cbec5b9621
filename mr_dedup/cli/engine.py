"""The engine that a command's arguments ask for, and the memory that it may use."""

from __future__ import annotations

import argparse
from pathlib import Path

from mr_dedup.cli.on_cluster import spark_settings
from mr_dedup.engines.engine import Engine
from mr_dedup.engines.inputs import ClusterSettings
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.engines.resources import available_bytes
from mr_dedup.jobs.part_cache import PartCache

_MAX_DEFAULT_BYTES = 4 << 30

_TABLES_SHARE = 4
"""Of the memory of a run, one part in so many is for tables between the steps of a job."""


def engine_of(
    runner: str,
    arguments: argparse.Namespace,
    staging: Path,
    settings: ClusterSettings | None,
    cache: PartCache | None = None,
) -> Engine:
    """Return the engine ``runner``: ``memory``, ``spark``, or one of mrjob's.

    Args:
        runner: What ``--runner`` came to.
        arguments: Those of a command that has ``--cores`` and ``--memory``.
        staging: The directory of the run for temporary files.
        settings: Those of a cluster, None on this machine.
        cache: What jobs that are run one after the other keep of their inputs: in memory, or in a
            directory of tasks that are processes of their own.
    """
    if runner == "memory":
        table_bytes = memory_bytes(arguments) // _TABLES_SHARE
        return MemoryEngine(arguments.cores, table_bytes, staging, cache, arguments.open_scratch)
    if runner == "spark":
        from mr_dedup.engines.spark.engine import spark_engine

        name = None if cache is None else cache.name
        return spark_engine(spark_settings(arguments), staging, arguments.scratch_settings, name)
    # importing mrjob takes 0.14 s
    from mr_dedup.engines.streaming.engine import StreamingEngine

    parts = None if cache is None else cache.folder
    return StreamingEngine(
        runner, staging, arguments.cores, settings, arguments.scratch_settings, parts
    )


def memory_bytes(arguments: argparse.Namespace) -> int:
    """Return how many bytes a run may use: ``--memory``, or half of those available, up to 4 GB."""
    if arguments.memory is not None:
        return int(arguments.memory)
    return min(available_bytes() // 2, _MAX_DEFAULT_BYTES)
