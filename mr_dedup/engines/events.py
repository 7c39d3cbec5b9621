"""Events of a run, for programs that watch it: by the logging of Python, nothing by default.

A logger ``mr_dedup.events`` of level INFO gets a record an event. Its message is the name of the
event; its attribute ``fields`` has the values:

progress  job, done and total: tasks; at most every 5 seconds
job       job, tasks, seconds, counters: a job has ended
stage     stage, and what it counts: a stage of a de-duplication has ended
"""

from __future__ import annotations

import logging
import time
from typing import Any

LOGGER = logging.getLogger("mr_dedup.events")

_PROGRESS_SECONDS = 5


def log_event(name: str, **fields: Any) -> None:
    """Log an event, if anyone has asked for events."""
    if LOGGER.isEnabledFor(logging.INFO):
        LOGGER.info(name, extra={"fields": fields})


class ProgressEvents:
    """Logs how far a job is, at most every 5 seconds."""

    def __init__(self) -> None:
        self._job = ""
        self._total = 0
        self._logged = time.monotonic()

    def start(self, job: str, total: int) -> None:
        """Begin a phase of ``total`` tasks."""
        self._job, self._total = job, total

    def reach(self, done: int) -> None:
        """``done`` tasks of the phase are done."""
        now = time.monotonic()
        if LOGGER.isEnabledFor(logging.INFO) and now - self._logged >= _PROGRESS_SECONDS:
            self._logged = now
            log_event("progress", job=self._job, done=done, total=self._total)
