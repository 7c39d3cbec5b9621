"""What every call passes on its way in: who it is from, how many there are, how it is counted."""

from __future__ import annotations

import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mr_dedup.server.metrics import Metrics

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::[0-9]*)?", re.IGNORECASE)
_LARGE_BYTES = 1 << 16
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """Lets calls in, counts them, and says what browsers may do with the answers.

    A page of another site that a browser on this machine shows can send calls here. Those to change
    the index need a content type or method for which browsers ask first, and nobody says yes; what
    comes under another name for this machine (rebinding of DNS) is refused where no token is asked.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        open_paths: frozenset[str],
        most_calls: int,
        metrics: Metrics,
        paths: Mapping[Any, str],
        failure: Callable[..., Response],
        unheard: Callable[[], int],
        give_up_slow_call: Callable[[], bool],
    ) -> None:
        """Guard ``app``; ``open_paths`` need no token, ``paths`` are those of its endpoints.

        They need no thread and no body either, and are answered however many calls there are.
        ``unheard`` returns how many calls were answered and are worked on still,
        ``give_up_slow_call`` ends a call whose body is slow to come, and returns whether one is.
        """
        self._app, self._token, self._open_paths = app, token, open_paths
        self._most_calls, self._metrics, self._paths = most_calls, metrics, paths
        self._failure, self._unheard = failure, unheard
        self._give_up_slow_call = give_up_slow_call
        self._calls = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call, or have it answered."""
        if scope["type"] != "http":
            return
        began, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            body = message.get("body", b"")
            if len(body) > _LARGE_BYTES and not message.get("more_body", False):
                # sent in two, as a call is in progress until its answer is taken
                await send({**message, "more_body": True})
                message = {"type": message["type"], "body": b""}
            await send(message)

        self._calls += 1
        self._metrics.in_progress.inc()
        try:
            app: ASGIApp = self._refused(scope) or self._app
            await app(scope, receive, sent)
        finally:
            self._calls -= 1
            self._metrics.in_progress.dec()
            path = self._paths.get(scope.get("endpoint"), "other")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.answered(path, method, status, time.perf_counter() - began)

    def _refused(self, scope: Scope) -> Response | None:
        """Return the answer to a call that is not let in."""
        is_open = scope["path"] in self._open_paths
        full = self._calls + self._unheard() > self._most_calls
        if full and not is_open and not self._give_up_slow_call():
            return self._failure(503, "too many calls at a time", {"Retry-After": "1"})
        headers = Headers(scope=scope)
        if self._token is None:
            if not _names_loopback(headers.get("host", "")):
                return self._failure(421, "without a token this machine is to be called localhost")
        elif not is_open and not self._is_told(headers):
            return self._failure(401, "needs the bearer token", {"WWW-Authenticate": "Bearer"})
        return None

    def _is_told(self, headers: Headers) -> bool:
        assert self._token is not None
        scheme, _, told = headers.get("authorization", "").partition(" ")
        # takes the same time for whatever is told
        is_equal = hmac.compare_digest(told.strip().encode("latin-1"), self._token.encode())
        return is_equal and scheme.lower() == "bearer"


def _names_loopback(host: str) -> bool:
    """Return whether a Host header names this machine, by an address of its own or as localhost.

    A name that a stranger's DNS resolves to such an address is none.
    """
    matched = _HOST.fullmatch(host)
    if matched is None:
        return False
    try:
        return ipaddress.ip_address(matched[1] or matched[2]).is_loopback
    except ValueError:
        return matched[0].partition(":")[0].lower() == "localhost"
