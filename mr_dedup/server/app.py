"""The HTTP face of an index: paths, bodies, statuses. Failures are JSON of one line."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
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
from mr_dedup.index.http_messages import Failure
from mr_dedup.server import metrics as prometheus
from mr_dedup.server.guard import Guard
from mr_dedup.server.openapi import description
from mr_dedup.server.operations import Operation, operations
from mr_dedup.server.page import page
from mr_dedup.server.service import Limits, NotHeldError, Service
from mr_dedup.server.workers import TooLongError, Workers

_JSON = "application/json"
_REQUEST_TIMEOUT = 408
_OPEN_PATHS = frozenset(["/", "/health", "/openapi.json"])
"""They say nothing of what the index holds."""

Endpoint = Callable[[Request], Awaitable[Response]]
_Result = TypeVar("_Result")


class _AnyId(Convertor[str]):
    """An id in a path: slashes and lines are of it."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _AnyId())


class _RefusedError(Exception):
    """A call that is not answered, by its status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def app_of(
    service: Service, token: str | None, workers: Workers, give_up_slow_call: Callable[[], bool]
) -> ASGIApp:
    """Return the ASGI application that answers by ``service``, worked on by ``workers``.

    ``give_up_slow_call`` ends a call whose body is slow to come, if there is one.

    With ``token`` to callers alone that tell it; else to those that call this machine by a name for
    itself: it has to be bound to such an address then.
    """
    calls, metrics = operations(service), prometheus.Metrics()
    described = msgspec.json.encode(
        description(calls, service.stats(), needs_token=token is not None)
    )
    shown, policy = page()

    async def health(request: Request) -> Response:
        return Response("serving\n", media_type="text/plain")

    async def counted(request: Request) -> Response:
        stats = await _worked(service.stats, service.limits, workers)
        return Response(metrics.text(stats), headers={"Content-Type": prometheus.CONTENT_TYPE})

    async def openapi(request: Request) -> Response:
        return Response(described, media_type=_JSON)

    async def front(request: Request) -> Response:
        headers = {"Content-Security-Policy": policy, "X-Frame-Options": "DENY"}
        return Response(shown, media_type="text/html", headers=headers)

    by_path: dict[str, dict[str, Endpoint]] = {
        "/": {"GET": front},
        "/health": {"GET": health},
        "/metrics": {"GET": counted},
        "/openapi.json": {"GET": openapi},
    }
    for call in calls:
        by_path.setdefault(call.path, {})[call.method] = _endpoint(call, service.limits, workers)
    routes = [
        Route(path.replace("{id}", "{id:id}"), _by_method(endpoints), methods=list(endpoints))
        for path, endpoints in by_path.items()
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _http_failure, _RefusedError: _refused, Exception: _bug},
    )
    app.router.redirect_slashes = False
    paths = {route.endpoint: path for route, path in zip(routes, by_path, strict=True)}
    return Guard(
        app, token, _OPEN_PATHS, service.limits.calls, metrics, paths, failure, workers.unheard,
        give_up_slow_call,
    )  # fmt: skip


def failure(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer that says in one line why nothing was done."""
    line = " ".join(why.splitlines())
    return Response(msgspec.json.encode(Failure(line)), status, headers, media_type=_JSON)


def _by_method(endpoints: Mapping[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method](request)

    return endpoint


def _endpoint(call: Operation, limits: Limits, workers: Workers) -> Endpoint:
    """Return what answers a call: reads its body, does it in a thread, and says what came of it."""

    async def endpoint(request: Request) -> Response:
        arguments: list[Any] = []
        if call.told is not None:
            body = await _body(request, limits)
            arguments.append(functools.partial(msgspec.json.decode, body, type=call.told))
        elif "{id}" in call.path:
            arguments.append(functools.partial(_id_of, request, call.path))
        work = functools.partial(_answered, call, arguments)
        encoded = await _worked(work, limits, workers, changes=call.changes)
        return Response(encoded, media_type=_JSON)

    return endpoint


def _answered(call: Operation, arguments: list[Callable[[], Any]]) -> bytes:
    """Do a call, in a thread; return the answer."""
    try:
        return msgspec.json.encode(call.does(*(argument() for argument in arguments)))
    except NotHeldError:
        raise _RefusedError(404, "no document has this id") from None
    except (ValueError, RecursionError) as error:
        raise _RefusedError(400, str(error)) from error
    except MrDedupError as error:
        raise _RefusedError(503, str(error)) from error
    except MemoryError as error:
        raise _RefusedError(503, "memory was short") from error


async def _worked(
    work: Callable[[], _Result], limits: Limits, workers: Workers, *, changes: bool = False
) -> _Result:
    """Return what ``work`` does in a thread, if it is done in time."""
    try:
        return await workers.done(work, limits.seconds, changes=changes)
    except TooLongError as error:
        then = "a change that was asked for is made yet" if error.begun else "nothing was done"
        raise _RefusedError(503, f"took more than {limits.seconds:g} s; {then}") from error
    except MrDedupError as error:
        # changes are refused together if the force to the disk that they share fails
        raise _RefusedError(503, str(error)) from error


async def _body(request: Request, limits: Limits) -> bytes:
    """Return the body of a call, if it is of JSON, of few enough bytes, and comes in time."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise _RefusedError(415, f"expected a body of {_JSON}")
    most = limits.body_bytes
    why = f"a body is of {most:,} bytes at most"
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > most:
        raise _RefusedError(413, why)
    body = bytearray()
    try:
        with anyio.fail_after(limits.seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise _RefusedError(413, why)
    except TimeoutError as error:
        raise _RefusedError(
            _REQUEST_TIMEOUT, f"the body took more than {limits.seconds:g} s"
        ) from error
    except ClientDisconnect as error:
        raise _RefusedError(400, "the caller left") from error
    return bytes(body)


def _id_of(request: Request, path: str) -> str:
    """Return the id that a path ends with, as it was sent; ValueError if it is no UTF-8."""
    raw: bytes = request.scope["raw_path"]
    begins = path.partition("{")[0].encode()
    # routes are of the path as it is decoded: what comes before the id may be of other bytes
    if not raw.startswith(begins):
        raise _RefusedError(404, "not found")
    return unquote_to_bytes(raw[len(begins) :]).decode()


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, _RefusedError)
    # the rest of a body that was given up is not another call
    headers = {"Connection": "close"} if error.status == _REQUEST_TIMEOUT else None
    return failure(error.status, str(error), headers)


async def _http_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return failure(error.status_code, error.detail.lower(), error.headers)


async def _bug(request: Request, error: Exception) -> Response:
    return failure(500, f"a bug in mr-dedup: {type(error).__name__}")
