"""How documents are de-duplicated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mr_dedup.clusters.criterion import Criterion
from mr_dedup.clusters.retention import Retention
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import MAX_SHINGLES
from mr_dedup.formats.count_tables import COUNTED
from mr_dedup.formats.documents.files import DocumentFormat
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.fingerprint import FingerprintJob
from mr_dedup.jobs.kept_records import KeptFormat
from mr_dedup.pipeline.results import EarlierResult
from mr_dedup.signatures.methods import SIMHASH
from mr_dedup.signatures.protocol import SignatureMethod


@dataclass(frozen=True, kw_only=True)
class DedupOptions:
    """How to de-duplicate.

    Attributes:
        k: The maximum Hamming distance of fingerprints whose documents are candidates; None
            without simhash.
        methods: The other methods that find candidates, by keys that documents share.
        keep: The policies that order the documents of a cluster, as ``KeepPolicy.parse`` takes
            them.
        retention: How many documents of a group of duplicates are kept.
        verify: When a document duplicates a kept one; None if texts are not compared.
        shingles: The features that texts are compared by, as ``FeatureOptions.parse`` takes them.
        share_by: Fields of the documents that the rows have as well.
        names_below: The directory of all files, by whose directories documents are counted.
        reading: How documents are read.
        format: The format of the documents; None if it follows from their names.
        features: What fingerprints are made of.
        idf: The file with weights of the features; None without it.
        made_from: ``features`` and ``idf`` in a line; results are comparable if they have the same.
        against: Earlier results; documents that are similar to what they kept are dropped.
        keyword_idf: The file with weights of keywords; None without it.
        documents: How the kept documents are written.
        seen: A field whose smallest and largest values over each document and its duplicates are
            reported; None without.
        add_counts: Whether the records of kept documents get the counts of these.
    """

    k: int | None
    verify: Criterion | None
    shingles: str
    keep: Sequence[str] = ()
    retention: Retention = field(default_factory=Retention)
    share_by: Sequence[str] = ()
    names_below: str = ""
    reading: ReadOptions = field(default_factory=ReadOptions)
    format: DocumentFormat | None = None
    features: FeatureOptions = field(default_factory=FeatureOptions)
    idf: str | None = None
    made_from: str = ""
    against: Sequence[EarlierResult] = ()
    methods: Sequence[SignatureMethod] = ()
    keyword_idf: str | None = None
    documents: KeptFormat = "same"
    seen: str | None = None
    add_counts: bool = False

    @property
    def method_names(self) -> list[str]:
        """The names of the methods."""
        names = [] if self.k is None else [f"{SIMHASH}:k={self.k}"]
        return names + [method.name for method in self.methods]

    @property
    def row_fields(self) -> tuple[str, ...]:
        """The fields of documents that rows have as well."""
        seen = () if self.seen is None else (self.seen,)
        return tuple(dict.fromkeys((*self.share_by, *seen)))

    @property
    def counted(self) -> tuple[str, ...]:
        """The columns with counts that kept records get."""
        if not self.add_counts:
            return ()
        return COUNTED if self.seen is not None else COUNTED[:2]

    @property
    def expected_recalls(self) -> dict[str, float]:
        """The probability of each method to find a pair at ``verify``, where it is known.

        Empty if texts are not compared, or must be contained in kept ones.
        """
        if self.verify is None or self.verify.is_containment:
            return {}
        recalls = {
            method.name: method.expected_recall(self.verify.threshold, self.compared_by)
            for method in self.methods
        }
        return {name: recall for name, recall in recalls.items() if recall is not None}

    @property
    def short_words(self) -> int | None:
        """Texts of fewer words may differ in one at most; None if that is not known."""
        words = self.compared_by.words
        return None if self.verify is None or words is None else self.verify.min_words(words)

    @property
    def earlier(self) -> list[tuple[str, int]]:
        """The names of the earlier results, and their numbers of documents."""
        return [(result.name, result.documents) for result in self.against]

    @property
    def compared_by(self) -> FeatureOptions:
        """The shingles that texts are compared by."""
        features = self.features
        return FeatureOptions.parse(self.shingles, "binary", features.normalize, features.symbols)

    @property
    def max_hashes(self) -> int:
        """The size at which sets of shingles are cut."""
        return MAX_SHINGLES if self.verify is None else self.verify.max_hashes

    @property
    def kept_format(self) -> DocumentFormat | None:
        """The format of the kept documents; None if it follows from the names of their files."""
        return self.format if self.documents == "same" else self.documents

    @property
    def of_documents(self) -> dict[str, Any]:
        """The fields that all jobs over the documents share."""
        return {"reading": self.reading, "format": self.format}

    def fingerprint_job(self) -> FingerprintJob:
        """Return the job that computes fingerprints and signatures of the documents."""
        return FingerprintJob(
            **self.of_features,
            fields=self.row_fields,
            methods=tuple(method.name for method in self.methods),
            keyword_idf=self.keyword_idf,
            cached_sets=None if self.verify is None else self.compared_by,
            cached_hashes=self.max_hashes,
            cached_texts=self.documents != "same",
            keep=tuple(self.keep),
            seen=self.seen,
            new_fields=self.counted,
            short_words=self.short_words,
        )

    @property
    def of_features(self) -> dict[str, Any]:
        """The fields of jobs that compute fingerprints."""
        return {**self.of_documents, "features": self.features, "idf": self.idf}
