"""A line in, a line out: documents that come by a pipe, and what an index answers.

Lines that have come are answered together, so that a change is forced to the disk once for all of
them; nobody who has written a whole line is kept waiting.
"""

from __future__ import annotations

import argparse
import codecs
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from mr_dedup.cli.streams import printable
from mr_dedup.formats.documents.options import MAX_RECORD_BYTES
from mr_dedup.formats.documents.rejects import Rejects, Report, bounded
from mr_dedup.formats.id_text import escape_id, unescape_id

if TYPE_CHECKING:
    from mr_dedup.cli.index_inputs import Input
    from mr_dedup.index.hamming_index import HammingIndex
    from mr_dedup.index.made_from import FingerprintMaker
    from mr_dedup.index.protocol import IndexMatches
    from mr_dedup.index.reader import IndexReader

_NAME = "standard input"
_CHECKED_AT_ONCE = 1 << 12
"""Documents that are compared with one another when they are added: a few milliseconds."""


@dataclass(frozen=True)
class Line:
    """What a line says: a document, or why it says none."""

    value: int = 0
    id: str | None = None
    fault: str | None = None


def answer_lines(index: HammingIndex | IndexReader, arguments: argparse.Namespace) -> int:
    """Answer the lines of standard input, as they come; return the exit code."""
    from mr_dedup.cli.index_inputs import asked_features, maker_for

    needs_id = index.named and arguments.action == "add"
    reader = _LineReader(lambda: maker_for(index, None, arguments), arguments)
    if asked_features(arguments):
        reader.need_maker()
    for block in _blocks():
        lines = [_needing_id(line) if needs_id else line for line in reader.read(*block)]
        for start in range(0, len(lines), _CHECKED_AT_ONCE):
            _write(_answers(index, lines[start : start + _CHECKED_AT_ONCE], arguments))
    return 0


def checking_lines(
    index: HammingIndex | IndexReader, inputs: Sequence[Input], arguments: argparse.Namespace
) -> int:
    """Print a line for each document of files; return the exit code."""
    from mr_dedup.cli.document_arguments import judge_reading
    from mr_dedup.cli.index_inputs import documents_of, maker_for, rejects_of

    maker = maker_for(index, inputs, arguments)
    needs_id = index.named and arguments.action == "add"
    with rejects_of(arguments) as rejects:
        for values, ids in documents_of(inputs, maker, rejects, arguments):
            for start in range(0, len(values), _CHECKED_AT_ONCE):
                part = slice(start, start + _CHECKED_AT_ONCE)
                numbers = values[part].tolist()
                names = [None] * len(numbers) if ids is None else ids[part].to_pylist()
                lines = [Line(v, id) for v, id in zip(numbers, names, strict=True)]
                if needs_id:
                    lines = [_needing_id(line) for line in lines]
                _write(_answers(index, lines, arguments))
        judge_reading(arguments, rejects.counts)
    return 0


def remove_lines(index: HammingIndex, arguments: argparse.Namespace) -> None:
    """Remove the documents whose ids are the lines of files, or of standard input.

    Of these each is answered: the id, and removed or unknown.
    """
    from mr_dedup.errors import MrDedupError

    removed = count = 0
    for name in arguments.files or ["-"]:
        for lines in _texts(name):
            faults = [_id_fault(line, index.named) for line in lines]
            sound = [line for line, fault in zip(lines, faults, strict=True) if fault is None]
            if name != "-" and len(sound) < len(lines):
                first = next(fault for fault in faults if fault)
                raise MrDedupError(f"{name}: {first}")
            known = iter(index.remove([unescape_id(line) for line in sound]).tolist())
            answers = [
                f"\t{fault}" if fault else f"{line}\t{'removed' if next(known) else 'unknown'}"
                for line, fault in zip(lines, faults, strict=True)
            ]
            removed += sum(answer.endswith("\tremoved") for answer in answers)
            count += len(lines)
            if name == "-":
                _write(answers)
    print(
        f"mr-dedup: {count:,} ids, {removed:,} of them removed, {len(index):,} in the index",
        file=sys.stderr,
    )


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


def _blocks(name: str = "-") -> Iterator[tuple[int, bytes]]:
    """Yield whole lines, as many as have come, and the byte at which they begin.

    Of a line that is too long there are no bytes.
    """
    from pathlib import Path

    from mr_dedup.formats.content import open_content
    from mr_dedup.formats.lines import line_blocks

    path = None if name == "-" else Path(name)
    with open_content(path, _NAME if path is None else name, None) as content:
        for block in line_blocks(content, 0, None, MAX_RECORD_BYTES):
            yield block.offset, bytes(memoryview(block.buffer)[: block.size])


def _split(block: bytes) -> list[bytes]:
    return [line.removesuffix(b"\r") for line in block.removesuffix(b"\n").split(b"\n")]


class _LineReader:
    """Reads lines: documents as JSON, or fingerprints, as the first line is that is not blank."""

    def __init__(
        self, make: Callable[[], FingerprintMaker | None], arguments: argparse.Namespace
    ) -> None:
        from mr_dedup.cli.document_arguments import read_options

        self._make = make
        self._maker: FingerprintMaker | None = None
        self._options = read_options(arguments)
        self._of_documents: bool | None = None

    def read(self, offset: int, block: bytes) -> list[Line]:
        """Return what each line of a block says, which begins at byte ``offset``."""
        if not block:
            return [Line(fault=f"is longer than {MAX_RECORD_BYTES} bytes")]
        unmarked = block if offset else block.removeprefix(codecs.BOM_UTF8)
        if self._of_documents is None and unmarked.strip():
            self._of_documents = unmarked.lstrip().startswith(b"{")
        if not self._of_documents:
            return [_fingerprint_line(line) for line in _split(unmarked)]
        self.need_maker()
        return self._documents(offset, block)

    def need_maker(self) -> None:
        """Have what makes fingerprints; MrDedupError if there is none, or options are unlike."""
        if self._maker is None:
            self._maker = self._make()

    def _documents(self, offset: int, block: bytes) -> list[Line]:
        """Return what lines of JSON say: all are decoded together, however many are rejected."""
        import numpy as np

        from mr_dedup.formats.documents.batch import BatchBuilder
        from mr_dedup.formats.documents.jsonl import read_jsonl
        from mr_dedup.formats.lines import LineBlock

        assert self._maker is not None
        builder = BatchBuilder(self._options)
        report = _LineReport(self._options.strict)
        lines = LineBlock(offset, bytearray(block), len(block))
        read = read_jsonl([lines], None, self._options, report, builder)
        found: list[tuple[int, Line]] = []
        for batch in [*read, *builder.finish()]:
            values = self._maker.of(batch.texts)
            columns = batch.offsets, values, batch.ids
            for position, value, id in zip(*(c.tolist() for c in columns), strict=True):
                found.append((position, Line(value, id)))
        found += [(at, Line(fault=printable(why))) for at, why in report.faults.items()]
        ends = np.flatnonzero(np.frombuffer(block.removesuffix(b"\n"), np.uint8) == ord("\n"))
        answers = [Line(fault="is empty")] * (ends.size + 1)
        # a byte order mark is before what is read of the first line
        rows = ends.searchsorted(np.array([position for position, _ in found], np.int64) - offset)
        for row, (_, line) in zip(rows.tolist(), found, strict=True):
            answers[row] = line
        return answers


class _LineReport(Report):
    """Takes why lines are rejected, all of them: ``faults``, by the byte at which each begins."""

    def __init__(self, strict: bool) -> None:
        super().__init__(_NAME, "byte", Rejects(), strict)
        self.faults: dict[int, str] = {}

    def reject(
        self,
        position: int,
        reason: str,
        line: int | None = None,
        text_field: str | None = None,
        rest_of_file: bool = False,
    ) -> None:
        """Take why the line at byte ``position`` is rejected; FormatError if strict."""
        super().reject(position, reason, line, text_field, rest_of_file)
        self.faults[position] = bounded(reason)


def _fingerprint_line(line: bytes) -> Line:
    """Return what a line of fingerprint and, after a TAB, id says."""
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


def _answers(
    index: HammingIndex | IndexReader, lines: Sequence[Line], arguments: argparse.Namespace
) -> list[str]:
    """Do what the action says with lines; return what is to be printed, a line each."""
    import numpy as np

    sound = [line for line in lines if line.fault is None]
    values = np.array([line.value for line in sound], np.uint64)
    ids = [line.id or "" for line in sound] if index.named else None
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
    named = iter([_name(line) for line in sound])
    near = iter(_near(found, len(sound), arguments.with_distance))
    return [
        f"\t{line.fault}" if line.fault is not None else next(named) + next(near) for line in lines
    ]


def _name(line: Line) -> str:
    """Return what a document is called: by its id, or else its fingerprint."""
    if line.id:
        return escape_id(line.id)
    return str(line.value - (1 << 64) if line.value >> 63 else line.value)


def _near(found: IndexMatches | None, count: int, with_distance: bool) -> list[str]:
    """Return for each of so many documents what is near it, each after a TAB."""
    near = [""] * count
    if found is not None:
        for query, match in zip(found.queries.tolist(), found, strict=True):
            bits = f":{match.distance}" if with_distance else ""
            near[query] += f"\t{escape_id(match.id)}{bits}"
    return near


def _write(answers: Sequence[str]) -> None:
    out = sys.stdout.buffer
    out.write("".join(f"{answer}\n" for answer in answers).encode(errors="surrogateescape"))
    out.flush()
