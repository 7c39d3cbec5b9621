"""What the libraries of the server log, once a second at most: anybody can cause it."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

_LOGGERS = ("asyncio", "uvicorn.error", "concurrent.futures")
_SECONDS = 1.0


class _OnceASecond(logging.Filter):
    """Lets a record through if none was in the last second, and says how many were dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._last = -_SECONDS
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._last < _SECONDS:
            self._dropped += 1
            return False
        if self._dropped:
            record.msg = f"{record.getMessage()} ({self._dropped} messages before it were dropped)"
            record.args = None
        self._last, self._dropped = now, 0
        return True


@contextlib.contextmanager
def quiet_log() -> Iterator[None]:
    """Have what the libraries of the server log in a block be logged once a second at most."""
    once = _OnceASecond()
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(once)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(once)
