"""HTTP connections that send the header and the body of a request with one write.

urllib3 writes them one after the other, so that small requests take two TCP segments, and the
server wakes for each of them.
"""

from __future__ import annotations

from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection


class _Joined(HTTPConnection):
    """Buffers a request until it is complete, and sends it."""

    _parts: list[bytes] | None = None

    def request(self, *arguments: Any, **options: Any) -> None:
        """Send a request, as urllib3 does, with one write."""
        self._parts = []
        try:
            super().request(*arguments, **options)
            parts = self._parts
        finally:
            self._parts = None
        super().send(b"".join(parts))

    def send(self, data: Any) -> None:
        """Send data, or buffer it while a request is being made."""
        if self._parts is None:
            super().send(data)
        else:
            self._parts.append(data)


class _JoinedTls(_Joined, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Joined


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _JoinedTls


def pool_manager(**options: Any) -> PoolManager:
    """Return a ``urllib3.PoolManager`` whose connections send a request of bytes with one write."""
    pools = PoolManager(**options)
    pools.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return pools
