"""Reads of HDFS in forked processes, which inherit connections that only their parent can use."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

_EXPIRY_SECONDS = 3.5
"""hdfs-native keeps connections to datanodes for 3 s, in all clients of a process."""

_last_read: dict[int, float] = {}
"""When a process read last, by its id: its own and those it was forked from."""


@contextlib.contextmanager
def fork_safe() -> Iterator[None]:
    """Have the block, which reads from HDFS, wait until no inherited connection is used.

    By one that its parent used within 3 s, a forked process would wait without an end.
    """
    own = os.getpid()
    inherited = [when for process, when in list(_last_read.items()) if process != own]
    left = max(inherited, default=0.0) + _EXPIRY_SECONDS - time.monotonic()
    if inherited and left > 0:
        time.sleep(left)
    try:
        yield
    finally:
        _last_read[own] = time.monotonic()
