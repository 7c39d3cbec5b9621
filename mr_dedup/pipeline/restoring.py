"""Put back into documents what was cut out of them."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.inputs import local_path
from mr_dedup.files.io_errors import reading
from mr_dedup.formats.compression import compressing, compression_by_suffix, decompressed_file
from mr_dedup.formats.passage_files import CUTS
from mr_dedup.formats.tables import one_array, read_table
from mr_dedup.passages.cutting import unspliced
from mr_dedup.passages.records import as_bytes, as_column, checksum
from mr_dedup.pipeline.result_files import ResultFiles, damage_reported
from mr_dedup.pipeline.results import DOCUMENTS, SUMMARY
from mr_dedup.pipeline.summary import require_version
from mr_dedup.storage.uris import joined, name_below

_LINES_BYTES = 4 << 20
_ROWS = 1 << 12


class Restored(NamedTuple):
    """How many files were written, and how many documents had been cut."""

    files: int
    documents: int


def restore(result: str, files: ResultFiles, folder: Path) -> Restored:
    """Write the documents of a result of ``passages`` as they were before they were cut.

    A file is written for each one below ``documents/``, of its name and format: JSON lines have the
    bytes of the records that were read, rows of Parquet are equal to them. In memory: the cuts of a
    part of the documents, and some records.

    Args:
        result: What messages call the result.
        files: Its files.
        folder: A directory where the documents are written.

    Raises:
        MrDedupError: If the result has no cuts, or cannot be read.
        FormatError: If its files are damaged, or were changed.
    """
    text_name = _text_name(result, files.content(SUMMARY))
    root = files.name_of(DOCUMENTS)
    remaining = {_name_of(path, result) for path in files.below(DOCUMENTS)}
    written = documents = 0
    for name, path in files.parts("cuts"):
        with damage_reported(name):
            cuts = read_table(path, CUTS.names)
        for file, of_file in _by_file(cuts):
            if file not in remaining:
                raise FormatError(name, None, f"has cuts of {file!r}, which is not in {root}")
            remaining.remove(file)
            documents += _restore_file(files, root, folder, file, of_file, text_name)
            written += 1
    for file in sorted(remaining):
        with files.file(f"{DOCUMENTS}/{file}") as source, reading(source):
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        written += 1
    return Restored(written, documents)


def _name_of(path: Path | str, result: str) -> str:
    """Return the name of a file below the documents of a result."""
    if isinstance(path, str):
        return name_below(path, joined(result, DOCUMENTS))
    return path.relative_to(local_path(result) / DOCUMENTS).as_posix()


def _text_name(result: str, summary: bytes) -> str:
    """Return the name of the field of texts that a summary states."""
    try:
        require_version(result, summary)
        content = json.loads(summary)
        cut, name = content.get("cut"), content["reading"]["text_field"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(result, None, f"its {SUMMARY} is not one of mr-dedup: {error}") from error
    if cut in (None, "none"):
        raise MrDedupError(f"{result}: nothing was cut out of its documents")
    return str(name)


def _by_file(cuts: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the files of cuts, which follow one another, and the cuts of each."""
    names = one_array(cuts["written_file"]).dictionary_encode()
    indices = names.indices.to_numpy()
    edges = np.append(np.flatnonzero(np.diff(indices, prepend=-1)), indices.size)
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield names.dictionary[int(indices[start])].as_py(), cuts.slice(start, stop - start)


class _Cuts:
    """The cuts of one file, by the number of the record."""

    def __init__(self, table: pa.Table, name: str) -> None:
        self.name = name
        self._table = table
        rows = table["written_row"].to_numpy()
        self.rows, starts = np.unique(rows, return_index=True)
        self._edges = np.append(starts, rows.size)
        self.next = 0

    def before(self, stop: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield the records below ``stop`` that were cut, and the cuts of each."""
        while self.next < self.rows.size and self.rows[self.next] < stop:
            first, last = self._edges[self.next], self._edges[self.next + 1]
            yield int(self.rows[self.next]), self._table.slice(first, last - first).to_pylist()
            self.next += 1

    def require_end(self) -> None:
        """Raise FormatError if there are cuts of further records."""
        if self.next < self.rows.size:
            raise FormatError(self.name, None, f"has no record {self.rows[self.next]}")

    def checked(self, row: int, content: bytes, cuts: Sequence[dict[str, Any]]) -> bytes:
        """Return restored content; raise FormatError if it is not what was cut."""
        if checksum(content) != cuts[0]["checksum"]:
            raise FormatError(self.name, f"record {row}", "is not what was left when it was cut")
        return content


def _restore_file(
    files: ResultFiles, root: str, folder: Path, file: str, table: pa.Table, text_name: str
) -> int:
    """Write one file; return how many of its documents had been cut."""
    target = folder / file
    target.parent.mkdir(parents=True, exist_ok=True)
    cuts = _Cuts(table, f"{root}/{file}")
    with files.file(f"{DOCUMENTS}/{file}") as source, damage_reported(cuts.name):
        if file.endswith(".parquet"):
            _restore_rows(source, target, cuts, text_name)
        else:
            _restore_lines(source, target, cuts)
    cuts.require_end()
    return int(cuts.rows.size)


def _restore_lines(source: Path, target: Path, cuts: _Cuts) -> None:
    compression = compression_by_suffix(source)
    opened: Any = source.open("rb", buffering=0)
    if compression:
        opened = decompressed_file(opened, cuts.name, compression)
    row = 0
    with (
        reading(source),
        opened as file,
        target.open("wb") as written,
        compressing(written, compression) as stream,
    ):
        while lines := file.readlines(_LINES_BYTES):
            for number, of_line in cuts.before(row + len(lines)):
                lines[number - row] = _restored_line(lines[number - row], number, of_line, cuts)
            stream.write(b"".join(lines))
            row += len(lines)


def _restored_line(
    line: bytes, number: int, of_line: Sequence[dict[str, Any]], cuts: _Cuts
) -> bytes:
    edits = [cut for cut in of_line if cut["json_start"] is not None]
    starts, removed, written = (
        [edit[name] for edit in edits] for name in ("json_start", "json_removed", "json_written")
    )
    try:
        line = unspliced(line, starts, removed, written)
    except ValueError as error:
        raise FormatError(cuts.name, f"record {number}", str(error)) from error
    return cuts.checked(number, line, of_line)


def _restore_rows(source: Path, target: Path, cuts: _Cuts, text_name: str) -> None:
    row = 0
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(pq.ParquetFile(source, page_checksum_verification=True))
        schema = file.schema_arrow
        writer = stack.enter_context(pq.ParquetWriter(target, schema, compression="zstd"))
        for batch in file.iter_batches(_ROWS):
            table = pa.Table.from_batches([batch], schema)
            found = dict(cuts.before(row + len(table)))
            if found:
                table = _restored_rows(table, found, row, cuts, text_name)
            writer.write_table(table)
            row += len(table)


def _restored_rows(
    table: pa.Table,
    found: dict[int, list[dict[str, Any]]],
    first: int,
    cuts: _Cuts,
    text_name: str,
) -> pa.Table:
    index = table.column_names.index(text_name)
    field = table.schema.field(index)
    texts = as_bytes(one_array(table.column(index))).to_pylist()
    for number, of_row in found.items():
        text = (texts[number - first] or b"").decode()
        try:
            restored = _restored_text(text, of_row)
        except ValueError as error:
            raise FormatError(cuts.name, f"row {number}", str(error)) from error
        texts[number - first] = cuts.checked(number, restored.encode(), of_row)
    column = as_column(pa.array(texts, pa.large_binary()), field.type)
    return table.set_column(index, field, column)


def _restored_text(text: str, of_row: Sequence[dict[str, Any]]) -> str:
    """Return a text with its cuts, whose offsets are in code points."""
    pieces: list[str] = []
    at = size = 0
    for cut in of_row:
        stop = at + cut["start"] - size
        after = stop + bool(cut["space"])
        if not at <= stop <= after <= len(text):
            raise ValueError(f"has {len(text)} characters, too few for a cut at {cut['start']}")
        pieces += [text[at:stop], cut["text"]]
        at, size = after, cut["start"] + len(cut["text"])
    return "".join([*pieces, text[at:]])
