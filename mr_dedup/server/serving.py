"""Serving an index until it is told to stop: the address, the loop, the end."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any, cast

import uvicorn

from mr_dedup.errors import MrDedupError
from mr_dedup.server.app import app_of
from mr_dedup.server.connections import ACCEPTED_AT_ONCE, Connections, connection_limit
from mr_dedup.server.quiet_log import quiet_log
from mr_dedup.server.service import Service
from mr_dedup.server.workers import Workers

# longer than clients keep connections that they do not use
_IDLE_SECONDS = 75
_BACKLOG = 1024


def bound(host: str, port: int, token: str | None) -> socket.socket:
    """Return a socket that is bound to an address; port 0 is any that is free.

    Raises MrDedupError if there is no such address, if it is taken, and if other machines reach it
    while there is no token.
    """
    place = f"{host}:{port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError, OverflowError) as error:
        raise MrDedupError(f"{place}: is no address: {_reason(error)}") from error
    if token is None and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise MrDedupError(f"{place}: other machines reach it, so that it needs a token")
    try:
        # a machine may know addresses of a family that its kernel does not
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(_BACKLOG)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        raise MrDedupError(f"{place}: cannot be served: {_reason(error)}") from error
    return sock


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


class IndexServer(uvicorn.Server):
    """Answers calls until it is stopped, then those on their way, and returns."""

    def __init__(self, service: Service, token: str | None, sock: socket.socket) -> None:
        """Serve ``service`` at a socket that is bound.

        Raises MrDedupError if the process may open too few files.
        """
        self._socket, self._workers = sock, Workers(service.index.group)
        limits = service.limits
        self._connections = Connections(
            connection_limit(limits.connections), limits.header_seconds, limits.seconds,
            _IDLE_SECONDS,
        )  # fmt: skip
        super().__init__(
            uvicorn.Config(
                app_of(service, token, self._workers, self._connections.give_up_slow_call),
                # one parser wherever it is installed; the paths of calls are ours to log
                loop="asyncio", http=cast(Any, self._connections.protocol), ws="none",
                lifespan="off",
                # asyncio tries to accept as many before it counts them, and as often when it cannot
                backlog=ACCEPTED_AT_ONCE,
                log_config=None, access_log=False, server_header=False, proxy_headers=False,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=round(2 * service.limits.seconds + 1),
            )
        )  # fmt: skip

    def serve_until_stopped(self) -> None:
        """Answer calls; return after SIGINT, SIGTERM or ``stop``, when those begun are answered.

        And when nothing is worked on any more: the index may be closed then.
        """
        try:
            with quiet_log():
                self.run(sockets=[self._socket])
        finally:
            self._workers.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        # asyncio has made it as many as it accepts at once
        self._socket.listen(_BACKLOG)

    def stop(self) -> None:
        """Have it end, from any thread."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop at a signal, which is then done with: to stop is what it asked for."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handler: Callable[[int, FrameType | None], None] = self.handle_exit
        before = {each: signal.signal(each, handler) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, usual in before.items():
                signal.signal(each, usual)
