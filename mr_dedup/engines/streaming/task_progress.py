"""Have Hadoop know that a task works: it ends those that report nothing for ten minutes."""

from __future__ import annotations

import sys
import threading
import time

INTERVAL_SECONDS = 20.0

_WORKING_SHARE = 0.01
"""Of the time, what a task that works takes of a core; one that waits forever takes less."""


def report_progress(interval_seconds: float = INTERVAL_SECONDS) -> threading.Event:
    """Write a status to stderr at intervals, from a thread, while this process takes CPU time.

    A task may read one file of gigabytes before it yields its first table. One that takes no CPU
    time reports nothing, so that Hadoop ends it.

    Returns:
        An event that ends the thread; without it the thread ends with the process.
    """
    ended = threading.Event()

    def report() -> None:
        used = time.process_time()
        while not ended.wait(interval_seconds):
            before, used = used, time.process_time()
            if used - before >= _WORKING_SHARE * interval_seconds:
                # one write: lines of other threads stay whole
                sys.stderr.write(f"reporter:status:working, {used:.0f} CPU seconds\n")
                sys.stderr.flush()

    threading.Thread(target=report, name="mr-dedup-progress", daemon=True).start()
    return ended
