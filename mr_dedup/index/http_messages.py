"""The requests and responses of an index over HTTP: JSON, for the client and the server.

A fingerprint in a request is a number or text, decimal or hexadecimal after ``0x``, signed or not.
In a response it is the text of a signed decimal, since JavaScript's numbers have 53 bits.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from mr_dedup.index.protocol import IndexMatches, fingerprint_id

FingerprintIn = Annotated[
    int | str, Meta(description="a fingerprint: a number, or text in decimal or 0x… hexadecimal")
]
FingerprintOut = Annotated[
    str, Meta(description="a fingerprint, as a signed decimal number", pattern="^-?[0-9]{1,19}$")
]
Id = Annotated[str, Meta(description="the id of a document, 1 to 65,536 bytes of UTF-8")]
Distance = Annotated[int, Meta(ge=0, le=64, description="bits that differ")]
Count = Annotated[int, Meta(ge=0)]
MaxDistance = Annotated[
    int | None,
    Meta(description="the largest distance of a match; by default the largest of the index"),
]
Limit = Annotated[
    int | None, Meta(description="return only so many of the nearest matches of each; 1 or more")
]

_DECIMAL, _HEXADECIMAL = re.compile(r"-?[0-9]{1,20}"), re.compile(r"0[xX][0-9a-fA-F]{1,16}")


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A query by fingerprints or by texts: one of the two is given."""

    fingerprints: list[FingerprintIn] | None = None
    texts: list[str] | None = None
    k: MaxDistance = None
    limit: Limit = None


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A document by its fingerprint or its text; without an id if the index has none."""

    id: Id | None = None
    fingerprint: FingerprintIn | None = None
    text: str | None = None


class Put(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Documents to add, whether or not they have matches."""

    documents: list[Document]


class CheckAndAdd(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Documents to query and add one after another, as one change."""

    documents: list[Document]
    k: MaxDistance = None
    limit: Limit = None
    only_new: Annotated[bool, Meta(description="add only documents without a match")] = False


class Remove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Documents to remove."""

    ids: list[Id]


class Match(msgspec.Struct, frozen=True):
    """A document within k bits of a query."""

    id: Id
    fingerprint: FingerprintOut
    distance: Distance


class StoredDocument(msgspec.Struct, frozen=True):
    """A document of the index."""

    id: Id
    fingerprint: FingerprintOut


class Queried(msgspec.Struct, frozen=True):
    """The matches of one fingerprint or text, nearest first."""

    fingerprint: FingerprintOut
    matches: list[Match]


class Queries(msgspec.Struct, frozen=True):
    """The matches of each query, in the order of the request."""

    results: list[Queried]


class CheckedDocument(msgspec.Struct, frozen=True):
    """The matches of a document before it was added, and whether it was added."""

    id: Id | None
    fingerprint: FingerprintOut
    added: bool
    matches: list[Match]


class CheckedDocuments(msgspec.Struct, frozen=True):
    """The result for each document, in the order of the request."""

    results: list[CheckedDocument]


class Added(msgspec.Struct, frozen=True):
    """The number of documents that were not in the index before."""

    new: Count


class Removed(msgspec.Struct, frozen=True):
    """Which documents were in the index, in the order of the request."""

    removed: list[bool]


class SegmentStats(msgspec.Struct, frozen=True):
    """A segment of the index."""

    file: str
    documents: Count
    dead: Count
    bytes: Count
    design: str
    tables: Count


class Stats(msgspec.Struct, frozen=True):
    """Counts and sizes of an index, and the limits of its server.

    ``named``: documents have ids of their own. ``texts``: the server makes fingerprints of texts.
    ``merge_failure``: why segments could not be merged, if so. A request has ``max_batch``
    documents and ``max_body_bytes`` bytes at most, a response ``max_matches`` matches, of all its
    documents together. ``last_segment_time``: when the newest segment was made, by a full memory
    table, a merge or a compaction; in UTC, null if there is none. ``memory_bytes``: the resident
    memory of the server's process, which includes pages of mapped segments; null where the system
    does not say.
    """

    documents: Count
    k: Count
    named: bool
    features: str | None
    texts: bool
    segments: list[SegmentStats]
    memory_documents: Count
    log_bytes: Count
    disk_bytes: Count
    merge_failure: str | None
    max_batch: Count
    max_body_bytes: Count
    max_matches: Count
    last_segment_time: str | None = None
    memory_bytes: Count | None = None


class Design(msgspec.Struct, frozen=True):
    """A table design: the key of each table, and the number of documents in such tables.

    Masks are hexadecimal, of 16 digits, the first bit a fingerprint's leading one.
    """

    name: str
    documents: Count
    masks: list[Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]]


class Designs(msgspec.Struct, frozen=True):
    """The designs of the segments, and then others for the same distance."""

    k: Count
    designs: list[Design]


class Failure(msgspec.Struct, frozen=True):
    """Why a request failed, in one line; nothing was changed."""

    error: str


def parse_fingerprint(given: int | str) -> int:
    """Return a fingerprint as an unsigned number; ValueError if it is not a number of 64 bits.

    >>> parse_fingerprint(5), parse_fingerprint("-1") == parse_fingerprint("0xffffffffffffffff")
    (5, True)
    """
    value = 1 << 64
    if isinstance(given, int):
        value = given
    elif _DECIMAL.fullmatch(given):
        value = int(given)
    elif _HEXADECIMAL.fullmatch(given):
        value = int(given, 16)
    if not -(1 << 63) <= value < 1 << 64:
        shown = repr(given) if len(repr(given)) <= 60 else f"{repr(given)[:60]}…"
        raise ValueError(f"fingerprint: {shown} is not a number of 64 bits")
    return value & (1 << 64) - 1


def parse_fingerprints(given: list[int | str]) -> NDArray[np.uint64]:
    """Return fingerprints, uint64[n]; ValueError as ``parse_fingerprint``."""
    return np.array([parse_fingerprint(each) for each in given], np.uint64)


def matches_by_query(found: IndexMatches, count: int) -> list[list[Match]]:
    """Return the matches of each of ``count`` queries as they are sent."""
    by_query: list[list[Match]] = [[] for _ in range(count)]
    for query, match in zip(found.queries.tolist(), found, strict=True):
        sent = Match(match.id, fingerprint_id(match.fingerprint), match.distance)
        by_query[query].append(sent)
    return by_query


def index_matches(by_query: list[list[Match]]) -> IndexMatches:
    """Return the matches that ``matches_by_query`` returned ``by_query`` for."""
    every = [match for matches in by_query for match in matches]
    if not every:
        return IndexMatches.none()
    return IndexMatches(
        np.repeat(np.arange(len(by_query)), [len(matches) for matches in by_query]),
        tuple(match.id for match in every),
        np.array([parse_fingerprint(match.fingerprint) for match in every], np.uint64),
        np.array([match.distance for match in every], np.uint8),
    )
