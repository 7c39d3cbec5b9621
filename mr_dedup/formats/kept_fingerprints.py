"""The fingerprints of kept documents, which a result has for later runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.fingerprint_parquet import FINGERPRINT, ID, LENGTH, create_table_parts
from mr_dedup.formats.parts import PART_ROWS

FILE = "file"
"""The column of fingerprints with the file of a document below documents/."""


def write_fingerprints(
    folder: Path,
    features: str,
    rows: Iterator[pa.RecordBatch],
    kept: NDArray[np.bool_],
    files: Sequence[tuple[str, int]],
    part_rows: int = PART_ROWS,
    first: int = 0,
) -> list[str]:
    """Write the fingerprints of the kept documents for later runs; return the names of the parts.

    ``rows`` are id, fingerprint and length of all documents, ``kept`` bool[n] which of them are;
    ``files`` have these, so many each, in their order; ``first`` is the number of the first part.
    """
    names = pa.array([name for name, _ in files], pa.large_string())
    number_of = np.repeat(np.arange(len(files)), [count for _, count in files])
    done = written = 0
    with create_table_parts(folder, features, [FILE], part_rows, first) as (table, parts):
        for batch in rows:
            chosen = batch.filter(pa.array(kept[done : done + len(batch)]))
            done += len(batch)
            numbers = number_of[written : written + len(chosen)]
            written += len(chosen)
            values = chosen.column(FINGERPRINT)
            table.write(
                chosen.column(ID),
                values.fill_null(0).to_numpy().view(np.uint64),
                values.is_valid().to_numpy(zero_copy_only=False),
                chosen.column(LENGTH).to_numpy(),
                pa.table({FILE: names.take(pa.array(numbers))}),
            )
    return parts.names
