"""Connections of a client that send the head and the body of a request together.

urllib3 writes the head and the body one after the other, so that small requests take two TCP
segments, for each of which the server wakes.
"""

from __future__ import annotations

from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection


class _Joined(HTTPConnection):
    """Sends a request when it is complete: all of it is in memory anyway."""

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
        """Send data; of a request, when it is complete."""
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
