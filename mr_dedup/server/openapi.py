"""The OpenAPI description of a server, made from the calls and messages themselves."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from mr_dedup import __version__
from mr_dedup.index.http_messages import Failure, Stats
from mr_dedup.server.operations import Operation

_WHY = {
    400: "not what the call takes; nothing was changed",
    401: "the bearer token is missing, or another",
    404: "no document has this id",
    408: "the body did not come in time",
    413: "more bytes than are taken at once",
    415: "the body is not of application/json",
    421: "without a token only callers that name this machine are answered",
    503: "too busy, too slow, or what was to be kept cannot be: the answer says which",
}
_NOTHING = {"type": "null"}
_TOLD = {
    "description": "a fingerprint: a number, or text in decimal or 0x… hexadecimal",
    "anyOf": [
        {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 64) - 1},
        {"type": "string", "pattern": "^(-?[0-9]{1,18}|[0-9]{19}|0[xX][0-9a-fA-F]{1,16})$"},
    ],
}

_ALL_CALLS = (401, 421, 503)
_CALLS_WITH_BODY = (400, 408, 413, 415)


def description(
    operations: Sequence[Operation], about: Stats, *, needs_token: bool
) -> dict[str, Any]:
    """Return the description, OpenAPI 3.1, of a server that answers ``operations``.

    ``about`` says what its index takes: ids or none, texts or none, which distances.
    """
    types = [each for call in operations for each in (call.told, call.says) if each is not None]
    _, schemas = msgspec.json.schema_components(
        [*types, Failure], ref_template="#/components/schemas/{name}"
    )
    schemas |= _of_index(about, schemas)
    paths: dict[str, Any] = {}
    for call in operations:
        paths.setdefault(call.path, {})[call.method.lower()] = _call(call, about)
    told: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "mr-dedup serve",
            "version": __version__,
            "summary": "Near-duplicates by fingerprints, in an index on disk",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {**paths, **_plain_paths()},
        "components": {"schemas": schemas},
    }
    if needs_token:
        told["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        told["security"] = [{"token": []}]
        told["paths"]["/health"]["get"]["security"] = []
    return told


def _call(call: Operation, about: Stats) -> dict[str, Any]:
    statuses = sorted({*_ALL_CALLS, *call.fails, *(_CALLS_WITH_BODY if call.told else ())})
    told: dict[str, Any] = {
        "operationId": call.name,
        "summary": call.summary,
        "responses": {
            "200": _answer("done", call.says),
            **{str(status): _answer(_WHY[status], Failure) for status in statuses},
        },
    }
    if call.told is not None:
        told["requestBody"] = {"required": True, "content": _json(call.told)}
    if "{id}" in call.path:
        told["responses"]["400"] = _answer(_WHY[400], Failure)
        told["parameters"] = [
            {
                "name": "id", "in": "path", "required": True,
                "description": "percent-encoded UTF-8, slashes too",
                "schema": _id(about),
            }
        ]  # fmt: skip
    return told


def _of_index(about: Stats, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return what messages are to this index, more closely than their types say."""
    text, batch = {"type": "string"}, about.max_batch
    of_queries = [("fingerprints", _list(_TOLD, batch))]
    of_documents: list[tuple[str, Any]] = [("fingerprint", _TOLD)]
    if about.texts:
        of_queries.append(("texts", _list(text, batch)))
        of_documents.append(("text", text))
    narrowed = {
        "k": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": about.k}, _NOTHING]},
        "limit": {"anyOf": [{"type": "integer", "minimum": 1}, _NOTHING]},
    }
    checked = schemas["CheckAndAdd"]["properties"]
    documents = {"documents": _list({"$ref": "#/components/schemas/Document"}, batch)}
    for name, narrow in narrowed.items():
        narrow["description"] = checked[name]["description"]
    narrowed["limit"]["description"] += (
        f"; more than {about.max_matches:,} matches, of all together, are answered with 400"
    )
    return {
        "Query": _either(schemas["Query"], of_queries, ("fingerprints", "texts"), narrowed, ()),
        "Document": _either(
            schemas["Document"], of_documents, ("fingerprint", "text"),
            {"id": _id(about) if about.named else _NOTHING}, ("id",) if about.named else (),
        ),
        "CheckAndAdd": {
            **schemas["CheckAndAdd"], "properties": {**checked, **narrowed, **documents}
        },
        "Put": {**schemas["Put"], "properties": documents},
        "Remove": {**schemas["Remove"], "properties": {"ids": _list(_id(about), batch)}},
    }  # fmt: skip


def _either(
    schema: dict[str, Any],
    choices: Sequence[tuple[str, Any]],
    names: Sequence[str],
    others: dict[str, Any],
    required: Sequence[str],
) -> dict[str, Any]:
    """Return the schema of a message that has one of ``choices``, of all there could be."""
    variants = [
        {
            "type": "object",
            "properties": {**others, **dict.fromkeys(names, _NOTHING), name: choice},
            "required": [*required, name],
            "additionalProperties": False,
        }
        for name, choice in choices
    ]
    about = {key: schema[key] for key in ("title", "description")}
    return {**about, "oneOf": variants}


def _list(items: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": most}


def _id(about: Stats) -> dict[str, Any]:
    if about.named:
        return {"type": "string", "minLength": 1}
    return {"type": "string", "pattern": "^-?[0-9]{1,18}$"}


def _answer(why: str, message: Any) -> dict[str, Any]:
    return {"description": why, "content": _json(message)}


def _json(message: Any) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{message.__name__}"}
    return {"application/json": {"schema": schema}}


def _plain_paths() -> dict[str, Any]:
    """Return what is described of the paths that are for machines which watch over others."""
    failures = {
        str(status): _answer(_WHY.get(status, HTTPStatus(status).phrase), Failure)
        for status in _ALL_CALLS
    }
    text = {"text/plain": {"schema": {"type": "string"}}}
    return {
        "/health": {
            "get": {
                "operationId": "health",
                "summary": "200 while it serves",
                "responses": {"200": {"description": "it serves", "content": text}, **failures},
            }
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "What is counted, for Prometheus",
                "responses": {"200": {"description": "metrics", "content": text}, **failures},
            }
        },
    }
