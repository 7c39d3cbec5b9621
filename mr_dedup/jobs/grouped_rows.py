"""Which documents are compared with which, by their places: what a job of pairs is told of each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.formats.tables import read_table

WHOLE = 2
"""The side of documents all of whose pairs count; those of sides 0 and 1 make pairs across."""

_COLUMNS = ("numbers", "keys", "sides", "lengths")
_RANGES_KEY = b"mr_dedup.ranges"


@dataclass(frozen=True)
class GroupedRows:
    """What goes where: n rows, as many of a document as it goes to reduce keys.

    ``numbers`` int64[n] are places among all documents, ascending, ``keys`` int64[n] reduce keys,
    ``sides`` int64[n] 0, 1 or WHOLE, and ``lengths`` int64[n] those of texts in bytes. ``ranges``
    are where the documents of each chunk start and stop.
    """

    numbers: NDArray[np.int64]
    keys: NDArray[np.int64]
    sides: NDArray[np.int64]
    lengths: NDArray[np.int64]
    ranges: dict[int, tuple[int, int]]

    def between(self, start: int, stop: int) -> GroupedRows:
        """Return those whose numbers are from ``start`` to ``stop``."""
        these = slice(*np.searchsorted(self.numbers, [start, stop]).tolist())
        columns = {name: getattr(self, name)[these] for name in _COLUMNS}
        return GroupedRows(**columns, ranges=self.ranges)

    @classmethod
    def read(cls, path: Path) -> GroupedRows:
        """Return what ``write`` wrote; raises FormatError where it is damaged."""
        try:
            table = read_table(path)
            ranges = json.loads(table.schema.metadata[_RANGES_KEY])
            columns = {name: table[name].to_numpy() for name in _COLUMNS}
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise FormatError(path, None, f"does not say what is compared: {error}") from error
        known = {int(chunk): tuple(range) for chunk, range in ranges.items()}
        return cls(**columns, ranges=known)

    def write(self, path: Path) -> None:
        """Write them to ``path``, Parquet with checksums."""
        table = pa.table({name: getattr(self, name) for name in _COLUMNS})
        table = table.replace_schema_metadata({_RANGES_KEY: json.dumps(self.ranges)})
        pq.write_table(table, path, write_page_checksum=True, use_dictionary=False)
