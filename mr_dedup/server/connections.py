"""The connections of a server: how many are open, and how long each may wait for its client.

A connection costs a file descriptor and memory, whoever opened it. So their number is limited, and
everything that waits for the client has a deadline: the header and the body of a request, the
reading of a response, the next request. For a new connection beyond the limit another one is
closed that has been waiting for its client for ``slow_seconds``: one without any request yet before
one with some, one between requests before one within a request, and of these the one that has been
waiting longest.
"""

from __future__ import annotations

import asyncio
import enum
import resource
from pathlib import Path
from typing import Any

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from mr_dedup.errors import MrDedupError

ACCEPTED_AT_ONCE = 8
"""Connections that are accepted before any of them is counted."""

_RESERVED = 24 + 2 * ACCEPTED_AT_ONCE
"""File descriptors kept for other uses: new segments of the index, the files that a change writes,
and connections that are accepted and closed again."""

_MIN_CONNECTIONS = 4

_SWEEP_SECONDS = 0.5


class Phase(enum.IntEnum):
    """What a connection is waiting for; those of lower phases are closed first."""

    BETWEEN_REQUESTS = 0
    HEADER = 1
    BODY = 2
    RESPONSE = 3
    WORK = 4


def connection_limit(wanted: int) -> int:
    """Return how many connections may be open: ``wanted``, or what file descriptors allow.

    Raises:
        MrDedupError: if there are too few descriptors for any.
    """
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return wanted
    needed = sum(1 for _ in Path("/proc/self/fd").iterdir()) + _RESERVED
    if allowed < needed + _MIN_CONNECTIONS:
        raise MrDedupError(
            f"too few open files are allowed: {allowed}, and at least {needed + _MIN_CONNECTIONS} "
            "are needed; raise the limit (ulimit -n)"
        )
    return min(wanted, allowed - needed)


class Connections:
    """The open connections of one event loop; creates the protocol of each."""

    def __init__(
        self,
        limit: int,
        header_seconds: float,
        seconds: float,
        idle_seconds: float,
        *,
        slow_seconds: float = 1.0,
    ) -> None:
        """Allow ``limit`` open connections.

        Args:
            limit: the most open connections.
            header_seconds: how long the header of a request may take to arrive.
            seconds: how long the body of a request may take to arrive, and a response to be read.
            idle_seconds: how long a connection may be idle between requests.
            slow_seconds: after how long a waiting connection is closed in favour of others, and a
                request whose body has not arrived gives way to others.
        """
        self._limit = limit
        # the endpoint that reads a body gives up first, and responds with a reason
        self._seconds = {
            Phase.BETWEEN_REQUESTS: idle_seconds, Phase.HEADER: header_seconds,
            Phase.BODY: seconds + 1, Phase.RESPONSE: seconds,
        }  # fmt: skip
        self.slow_seconds = slow_seconds
        self._open: set[Connection] = set()
        self._is_sweeping = False

    def protocol(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> Connection:
        """Return the protocol of a new connection; called by uvicorn."""
        return Connection(self, config, server_state, app_state, _loop)

    def opened(self, connection: Connection) -> None:
        """Count a new connection; close another one, or this one, if there are too many."""
        self._open.add(connection)
        if not self._is_sweeping:
            self._is_sweeping = True
            connection.loop.call_later(_SWEEP_SECONDS, self._sweep, connection.loop)
        if len(self._open) > self._limit:
            self._most_idle(connection).abort()

    def _most_idle(self, newest: Connection) -> Connection:
        """Return the connection to close: ``newest`` if all others have requests at work."""
        slow_since = newest.loop.time() - self.slow_seconds
        waiting = [
            # one that has just started to wait may continue at any moment
            ((each.since > slow_since, each.responses > 0, phase, each.since), each)
            for each in self._open
            if each is not newest and (phase := each.phase()) != Phase.WORK
        ]
        return min(waiting, key=lambda each: each[0], default=(None, newest))[1]

    def closed(self, connection: Connection) -> None:
        """Stop counting a connection."""
        self._open.discard(connection)

    def drop_slow_request(self) -> bool:
        """Close the connection whose request body is slowest to arrive; return whether one is slow.

        Requests that have a response do not count as in progress.
        """
        slow = [
            each for each in self._open if each.phase() == Phase.BODY and not each.is_answered()
        ]
        slowest = min(slow, key=lambda each: each.since, default=None)
        if slowest is None or slowest.loop.time() - slowest.since < self.slow_seconds:
            return False
        slowest.abort()
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close all connections past their deadline, and schedule the next sweep."""
        now = loop.time()
        for connection in list(self._open):
            phase = connection.phase()
            if phase == Phase.BETWEEN_REQUESTS and not connection.responses:
                phase = Phase.HEADER
            seconds = self._seconds.get(phase)
            if seconds is not None and now - connection.since > seconds:
                connection.abort()
        self._is_sweeping = bool(self._open)
        if self._is_sweeping:
            loop.call_later(_SWEEP_SECONDS, self._sweep, loop)


class Connection(H11Protocol):
    """A connection with the phase that it is in, and since when."""

    def __init__(
        self,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._connections = connections
        self.is_lingering = False
        """Whether it accepts no more requests, and discards what still arrives."""
        self.responses = 0
        """The number of responses sent."""
        self._is_half_closed = False
        self.since = 0.0
        """When the current phase started, by the clock of the event loop."""

    def phase(self) -> Phase:
        """Return what it is waiting for."""
        if self.is_lingering or self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY
        if self.cycle is not None and not self.cycle.response_complete:
            return Phase.RESPONSE if self.flow.write_paused else Phase.WORK
        if self.transport.get_write_buffer_size():
            return Phase.RESPONSE
        return Phase.HEADER if self.conn.trailing_data[0] else Phase.BETWEEN_REQUESTS

    def is_answered(self) -> bool:
        """Return whether no request is in progress; the body of one may still be arriving."""
        return self.is_lingering or self.cycle is None or self.cycle.response_complete

    def shutdown(self) -> None:
        """Close it as the server stops, after the response to a request in progress."""
        if self.is_answered():
            # the rest of a body is not waited for
            self.loop.call_later(self._connections.slow_seconds, self.abort)
        super().shutdown()

    def abort(self) -> None:
        """Close it without waiting for the client."""
        self._connections.closed(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the connection."""
        super().connection_made(_LingeringTransport(transport, self))  # type: ignore[arg-type]
        self.since = self.loop.time()
        self._connections.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self._connections.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process data from the client."""
        if self.is_lingering:
            return
        cycle, is_first = self.cycle, self.phase() == Phase.BETWEEN_REQUESTS
        super().data_received(data)
        if is_first or self.cycle is not cycle:
            self.since = self.loop.time()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether to stay open, for the response to requests that have arrived whole.

        The client has closed its sending side, which ends no request (RFC 9112, 9.6).
        """
        self._is_half_closed = True
        return not self.is_answered() and self.conn.their_state is not h11.SEND_BODY

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.responses += 1
        self.since = self.loop.time()
        super().on_response_complete()
        if self._is_half_closed and self.is_answered():
            self.transport.close()

    def pause_writing(self) -> None:
        """Wait for the client to read the response."""
        self.since = self.loop.time()
        super().pause_writing()

    def linger(self) -> bool:
        """Return whether it must stay open because the client is still sending a request body.

        If it were closed now, the kernel would send a reset, and the client might lose the
        response.
        """
        self.is_lingering = self.is_lingering or self.conn.their_state is h11.SEND_BODY
        return self.is_lingering


class _LingeringTransport:
    """A transport that closes only once the client has sent the rest of its request."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport, self._connection = transport, connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether it is closed or about to be."""
        return self._connection.is_lingering or self._transport.is_closing()

    def close(self) -> None:
        """Close it, now or when the client has sent its request."""
        if not self._connection.linger():
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write_eof()
            self._transport.resume_reading()
