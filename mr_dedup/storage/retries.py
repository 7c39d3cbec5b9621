"""Repeat requests that failed for a reason that may pass."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mr_dedup.errors import MrDedupError
from mr_dedup.storage.errors import is_transient, storage_errors
from mr_dedup.storage.stores import store_of

T = TypeVar("T")


@dataclass(frozen=True)
class Retries:
    """How often and after how long a request is repeated.

    Attributes:
        tries: Requests in all; None for what the store's package leaves to do.
        first_wait_seconds: The wait before the second one, which grows fourfold.
        max_wait_seconds: The longest wait.
    """

    tries: int | None = None
    first_wait_seconds: float = 0.2
    max_wait_seconds: float = 10.0


RETRIES = Retries()


def repeated(uri: str, request: Callable[[], T], retries: Retries = RETRIES) -> T:
    """Return what ``request`` returns, repeated with growing waits while its errors may pass.

    Raises MrDedupError, with the last error.
    """
    tries = retries.tries or store_of(uri).tries
    for number in range(tries):
        try:
            return request()
        except MrDedupError:
            raise
        except Exception as error:
            if number + 1 == tries or not is_transient(error):
                with storage_errors(uri):
                    raise
            wait = min(retries.max_wait_seconds, retries.first_wait_seconds * 4**number)
            time.sleep(wait * random.uniform(0.5, 1.0))
    raise AssertionError("a loop of at least one try")
