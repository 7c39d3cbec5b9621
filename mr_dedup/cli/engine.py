"""The engine that a command's arguments ask for."""

from __future__ import annotations

import argparse
from pathlib import Path

from mr_dedup.engines.engine import Engine
from mr_dedup.engines.inputs import ClusterSettings
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.engines.streaming.engine import StreamingEngine


def engine_of(
    runner: str, arguments: argparse.Namespace, staging: Path, settings: ClusterSettings | None
) -> Engine:
    """Return the engine ``runner``: ``memory``, or one of mrjob's.

    Args:
        runner: What ``--runner`` came to.
        arguments: Those of a command that has ``--cores``.
        staging: The folder of the run for temporary files.
        settings: Those of a cluster, None on this machine.
    """
    if runner == "memory":
        return MemoryEngine(arguments.cores, folder=staging)
    return StreamingEngine(runner, staging, arguments.cores, settings)
