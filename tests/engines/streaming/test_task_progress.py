"""Tasks report that they work while they do, and nothing while they wait."""

import re
import time

from mr_dedup.engines.streaming.task_progress import report_progress

LINE = re.compile(r"reporter:status:working, \d+ CPU seconds")


def test_a_working_task_reports_at_intervals(capfd):
    ended = report_progress(0.05)
    begun = time.monotonic()
    while time.monotonic() < begun + 1:
        sum(range(1000))
    ended.set()
    lines = capfd.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 21
    assert all(map(LINE.fullmatch, lines))


def test_a_waiting_task_reports_nothing(capfd):
    ended = report_progress(0.1)
    # the first interval has what the test itself took before
    time.sleep(0.15)
    capfd.readouterr()
    time.sleep(0.6)
    ended.set()
    assert capfd.readouterr().err == ""
