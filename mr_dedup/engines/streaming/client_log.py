"""The log of the streaming client: ids, progress, failed attempts, errors."""

from __future__ import annotations

import re
import time
from typing import Any

from mr_dedup.engines.reporting import Progress
from mr_dedup.errors import MrDedupError

_JOB = re.compile(r"Running job: (job_\d+_\d+)")
_PROGRESS = re.compile(r"\s*map (\d+)% reduce (\d+)%")
_ATTEMPT_FAILED = re.compile(r"Task Id *: (attempt_\w+), Status *: FAILED\n?", re.ASCII)
_JOB_FAILED = re.compile(r"Job job_\d+_\d+ failed with state \w+ due to: *", re.ASCII)
_RETRYING = re.compile(r"Retrying connect to server: ([^.]\S*?)\. Already tried")

_UNREACHABLE_SECONDS = 20
"""How long the client may try to reach the cluster; left to itself, a quarter of an hour."""


class ClientLog:
    """The client's log records so far; draws the job's progress on a bar."""

    def __init__(self, progress: Progress) -> None:
        self.job_id: str | None = None
        self.failed_attempts: list[tuple[str, str]] = []
        """The failed attempts with their messages, in order."""
        self.job_failure: str | None = None
        self.errors: list[str] = []
        self._progress = progress
        self._phase = ""
        self._retrying_since: float | None = None

    def see(self, record: dict[str, Any]) -> None:
        """Take in one record as mrjob parses it.

        Raises MrDedupError once the cluster has not been reached for too long.
        """
        message = record["message"]
        if found := _PROGRESS.match(message):
            self._show(int(found[1]), int(found[2]))
        elif found := _JOB.match(message):
            self.job_id = found[1]
        elif found := _ATTEMPT_FAILED.match(message):
            self.failed_attempts.append((found[1], message[found.end() :]))
        elif found := _JOB_FAILED.match(message):
            self.job_failure = message[found.end() :]
        elif record["level"] in ("ERROR", "FATAL") or message.startswith("Exception in thread"):
            self.errors.append(message)
        if self.job_id is None:
            self._check_reach(message)

    def _show(self, mapped: int, reduced: int) -> None:
        phase, done = ("map", mapped) if mapped < 100 else ("reduce", reduced)
        if phase != self._phase:
            self._phase = phase
            self._progress.start(phase, 100)
        self._progress.reach(done)

    def _check_reach(self, message: str) -> None:
        found = _RETRYING.match(message)
        if found is None:
            return
        now = time.monotonic()
        if self._retrying_since is None:
            self._retrying_since = now
        elif now - self._retrying_since > _UNREACHABLE_SECONDS:
            raise MrDedupError(
                f"the cluster cannot be reached at {found[1]}: tried for "
                f"{now - self._retrying_since:.0f} s"
            )
