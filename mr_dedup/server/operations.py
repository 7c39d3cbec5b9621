"""The calls that are answered with an index: the one list that routes and description are of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from mr_dedup.index import http_messages as messages
from mr_dedup.server.service import Service


@dataclass(frozen=True)
class Operation:
    """A call: ``does`` answers a message of type ``told``, or the id in the path, or nothing.

    ``changes`` says that it changes the index; ``fails`` are the statuses of failures that are the
    call's own.
    """

    method: str
    path: str
    name: str
    summary: str
    does: Callable[..., msgspec.Struct]
    told: Any
    says: Any
    changes: bool = False
    fails: tuple[int, ...] = ()


def operations(service: Service) -> list[Operation]:
    """Return all calls that ``service`` answers."""
    return [
        Operation(
            "POST", "/v1/query", "query", "What is near fingerprints or texts",
            service.query, messages.Query, messages.Queries,
        ),
        Operation(
            "POST", "/v1/documents", "checkAndAdd",
            "Compare documents with all that are held and add them, with nothing in between",
            service.check_and_add, messages.CheckAndAdd, messages.CheckedDocuments, True,
        ),
        Operation(
            "PUT", "/v1/documents", "put", "Add documents, whatever is near them",
            service.put, messages.Put, messages.Added, True,
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
            "GET", "/v1/stats", "stats", "What the index holds, and takes",
            service.stats, None, messages.Stats,
        ),
        Operation(
            "GET", "/v1/designs", "designs", "The tables that find what is near",
            service.designs, None, messages.Designs,
        ),
    ]  # fmt: skip
