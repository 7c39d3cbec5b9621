"""The OpenAPI description of a server, generated from its operations and message types."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from mr_dedup import __version__
from mr_dedup.index.http_messages import Failure, Stats
from mr_dedup.server.operations import Operation

_REASONS = {
    400: "an invalid request; nothing was changed",
    401: "the bearer token is missing or wrong",
    404: "no document has this id",
    408: "the body did not arrive in time",
    413: "the body is too large",
    415: "the body is not application/json",
    421: "a server without a token only answers requests to localhost",
    503: "too many requests, too slow, or a change that cannot be written: the response says which",
}
_NULL = {"type": "null"}


def _decimals_to(largest: int) -> str:
    """Return a regular expression of the decimals from 0 to ``largest``, of at most its digits.

    >>> _decimals_to(123)
    '[0-9]{1,2}|0[0-9]{2}|1[0-1][0-9]{1}|12[0-2]|123'
    """
    digits = str(largest)
    branches = [f"[0-9]{{1,{len(digits) - 1}}}"]
    for place, digit in enumerate(digits):
        rest = len(digits) - place - 1
        if digit != "0":
            lower = f"[0-{int(digit) - 1}]" if digit > "1" else "0"
            branches.append(digits[:place] + lower + (f"[0-9]{{{rest}}}" if rest else ""))
    return "|".join([*branches, digits])


# exact, as clients that are generated from the description check what they send
_DECIMAL = f"{_decimals_to((1 << 64) - 1)}|-0?(?:{_decimals_to(1 << 63)})"

_FINGERPRINT = {
    "description": "a fingerprint: a number, or text in decimal or 0x… hexadecimal",
    "anyOf": [
        {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 64) - 1},
        {"type": "string", "pattern": f"^(?:{_DECIMAL}|0[xX][0-9a-fA-F]{{1,16}})$"},
    ],
}

_ALWAYS = (401, 421, 503)
_WITH_BODY = (400, 408, 413, 415)


def description(
    operations: Sequence[Operation], about: Stats, *, needs_token: bool
) -> dict[str, Any]:
    """Return the description of a server, in OpenAPI 3.1.

    Args:
        operations: the operations of the server.
        about: describes the index: whether it has ids, whether it takes texts, its k and limits.
        needs_token: whether requests need a bearer token.
    """
    types = [
        each for call in operations for each in (call.request, call.response) if each is not None
    ]
    _, schemas = msgspec.json.schema_components(
        [*types, Failure], ref_template="#/components/schemas/{name}"
    )
    schemas |= _narrowed(about, schemas)
    paths: dict[str, Any] = {}
    for call in operations:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, about)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "mr-dedup serve",
            "version": __version__,
            "summary": "Near-duplicates by fingerprints, from an index on disk",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {**paths, **_plain_paths()},
        "components": {"schemas": schemas},
    }
    if needs_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        document["paths"]["/health"]["get"]["security"] = []
    return document


def _operation(call: Operation, about: Stats) -> dict[str, Any]:
    statuses = sorted({*_ALWAYS, *call.error_statuses, *(_WITH_BODY if call.request else ())})
    operation: dict[str, Any] = {
        "operationId": call.name,
        "summary": call.summary,
        "responses": {
            "200": _response("success", call.response),
            **{str(status): _response(_REASONS[status], Failure) for status in statuses},
        },
    }
    if call.request is not None:
        operation["requestBody"] = {"required": True, "content": _json(call.request)}
    if "{id}" in call.path:
        operation["responses"]["400"] = _response(_REASONS[400], Failure)
        operation["parameters"] = [
            {
                "name": "id", "in": "path", "required": True,
                "description": "percent-encoded UTF-8, including slashes",
                "schema": _id(about),
            }
        ]  # fmt: skip
    return operation


def _narrowed(about: Stats, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of messages that are narrower for this index than their types."""
    text, batch = {"type": "string"}, about.max_batch
    query_inputs = [("fingerprints", _list(_FINGERPRINT, batch))]
    document_inputs: list[tuple[str, Any]] = [("fingerprint", _FINGERPRINT)]
    if about.texts:
        query_inputs.append(("texts", _list(text, batch)))
        document_inputs.append(("text", text))
    options = {
        "k": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": about.k}, _NULL]},
        "limit": {"anyOf": [{"type": "integer", "minimum": 1}, _NULL]},
    }
    properties = schemas["CheckAndAdd"]["properties"]
    documents = {"documents": _list({"$ref": "#/components/schemas/Document"}, batch)}
    for name, option in options.items():
        option["description"] = properties[name]["description"]
    options["limit"]["description"] += (
        f"; more than {about.max_matches:,} matches in a response are an error (400)"
    )
    return {
        "Query": _one_of(schemas["Query"], query_inputs, ("fingerprints", "texts"), options, ()),
        "Document": _one_of(
            schemas["Document"], document_inputs, ("fingerprint", "text"),
            {"id": _id(about) if about.named else _NULL}, ("id",) if about.named else (),
        ),
        "CheckAndAdd": {
            **schemas["CheckAndAdd"], "properties": {**properties, **options, **documents}
        },
        "Put": {**schemas["Put"], "properties": documents},
        "Remove": {**schemas["Remove"], "properties": {"ids": _list(_id(about), batch)}},
    }  # fmt: skip


def _one_of(
    schema: dict[str, Any],
    choices: Sequence[tuple[str, Any]],
    names: Sequence[str],
    others: dict[str, Any],
    required: Sequence[str],
) -> dict[str, Any]:
    """Return the schema of a message with exactly one of ``choices``, the other ``names`` null."""
    variants = [
        {
            "type": "object",
            "properties": {**others, **dict.fromkeys(names, _NULL), name: choice},
            "required": [*required, name],
            "additionalProperties": False,
        }
        for name, choice in choices
    ]
    about = {key: schema[key] for key in ("title", "description")}
    return {**about, "oneOf": variants}


def _list(items: dict[str, Any], max_items: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": max_items}


def _id(about: Stats) -> dict[str, Any]:
    if about.named:
        return {"type": "string", "minLength": 1}
    return {"type": "string", "pattern": f"^(?:{_DECIMAL}|0x[0-9a-fA-F]{{16}})$"}


def _response(description: str, message: Any) -> dict[str, Any]:
    return {"description": description, "content": _json(message)}


def _json(message: Any) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{message.__name__}"}
    return {"application/json": {"schema": schema}}


def _plain_paths() -> dict[str, Any]:
    """Return the descriptions of the paths for monitoring."""
    failures = {
        str(status): _response(_REASONS.get(status, HTTPStatus(status).phrase), Failure)
        for status in _ALWAYS
    }
    text = {"text/plain": {"schema": {"type": "string"}}}
    return {
        "/health": {
            "get": {
                "operationId": "health",
                "summary": "200 while the server is up",
                "responses": {
                    "200": {"description": "it is up", "content": text},
                    **failures,
                },
            }
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "The metrics of the server, for Prometheus",
                "responses": {"200": {"description": "metrics", "content": text}, **failures},
            }
        },
    }
