"""What a run on Spark moved between its tasks, by the log of events that Spark writes."""

from __future__ import annotations

import json
from pathlib import Path

EVENTS = "events"
"""The directory of these logs, in that of a run."""

SETTINGS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": EVENTS,
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
"""Has Spark write them."""


def shuffled_bytes(folder: Path) -> int | None:
    """Return the bytes that all tasks wrote for others, None if no run on Spark left a log.

    What was written again by tasks that were run again counts again. Of a run that was ended it is
    what is in the log: its last lines may be missing.
    """
    found = None
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            found = (found or 0) + _written(path)
    return found


def _written(log: Path) -> int:
    size = 0
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if '"SparkListenerTaskEnd"' in line:
                try:
                    metrics = json.loads(line).get("Task Metrics") or {}
                except ValueError:
                    # the last line of a run that was ended
                    continue
                size += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    return size
