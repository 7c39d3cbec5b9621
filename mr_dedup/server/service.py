"""What the server does with an index: a request message in, a response message out, no HTTP."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from mr_dedup.hamming.design import BITS, designs_for
from mr_dedup.index import http_messages as messages
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.http_messages import matches_by_query, parse_fingerprint, parse_fingerprints
from mr_dedup.index.protocol import Fingerprints, fingerprint_id

_GIB, _MIB = 1 << 30, 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Args:
        max_body_bytes: the largest body of a request.
        max_batch: the most documents, queries or ids in a request.
        timeout_seconds: how long the body of a request may take to arrive, a response to be
            computed, and a response to be read by the client.
        max_calls: the most requests in progress.
        max_matches: the most matches in a response, over all its documents.
        max_connections: the most open connections.
        header_timeout_seconds: how long the header of a request may take to arrive.
        slow_seconds: after how long without progress a connection may be closed in favour of
            another one, when there are too many.

    Raises:
        ValueError: for a limit that is 0, negative or above 64 GiB.
    """

    max_body_bytes: int = 4 * _MIB
    max_batch: int = 4096
    timeout_seconds: float = 30.0
    max_calls: int = 256
    max_matches: int = 100_000
    max_connections: int = 1000
    header_timeout_seconds: float = 10.0
    slow_seconds: float = 1.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not 0 < value <= 64 * _GIB:
                raise ValueError(f"{name} must be above 0 and at most {64 * _GIB}, not {value}")


class UnknownDocumentError(Exception):
    """The index has no document with the id."""


class Service:
    """The operations of a server on an index, safe to call from several threads.

    Methods raise ValueError for an invalid request or one beyond the limits, and MrDedupError if a
    change cannot be written; the index is then unchanged.
    """

    def __init__(self, index: HammingIndex, limits: Limits) -> None:
        """Serve ``index``.

        Raises:
            MrDedupError: if a package that computes its fingerprints from texts is not installed.
        """
        self.index, self.limits = index, limits
        self._fingerprinter = None
        if index.made_from is not None:
            self._fingerprinter = index.made_from.fingerprinter_for(
                index.features, str(index.folder)
            )

    def query(self, request: messages.Query) -> messages.Queries:
        """Return the near-duplicates of fingerprints or texts."""
        if (request.fingerprints is None) == (request.texts is None):
            raise ValueError("expected either fingerprints or texts")
        if request.texts is not None:
            self._check_batch(len(request.texts))
            values = self._fingerprints_of(request.texts)
        else:
            self._check_batch(len(request.fingerprints or ()))
            values = parse_fingerprints(request.fingerprints or [])
        matches = self.index.query(
            values, request.k, limit=request.limit, max_matches=self.limits.max_matches
        )
        by_query = matches_by_query(matches, len(values))
        return messages.Queries(
            [
                messages.Queried(fingerprint_id(value), each)
                for value, each in zip(values.tolist(), by_query, strict=True)
            ]
        )

    def check_and_add(self, request: messages.CheckAndAdd) -> messages.CheckedDocuments:
        """Return the near-duplicates of documents and add these, as one atomic operation."""
        values, ids = self._documents(request.documents)
        checked = self.index.check_and_add(
            values, ids, request.k,
            limit=request.limit, only_new=request.only_new, max_matches=self.limits.max_matches,
        )  # fmt: skip
        by_document = matches_by_query(checked.matches, len(values))
        rows = zip(
            request.documents, values.tolist(), checked.added.tolist(), by_document, strict=True
        )
        return messages.CheckedDocuments(
            [
                messages.CheckedDocument(document.id, fingerprint_id(value), added, matches)
                for document, value, added, matches in rows
            ]
        )

    def put(self, request: messages.Put) -> messages.Added:
        """Add documents, whether or not the index has near-duplicates of them."""
        return messages.Added(self.index.add(*self._documents(request.documents)))

    def remove(self, request: messages.Remove) -> messages.Removed:
        """Remove documents; return which of them the index had."""
        self._check_batch(len(request.ids))
        return messages.Removed(self.index.remove(request.ids).tolist())

    def remove_one(self, id: str) -> messages.Removed:
        """Remove a document; raise UnknownDocumentError if the index does not have it."""
        if not self.index.remove([id]).all():
            raise UnknownDocumentError(id)
        return messages.Removed([True])

    def get(self, id: str) -> messages.StoredDocument:
        """Return a document; raise UnknownDocumentError if the index does not have it."""
        (fingerprint,) = self.index.fingerprints_of([id])
        if fingerprint is None:
            raise UnknownDocumentError(id)
        return messages.StoredDocument(id, fingerprint_id(fingerprint))

    def stats(self) -> messages.Stats:
        """Return the contents and the size of the index, and the limits of requests."""
        stats = dataclasses.asdict(self.index.stats())
        limits = {
            "max_batch": self.limits.max_batch,
            "max_body_bytes": self.limits.max_body_bytes,
            "max_matches": self.limits.max_matches,
        }
        state = {
            "texts": self._fingerprinter is not None,
            "last_segment_time": self._last_segment_time(),
            "memory_bytes": _resident_bytes(),
        }
        return msgspec.convert({**stats, **state, **limits}, messages.Stats)

    def _last_segment_time(self) -> str | None:
        times = [view.segment.made for view in self.index.snapshot().views]
        if not times:
            return None
        return datetime.fromtimestamp(int(max(times)), timezone.utc).isoformat()

    def designs(self) -> messages.Designs:
        """Return the table designs of the segments, and then the others for the same k.

        Where a segment has its bits permuted, masks are of the bits before that.
        """
        documents: dict[tuple[str, tuple[int, ...]], int] = {}
        for view in self.index.snapshot().views:
            sources, design = view.segment.order.sources, view.segment.design
            masks = tuple(_source_mask(mask, sources) for mask in design.masks)
            key = design.name, masks
            documents[key] = documents.get(key, 0) + view.segment.documents
        for design in designs_for(self.index.k).values():
            if any(design.masks):
                documents.setdefault((design.name, design.masks), 0)
        return messages.Designs(
            self.index.k,
            [
                messages.Design(name, count, [f"{mask:016x}" for mask in masks])
                for (name, masks), count in documents.items()
            ],
        )

    def _documents(
        self, documents: Sequence[messages.Document]
    ) -> tuple[Fingerprints, list[str] | None]:
        """Return the fingerprints of documents and their ids, None for an index without ids."""
        self._check_batch(len(documents))
        values = np.zeros(len(documents), np.uint64)
        rows_with_text = []
        for row, document in enumerate(documents):
            if (document.fingerprint is None) == (document.text is None):
                raise ValueError(f"document {row + 1}: expected either a fingerprint or a text")
            if (document.id is None) == self.index.named:
                expected = "an id" if self.index.named else "no id: this index has none"
                raise ValueError(f"document {row + 1}: expected {expected}")
            if document.fingerprint is not None:
                values[row] = parse_fingerprint(document.fingerprint)
            else:
                rows_with_text.append(row)
        if rows_with_text:
            texts = [documents[row].text or "" for row in rows_with_text]
            values[rows_with_text] = self._fingerprints_of(texts)
        if not self.index.named:
            return values, None
        return values, [document.id or "" for document in documents]

    def _fingerprints_of(self, texts: Sequence[str]) -> Fingerprints:
        if self._fingerprinter is None:
            raise ValueError(
                "text: the index does not record how to compute fingerprints from texts; "
                "send fingerprints"
            )
        return self._fingerprinter.of(pa.array(texts, pa.large_string()))

    def _check_batch(self, count: int) -> None:
        if count > self.limits.max_batch:
            raise ValueError(
                f"{count:,} documents in one request; at most {self.limits.max_batch:,} are allowed"
            )


def _resident_bytes() -> int | None:
    """Return the resident memory of this process, None where there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _source_mask(mask: int, sources: Sequence[int]) -> int:
    """Return the bits that a permutation moves to those of ``mask``."""
    return sum(1 << sources[bit] for bit in range(BITS) if mask >> bit & 1)
