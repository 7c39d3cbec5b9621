"""What is known of the documents of some clusters: aligned columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class ClusteredDocuments:
    """The n documents of some whole clusters, in any order; every column has one entry each.

    ``ids`` is a LargeStringArray without nulls; ids may repeat. ``files`` int64[n], the number of
    a document's file in the order in which files are read, and ``places`` int64[n], as in
    DocumentBatch, name a document for good. ``text_bytes`` int64[n] are the sizes of the texts.

    ``clusters`` uint64[n]: documents with equal ones are a cluster. ``fingerprints`` uint64[n];
    ``exist`` bool[n] says which documents have one: the others, whose text is null, are in no
    cluster whatever ``clusters`` says.

    ``texts`` int64[n] is the number of each document's text: where it is the same, so is the
    text. None if nothing is known of texts. ``fields`` is a Table of large_string columns, or None.

    Raises ValueError for columns of another type or length.
    """

    ids: pa.LargeStringArray
    files: NDArray[np.int64]
    places: NDArray[np.int64]
    text_bytes: NDArray[np.int64]
    clusters: NDArray[np.uint64]
    fingerprints: NDArray[np.uint64]
    exist: NDArray[np.bool_]
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
    "places": np.dtype(np.int64),
    "text_bytes": np.dtype(np.int64),
    "clusters": np.dtype(np.uint64),
    "fingerprints": np.dtype(np.uint64),
    "exist": np.dtype(np.bool_),
    "texts": np.dtype(np.int64),
}
