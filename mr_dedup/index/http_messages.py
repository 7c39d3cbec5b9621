"""What an index that is asked by HTTP is told, and what it says: JSON, the same at both ends.

A fingerprint is told as a number or as text, decimal or hexadecimal after ``0x``, signed or not; it
is said as the text of a signed decimal, since JavaScript's numbers end at 53 bits.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from mr_dedup.index.protocol import IndexMatches

Told = Annotated[
    int | str, Meta(description="a fingerprint: a number, or text in decimal or 0x… hexadecimal")
]
Said = Annotated[
    str, Meta(description="a fingerprint, as a signed decimal number", pattern="^-?[0-9]{1,19}$")
]
Id = Annotated[str, Meta(description="what names a document, up to 65,536 bytes of UTF-8")]
Distance = Annotated[int, Meta(ge=0, le=64, description="bits that differ")]
Count = Annotated[int, Meta(ge=0)]
Reach = Annotated[
    int | None,
    Meta(description="the largest distance of a match; by default the largest of the index"),
]
Limit = Annotated[
    int | None, Meta(description="say only so many of the nearest matches of each; at least 1")
]

_DECIMAL, _HEXADECIMAL = re.compile(r"-?[0-9]{1,20}"), re.compile(r"0[xX][0-9a-fA-F]{1,16}")


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is near fingerprints, or near texts: one of the two is given."""

    fingerprints: list[Told] | None = None
    texts: list[str] | None = None
    k: Reach = None
    limit: Limit = None


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A document by its fingerprint or its text; the id is left out where documents have none."""

    id: Id | None = None
    fingerprint: Told | None = None
    text: str | None = None


class Put(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Documents to be added, whatever is near them."""

    documents: list[Document]


class CheckAndAdd(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Documents to be compared and added, one after another, with nothing in between."""

    documents: list[Document]
    k: Reach = None
    limit: Limit = None
    only_new: Annotated[bool, Meta(description="add only those that nothing is near")] = False


class Remove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Documents to be removed."""

    ids: list[Id]


class Match(msgspec.Struct, frozen=True):
    """A document that is near."""

    id: Id
    fingerprint: Said
    distance: Distance


class Queried(msgspec.Struct, frozen=True):
    """What is near one fingerprint or text, nearest first."""

    fingerprint: Said
    matches: list[Match]


class Queries(msgspec.Struct, frozen=True):
    """What is near each that was asked for, in that order."""

    results: list[Queried]


class CheckedDocument(msgspec.Struct, frozen=True):
    """What was near a document before it came, and whether it was added."""

    id: Id | None
    fingerprint: Said
    added: bool
    matches: list[Match]


class CheckedDocuments(msgspec.Struct, frozen=True):
    """What became of each document, in their order."""

    results: list[CheckedDocument]


class Added(msgspec.Struct, frozen=True):
    """How many documents were not in the index before."""

    new: Count


class Removed(msgspec.Struct, frozen=True):
    """Which documents were held, in the order of their ids."""

    removed: list[bool]


class SegmentStats(msgspec.Struct, frozen=True):
    """A file of the index."""

    file: str
    documents: Count
    dead: Count
    bytes: Count
    design: str
    tables: Count


class Stats(msgspec.Struct, frozen=True):
    """What an index holds, and takes; whether it takes ``texts``, and how much it is told at once.

    An answer has ``max_matches`` at most, of all that was asked for together.
    ``named`` says whether documents have ids of their own; ``merge_failure`` why segments could not
    be merged, if so.
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


class Design(msgspec.Struct, frozen=True):
    """A table design: the bits that each table is keyed by, and how many documents are kept by it.

    Masks are hexadecimal, of 16 digits, their first bit a fingerprint's leading one.
    """

    name: str
    documents: Count
    masks: list[Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]]


class Designs(msgspec.Struct, frozen=True):
    """The designs that segments have, and then others for the same distance."""

    k: Count
    designs: list[Design]


class Failure(msgspec.Struct, frozen=True):
    """Why nothing was done, in one line."""

    error: str


def parse_fingerprint(told: int | str) -> int:
    """Return a fingerprint as an unsigned number; ValueError if it is none."""
    value = 1 << 64
    if isinstance(told, int):
        value = told
    elif _DECIMAL.fullmatch(told):
        value = int(told)
    elif _HEXADECIMAL.fullmatch(told):
        value = int(told, 16)
    if not -(1 << 63) <= value < 1 << 64:
        shown = repr(told) if len(repr(told)) <= 60 else f"{repr(told)[:60]}…"
        raise ValueError(f"fingerprint: {shown} is no number of 64 bits")
    return value & (1 << 64) - 1


def parse_fingerprints(told: list[int | str]) -> NDArray[np.uint64]:
    """Return fingerprints, uint64[n]; ValueError if one is none."""
    return np.array([parse_fingerprint(each) for each in told], np.uint64)


def said(fingerprint: int) -> str:
    """Return a fingerprint as it is said."""
    return str(fingerprint - (1 << 64) if fingerprint >> 63 else fingerprint)


def said_matches(found: IndexMatches, count: int) -> list[list[Match]]:
    """Return the matches of each of ``count`` queries as they are said."""
    by_query: list[list[Match]] = [[] for _ in range(count)]
    for query, match in zip(found.queries.tolist(), found, strict=True):
        by_query[query].append(Match(match.id, said(match.fingerprint), match.distance))
    return by_query


def matches_of(said_of_each: list[list[Match]]) -> IndexMatches:
    """Return what ``said_matches`` was made of."""
    every = [match for matches in said_of_each for match in matches]
    if not every:
        return IndexMatches.none()
    return IndexMatches(
        np.repeat(np.arange(len(said_of_each)), [len(matches) for matches in said_of_each]),
        tuple(match.id for match in every),
        np.array([parse_fingerprint(match.fingerprint) for match in every], np.uint64),
        np.array([match.distance for match in every], np.uint8),
    )
