"""An index that is asked by HTTP: what ``mr-dedup serve`` has, as if it were in this process."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

import msgspec
import numpy as np
import urllib3
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.index import http_messages as messages
from mr_dedup.index.http_connection import pool_manager
from mr_dedup.index.http_messages import matches_of, said
from mr_dedup.index.ids import encoded_ids
from mr_dedup.index.protocol import Checked, Fingerprints, IndexMatches
from mr_dedup.index.snapshot import refuse_others
from mr_dedup.index.state import parsed_fingerprints, require_aligned

_Said = TypeVar("_Said")

_CONNECTIONS = 32
_OK, _BAD_REQUEST = 200, 400


class HttpIndex:
    """An index behind HTTP; for several threads.

    Methods are those of ``protocol.FingerprintIndex``, and take the time of a call more, about a
    millisecond on one machine. What a call is of goes in one message: a server takes so many
    documents, and bytes, at once, and says so many matches. All raise MrDedupError if the server
    cannot be reached or refuses the call. When the connection is lost after a call to change the
    index was sent, nobody knows whether it was made: to make it again is right, since it replaces
    documents by themselves.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        seconds: float = 60.0,
        ca_file: str | None = None,
    ) -> None:
        """Ask the server at ``url``, with a bearer token if it needs one.

        An answer has to come within so many ``seconds``; ``ca_file`` names the certificates that
        vouch for a server by HTTPS, other than those of the system. Raises ValueError for a URL
        that is none.
        """
        try:
            parsed = urllib3.util.parse_url(url)
        except urllib3.exceptions.LocationParseError as error:
            raise ValueError(f"url: {url!r} is no address of a server") from error
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.auth:
            raise ValueError(f"url: {url!r} is no address of a server by http or https")
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
        """Remove documents; return which were in the index."""
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
        refuse_others(fingerprints)
        request = messages.Query([said(each) for each in fingerprints.tolist()], k=k, limit=limit)
        found = self._call("POST", "/v1/query", request, messages.Queries)
        return matches_of([each.matches for each in found.results])

    def check_and_add(
        self,
        fingerprints: Fingerprints,
        ids: Sequence[str] | None = None,
        k: int | None = None,
        *,
        limit: int | None = None,
        only_new: bool = False,
    ) -> Checked:
        """Query and add, with nothing in between."""
        found = self._check(self._documents(fingerprints, ids), k, limit, only_new)
        added = np.array([each.added for each in found], bool)
        return Checked(matches_of([each.matches for each in found]), added)

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

        Raises ValueError for a server whose index does not say how fingerprints are made.
        """
        names = [None] * len(texts) if ids is None else ids
        documents = [
            messages.Document(id, text=text) for text, id in zip(texts, names, strict=True)
        ]
        return self._check(documents, k, limit, only_new)

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def __enter__(self) -> HttpIndex:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _documents(
        self, fingerprints: Fingerprints, ids: Sequence[str] | None
    ) -> list[messages.Document]:
        """Return documents as they are sent; ValueError for what an index refuses."""
        require_aligned(fingerprints, ids, self.named)
        names: Sequence[str | None] = [None] * len(fingerprints)
        if ids is not None:
            encoded_ids(ids)
            names = ids
        return [
            messages.Document(id, said(value))
            for value, id in zip(fingerprints.tolist(), names, strict=True)
        ]

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

    def _call(self, method: str, path: str, request: Any, says: type[_Said]) -> _Said:
        body = None if request is None else _encoded(request)
        try:
            answer = self._pool.request(
                method, self._url + path, body=body, headers=self._headers, redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise MrDedupError(f"{self._url}: cannot be asked: {_reason(error)}") from error
        if answer.status != _OK:
            why = _failure(answer.data)
            if answer.status == _BAD_REQUEST and why is not None:
                raise ValueError(why)
            raise MrDedupError(f"{self._url}: {why or f'answered with status {answer.status}'}")
        try:
            return msgspec.json.decode(answer.data, type=says)
        except ValueError as error:
            raise MrDedupError(f"{self._url}: is no index: {error}") from error


def _encoded(request: Any) -> bytes:
    try:
        return msgspec.json.encode(request)
    except UnicodeEncodeError as error:
        raise ValueError(f"text: {error.object!r:.60} is no text that UTF-8 holds") from error


def _failure(body: bytes) -> str | None:
    """Return why a server refused a call, if it says so."""
    try:
        return msgspec.json.decode(body, type=messages.Failure).error
    except ValueError:
        return None


def _reason(error: Exception) -> str:
    """Return what went wrong at the bottom of what went wrong, in one line."""
    reason: BaseException = error
    while isinstance(reason, urllib3.exceptions.MaxRetryError) and reason.reason is not None:
        reason = reason.reason
    cause = reason.__cause__ or reason
    return " ".join(str(getattr(cause, "strerror", None) or cause).splitlines())
