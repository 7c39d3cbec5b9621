"""The server process: the listening socket, the event loop, the orderly end, the log."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import Any, cast

import uvicorn

from mr_dedup.errors import MrDedupError
from mr_dedup.server.app import create_app
from mr_dedup.server.connections import ACCEPTED_AT_ONCE, Connections, connection_limit
from mr_dedup.server.service import Service
from mr_dedup.server.workers import Workers

# longer than clients keep idle connections open
_IDLE_SECONDS = 75
_BACKLOG = 1024

_LOGGERS = ("asyncio", "uvicorn.error", "concurrent.futures")
_LOG_SECONDS = 1.0


def listening_socket(host: str, port: int, token: str | None) -> socket.socket:
    """Return a socket that listens at an address.

    Args:
        host: a host name or an IP address.
        port: the port; 0 for any free one.
        token: the bearer token of the server, None for none.

    Raises:
        MrDedupError: if the address does not exist or is in use, or if other machines can reach it
            and there is no token.
    """
    name = f"{host}:{port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError, OverflowError) as error:
        raise MrDedupError(f"{name}: not an address: {_reason(error)}") from error
    if token is None and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise MrDedupError(f"{name}: other machines can reach this address, so it needs a token")
    try:
        # a machine may have addresses of a family that its kernel does not support
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(_BACKLOG)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        raise MrDedupError(f"{name}: cannot listen: {_reason(error)}") from error
    return sock


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


class IndexServer(uvicorn.Server):
    """A server that answers requests until it is stopped, and then those in progress."""

    def __init__(self, service: Service, token: str | None, sock: socket.socket) -> None:
        """Serve ``service`` at a listening socket.

        Raises:
            MrDedupError: if the process may open too few files.
        """
        self._socket, self._workers = sock, Workers(service.index.group)
        limits = service.limits
        self._connections = Connections(
            connection_limit(limits.max_connections), limits.header_timeout_seconds,
            limits.timeout_seconds, _IDLE_SECONDS, slow_seconds=limits.slow_seconds,
        )  # fmt: skip
        app = create_app(service, token, self._workers, self._connections.drop_slow_request)
        super().__init__(
            uvicorn.Config(
                app,
                # the same parser on every installation; request paths are not logged
                loop="asyncio", http=cast(Any, self._connections.protocol), ws="none",
                lifespan="off",
                # asyncio accepts as many connections at a time as its backlog
                backlog=ACCEPTED_AT_ONCE,
                log_config=None, access_log=False, server_header=False, proxy_headers=False,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=round(2 * limits.timeout_seconds + 1),
            )
        )  # fmt: skip

    def serve_until_stopped(self) -> None:
        """Answer requests until SIGINT, SIGTERM or ``stop``, then those in progress.

        Returns when no thread is working any more: the index may be closed then.
        """
        try:
            with _rate_limited_log():
                self.run(sockets=[self._socket])
        finally:
            self._workers.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets)
        # asyncio has set the backlog to ACCEPTED_AT_ONCE
        self._socket.listen(_BACKLOG)

    def stop(self) -> None:
        """Stop the server; may be called from any thread."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop at a signal, and do not raise it again afterwards as uvicorn does."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handler: Callable[[int, FrameType | None], None] = self.handle_exit
        before = {each: signal.signal(each, handler) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, previous in before.items():
                signal.signal(each, previous)


class _OncePerSecond(logging.Filter):
    """Passes one record a second, with the number of those dropped before it."""

    def __init__(self) -> None:
        super().__init__()
        self._last = -_LOG_SECONDS
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._last < _LOG_SECONDS:
            self._dropped += 1
            return False
        if self._dropped:
            record.msg = f"{record.getMessage()} ({self._dropped} earlier messages were dropped)"
            record.args = None
        self._last, self._dropped = now, 0
        return True


@contextlib.contextmanager
def _rate_limited_log() -> Iterator[None]:
    """Log at most one message a second of the libraries: any client can cause them."""
    once = _OncePerSecond()
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(once)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(once)
