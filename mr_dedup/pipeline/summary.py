"""The keys of summary.json, by the stage that adds them; docs/formats.md describes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec
from typing_extensions import NotRequired

from mr_dedup.errors import FormatError, MrDedupError, newer, shortened
from mr_dedup.formats.documents.files import DocumentFormat
from mr_dedup.formats.documents.options import MAX_PAGE_SECONDS, HtmlText, ReadOptions
from mr_dedup.jobs.reading import ReadingCounts

FORMAT_VERSION = 3
"""Of the files of a result. Raised when a file, a column or a key gets another name or meaning.

Results of version 1 do not have a version in their summaries.
"""


class ReadingSummary(ReadingCounts):
    """What was read.

    ``documents_without_id`` only if there are any, and the fields of ids are not the default ones;
    ``documents_of_few_words``, two of which cannot differ at the similarity, only if there are any;
    ``documents_without_seen`` only if there are any, and a field by which documents are seen;
    ``documents_unordered``, by the preference, only if there are any.
    """

    documents_without_id: NotRequired[int]
    documents_of_few_words: NotRequired[int]
    documents_without_seen: NotRequired[int]
    documents_unordered: NotRequired[dict[str, int]]


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


class ExpectedRecall(TypedDict):
    """The probability that a method finds a pair of the similarity ``verify``."""

    method: str
    recall: float


class CommandSummary(TypedDict):
    """What a command knows of a run.

    ``short_below_words`` is the number of words below which two cannot differ at the similarity,
    if over half of the documents have fewer.
    """

    skipped_files_by_ending: NotRequired[dict[str, int]]
    short_below_words: NotRequired[int]


class StageSummary(ReadingSummary, ClusterSummary, DecisionSummary, CommandSummary):
    """What the stages of a run count, and what their methods are expected to find."""

    expected_recalls: list[ExpectedRecall]


class TemplateCluster(TypedDict):
    """A cluster that looks like pages of one template, by its documents of this run."""

    cluster: int
    host: str
    documents: int
    documents_kept: int
    mean_similarity: float


class LosingSource(TypedDict):
    """A value of a field, or a host, that loses more than half of its documents."""

    field: str
    value: str
    documents: int
    dropped: int


class Warnings(TypedDict):
    """What a user should look at: how many there are, and the largest ones."""

    template_clusters: int
    template_clusters_listed: Sequence[TemplateCluster]
    losing_sources: int
    losing_sources_listed: Sequence[LosingSource]


class RunSummary(StageSummary):
    """What a run reports of itself."""

    warnings: Warnings
    files_read: int
    skipped_files: int
    shingles: str
    verify: float | str | None


class Reading(msgspec.Struct, frozen=True):
    """How the documents of a result are read, by the names of the command's options.

    Raises ValueError for values out of range.

    >>> Reading.of(ReadOptions(text_name="content"), "jsonl").options().text_name
    'content'
    """

    id_field: tuple[str, ...] | None
    text_field: str
    html_field: str
    html: HtmlText
    max_record_size: int
    format: DocumentFormat | None
    max_page_seconds: float = MAX_PAGE_SECONDS
    encoding: str | None = None

    def __post_init__(self) -> None:
        self.options()

    @classmethod
    def of(cls, options: ReadOptions, format: DocumentFormat | None) -> Reading:
        """Return what to record of ``options`` and the format of all files."""
        return cls(
            tuple(options.id_names), options.text_name, options.html_name, options.html,
            options.max_record_bytes, format, options.max_page_seconds,
            options.encoding,
        )  # fmt: skip

    def options(self) -> ReadOptions:
        """Return them as options, by which a record that cannot be read is an error."""
        return ReadOptions(
            id_names=self.id_field or ReadOptions.id_names,
            text_name=self.text_field,
            html_name=self.html_field,
            html=self.html,
            max_record_bytes=self.max_record_size,
            max_page_seconds=self.max_page_seconds,
            encoding=self.encoding,
            strict=True,
        )


class Reference(msgspec.Struct, frozen=True):
    """Another result that a result was made against: where it is, from this one, and what it was.

    Attributes:
        folder: Its directory, relative to that of the result.
        documents: The number of documents that were kept.
        fingerprints_checksum: The checksum of its fingerprints.
        result_id: What identifies it; that checksum, if it is of an mr_dedup without ids.
    """

    folder: str
    documents: int
    fingerprints_checksum: str
    result_id: str = ""


class LaterRuns(msgspec.Struct, frozen=True):
    """What later runs need to know of a result.

    Attributes:
        result_id: The same for copies of a result alone; empty in results of an mr_dedup without.
        counts_checksum, earlier_counts_checksum: None where there are no such counts.
        seen: The field by which the run counted when documents were seen, if any.
    """

    format_version: int
    features: str
    fingerprint_version: int
    signature_version: int
    fingerprints_checksum: str
    methods: tuple[str, ...]
    signatures_checksum: str | None
    reading: Reading
    against: tuple[Reference, ...]
    result_id: str = ""
    counts_checksum: str | None = None
    earlier_counts_checksum: str | None = None
    seen: str | None = None

    @property
    def identifier(self) -> str:
        """What identifies the result."""
        return self.result_id or self.fingerprints_checksum

    @classmethod
    def parse(cls, name: str, path: Path, content: bytes) -> LaterRuns:
        """Return what the summary of the result ``name``, in the file ``path``, says.

        Raises:
            FormatError: If ``content`` is not JSON, lacks a key, or a value has another type.
            MrDedupError: If the format of the result has another version.
        """
        try:
            require_version(name, content)
            return msgspec.json.decode(content, type=cls)
        except (ValueError, RecursionError) as error:
            raise FormatError(path, None, f"lacks what later runs need: {error}") from error


Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class ResultCounts(msgspec.Struct):
    """What commands read of the numbers in a summary."""

    documents_read: Count
    files_read: Count = 0
    rejected_records: Count = 0
    documents_without_text: Count = 0
    documents_empty: Count = 0
    documents_with_unusable_id: Count = 0
    documents_cut: Count = 0

    @classmethod
    def parse(cls, name: str, path: Path | str, content: bytes) -> ResultCounts:
        """Return those of the result ``name``; raises as ``require_version``, and FormatError."""
        with summary_of(path):
            require_version(name, content)
            return msgspec.json.decode(content, type=cls)


@contextlib.contextmanager
def summary_of(path: Path | str) -> Iterator[None]:
    """Raise FormatError for a summary, read in the block, that is not one of mr-dedup."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise FormatError(path, None, f"is damaged: {shortened(str(error), 200)}") from error
    except RecursionError as error:
        raise FormatError(path, None, "is damaged: is nested too deeply") from error


class _Versioned(msgspec.Struct):
    format_version: int = 1


def refuse_newer(name: str, summary: bytes) -> None:
    """Raise MrDedupError if a newer version has made the result ``name``; others are for readers.

    >>> refuse_newer("week1", b'{"format_version": 9}')
    Traceback (most recent call last):
    mr_dedup.errors.MrDedupError: week1: its format of version 9 is newer than this mr_dedup reads \
(3); upgrade mr_dedup
    """
    try:
        version = msgspec.json.decode(summary, type=_Versioned).format_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if version > FORMAT_VERSION:
        raise MrDedupError(f"{name}: its format of {newer(version, FORMAT_VERSION)}")


def require_version(name: str, summary: bytes) -> None:
    """Raise MrDedupError if the result ``name`` has another version than FORMAT_VERSION.

    >>> require_version("week1", b'{"read": 9, "kept": 7}')
    Traceback (most recent call last):
    mr_dedup.errors.MrDedupError: week1: is a result of format version 1, but this mr_dedup reads \
version 3; de-duplicate its documents again
    """
    refuse_newer(name, summary)
    version = msgspec.json.decode(summary, type=_Versioned).format_version
    if version != FORMAT_VERSION:
        raise MrDedupError(
            f"{name}: is a result of format version {version}, but this mr_dedup reads version "
            f"{FORMAT_VERSION}; de-duplicate its documents again"
        )
