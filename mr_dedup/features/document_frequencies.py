"""Document frequencies: in how many documents of a collection each feature occurs.

By these a feature that few documents have weighs more than one that most have: its weight is
multiplied by its inverse document frequency (idf). Features are known by their hashes alone.
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
from mr_dedup.formats.outputs import whole_file
from mr_dedup.formats.parquet_rows import ParquetRows, open_parquet

IDF_ONE = 64
"""An idf of 1 as a whole number."""

MOST_DOCUMENTS = (1 << 63) - 1

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
"""Where the metadata of a file have what its columns do not."""

_GROUP_ROWS = 1 << 20
_BATCH_BYTES = 1 << 24

_MOST_ROWS_A_BYTE = 64
"""What is announced beyond that is damage: features that lie evenly take a 25th of a byte."""

_DIGITS = 60
"""Of the decimal numbers that idfs are rounded by: 40 more than whole numbers of 64 bits have."""


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """In how many of ``documents`` documents features occur, those that ``minimum`` or more have.

    ``hashes`` uint64[n] strictly ascend, ``counts`` uint64[n] are from ``minimum`` to
    ``documents``. ``features`` says what was counted, as ``FeatureOptions.unweighted``. In memory
    16 bytes a feature, and 15 to 30 more once texts are weighed by it.
    """

    features: str
    documents: int
    minimum: int
    hashes: NDArray[np.uint64]
    counts: NDArray[np.uint64]

    def __post_init__(self) -> None:
        if not 0 <= self.documents <= MOST_DOCUMENTS:
            raise ValueError(f"documents must be from 0 to 2**63 - 1, not {self.documents}")
        if not 1 <= self.minimum <= MOST_DOCUMENTS:
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
        """Return what ``write`` wrote.

        Raises FormatError for a file that is damaged or of another kind, MrDedupError if it cannot
        be read.
        """
        with open_parquet(Path(path), str(path)) as file:
            if not file.schema.equals(_SCHEMA):
                names = ", ".join(map(repr, file.columns[:5])) or "none"
                reason = f"holds no document frequencies, its columns are {names}"
                raise FormatError(path, None, reason)
            hashes, counts = _columns(file, Path(path))
        metadata = file.schema.metadata or {}
        if not all(key.encode() in metadata for key in _METADATA):
            raise FormatError(path, None, "lacks the metadata of document frequencies")
        told = [metadata[key.encode()] for key in _METADATA]
        try:
            features, documents, minimum, digest = (value.decode() for value in told)
            found = cls(features, int(documents), int(minimum), hashes, counts)
        except ValueError as error:
            raise FormatError(path, None, f"is damaged: {error}") from error
        if found.digest != digest:
            raise FormatError(path, None, f"is damaged: expected the digest {digest}")
        return found

    def write(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a Parquet file, which appears whole or not at all; 6 to 9 bytes a feature.

        Raises MrDedupError as ``outputs.whole_file``.
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
        """16 hexadecimal digits that tell these frequencies from others."""
        hashed = xxhash.xxh3_64(f"{self.features}\n{self.documents}\n{self.minimum}\n".encode())
        for column in (self.hashes, self.counts):
            hashed.update(np.ascontiguousarray(column, "<u8").data)
        return hashed.hexdigest()

    @property
    def idfs(self) -> NDArray[np.int32]:
        """The inverse document frequency of each feature, in 64ths, int32[n]."""
        return inverse_frequencies(self.counts, self.documents)

    @property
    def unknown_idf(self) -> int:
        """The idf, in 64ths, of a feature that is not here.

        It is taken to be in as many documents as it may be, ``minimum`` - 1, and in one at least,
        that which asks for it.
        """
        count = min(max(self.minimum - 1, 1), self.documents)
        return int(inverse_frequencies(np.array([count], np.uint64), self.documents)[0])

    @functools.cached_property
    def table(self) -> IdfTable:
        """What kernels find idfs in."""
        slots = 1 << (self.hashes.size * 3 // 2).bit_length()
        keys, idfs = np.empty(slots, np.uint64), np.zeros(slots, np.uint16)
        table = IdfTable(keys, idfs, np.int32(self.unknown_idf))
        fill(self.hashes, self.idfs.astype(np.uint16), table)
        return table

    def refuse_others(self, options: FeatureOptions) -> None:
        """Raise MrDedupError unless these are frequencies of the features of ``options``."""
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
    if total > _MOST_ROWS_A_BYTE * path.stat().st_size:
        raise FormatError(path, None, f"is too small for the {total} features that it announces")
    columns = np.empty((len(_SCHEMA), total), np.uint64)
    start = 0
    for group in range(len(file.group_rows)):
        for rows in file.rows(group, None, [], _BATCH_BYTES):
            stop = start + len(rows)
            if stop > total:
                raise FormatError(path, None, f"holds more than the {total} features it announces")
            for column, values in zip(columns, rows.columns, strict=True):
                column[start:stop] = values.to_numpy()
            start = stop
    return columns


def inverse_frequencies(counts: NDArray[np.uint64], documents: int) -> NDArray[np.int32]:
    """Return the idfs of features in ``counts`` uint64[n] of so many documents: int32[n] in 64ths.

    1 + ln((1 + documents) / (1 + count)), so 1 for a feature of all documents: without that 1
    common words would weigh nothing, and a text has few others. Rounded exactly, hence the same
    on every machine: a logarithm in binary is not. Raises ValueError for a count above
    ``documents``.
    """
    if np.any(counts > documents):
        raise ValueError(f"counts must be up to {documents}, got {counts.max()}")
    limits = _limits(documents)
    reached = limits.size - np.searchsorted(limits, counts, side="left")
    return (IDF_ONE + reached).astype(np.int32)


@functools.lru_cache(maxsize=8)
def _limits(documents: int) -> NDArray[np.uint64]:
    """Return the largest count with an idf of at least 65, 66, … 64ths; ascending, so backwards.

    An idf of u or more, rounded, is ln((1 + documents) / (1 + count)) >= (u - 1/2) / 64 - 1. Never
    equal, for e to the power of a fraction is none; and decimal numbers have an exp that is defined
    to the last digit.
    """
    limits = []
    with localcontext(Context(prec=_DIGITS)):
        limit = (1 + documents) * (Decimal(-1) / (2 * IDF_ONE)).exp()
        step = (Decimal(-1) / IDF_ONE).exp()
        while limit >= 1:
            limits.append(int(limit) - 1)
            limit *= step
    return np.array(limits[::-1], np.uint64)


def weighing(options: FeatureOptions, frequencies: DocumentFrequencies | None) -> IdfTable:
    """Return what kernels are to weigh features by, an empty table where there is no idf.

    Raises ValueError if the weighting needs frequencies and there are none, or the other way round;
    MrDedupError if they are of other features.
    """
    if options.uses_idf != (frequencies is not None):
        needed = "needs document frequencies" if options.uses_idf else "makes no use of them"
        raise ValueError(f"frequencies: the weighting {options.weighting} {needed}")
    if frequencies is None:
        return _NO_TABLE
    frequencies.refuse_others(options)
    return frequencies.table


def described(options: FeatureOptions, frequencies: DocumentFrequencies | None) -> str:
    """Return what fingerprints are made from: they can be compared only if it is the same."""
    return str(options) if frequencies is None else f"{options}, frequencies {frequencies.digest}"
