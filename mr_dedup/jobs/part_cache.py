"""What the jobs of one process keep of a part of their input, so as not to read it again."""

from __future__ import annotations

from threading import Lock
from typing import Any


class PartCache:
    """Values under keys, up to a number of bytes; what exceeds it is not kept.

    Nothing is evicted: each part is read once by each job, so what was kept first is as good as
    what would be kept later. Threads may share a cache.

    Args:
        memory_bytes: Bytes of all values together.

    Attributes:
        memory_bytes: As given.
    """

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self._free_bytes = memory_bytes
        self._values: dict[tuple[str, int], tuple[Any, int]] = {}
        self._lock = Lock()

    @property
    def free_bytes(self) -> int:
        """Bytes that values may still have."""
        return self._free_bytes

    def put(
        self, kind: str, number: int, value: object, size_bytes: int, left_bytes: int = 0
    ) -> None:
        """Keep a value under its kind and the number of a part, if it fits.

        Args:
            kind: What it is.
            number: That of the part.
            value: Any object.
            size_bytes: Its size.
            left_bytes: How much has to stay free, for values of other kinds.
        """
        with self._lock:
            if size_bytes + left_bytes <= self._free_bytes:
                self._free_bytes -= size_bytes
                self._values[kind, number] = value, size_bytes

    def take(self, kind: str, number: int) -> Any:
        """Return a value, which is not kept any longer; None if there is none."""
        with self._lock:
            value, size_bytes = self._values.pop((kind, number), (None, 0))
            self._free_bytes += size_bytes
            return value
