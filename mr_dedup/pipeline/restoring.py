"""Put back into documents what was cut out of them."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.inputs import local_path
from mr_dedup.files.io_errors import filling, reading
from mr_dedup.formats.compression import compressing, compression_by_suffix, decompressed_file
from mr_dedup.formats.cut_files import RESTORED_FROM
from mr_dedup.formats.parquet_rows import as_stored, parquet_file, parquet_writer, without_views
from mr_dedup.formats.parts import file_batches
from mr_dedup.formats.tables import one_array
from mr_dedup.passages.cutting import unspliced
from mr_dedup.passages.records import as_bytes, as_column, checksum
from mr_dedup.pipeline.result_files import ResultFiles, damage_reported
from mr_dedup.pipeline.results import DOCUMENTS, SUMMARY
from mr_dedup.pipeline.summary import ResultCounts, refuse_newer, summary_of
from mr_dedup.storage.uris import joined, name_below, without_secrets

_LINES_BYTES = 4 << 20
_ROWS = 1 << 12

_CUTS = "cuts"
_NO_RESULT = "not a result of mr-dedup passages or decontaminate"


class Restored(NamedTuple):
    """How many files were written, and how many documents had been cut."""

    files: int
    documents: int


def restore(result: str, files: ResultFiles, folder: Path) -> Restored:
    """Write the documents of a result as they were before passages or items were cut out.

    A file is written for each one below ``documents/``, of its name and format: JSON lines have the
    bytes of the records that were cut, rows of Parquet are equal to them. In memory: some records
    and their cuts.

    Args:
        result: The directory or URI of the result.
        files: Its files.
        folder: A directory where the documents are written.

    Raises:
        MrDedupError: If it is not a result with cuts, or cannot be read.
        FormatError: If its files are damaged, or were changed.
    """
    text_name, expected = _described(without_secrets(result), files)
    root = files.name_of(DOCUMENTS)
    remaining = {_name_of(path, result) for path in files.below(DOCUMENTS)}
    written = documents = 0
    for file, of_file in itertools.groupby(_rows(files), itemgetter("written_file")):
        if file not in remaining:
            where = files.name_of(_CUTS)
            raise FormatError(where, None, f"has cuts of {file!r}, which is not in {root}")
        remaining.remove(file)
        documents += _restore_file(files, root, folder, file, of_file, text_name)
        written += 1
    if documents != expected:
        reason = f"has cuts of {documents} documents; {SUMMARY} says {expected}"
        raise FormatError(files.name_of(_CUTS), None, reason)
    for file in sorted(remaining):
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            files.file(f"{DOCUMENTS}/{file}") as source,
            reading(source),
            filling(target),
            source.open("rb") as content,
            target.open("wb") as copy,
        ):
            # not copyfile, whose errors name the source, whichever is full
            shutil.copyfileobj(content, copy)
        written += 1
    return Restored(written, documents)


def _name_of(path: Path | str, result: str) -> str:
    """Return the name of a file below the documents of a result."""
    if isinstance(path, str):
        return name_below(path, joined(result, DOCUMENTS))
    return path.relative_to(local_path(result) / DOCUMENTS).as_posix()


def _described(result: str, files: ResultFiles) -> tuple[str, int]:
    """Return the field of texts of a result with cuts, and how many documents were cut."""
    if not files.exists():
        raise MrDedupError(f"{result}: no such directory")
    if not files.has(SUMMARY):
        raise MrDedupError(f"{result}: {_NO_RESULT}: no {SUMMARY}")
    summary, name = files.content(SUMMARY), files.name_of(SUMMARY)
    refuse_newer(result, summary)
    with summary_of(name):
        content = json.loads(summary)
        # the options that cut, of passages and of decontaminate
        if not {"cut", "action"} & content.keys():
            raise MrDedupError(f"{result}: {_NO_RESULT}")
        if content.get("cut", "none") == "none" and content.get("action") != "cut":
            raise MrDedupError(f"{result}: nothing was cut out of its documents")
        cut = ResultCounts.parse(result, name, summary).documents_cut
        return str(content["reading"]["text_field"]), cut


def _rows(files: ResultFiles) -> Iterator[dict[str, Any]]:
    """Yield the cuts of a result, in the order of documents."""
    for name, path in files.parts(_CUTS):
        with damage_reported(name):
            # all columns, so that damage to any is noticed
            for batch in file_batches(path, None, _ROWS):
                known = [each for each in RESTORED_FROM.names if each in batch.schema.names]
                batch = batch.select(known)
                if not batch.schema.equals(RESTORED_FROM):
                    raise FormatError(name, None, "has other columns than cuts have")
                yield from batch.to_pylist()


class _Cuts:
    """The cuts of one file, by the number of the record."""

    def __init__(self, rows: Iterator[dict[str, Any]], name: str) -> None:
        self.name = name
        self.documents = 0
        self._by_record = itertools.groupby(rows, itemgetter("written_row"))
        self._next: tuple[int, list[dict[str, Any]]] | None = None
        self._advance(-1)

    def _advance(self, last: int) -> None:
        number, rows = next(self._by_record, (None, None))
        if rows is None:
            self._next = None
            return
        if number is None or number <= last:
            raise FormatError(self.name, None, f"has cuts of record {number} after {last}")
        self._next = number, list(rows)

    def before(self, stop: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield the records below ``stop`` that were cut, and the cuts of each."""
        while self._next is not None and self._next[0] < stop:
            number, rows = self._next
            self._advance(number)
            self.documents += 1
            yield number, rows

    def require_end(self) -> None:
        """Raise FormatError if there are cuts of further records."""
        if self._next is not None:
            raise FormatError(self.name, None, f"has no record {self._next[0]}")

    def checked(self, row: int, content: bytes, cuts: Sequence[dict[str, Any]]) -> bytes:
        """Return restored content; raise FormatError if it is not what was cut."""
        if checksum(content) != cuts[0]["checksum"]:
            raise FormatError(self.name, f"record {row}", "is not what was left when it was cut")
        return content


def _restore_file(
    files: ResultFiles,
    root: str,
    folder: Path,
    file: str,
    rows: Iterator[dict[str, Any]],
    text_name: str,
) -> int:
    """Write one file; return how many of its documents had been cut."""
    target = folder / file
    target.parent.mkdir(parents=True, exist_ok=True)
    cuts = _Cuts(rows, f"{root}/{file}")
    with files.file(f"{DOCUMENTS}/{file}") as source, damage_reported(cuts.name):
        if file.endswith(".parquet"):
            _restore_rows(source, target, cuts, text_name)
        else:
            _restore_lines(source, target, cuts)
    cuts.require_end()
    return cuts.documents


def _restore_lines(source: Path, target: Path, cuts: _Cuts) -> None:
    compression = compression_by_suffix(source)
    row = 0
    with (
        reading(source),
        filling(target),
        decompressed_file(source.open("rb", buffering=0), cuts.name, compression) as file,
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
        stack.enter_context(filling(target))
        # a file of Python, whose errors have a number
        written = stack.enter_context(target.open("wb"))
        file, schema = parquet_file(source)
        stack.enter_context(file)
        writer = stack.enter_context(parquet_writer(written, without_views(schema)))
        for batch in file.iter_batches(_ROWS):
            table = pa.Table.from_batches([as_stored(batch)])
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
    if text_name not in table.column_names:
        raise FormatError(cuts.name, None, f"lacks the column {text_name!r}")
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
