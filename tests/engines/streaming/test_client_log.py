"""What the client's log tells while a job runs."""

import pytest

from mr_dedup.engines.streaming import client_log
from mr_dedup.engines.streaming.client_log import ClientLog
from mr_dedup.errors import MrDedupError


class Seen:
    """A bar that remembers."""

    def __init__(self):
        self.drawn = []

    def start(self, phase, total):
        self.drawn.append((phase, total))

    def reach(self, done):
        self.drawn.append(done)


def see(log, message):
    log.see({"message": message, "level": "INFO", "logger": "x"})


def test_progress_is_drawn_phase_by_phase():
    log = ClientLog(Seen())
    for message in (" map 0% reduce 0%", " map 40% reduce 0%", " map 100% reduce 0%",
                    " map 100% reduce 67%"):  # fmt: skip
        see(log, message)
    assert log._progress.drawn == [("map", 100), 0, 40, ("reduce", 100), 0, 67]


RETRY = (
    "Retrying connect to server: node/127.0.0.1:8032. Already tried 3 time(s); retry policy is "
    "RetryUpToMaximumCountWithFixedSleep(maxRetries=10, sleepTime=1000 MILLISECONDS)"
)


def test_a_cluster_out_of_reach_is_given_up(monkeypatch):
    now = iter([100.0, 110.0, 121.0])
    monkeypatch.setattr(client_log.time, "monotonic", lambda: next(now))
    log = ClientLog(Seen())
    see(log, RETRY)
    see(log, RETRY)
    with pytest.raises(MrDedupError, match=r"reached at node/127\.0\.0\.1:8032: tried for 21 s"):
        see(log, RETRY)


def test_a_job_that_runs_is_not_given_up(monkeypatch):
    log = ClientLog(Seen())
    see(log, "Running job: job_1795265501355_0011")
    assert log.job_id == "job_1795265501355_0011"
    monkeypatch.setattr(client_log.time, "monotonic", lambda: pytest.fail("timed"))
    see(log, RETRY)
