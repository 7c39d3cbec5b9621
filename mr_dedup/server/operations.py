"""The operations of the API: one list, from which routes and the OpenAPI description are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from mr_dedup.index import http_messages as messages
from mr_dedup.server.service import Service


@dataclass(frozen=True)
class Operation:
    """An operation of the API.

    Args:
        method: the HTTP method.
        path: the path; with ``{id}`` the id of a document.
        name: the operationId.
        summary: one line for the OpenAPI description.
        handler: takes a message of type ``request``, or the id in the path, or nothing; returns one
            of type ``response``.
        request: the type of the request message, None for none.
        response: the type of the response message.
        is_change: whether it changes the index.
        error_statuses: the statuses of failures that only this operation has.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Callable[..., msgspec.Struct]
    request: Any
    response: Any
    is_change: bool = False
    error_statuses: tuple[int, ...] = ()


def operations(service: Service) -> list[Operation]:
    """Return the operations of ``service``."""
    return [
        Operation(
            "POST", "/v1/query", "query", "Find the near-duplicates of fingerprints or texts",
            service.query, messages.Query, messages.Queries,
        ),
        Operation(
            "POST", "/v1/documents", "checkAndAdd",
            "Find the near-duplicates of documents and add these, as one atomic operation",
            service.check_and_add, messages.CheckAndAdd, messages.CheckedDocuments, True,
        ),
        Operation(
            "PUT", "/v1/documents", "put",
            "Add documents, whether or not the index has near-duplicates of them",
            service.put, messages.Put, messages.Added, True,
        ),
        Operation(
            "GET", "/v1/documents/{id}", "get", "Get a document: its id and its fingerprint",
            service.get, None, messages.StoredDocument, error_statuses=(404,),
        ),
        Operation(
            "DELETE", "/v1/documents/{id}", "removeOne", "Remove a document",
            service.remove_one, None, messages.Removed, True, (404,),
        ),
        Operation(
            "POST", "/v1/remove", "remove", "Remove documents, all at once",
            service.remove, messages.Remove, messages.Removed, True,
        ),
        Operation(
            "GET", "/v1/stats", "stats", "The contents and the size of the index",
            service.stats, None, messages.Stats,
        ),
        Operation(
            "GET", "/v1/designs", "designs", "The table designs of the index",
            service.designs, None, messages.Designs,
        ),
    ]  # fmt: skip
