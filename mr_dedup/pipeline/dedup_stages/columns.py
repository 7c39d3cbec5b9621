"""The first stage if kept documents become rows of Parquet: which columns these have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.count_tables import EARLIER_COUNTS
from mr_dedup.jobs.columns import ColumnsJob, united_columns
from mr_dedup.pipeline.dedup_stages.contract import Completed, DedupOptions, RunJob
from mr_dedup.pipeline.dedup_stages.files import COLUMNS


def find_columns(folder: Path, options: DedupOptions, run_job: RunJob) -> Completed:
    """Write COLUMNS; raises as ``united_columns``."""
    with run_job(ColumnsJob(**options.of_documents), "columns") as output:
        columns = united_columns(table for _, table in output)
    return write_columns(folder, columns)


def write_columns(folder: Path, columns: pa.Schema) -> Completed:
    """Write COLUMNS."""
    with whole_file(folder / COLUMNS, overwrite=True) as file:
        file.write(columns.serialize().to_pybytes())
    return Completed([COLUMNS], {})


def read_columns(folder: Path, options: DedupOptions) -> pa.Schema | None:
    """Return COLUMNS, with those that kept documents get; None if there are no rows of Parquet."""
    if options.documents != "parquet":
        return None
    columns = pa.ipc.read_schema(pa.py_buffer((folder / COLUMNS).read_bytes()))
    for name in options.counted:
        columns = columns.append(EARLIER_COUNTS.field(name))
    return columns
