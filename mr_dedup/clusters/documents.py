"""The documents of clusters, as aligned columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class ClusteredDocuments:
    """The n documents of some whole clusters, in any order; every column has one entry each.

    Attributes:
        ids: Ids without nulls; they may repeat.
        files, positions: int64[n], which identify a document: the number of its file in the order
            in which files are read, and its position in the file.
        text_bytes: int64[n], the sizes of the texts.
        clusters: uint64[n], equal for documents of one cluster.
        fingerprints: uint64[n].
        has_fingerprint: bool[n]; a document without one, whose text is null, is in no cluster,
            whatever ``clusters`` is.
        texts: int64[n], equal for equal texts; None if texts are not compared.
        fields: Columns of large_string, or None.

    Raises:
        ValueError: For columns of another type or length.
    """

    ids: pa.LargeStringArray
    files: NDArray[np.int64]
    positions: NDArray[np.int64]
    text_bytes: NDArray[np.int64]
    clusters: NDArray[np.uint64]
    fingerprints: NDArray[np.uint64]
    has_fingerprint: NDArray[np.bool_]
    texts: NDArray[np.int64] | None = None
    fields: pa.Table | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.ids, pa.LargeStringArray) or self.ids.null_count:
            raise ValueError("ids: expected a pyarrow LargeStringArray without nulls")
        for name, dtype in _DTYPES.items():
            column = getattr(self, name)
            if column is not None and column.dtype != dtype:
                raise ValueError(f"{name}: expected {dtype}[n], got {column.dtype}")
        for name in [*_DTYPES, "fields"]:
            column = getattr(self, name)
            if column is not None and len(column) != len(self):
                raise ValueError(f"{name}: expected {len(self)} entries, got {len(column)}")
        for field in self.fields.schema if self.fields is not None else ():
            if field.type != pa.large_string():
                raise ValueError(f"fields: {field.name!r} is {field.type}, not large_string")

    def __len__(self) -> int:
        return len(self.ids)


_DTYPES = {
    "files": np.dtype(np.int64),
    "positions": np.dtype(np.int64),
    "text_bytes": np.dtype(np.int64),
    "clusters": np.dtype(np.uint64),
    "fingerprints": np.dtype(np.uint64),
    "has_fingerprint": np.dtype(np.bool_),
    "texts": np.dtype(np.int64),
}
