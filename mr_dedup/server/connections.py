"""The connections of a server: how many there may be, and how long each may keep it waiting.

A connection costs a file descriptor and some memory, whoever opened it and whatever comes over it.
So there are no more than a limit, and what waits for the other side has a deadline: the header and
the body of a call to come, an answer to be taken, another call to begin. For a new connection
beyond the limit another is closed that waits for more than a second: one that made no call yet
before one that did, one between calls before one in a call, and of each kind the one that waits
longest.
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
"""Connections that are accepted before any is counted."""

_RESERVED = 24 + 2 * ACCEPTED_AT_ONCE
"""File descriptors that connections leave: for new segments of the index, for the files that a
change writes, and for connections that are accepted, and closed in their turn."""

_MIN_CONNECTIONS = 4

_SWEEP_SECONDS = 0.5
_SLOW_SECONDS = 1.0
"""What waits longer is closed before what does not, and a body that takes longer gives up its call,
where there are too many."""


class Phase(enum.IntEnum):
    """What a connection waits for; those of lower phases are closed first."""

    BETWEEN_CALLS = 0
    HEADER = 1
    BODY = 2
    ANSWER = 3
    WORK = 4


def connection_limit(wanted: int) -> int:
    """Return how many connections may be open, ``wanted`` or fewer as file descriptors allow.

    Raises MrDedupError if there are too few for any.
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
    """The open connections of one event loop; makes the protocol of each."""

    def __init__(self, limit: int, header_seconds: float, seconds: float, idle: float) -> None:
        """Allow ``limit`` connections at a time.

        A header has to come within ``header_seconds``, a body and the taking of an answer within
        ``seconds``, the next call within ``idle`` seconds.
        """
        self._limit = limit
        # who reads a body gives it up first, and says so
        self._seconds = {
            Phase.BETWEEN_CALLS: idle, Phase.HEADER: header_seconds, Phase.BODY: seconds + 1,
            Phase.ANSWER: seconds,
        }  # fmt: skip
        self._open: set[Connection] = set()
        self._sweeps = False

    def protocol(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> Connection:
        """Return the protocol of a new connection, as uvicorn asks for it."""
        return Connection(self, config, server_state, app_state, _loop)

    def opened(self, connection: Connection) -> None:
        """Count a new connection; close another, or itself, if there are too many."""
        self._open.add(connection)
        if not self._sweeps:
            self._sweeps = True
            connection.loop.call_later(_SWEEP_SECONDS, self._sweep, connection.loop)
        if len(self._open) > self._limit:
            self._most_idle(connection).abort()

    def _most_idle(self, newest: Connection) -> Connection:
        """Return the connection to close: ``newest`` where all others are worked on."""
        slow = newest.loop.time() - _SLOW_SECONDS
        waiting = [
            # what has just begun to wait may go on in a moment
            ((each.since > slow, each.calls > 0, phase, each.since), each)
            for each in self._open
            if each is not newest and (phase := each.phase()) != Phase.WORK
        ]
        return min(waiting, key=lambda each: each[0], default=(None, newest))[1]

    def closed(self, connection: Connection) -> None:
        """Count a connection that ended no more."""
        self._open.discard(connection)

    def give_up_slow_call(self) -> bool:
        """Close the connection whose body is the slowest to come; return whether one is slow.

        Only calls that are not answered yet: the others are not counted any more.
        """
        slow = [
            each for each in self._open if each.phase() == Phase.BODY and not each.is_answered()
        ]
        slowest = min(slow, key=lambda each: each.since, default=None)
        if slowest is None or slowest.loop.time() - slowest.since < _SLOW_SECONDS:
            return False
        slowest.abort()
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close all connections that are beyond their deadline, and look again later."""
        now = loop.time()
        for connection in list(self._open):
            phase = connection.phase()
            if phase == Phase.BETWEEN_CALLS and not connection.calls:
                phase = Phase.HEADER
            seconds = self._seconds.get(phase)
            if seconds is not None and now - connection.since > seconds:
                connection.abort()
        self._sweeps = bool(self._open)
        if self._sweeps:
            loop.call_later(_SWEEP_SECONDS, self._sweep, loop)


class Connection(H11Protocol):
    """A connection that knows what it waits for, and since when."""

    def __init__(
        self,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = connections
        self.lingers = False
        """Whether it is closed for calls, and what still comes is thrown away."""
        self.calls = 0
        """Calls that were answered."""
        self.since = 0.0
        """When the phase that it is in began, by the clock of the event loop."""

    def phase(self) -> Phase:
        """Return what it waits for."""
        if self.lingers or self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY
        if self.cycle is not None and not self.cycle.response_complete:
            return Phase.ANSWER if self.flow.write_paused else Phase.WORK
        if self.transport.get_write_buffer_size():
            return Phase.ANSWER
        return Phase.HEADER if self.conn.trailing_data[0] else Phase.BETWEEN_CALLS

    def is_answered(self) -> bool:
        """Return whether no call is in progress, though its body may still come."""
        return self.lingers or self.cycle is None or self.cycle.response_complete

    def shutdown(self) -> None:
        """Close it as the server stops, after the answer if a call is in progress."""
        if self.is_answered():
            # the rest of a body is not waited for
            self.loop.call_later(_SLOW_SECONDS, self.abort)
        super().shutdown()

    def abort(self) -> None:
        """Close it without waiting for the other side."""
        self._all.closed(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(_LingeringTransport(transport, self))  # type: ignore[arg-type]
        self.since = self.loop.time()
        self._all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._all.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what came."""
        if self.lingers:
            return
        cycle, begins = self.cycle, self.phase() == Phase.BETWEEN_CALLS
        super().data_received(data)
        if begins or self.cycle is not cycle:
            self.since = self.loop.time()

    def on_response_complete(self) -> None:
        """Wait for another call."""
        self.calls += 1
        self.since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the answer to be taken."""
        self.since = self.loop.time()
        super().pause_writing()

    def linger(self) -> bool:
        """Return whether it has to stay open, as the other side still sends the body of a call.

        To close it then would have the kernel send a reset, at which the answer may be lost.
        """
        self.lingers = self.lingers or self.conn.their_state is h11.SEND_BODY
        return self.lingers


class _LingeringTransport:
    """A transport that is closed when the other side has sent what it was sending."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport, self._connection = transport, connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether it is closed, or will be."""
        return self._connection.lingers or self._transport.is_closing()

    def close(self) -> None:
        """Close it, at once or when the other side is ready."""
        if not self._connection.linger():
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write_eof()
            self._transport.resume_reading()
