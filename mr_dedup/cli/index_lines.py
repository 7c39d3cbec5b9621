"""Lines of documents from standard input or files, and a line of output for each.

All whole lines that have arrived are processed together, so that a change is forced to the disk
once for them; no line waits for more input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from mr_dedup.cli.streams import print_message, printable
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.options import MAX_RECORD_BYTES
from mr_dedup.formats.documents.rejects import Rejects, Report, bounded
from mr_dedup.formats.id_text import escape_id, unescape_id
from mr_dedup.formats.lines import without_marks

if TYPE_CHECKING:
    from mr_dedup.cli.index_inputs import IndexInput
    from mr_dedup.index.fingerprint_options import Fingerprinter
    from mr_dedup.index.hamming_index import HammingIndex
    from mr_dedup.index.protocol import IndexMatches
    from mr_dedup.index.reader import IndexReader

_NAME = "standard input"
_BATCH_LINES = 1 << 12
"""Documents of one change, which are compared with one another: a few milliseconds."""


@dataclass(frozen=True)
class Line:
    """A document, or the fault of a line that is not one."""

    value: int = 0
    id: str | None = None
    fault: str | None = None


def respond_to_lines(
    index: HammingIndex | IndexReader,
    arguments: argparse.Namespace,
    max_line_bytes: int = MAX_RECORD_BYTES,
) -> int:
    """Print a line for each line of standard input, as they come; return the exit code."""
    from mr_dedup.cli.index_inputs import fingerprinter_for, given_options

    reader = _LineReader(
        lambda: fingerprinter_for(index, None, arguments), arguments, max_line_bytes
    )
    if given_options(arguments):
        reader.need_fingerprinter()
    for block in _blocks("-", max_line_bytes):
        _respond(index, reader.read(*block), arguments)
    return 0


def respond_to_files(
    index: HammingIndex | IndexReader, inputs: Sequence[IndexInput], arguments: argparse.Namespace
) -> int:
    """Print a line for each document of files; return the exit code."""
    from mr_dedup.cli.document_arguments import check_rejected
    from mr_dedup.cli.index_inputs import documents_of, fingerprinter_for, reported_rejects

    fingerprinter = fingerprinter_for(index, inputs, arguments)
    with reported_rejects(arguments) as rejects:
        for values, ids in documents_of(inputs, fingerprinter, rejects, arguments):
            for start in range(0, len(values), _BATCH_LINES):
                part = slice(start, start + _BATCH_LINES)
                numbers = values[part].tolist()
                names = [None] * len(numbers) if ids is None else ids[part].to_pylist()
                lines = [Line(v, id) for v, id in zip(numbers, names, strict=True)]
                _respond(index, lines, arguments)
        check_rejected(arguments, rejects.counts)
    return 0


def _respond(
    index: HammingIndex | IndexReader, lines: list[Line], arguments: argparse.Namespace
) -> None:
    """Apply the action to lines, and print a line for each."""
    if index.named and arguments.action == "add":
        lines = [_needing_id(line) for line in lines]
    for start in range(0, len(lines), _BATCH_LINES):
        _write(_output(index, lines[start : start + _BATCH_LINES], arguments))


def remove_lines(index: HammingIndex, arguments: argparse.Namespace) -> None:
    """Remove the documents whose ids are the lines of files, or of standard input.

    For each line of standard input prints the id, and ``removed`` or ``unknown``.
    """

    removed = count = 0
    for name in arguments.files or ["-"]:
        for lines in _texts(name):
            faults = [_id_fault(line, index.named) for line in lines]
            valid = [line for line, fault in zip(lines, faults, strict=True) if fault is None]
            if name != "-" and len(valid) < len(lines):
                first = next(fault for fault in faults if fault)
                raise MrDedupError(f"{name}: {first}")
            known = iter(index.remove([unescape_id(line) for line in valid]).tolist())
            output = [
                f"\t{fault}" if fault else f"{line}\t{'removed' if next(known) else 'unknown'}"
                for line, fault in zip(lines, faults, strict=True)
            ]
            removed += sum(line.endswith("\tremoved") for line in output)
            count += len(lines)
            if name == "-":
                _write(output)
    print_message(f"{count:,} ids, {removed:,} of them removed, {len(index):,} in the index")


def _id_fault(line: str, named: bool) -> str | None:
    from mr_dedup.index.ids import Ids
    from mr_dedup.index.state import parsed_fingerprints

    try:
        if named:
            Ids.of([line])
        else:
            parsed_fingerprints([line])
    except ValueError as error:
        return printable(str(error))
    return None


def _texts(name: str) -> Iterator[list[str]]:
    """Yield the lines of a file, or of standard input as they come."""
    for _, block in _blocks(name):
        yield [line.decode(errors="backslashreplace") for line in _split(block)]


def _blocks(name: str, max_line_bytes: int = MAX_RECORD_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines, as many as have arrived, and the byte at which they begin.

    A line that is too long has no bytes.
    """
    from pathlib import Path

    from mr_dedup.formats.content import open_content
    from mr_dedup.formats.lines import line_blocks

    path = None if name == "-" else Path(name)
    with open_content(path, _NAME if path is None else name, None) as content:
        for block in line_blocks(content, 0, None, max_line_bytes):
            yield block.offset, bytes(memoryview(block.buffer)[: block.size])


def _split(block: bytes) -> list[bytes]:
    lines = without_marks(block).removesuffix(b"\n").split(b"\n")
    return [line.removesuffix(b"\r") for line in lines]


class _LineReader:
    """Reads lines of JSON or of fingerprints; the first line that is not blank decides."""

    def __init__(
        self,
        make: Callable[[], Fingerprinter | None],
        arguments: argparse.Namespace,
        max_line_bytes: int,
    ) -> None:
        from mr_dedup.cli.document_arguments import read_options

        self._make = make
        self._arguments = arguments
        self._max_line_bytes = max_line_bytes
        self._fingerprinter: Fingerprinter | None = None
        self._options = read_options(arguments)
        self._of_documents: bool | None = None

    def read(self, offset: int, block: bytes) -> list[Line]:
        """Return the lines of a block that begins at byte ``offset``."""
        if not block:
            return [Line(fault=f"is longer than {self._max_line_bytes} bytes")]
        if self._of_documents is None and (begin := without_marks(block).lstrip()):
            self._of_documents = begin.startswith(b"{")
        if not self._of_documents:
            return [_fingerprint_line(line) for line in _split(block)]
        self.need_fingerprinter()
        return self._documents(offset, block)

    def need_fingerprinter(self) -> None:
        """Make the fingerprinter; MrDedupError if options are unknown, or differ."""
        if self._fingerprinter is None:
            self._fingerprinter = self._make()

    def _documents(self, offset: int, block: bytes) -> list[Line]:
        """Return lines of JSON, which are decoded together, however many are rejected."""
        import numpy as np

        from mr_dedup.cli.index_inputs import ids_to_add
        from mr_dedup.formats.documents.batch import BatchBuilder
        from mr_dedup.formats.documents.jsonl import read_jsonl
        from mr_dedup.formats.lines import LineBlock

        assert self._fingerprinter is not None
        builder = BatchBuilder(self._options)
        report = _LineReport(self._options.strict)
        lines = LineBlock(offset, bytearray(block), len(block))
        read = read_jsonl([lines], None, self._options, report, builder)
        found: list[tuple[int, Line]] = []
        for batch in [*read, *builder.finish()]:
            values = self._fingerprinter.of(batch.texts)
            columns = batch.offsets, values, ids_to_add(batch, self._arguments)
            for position, value, id in zip(*(c.tolist() for c in columns), strict=True):
                found.append((position, Line(value, id)))
        found += [(at, Line(fault=printable(why))) for at, why in report.faults.items()]
        ends = np.flatnonzero(np.frombuffer(block.removesuffix(b"\n"), np.uint8) == ord("\n"))
        result = [Line(fault="is empty")] * (ends.size + 1)
        # after a byte order mark the first line begins later than its row
        rows = ends.searchsorted(np.array([position for position, _ in found], np.int64) - offset)
        for row, (_, line) in zip(rows.tolist(), found, strict=True):
            result[row] = line
        return result


class _LineReport(Report):
    """Takes the reasons why lines are rejected: ``faults``, by the byte at which a line begins."""

    def __init__(self, strict: bool) -> None:
        super().__init__(_NAME, "byte", Rejects(), strict)
        self.faults: dict[int, str] = {}

    def reject(self, offset: int, reason: str, *details: Any, **more: Any) -> None:
        """Add the reason of the line at byte ``offset``; FormatError if strict."""
        super().reject(offset, reason, *details, **more)
        self.faults[offset] = bounded(reason)


def _fingerprint_line(line: bytes) -> Line:
    """Return the document of a line: a fingerprint and, after a TAB, an id."""
    from mr_dedup.formats.text import parse_one

    number, tab, id = line.partition(b"\t")
    try:
        value = parse_one(number)
    except ValueError as error:
        shown = number[:40].decode(errors="backslashreplace")
        return Line(fault=f"{error}, found {printable(shown)!r}")
    return Line(value, unescape_id(id.decode(errors="backslashreplace")) if tab else None)


def _needing_id(line: Line) -> Line:
    from mr_dedup.index.ids import MAX_ID_BYTES

    if line.fault is not None:
        return line
    size = 0 if line.id is None else len(line.id.encode(errors="surrogatepass"))
    if size == 0:
        return Line(fault="has no id")
    return line if size <= MAX_ID_BYTES else Line(fault=f"its id is of {size:,} bytes")


def _output(
    index: HammingIndex | IndexReader, lines: Sequence[Line], arguments: argparse.Namespace
) -> list[str]:
    """Apply the action to lines; return the line of output for each."""
    import numpy as np

    valid = [line for line in lines if line.fault is None]
    values = np.array([line.value for line in valid], np.uint64)
    ids = [line.id or "" for line in valid] if index.named else None
    options: dict[str, Any] = {}
    if arguments.action == "query" or arguments.check:
        options = {"k": arguments.k, "limit": arguments.limit}
    found = None
    if arguments.action == "query":
        found = index.query(values, **options)
    elif arguments.check:
        writer = cast("HammingIndex", index)
        found = writer.check_and_add(values, ids, only_new=arguments.only_new, **options).matches
    else:
        cast("HammingIndex", index).add(values, ids)
    named = iter([_name(line) for line in valid])
    matches = iter(_matches(found, len(valid), arguments.with_distance))
    return [
        f"\t{line.fault}" if line.fault is not None else next(named) + next(matches)
        for line in lines
    ]


def _name(line: Line) -> str:
    """Return the id of a document, or else its fingerprint."""
    from mr_dedup.index.protocol import fingerprint_id

    return escape_id(line.id) if line.id else fingerprint_id(line.value)


def _matches(found: IndexMatches | None, count: int, with_distance: bool) -> list[str]:
    """Return the matches of each of ``count`` documents, each after a TAB."""
    columns = [""] * count
    if found is not None:
        for query, match in zip(found.queries.tolist(), found, strict=True):
            bits = f":{match.distance}" if with_distance else ""
            columns[query] += f"\t{escape_id(match.id)}{bits}"
    return columns


def _write(lines: Sequence[str]) -> None:
    out = sys.stdout.buffer
    out.write("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))
    out.flush()
