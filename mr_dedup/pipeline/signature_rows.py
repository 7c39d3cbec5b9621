"""The signatures of all documents, row by row, between the stages of a de-duplication.

Arrow, not Parquet: writing and reading random keys as Parquet took 50 ns a key, twice, a tenth of a
whole run over 200,000 short texts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from mr_dedup.errors import FormatError
from mr_dedup.files.outputs import whole_file
from mr_dedup.signatures.columns import schema_of, signatures_in
from mr_dedup.signatures.protocol import SignatureMethod, Signatures


@contextlib.contextmanager
def signature_writer(
    path: Path, methods: Sequence[SignatureMethod]
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield what writes the signatures of rows; nothing if there are no methods."""
    if not methods:
        yield lambda table: None
        return
    schema = pa.schema(schema_of(methods))
    with (
        whole_file(path, overwrite=True) as file,
        pa.ipc.new_file(file, schema) as writer,
    ):
        yield lambda table: writer.write_table(table.select(schema.names).cast(schema))


def read_signatures(
    path: Path, methods: Sequence[SignatureMethod]
) -> Iterator[tuple[SignatureMethod, list[Signatures]]]:
    """Yield the signatures of all rows, one method after the other; raises FormatError.

    In parts, as they were written, one at least: views of the file, if there is one method.
    """
    schema = schema_of(methods)
    for number, method in enumerate(methods):
        fields = [i for i, each in enumerate(schema) if each.name.endswith(f"_{number}")]
        # all of them are views of the file, some are copies
        with _reader(path, None if len(fields) == len(schema) else fields) as reader:
            batches = [reader.get_batch(part) for part in range(reader.num_record_batches)]
            schema_read = reader.schema
        tables = [pa.Table.from_batches([batch]) for batch in batches]
        tables = tables or [schema_read.empty_table()]
        yield method, [signatures_in(table, methods, number) for table in tables]


def signature_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all methods as they were written; raises FormatError."""
    with _reader(path, None) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


@contextlib.contextmanager
def _reader(path: Path, fields: list[int] | None) -> Iterator[pa.ipc.RecordBatchFileReader]:
    try:
        # a stage left it, whose checksums were compared
        with pa.memory_map(str(path)) as source:
            yield pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=fields))
    except pa.ArrowException as error:
        raise FormatError(path, None, f"not a file of signatures: {error}") from error
