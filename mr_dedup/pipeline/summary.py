"""The keys of summary.json, by the stage that adds them; docs/formats.md describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from typing_extensions import NotRequired

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.rejects import SkipReason

FORMAT_VERSION = 2
"""Of the files of a result. Raised when a file, a column or a key gets another name or meaning.

Results of version 1 do not have a version in their summaries.
"""


class ReadingSummary(TypedDict):
    """What was read."""

    documents_read: int
    rejected_records: int
    incomplete_files: int
    skipped_records: dict[SkipReason, int]


class FingerprintSummary(TypedDict):
    """Clusters of fingerprints: of distinct ones, by pairs where simhash is among the methods."""

    distinct_fingerprints: int
    fingerprint_pairs: NotRequired[int]
    fingerprint_clusters: int


class ClusterSummary(FingerprintSummary):
    """Clusters of documents by all methods."""

    shared_key_links: int
    oversized_keys: int
    clusters_split: int
    documents_in_split_clusters: int


class DecisionSummary(TypedDict):
    """The decisions; ``reasons`` has the number of documents for each ``Reason.key``."""

    documents_kept: int
    documents_dropped: int
    reasons: dict[str, int]
    earlier_documents: int
    documents_dropped_for_earlier: int


class StageSummary(ReadingSummary, ClusterSummary, DecisionSummary):
    """What the stages of a run count."""


class ExpectedRecall(TypedDict):
    """The probability that a method finds a pair of the similarity ``verify``."""

    method: str
    recall: float


class ReferenceSummary(TypedDict):
    """Another result that a result was made against."""

    folder: str
    documents: int
    fingerprints_checksum: str


class LaterRuns(TypedDict):
    """What later runs need to know of a result."""

    format_version: int
    features: str
    fingerprint_version: int
    signature_version: int
    fingerprints_checksum: str
    methods: list[str]
    signatures_checksum: str | None
    reading: dict[str, Any]
    against: list[ReferenceSummary]


class Summary(StageSummary, LaterRuns):
    """The whole of summary.json."""

    files_read: int
    shingles: str
    expected_recalls: list[ExpectedRecall]


def require_version(name: str, summary: Mapping[str, Any]) -> None:
    """Raise MrDedupError if the result ``name`` has another version than FORMAT_VERSION.

    >>> require_version("week1", {"read": 9, "kept": 7})
    Traceback (most recent call last):
    mr_dedup.errors.MrDedupError: week1: is a result of format version 1, but this mr_dedup reads \
version 2; de-duplicate its documents again
    """
    version = summary.get("format_version", 1)
    if version != FORMAT_VERSION:
        raise MrDedupError(
            f"{name}: is a result of format version {version}, but this mr_dedup reads version "
            f"{FORMAT_VERSION}; de-duplicate its documents again"
        )
