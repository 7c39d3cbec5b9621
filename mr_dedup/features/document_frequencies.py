"""Document frequencies: the number of documents of a collection in which each feature occurs.

A weighting with idf multiplies the weight of a feature by its inverse document frequency, so that
rare features weigh more than common ones. Features are identified by their hashes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.features.frequency_kernels import IdfTable, fill
from mr_dedup.features.options import FeatureOptions
from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.parquet_rows import ParquetRows, open_parquet

IDF_ONE = 64
"""The idf 1.0 as an integer."""

MAX_DOCUMENTS = (1 << 63) - 1

_NO_TABLE = IdfTable(np.empty(0, np.uint64), np.empty(0, np.uint16), np.int32(0))

_SCHEMA = pa.schema(
    [
        pa.field("feature", pa.uint64(), nullable=False),
        pa.field("documents", pa.uint64(), nullable=False),
    ]
)
_METADATA = tuple(
    f"mr_dedup.{name}" for name in ("features", "documents", "min_documents", "digest")
)
"""Keys of the metadata of a file, which store what its columns do not."""

_GROUP_ROWS = 1 << 20
_BATCH_BYTES = 1 << 24

_MAX_ROWS_A_BYTE = 64
"""Maximum rows per byte of a file. Even equally spaced features take 1/25 byte each, so more means
a damaged footer."""

_DIGITS = 60
"""Digits of the decimal numbers by which idfs are rounded: 40 more than 64-bit integers have."""


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """The number of documents of a collection in which each feature occurs.

    Memory: 16 bytes a feature, and 15 to 30 more once texts are weighed by it.

    Args:
        features: What was counted, as ``FeatureOptions.unweighted`` describes it.
        documents: The number of documents in the collection, N.
        minimum: Features of fewer documents are not stored.
        hashes: uint64[n], the features, strictly ascending.
        counts: uint64[n], the number of documents with each, from ``minimum`` to ``documents``.

    Raises:
        ValueError: For columns of other types, lengths, orders or ranges.

    Example:
        >>> hashes, counts = np.array([5, 7], np.uint64), np.array([2, 10], np.uint64)
        >>> found = DocumentFrequencies("words:1, normalize nfkc", 10, 2, hashes, counts)
        >>> (found.idfs / IDF_ONE).tolist()
        [2.296875, 1.0]
    """

    features: str
    documents: int
    minimum: int
    hashes: NDArray[np.uint64]
    counts: NDArray[np.uint64]

    def __post_init__(self) -> None:
        if not 0 <= self.documents <= MAX_DOCUMENTS:
            raise ValueError(f"documents must be from 0 to 2**63 - 1, not {self.documents}")
        if not 1 <= self.minimum <= MAX_DOCUMENTS:
            raise ValueError(f"minimum must be from 1 to 2**63 - 1, not {self.minimum}")
        for name, column in (("hashes", self.hashes), ("counts", self.counts)):
            if column.dtype != np.uint64 or column.shape != self.hashes.shape or column.ndim != 1:
                raise ValueError(f"{name} must be uint64[n], got {column.dtype}{column.shape}")
        if np.any(self.hashes[1:] <= self.hashes[:-1]):
            raise ValueError("hashes must be strictly ascending")
        if np.any(self.counts < self.minimum) or np.any(self.counts > self.documents):
            raise ValueError(f"counts must be from {self.minimum} to {self.documents}")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> DocumentFrequencies:
        """Return the document frequencies that ``write`` wrote to a file.

        Raises:
            FormatError: For a file that is damaged or of another kind.
            MrDedupError: If the file cannot be read.
        """
        with open_parquet(Path(path), str(path)) as file:
            if not file.schema.equals(_SCHEMA):
                names = ", ".join(map(repr, file.columns[:5])) or "none"
                reason = f"contains no document frequencies; its columns are {names}"
                raise FormatError(path, None, reason)
            hashes, counts = _columns(file, Path(path))
        metadata = file.schema.metadata or {}
        if not all(key.encode() in metadata for key in _METADATA):
            raise FormatError(path, None, "lacks the metadata of document frequencies")
        values = [metadata[key.encode()] for key in _METADATA]
        try:
            features, documents, minimum, digest = (value.decode() for value in values)
            found = cls(features, int(documents), int(minimum), hashes, counts)
        except ValueError as error:
            raise FormatError(path, None, f"is damaged: {error}") from error
        if found.digest != digest:
            raise FormatError(path, None, f"is damaged: expected the digest {digest}")
        return found

    def write(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a Parquet file, atomically; it takes 6 to 9 bytes a feature.

        Args:
            path: The file to write.
            overwrite: Whether to replace an existing file.

        Raises:
            MrDedupError: If the file exists, or cannot be written.
        """
        table = pa.table([pa.array(self.hashes), pa.array(self.counts)], schema=_SCHEMA)
        feature, documents = _SCHEMA.names
        with whole_file(Path(path), overwrite) as file:
            pq.write_table(
                table.replace_schema_metadata(self._metadata()),
                file,
                row_group_size=_GROUP_ROWS,
                compression={feature: "none", documents: "zstd"},
                use_dictionary=[documents],
                column_encoding={feature: "DELTA_BINARY_PACKED"},
                write_statistics=False,
                write_page_checksum=True,
            )

    @functools.cached_property
    def digest(self) -> str:
        """The XXH3 of the document frequencies, 16 hexadecimal digits."""
        hashed = xxhash.xxh3_64(f"{self.features}\n{self.documents}\n{self.minimum}\n".encode())
        for column in (self.hashes, self.counts):
            hashed.update(np.ascontiguousarray(column, "<u8").data)
        return hashed.hexdigest()

    @property
    def idfs(self) -> NDArray[np.int32]:
        """The inverse document frequency of each feature in 64ths, int32[n]."""
        return inverse_frequencies(self.counts, self.documents)

    @property
    def unknown_idf(self) -> int:
        """The idf in 64ths of a feature that is not stored.

        It is assumed to occur in ``minimum`` - 1 documents, the most possible, and at least in one,
        the one whose features are weighed.
        """
        count = min(max(self.minimum - 1, 1), self.documents)
        return int(inverse_frequencies(np.array([count], np.uint64), self.documents)[0])

    @functools.cached_property
    def table(self) -> IdfTable:
        """The idfs as a hash table for kernels."""
        slots = 1 << (self.hashes.size * 3 // 2).bit_length()
        keys, idfs = np.empty(slots, np.uint64), np.zeros(slots, np.uint16)
        table = IdfTable(keys, idfs, np.int32(self.unknown_idf))
        fill(self.hashes, self.idfs.astype(np.uint16), table)
        return table

    def check_features(self, options: FeatureOptions) -> None:
        """Raise MrDedupError if these are the frequencies of other features than ``options``."""
        if self.features != options.unweighted:
            raise MrDedupError(
                f"document frequencies of {self.features} cannot weigh {options.unweighted}"
            )

    def _metadata(self) -> Mapping[str, str]:
        values = (self.features, str(self.documents), str(self.minimum), self.digest)
        return dict(zip(_METADATA, values, strict=True))


def _columns(file: ParquetRows, path: Path) -> NDArray[np.uint64]:
    """Return the columns of a file, uint64[2, n]."""
    total = sum(file.group_rows)
    if total > _MAX_ROWS_A_BYTE * path.stat().st_size:
        raise FormatError(path, None, f"is too small for the {total} features that it announces")
    columns = np.empty((len(_SCHEMA), total), np.uint64)
    start = 0
    for group in range(len(file.group_rows)):
        for rows in file.rows(group, None, [], _BATCH_BYTES):
            stop = start + len(rows)
            if stop > total:
                reason = f"contains more than the {total} features that it announces"
                raise FormatError(path, None, reason)
            for column, values in zip(columns, rows.columns, strict=True):
                column[start:stop] = values.to_numpy()
            start = stop
    return columns


def inverse_frequencies(counts: NDArray[np.uint64], documents: int) -> NDArray[np.int32]:
    """Return the inverse document frequencies of features, in 64ths: int32[n].

    idf = 1 + ln((1 + N) / (1 + count)), so 1 for a feature of all N documents: without that 1
    common words would weigh nothing, and a text has few others. The logarithm is rounded exactly,
    in decimals: one in binary differs between machines, and fingerprints with it.

    Args:
        counts: uint64[n], the number of documents with each feature.
        documents: The number of documents, N.

    Raises:
        ValueError: For a count above ``documents``.
    """
    if np.any(counts > documents):
        raise ValueError(f"counts must be up to {documents}, got {counts.max()}")
    limits = _limits(documents)
    reached = limits.size - np.searchsorted(limits, counts, side="left")
    return (IDF_ONE + reached).astype(np.int32)


@functools.lru_cache(maxsize=8)
def _limits(documents: int) -> NDArray[np.uint64]:
    """Return the largest counts with an idf of at least 65, 66, … 64ths, ascending.

    A rounded idf is u or more if ln((1 + N) / (1 + count)) >= (u - 1/2) / 64 - 1. Both sides are
    never equal, since e to the power of a fraction is irrational; and the exp of decimal numbers is
    correctly rounded. Takes 2 ms for a billion documents.
    """
    limits = []
    with localcontext(Context(prec=_DIGITS)):
        limit = (1 + documents) * (Decimal(-1) / (2 * IDF_ONE)).exp()
        step = (Decimal(-1) / IDF_ONE).exp()
        while limit >= 1:
            limits.append(int(limit) - 1)
            limit *= step
    return np.array(limits[::-1], np.uint64)


def idf_table_for(options: FeatureOptions, frequencies: DocumentFrequencies | None) -> IdfTable:
    """Return the idfs by which kernels multiply weights; an empty table for a weighting without.

    Raises:
        ValueError: If the weighting needs frequencies and there are none, or the other way round.
        MrDedupError: If the frequencies are of other features.
    """
    if options.uses_idf != (frequencies is not None):
        needed = "needs document frequencies" if options.uses_idf else "does not use them"
        raise ValueError(f"frequencies: the weighting {options.weighting} {needed}")
    if frequencies is None:
        return _NO_TABLE
    frequencies.check_features(options)
    return frequencies.table


def feature_description(options: FeatureOptions, frequencies: DocumentFrequencies | None) -> str:
    """Return a description of weighted features: only equal ones give comparable fingerprints."""
    return str(options) if frequencies is None else f"{options}, frequencies {frequencies.digest}"
