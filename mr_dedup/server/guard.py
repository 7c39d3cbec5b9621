"""The outermost layer of the application: authentication, the limit of requests, metrics."""

from __future__ import annotations

import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mr_dedup.index.http_messages import Failure
from mr_dedup.server.metrics import Metrics

JSON = "application/json"

OPEN_PATHS = frozenset(["/", "/health", "/openapi.json"])
"""Paths that reveal nothing about the contents of the index: they need no token."""

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::[0-9]*)?", re.IGNORECASE)
_LARGE_BYTES = 1 << 16
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def error_response(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the JSON response of a failure, with its reason on one line."""
    line = " ".join(reason.splitlines())
    return Response(msgspec.json.encode(Failure(line)), status, headers, media_type=JSON)


class Guard:
    """ASGI middleware that rejects unauthorized and surplus requests, counts all, sets headers.

    A page of another site, shown by a browser on this machine, can send requests here. Those that
    change the index need a content type or method for which browsers send a preflight request
    first, which is refused; a foreign name that resolves to this machine (DNS rebinding) is refused
    where no token is needed.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        max_calls: int,
        metrics: Metrics,
        endpoint_paths: Mapping[Any, str],
        abandoned_count: Callable[[], int],
        drop_slow_request: Callable[[], bool],
    ) -> None:
        """Wrap ``app``.

        Args:
            app: the application.
            token: the bearer token that requests need, except at OPEN_PATHS; None for none.
            max_calls: the most requests in progress. Those at OPEN_PATHS need no thread and no
                body, and are never refused.
            metrics: counts the requests.
            endpoint_paths: the path of each endpoint of ``app``, for the metrics.
            abandoned_count: returns how many requests with a response still occupy a thread.
            drop_slow_request: closes a connection whose request body arrives too slowly, and
                returns whether there was one.
        """
        self._app, self._token, self._max_calls = app, token, max_calls
        self._metrics, self._endpoint_paths = metrics, endpoint_paths
        self._abandoned_count, self._drop_slow_request = abandoned_count, drop_slow_request
        self._calls = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the application."""
        if scope["type"] != "http":
            return
        started, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            body = message.get("body", b"")
            if len(body) > _LARGE_BYTES and not message.get("more_body", False):
                # sent in two: a request is in progress until the client has read its response
                await send({**message, "more_body": True})
                message = {"type": message["type"], "body": b""}
            await send(message)

        self._calls += 1
        self._metrics.in_progress.inc()
        try:
            app: ASGIApp = self._rejection(scope) or self._app
            await app(scope, receive, send_with_headers)
        finally:
            self._calls -= 1
            self._metrics.in_progress.dec()
            path = self._endpoint_paths.get(scope.get("endpoint"), "other")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.count_request(path, method, status, time.perf_counter() - started)

    def _rejection(self, scope: Scope) -> Response | None:
        """Return the response to a request that is rejected; None if it is not."""
        is_open = scope["path"] in OPEN_PATHS
        is_full = self._calls + self._abandoned_count() > self._max_calls
        if is_full and not is_open and not self._drop_slow_request():
            return error_response(503, "too many requests in progress", {"Retry-After": "1"})
        headers = Headers(scope=scope)
        if self._token is None:
            if not _is_loopback_host(headers.get("host", "")):
                return error_response(
                    421, "a server without a token only answers requests to localhost"
                )
        elif not is_open and not self._has_token(headers):
            return error_response(401, "needs the bearer token", {"WWW-Authenticate": "Bearer"})
        return None

    def _has_token(self, headers: Headers) -> bool:
        assert self._token is not None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # takes the same time for any token
        is_equal = hmac.compare_digest(given.strip().encode("latin-1"), self._token.encode())
        return is_equal and scheme.lower() == "bearer"


def _is_loopback_host(host: str) -> bool:
    """Return whether a Host header is a loopback IP address or localhost.

    A name that some DNS server resolves to such an address is not.
    """
    matched = _HOST.fullmatch(host)
    if matched is None:
        return False
    try:
        return ipaddress.ip_address(matched[1] or matched[2]).is_loopback
    except ValueError:
        return matched[0].partition(":")[0].lower() == "localhost"
