"""The fingerprint job: documents to their simhashes (paper section 2), computed in the cluster.

A map task reads one chunk of documents. The job has no reduce step. The result are rows, in the
order of the documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mr_dedup.clusters.duplicate_counts import unreadable
from mr_dedup.clusters.keep_policy import (
    FieldError,
    KeepPolicy,
    MissingFieldError,
    Preference,
)
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import MAX_SHINGLES
from mr_dedup.fingerprints.simhash import Fingerprints, simhash
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.cached_documents import has_pages, put_sets, put_texts
from mr_dedup.jobs.contract import Counters, Keyed, TaskInput
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.frequencies import read_frequencies
from mr_dedup.jobs.part_cache import Cache
from mr_dedup.jobs.reading import NO_REJECTS
from mr_dedup.jobs.signing import Signing, signing
from mr_dedup.signatures.candidates import too_many_subsets
from mr_dedup.signatures.columns import signatures_in
from mr_dedup.signatures.methods import parse_methods
from mr_dedup.signatures.protocol import SignatureMethod

COLUMNS = ("id", "fingerprint", "length", "file", "position", "chunk")
"""The columns of rows of documents, before the fields that are kept."""


WITHOUT_FIELD = "documents_without_field_"
"""The prefix of counters of documents without the field of a preference; its number follows."""

UNORDERED = "documents_unordered_"
"""The prefix of counters of documents whose value a preference cannot order; its number follows."""

WITH_FIELD = "documents_with_field_"
"""The prefix of counters of documents with one of the ``new_fields``; its number follows."""

WITHOUT_SEEN = "documents_without_seen"
"""The counter of documents whose field ``seen`` is neither a time nor a number."""

WITHOUT_ID = "documents_without_id"
"""The counter of records without the fields that are to be their ids, unless these are default."""

SHORT = "documents_of_few_words"
"""The counter of documents of fewer than ``short_words`` words."""

TOO_MANY_SUBSETS = "too_many_subsets_"
"""The prefix of counters of documents that a method has too many keys of; its number follows."""


class FingerprintJob(DocumentJob, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        features: What fingerprints are made of.
        idf: The file of document frequencies by which features are weighted.
        fields: Fields of the documents that rows have as well.
        methods: Methods whose signatures rows have as well.
        keyword_idf: The file of document frequencies by which keywords are weighted.
        cached_sets: Where a process runs several jobs: the shingles by which the next one compares
            texts, whose sets are cached.
        cached_hashes: The size at which these sets are cut.
        cached_texts: Whether texts of pages are cached as well, for a job that writes them.
        keep: The preferences by which a later job chooses what is kept, as KeepPolicy parses them.
            Their fields are cached as well; documents whose values they cannot order are counted.
        seen: One of ``fields`` whose values are times or numbers; others are counted.
        new_fields: Fields that documents must not have; those with them are counted.
        short_words: Documents of fewer words are counted, where features are words.
    """

    side_files = ("idf", "keyword_idf")

    features: FeatureOptions = FeatureOptions()
    idf: str | None = None
    fields: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    keyword_idf: str | None = None
    cached_sets: FeatureOptions | None = None
    cached_hashes: int = MAX_SHINGLES
    cached_texts: bool = False
    keep: tuple[str, ...] = ()
    seen: str | None = None
    new_fields: tuple[str, ...] = ()
    short_words: int | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        check_fields(self.fields)
        if self.features.uses_idf != (self.idf is not None):
            raise ValueError(f"idf: expected a file for weights by rarity alone, got {self.idf!r}")

    def preferences(self) -> list[tuple[str, Preference]]:
        """Return the preferences by fields, with the field."""
        return KeepPolicy.parse(self.keep).by_fields if self.keep else []

    def signature_methods(self) -> list[SignatureMethod]:
        """Return the methods by which signatures are made."""
        if not self.methods:
            return []
        frequencies = read_frequencies(self.keyword_idf)
        return parse_methods(
            self.methods, frequencies, self.features.normalize, symbols=self.features.symbols
        )

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield rows of the documents of one chunk, under its number, and its rejects."""
        methods = self.signature_methods()
        sign = self._signing(part.cache)
        preferred = [field for field, _ in self.preferences()]
        fields = tuple(dict.fromkeys((*self.fields, *preferred, *self.new_fields)))
        with self.reading_of(part, counters, fields=fields) as reading:
            number = reading.chunk.number
            with_texts = has_pages(reading.chunk) and (
                self.cached_texts or (part.cache is not None and not part.cache.keeps_sets)
            )
            is_empty = True
            for batch in reading.batches():
                self._count_fields(batch, counters)
                fingerprints, signatures, sets = sign(batch.texts)
                if part.cache is not None:
                    if sets is not None:
                        put_sets(part.cache, number, batch, sets)
                    if with_texts:
                        put_texts(part.cache, number, batch)
                if self.short_words is not None and self.features.words is not None:
                    # one less for each word of a shingle after the first
                    fewer = max(0, self.short_words - self.features.words + 1)
                    are_short = fingerprints.has_fingerprint & (fingerprints.occurrences < fewer)
                    counters[SHORT] += int(are_short.sum())
                table = table_of(batch, fingerprints, self.fields)
                for name, column in signatures.items():
                    table = table.append_column(name, column)
                _count_many_keys(table, methods, counters)
                yield number, table
                is_empty = False
            for rejects in reading.rejects():
                yield number, rejects
                is_empty = False
            if self.shards is not None and is_empty:
                # each chunk has a shard
                yield number, NO_REJECTS

    def _count_fields(self, batch: DocumentBatch, counters: Counters) -> None:
        """Count the documents that lack fields or an id, and those with fields of counts."""
        for number, (field, step) in enumerate(self.preferences()):
            assert batch.fields is not None
            values = one_array(batch.fields[field])
            counters[f"{WITHOUT_FIELD}{number}"] += values.null_count
            counters[f"{UNORDERED}{number}"] += step.unordered(values)
        for number, name in enumerate(self.new_fields):
            assert batch.fields is not None
            counters[f"{WITH_FIELD}{number}"] += len(batch) - batch.fields[name].null_count
        if self.seen is not None:
            assert batch.fields is not None
            counters[WITHOUT_SEEN] += unreadable(one_array(batch.fields[self.seen]))
        if self.reading.id_names != ReadOptions.id_names:
            counters[WITHOUT_ID] += ids_from_positions(batch)

    def _signing(self, cache: Cache | None) -> Signing:
        """Return a function from texts to fingerprints, signatures and sets of shingles."""
        frequencies = read_frequencies(self.idf, self.features)
        methods = self.signature_methods()
        sets = self.cached_sets if cache is not None and cache.keeps_sets else None
        if methods or sets is not None:
            return signing(self.features, frequencies, methods, sets, self.cached_hashes)
        return lambda texts: (simhash(texts, self.features, frequencies), {}, None)


def refuse_fields(job: FingerprintJob, counters: Mapping[str, int], documents: int) -> None:
    """Raise FieldError if so many documents lack fields that a run needs, or have those it adds.

    MissingFieldError if none of them has the field of a preference, or a usable one of ``seen``.
    Not if the counters of the job are unknown, as those of a cluster whose logs are not read.
    """
    for number, (field, _) in enumerate(job.preferences()):
        if documents and counters.get(f"{WITHOUT_FIELD}{number}") == documents:
            raise MissingFieldError(field)
    if documents and job.seen is not None and counters.get(WITHOUT_SEEN) == documents:
        raise MissingFieldError(job.seen, "--seen", " with a time or a number")
    for number, name in enumerate(job.new_fields):
        if count := counters.get(f"{WITH_FIELD}{number}"):
            has = "1 document has" if count == 1 else f"{count:,} documents have"
            raise FieldError("--add-counts", f"{has} a field {name} already")


def unordered_by(job: FingerprintJob, counters: Mapping[str, int]) -> dict[str, int]:
    """Return how many documents have a value that a preference cannot order, if there are any."""
    counts = {
        str(step): counters.get(f"{UNORDERED}{number}", 0)
        for number, (_, step) in enumerate(job.preferences())
    }
    return {step: count for step, count in counts.items() if count}


def rare_counts(job: FingerprintJob, counters: Mapping[str, int]) -> dict[str, Any]:
    """Return the counts of a ReadingSummary that it has only if they are not 0."""
    counts = {
        name: counters[name] for name in (WITHOUT_ID, SHORT, WITHOUT_SEEN) if counters.get(name)
    }
    unordered = unordered_by(job, counters)
    return {**counts, "documents_unordered": unordered} if unordered else counts


def ids_from_positions(batch: DocumentBatch) -> int:
    """Return how many documents have no id but the ``FILE:OFFSET`` that readers make."""
    return int(batch.are_named_by_position().true_count)


def _count_many_keys(
    table: pa.Table, methods: Sequence[SignatureMethod], counters: Counters
) -> None:
    """Count the documents that have too many keys to be linked by subsets of these."""
    for number, method in enumerate(methods):
        if method.min_shared_keys > 1:
            counters[f"{TOO_MANY_SUBSETS}{number}"] += too_many_subsets(
                signatures_in(table, methods, number), method.min_shared_keys
            )


def check_fields(fields: Sequence[str], option: str = "--keep-field") -> None:
    """Raise ValueError for a field that is called as a column which is written anyway."""
    for name in fields:
        if name in COLUMNS:
            raise ValueError(f"{option}: {name} is the name of a column that is written")


def table_of(
    batch: DocumentBatch, fingerprints: Fingerprints, fields: Sequence[str] = ()
) -> pa.Table:
    """Return documents as rows without their texts.

    Columns ``id``, ``fingerprint`` (int64, null where there is none), ``length`` (int64, bytes of
    text), ``file`` and ``position`` (``files`` and ``offsets`` of DocumentBatch), then ``fields``
    of it, of other names.
    """
    columns = {
        "id": batch.ids,
        "fingerprint": pa.array(
            fingerprints.values.view(np.int64), mask=~fingerprints.has_fingerprint
        ),
        "length": pa.array(batch.text_lengths),
        "file": batch.files,
        "position": pa.array(batch.offsets),
    }
    table = pa.table(columns)
    for name in fields:
        assert batch.fields is not None
        table = table.append_column(name, batch.fields[name])
    return table
