"""The signatures of all documents, row by row, between the stages of a de-duplication.

Arrow, not Parquet: writing and reading random keys as Parquet took 50 ns a key, twice, a tenth of a
whole run over 200,000 short texts.
"""

from __future__ import annotations

import contextlib
import mmap
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
) -> Iterator[tuple[SignatureMethod, Sequence[Signatures]]]:
    """Yield the signatures of all rows, one method after the other; raises FormatError.

    In parts, as they were written, one at least: views of the file, if there is one method.
    """
    schema = schema_of(methods)
    for number, method in enumerate(methods):
        fields = [i for i, each in enumerate(schema) if each.name.endswith(f"_{number}")]
        # all of them are views of the file, some are copies
        batches = _MappedBatches(path, None if len(fields) == len(schema) else fields)
        yield method, _Parts(batches, methods, number)


def signature_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all methods as they were written; raises FormatError."""
    yield from _MappedBatches(path, None)


class _MappedBatches(Sequence[pa.RecordBatch]):
    """The batches of a file that is mapped, of which one at a time has pages in memory.

    Pages of a batch are given back when the next one is taken. It stays valid: they are read again.
    """

    def __init__(self, path: Path, fields: list[int] | None) -> None:
        self._path = path
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        try:
            # a stage left it, whose checksums were compared
            with path.open("rb") as file:
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            content = pa.py_buffer(self._mapped)
            self._reader = pa.ipc.open_file(content, options=options)
        except (ValueError, pa.ArrowException) as error:
            raise FormatError(path, None, f"not a file of signatures: {error}") from error
        self._address = content.address
        self._read = slice(0, 0)
        self.schema: pa.Schema = self._reader.schema

    def __len__(self) -> int:
        return int(self._reader.num_record_batches)

    def __getitem__(self, number: int) -> pa.RecordBatch:  # type: ignore[override]
        if number >= len(self):
            raise IndexError(number)
        if self._read.stop > self._read.start:
            self._mapped.madvise(
                mmap.MADV_DONTNEED, self._read.start, self._read.stop - self._read.start
            )
        try:
            batch = self._reader.get_batch(number)
        except pa.ArrowException as error:
            raise FormatError(self._path, None, f"not a file of signatures: {error}") from error
        self._read = self._pages_of(batch)
        return batch

    def _pages_of(self, batch: pa.RecordBatch) -> slice:
        """Return the range of the file that the buffers of a batch are in, from a page on."""
        buffers = [each for column in batch.columns for each in column.buffers() if each]
        starts = [each.address - self._address for each in buffers]
        spans = [
            (start, start + each.size)
            for start, each in zip(starts, buffers, strict=True)
            if 0 <= start < len(self._mapped)
        ]
        if not spans:
            return slice(0, 0)
        first = min(start for start, _ in spans)
        return slice(first - first % mmap.PAGESIZE, max(stop for _, stop in spans))


class _Parts(Sequence[Signatures]):
    """The signatures by method ``number`` in batches; of an empty file one part without rows."""

    def __init__(
        self, batches: _MappedBatches, methods: Sequence[SignatureMethod], number: int
    ) -> None:
        self._batches = batches
        self._methods = methods
        self._number = number

    def __len__(self) -> int:
        return max(1, len(self._batches))

    def __getitem__(self, part: int) -> Signatures:  # type: ignore[override]
        if part >= len(self):
            raise IndexError(part)
        schema = self._batches.schema
        table = (
            pa.Table.from_batches([self._batches[part]])
            if len(self._batches)
            else schema.empty_table()
        )
        return signatures_in(table, self._methods, self._number)
