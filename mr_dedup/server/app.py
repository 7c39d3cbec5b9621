"""The HTTP application: paths, bodies, statuses, the web page. Failures are JSON of one line."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import anyio
import msgspec
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mr_dedup.errors import MrDedupError
from mr_dedup.server import metrics as prometheus
from mr_dedup.server.guard import JSON, Guard, error_response
from mr_dedup.server.openapi import description
from mr_dedup.server.operations import Operation, operations
from mr_dedup.server.service import Limits, Service, UnknownDocumentError
from mr_dedup.server.workers import Workers, WorkTimeoutError

_REQUEST_TIMEOUT = 408

Endpoint = Callable[[Request], Awaitable[Response]]
_Result = TypeVar("_Result")


class _AnyId(Convertor[str]):
    """An id in a path: it may contain slashes and line breaks."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _AnyId())


class _RequestError(Exception):
    """A request that fails with a status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def create_app(
    service: Service, token: str | None, workers: Workers, drop_slow_request: Callable[[], bool]
) -> ASGIApp:
    """Return the ASGI application of a service.

    Args:
        service: performs the operations.
        token: the bearer token that requests need. With None only requests to localhost are
            served, so the server must listen at a loopback address.
        workers: runs the operations in threads.
        drop_slow_request: closes a connection whose request body arrives too slowly, and returns
            whether there was one.
    """
    calls, metrics = operations(service), prometheus.Metrics()
    openapi_json = msgspec.json.encode(
        description(calls, service.stats(), needs_token=token is not None)
    )
    page, policy = _page()

    async def get_health(request: Request) -> Response:
        return Response("serving\n", media_type="text/plain")

    async def get_metrics(request: Request) -> Response:
        stats = await _run(service.stats, service.limits, workers)
        return Response(metrics.text(stats), headers={"Content-Type": prometheus.CONTENT_TYPE})

    async def get_openapi(request: Request) -> Response:
        return Response(openapi_json, media_type=JSON)

    async def get_page(request: Request) -> Response:
        headers = {"Content-Security-Policy": policy, "X-Frame-Options": "DENY"}
        return Response(page, media_type="text/html", headers=headers)

    by_path: dict[str, dict[str, Endpoint]] = {
        "/": {"GET": get_page},
        "/health": {"GET": get_health},
        "/metrics": {"GET": get_metrics},
        "/openapi.json": {"GET": get_openapi},
    }
    for call in calls:
        by_path.setdefault(call.path, {})[call.method] = _endpoint(call, service.limits, workers)
    routes = [
        Route(path.replace("{id}", "{id:id}"), _by_method(endpoints), methods=list(endpoints))
        for path, endpoints in by_path.items()
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _http_failure, _RequestError: _request_failure, Exception: _bug,
        },
    )  # fmt: skip
    app.router.redirect_slashes = False
    endpoint_paths = {route.endpoint: path for route, path in zip(routes, by_path, strict=True)}
    return Guard(
        app, token, service.limits.max_calls, metrics, endpoint_paths, workers.abandoned_count,
        drop_slow_request,
    )  # fmt: skip


def _page() -> tuple[bytes, str]:
    """Return the page at / in UTF-8, and the policy that allows its own script and style only."""
    folder = resources.files("mr_dedup.server") / "static"
    style, script = (
        (folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    html = (folder / "page.html").read_text(encoding="utf-8")
    html = html.replace("{{ style }}", style).replace("{{ script }}", script)
    policy = (
        f"default-src 'none'; script-src '{_sha256(script)}'; style-src '{_sha256(style)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return html.encode(), policy


def _sha256(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _by_method(endpoints: Mapping[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method](request)

    return endpoint


def _endpoint(call: Operation, limits: Limits, workers: Workers) -> Endpoint:
    """Return the endpoint that reads the body of a request and runs the operation in a thread."""

    async def endpoint(request: Request) -> Response:
        arguments: list[Callable[[], Any]] = []
        if call.request is not None:
            body = await _body(request, limits)
            arguments.append(functools.partial(msgspec.json.decode, body, type=call.request))
        elif "{id}" in call.path:
            arguments.append(functools.partial(_id_of, request, call.path))
        work = functools.partial(_encoded_result, call, arguments)
        encoded = await _run(work, limits, workers, is_change=call.is_change)
        return Response(encoded, media_type=JSON)

    return endpoint


def _encoded_result(call: Operation, arguments: list[Callable[[], Any]]) -> bytes:
    """Perform an operation, in a thread; return its response as JSON."""
    try:
        return msgspec.json.encode(call.handler(*(argument() for argument in arguments)))
    except UnknownDocumentError:
        raise _RequestError(404, "no document has this id") from None
    except (ValueError, RecursionError) as error:
        raise _RequestError(400, str(error)) from error
    except MrDedupError as error:
        raise _RequestError(503, str(error)) from error
    except MemoryError as error:
        raise _RequestError(503, "out of memory") from error


async def _run(
    work: Callable[[], _Result], limits: Limits, workers: Workers, *, is_change: bool = False
) -> _Result:
    """Run ``work`` in a thread; raise _RequestError if it takes too long."""
    try:
        return await workers.run(work, limits.timeout_seconds, is_change=is_change)
    except WorkTimeoutError as error:
        outcome = "it continues, and a change may still be made" if error.started else "not started"
        raise _RequestError(
            503, f"took longer than {limits.timeout_seconds:g} s: {outcome}"
        ) from error
    except MrDedupError as error:
        # all changes of a group fail if the sync that they share fails
        raise _RequestError(503, str(error)) from error


async def _body(request: Request, limits: Limits) -> bytes:
    """Return the body of a request, if it is JSON, small enough, and arrives in time."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise _RequestError(415, f"expected a body of type {JSON}")
    max_bytes = limits.max_body_bytes
    too_large = f"the body is larger than {max_bytes:,} bytes"
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise _RequestError(413, too_large)
    body = bytearray()
    try:
        with anyio.fail_after(limits.timeout_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise _RequestError(413, too_large)
    except TimeoutError as error:
        raise _RequestError(
            _REQUEST_TIMEOUT, f"the body took longer than {limits.timeout_seconds:g} s"
        ) from error
    except ClientDisconnect as error:
        raise _RequestError(400, "the client disconnected") from error
    return bytes(body)


def _id_of(request: Request, path: str) -> str:
    """Return the id at the end of a path, as it was sent; ValueError if it is not UTF-8."""
    raw: bytes = request.scope["raw_path"]
    prefix = path.partition("{")[0].encode()
    # routes match the decoded path: the bytes before the id may differ
    if not raw.startswith(prefix):
        raise _RequestError(404, "not found")
    return unquote_to_bytes(raw[len(prefix) :]).decode()


async def _request_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, _RequestError)
    # the rest of the body is not another request
    headers = {"Connection": "close"} if error.status == _REQUEST_TIMEOUT else None
    return error_response(error.status, str(error), headers)


async def _http_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, error.detail.lower(), error.headers)


async def _bug(request: Request, error: Exception) -> Response:
    return error_response(500, f"a bug in mr-dedup: {type(error).__name__}")
