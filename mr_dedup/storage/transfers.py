"""How many bytes this process has copied from stores and to them, for those who show progress."""

from __future__ import annotations

import threading


class Transfers:
    """Counts bytes; threads may share it.

    Attributes:
        read_bytes: Those that were read.
        written_bytes: Those of files that were written.

    >>> transfers = Transfers()
    >>> transfers.add_read(3_500_000)
    >>> transfers.described()
    '3.5 MB read'
    """

    def __init__(self) -> None:
        self.read_bytes = self.written_bytes = 0
        self._lock = threading.Lock()

    def add_read(self, size_bytes: int) -> None:
        """Count bytes that were read."""
        with self._lock:
            self.read_bytes += size_bytes

    def add_written(self, size_bytes: int) -> None:
        """Count bytes that were written."""
        with self._lock:
            self.written_bytes += size_bytes

    @property
    def all_bytes(self) -> int:
        """Those that were read or written."""
        return self.read_bytes + self.written_bytes

    def described(self) -> str:
        """Return both in a few words; nothing if there are none."""
        counts = {"read": self.read_bytes, "written": self.written_bytes}
        return ", ".join(f"{size / 1e6:,.1f} MB {what}" for what, size in counts.items() if size)


TRANSFERS = Transfers()
"""Those of this process."""
