"""The client of an index over HTTP, which ``mr-dedup serve`` has open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.extras import imports_for
from mr_dedup.index import http_messages as messages
from mr_dedup.index.http_messages import index_matches
from mr_dedup.index.ids import encoded_ids
from mr_dedup.index.protocol import (
    CheckAndAddResult,
    Fingerprints,
    IndexMatches,
    fingerprint_id,
    require_fingerprints,
)
from mr_dedup.index.state import parsed_fingerprints, require_ids

with imports_for(__name__, "server"):
    import urllib3

    from mr_dedup.index.http_connection import pool_manager

_Response = TypeVar("_Response")

_CONNECTIONS = 32
_OK, _BAD_REQUEST = 200, 400


class HttpIndex:
    """An index of a server; several threads may use it.

    Methods are those of ``HammingIndex``, and take some milliseconds more. A call is one request:
    the server limits its documents, its bytes, and the matches of its response. All methods raise
    MrDedupError if the server cannot be reached or refuses the request. When the connection is lost
    during a change, it is unknown whether the change was made; to repeat it is safe, since
    documents replace themselves.

    Args:
        url: of the server, ``http://host:port``.
        token: the bearer token, if the server needs one.
        seconds: timeout of a response.
        ca_file: the certificates that a server by HTTPS is verified by, by default the system's.

    Raises:
        ValueError: ``url`` is not a URL of a server.
        MrDedupError: the server cannot be reached.

    .. code-block:: python

        with HttpIndex("http://localhost:8080") as index:
            index.add(np.array([5], np.uint64), ["a"])
            index.query(np.array([7], np.uint64)).ids
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        seconds: float = 60.0,
        ca_file: str | None = None,
    ) -> None:
        try:
            parsed = urllib3.util.parse_url(url)
        except urllib3.exceptions.LocationParseError as error:
            raise ValueError(f"url: {url!r} is not a URL of a server") from error
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.auth:
            raise ValueError(f"url: {url!r} is not an http or https URL of a server")
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._pool = pool_manager(
            maxsize=_CONNECTIONS, timeout=seconds, ca_certs=ca_file,
            retries=urllib3.Retry(3, connect=3, read=0, redirect=0, status=0, backoff_factor=0.1),
        )  # fmt: skip
        try:
            about = self._stats()
        except BaseException:
            self.close()
            raise
        self.k, self.named, self.features = about.k, about.named, about.features
        self.takes_texts = about.texts
        """Whether the server makes fingerprints of texts."""

    def __len__(self) -> int:
        return self._stats().documents

    def add(self, fingerprints: Fingerprints, ids: Sequence[str] | None = None) -> int:
        """Add documents; return how many were not in the index before."""
        request = messages.Put(self._documents(fingerprints, ids))
        return self._call("PUT", "/v1/documents", request, messages.Added).new

    def remove(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Remove documents; return which were in the index, bool[n]."""
        if self.named:
            encoded_ids(ids)
        else:
            parsed_fingerprints(ids)
        request = messages.Remove(list(ids))
        return np.array(self._call("POST", "/v1/remove", request, messages.Removed).removed, bool)

    def query(
        self, fingerprints: Fingerprints, k: int | None = None, *, limit: int | None = None
    ) -> IndexMatches:
        """Return the documents within ``k`` bits."""
        require_fingerprints(fingerprints)
        request = messages.Query(
            [fingerprint_id(each) for each in fingerprints.tolist()], k=k, limit=limit
        )
        found = self._call("POST", "/v1/query", request, messages.Queries)
        return index_matches([each.matches for each in found.results])

    def check_and_add(
        self,
        fingerprints: Fingerprints,
        ids: Sequence[str] | None = None,
        k: int | None = None,
        *,
        limit: int | None = None,
        only_new: bool = False,
    ) -> CheckAndAddResult:
        """Query and add documents one after another, as one change."""
        found = self._check(self._documents(fingerprints, ids), k, limit, only_new)
        added = np.array([each.added for each in found], bool)
        return CheckAndAddResult(index_matches([each.matches for each in found]), added)

    def check_and_add_texts(
        self,
        texts: Sequence[str],
        ids: Sequence[str] | None = None,
        k: int | None = None,
        *,
        limit: int | None = None,
        only_new: bool = False,
    ) -> list[messages.CheckedDocument]:
        """Query and add documents by their texts, of which the server makes fingerprints.

        Args:
            texts: n texts.
            ids: n ids, or None for an index without.
            k: as for ``check_and_add``, as are ``limit`` and ``only_new``.
            limit: see ``k``.
            only_new: see ``k``.

        Returns:
            The fingerprint and the matches of each document, and whether it was added.

        Raises:
            ValueError: the index has no options to make fingerprints by, or ``ids`` are not as
                above.
            MrDedupError: the server cannot be reached or refuses the request.
        """
        names = self._names(len(texts), ids)
        documents = [
            messages.Document(id, text=text) for text, id in zip(texts, names, strict=True)
        ]
        return self._check(documents, k, limit, only_new)

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def __enter__(self) -> HttpIndex:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _documents(
        self, fingerprints: Fingerprints, ids: Sequence[str] | None
    ) -> list[messages.Document]:
        """Return documents as they are sent; ValueError as ``HammingIndex.add``."""
        require_fingerprints(fingerprints)
        names = self._names(len(fingerprints), ids)
        return [
            messages.Document(id, fingerprint_id(value))
            for value, id in zip(fingerprints.tolist(), names, strict=True)
        ]

    def _names(self, count: int, ids: Sequence[str] | None) -> Sequence[str | None]:
        """Return the ids of documents, None for each in an index without; raises ValueError."""
        require_ids(count, ids, self.named)
        if ids is None:
            return [None] * count
        encoded_ids(ids)
        return ids

    def _stats(self) -> messages.Stats:
        return self._call("GET", "/v1/stats", None, messages.Stats)

    def _check(
        self,
        documents: list[messages.Document],
        k: int | None,
        limit: int | None,
        only_new: bool,
    ) -> list[messages.CheckedDocument]:
        request = messages.CheckAndAdd(documents, k, limit, only_new)
        return self._call("POST", "/v1/documents", request, messages.CheckedDocuments).results

    def _call(self, method: str, path: str, request: Any, response: type[_Response]) -> _Response:
        body = None if request is None else _encoded(request)
        try:
            received = self._pool.request(
                method, self._url + path, body=body, headers=self._headers, redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise MrDedupError(f"{self._url}: cannot be reached: {_reason(error)}") from error
        if received.status != _OK:
            why = _failure(received.data)
            if received.status == _BAD_REQUEST and why is not None:
                raise ValueError(why)
            raise MrDedupError(f"{self._url}: {why or f'responded with status {received.status}'}")
        try:
            return msgspec.json.decode(received.data, type=response)
        except (ValueError, RecursionError) as error:
            raise MrDedupError(f"{self._url}: is not an index: {error}") from error


def _encoded(request: Any) -> bytes:
    try:
        return msgspec.json.encode(request)
    except UnicodeEncodeError as error:
        raise ValueError(f"text: {error.object!r:.60} cannot be encoded in UTF-8") from error


def _failure(body: bytes) -> str | None:
    """Return the reason of a failed request, if the server gave one."""
    try:
        return msgspec.json.decode(body, type=messages.Failure).error
    except (ValueError, RecursionError):
        return None


def _reason(error: Exception) -> str:
    """Return the innermost reason of an error, in one line."""
    reason: BaseException = error
    while isinstance(reason, urllib3.exceptions.MaxRetryError) and reason.reason is not None:
        reason = reason.reason
    cause = reason.__cause__ or reason
    return " ".join(str(getattr(cause, "strerror", None) or cause).splitlines())
