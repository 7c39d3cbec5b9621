"""Documents as JSON lines, decoded a quarter of a megabyte at a time.

A block of lines is decoded in one call, with only the members that are needed, which stay as they
are in JSON; a block with anything unusual is decoded again line by line. Texts and ids are decoded
without a Python string for each, see ``json_strings``. ``pyarrow.json`` counts objects, not lines,
and accepts what is not UTF-8.
"""

from __future__ import annotations

import codecs
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch, are_blank
from mr_dedup.formats.documents.binary_files import binary_format, is_binary
from mr_dedup.formats.documents.html_process import Page
from mr_dedup.formats.documents.http_body import looks_like_html
from mr_dedup.formats.documents.json_members import (
    PLACEHOLDERS,
    all_member_spans,
    members_decoder,
    members_of,
    standard_json,
)
from mr_dedup.formats.documents.json_strings import texts_of
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import Report, listed_names
from mr_dedup.formats.lines import LineBlock
from mr_dedup.formats.value_text import float_text

_BLANKS = b" \t\r\n"
_QUOTE = ord('"')
_NOTHING = (b"", b"null", b"NaN")
"""What stands for a value that is missing: pandas writes NaN."""

_BLANK = re.compile(rb"[ \t\r\n]*")


def read_jsonl(
    blocks: Iterable[LineBlock],
    first_line: int | None,
    options: ReadOptions,
    report: Report,
    builder: BatchBuilder,
) -> Iterator[DocumentBatch]:
    """Yield the documents of lines; the last ones stay in ``builder``.

    Blank lines, and byte order marks before a line, are skipped. A line is rejected if it is longer
    than the options allow, is not JSON (RFC 8259, but for NaN, Infinity and halves of surrogate
    pairs where they are not read) or not an object, has no text, or one that is not Unicode. Ids
    may be of any type that has a form as text. A document without an id, or with an empty one,
    gets the id ``FILE:OFFSET``. A file of another format, as ``file_reason`` says, is one reject.

    Args:
        blocks: the lines.
        first_line: the number of the first line in its file, None if unknown.
        options: what to read.
        report: reports rejected lines.
        builder: collects the documents.
    """
    reader = _Reader(options, report, builder, first_line)
    for block in blocks:
        if not block.size:
            reader.reject_long(block.offset)
        elif not reader.read(block):
            return
        yield from builder.full()


class _Reader:
    """Reads the lines of one file, in order; ``line`` is the number of the first, if known."""

    def __init__(
        self, options: ReadOptions, report: Report, builder: BatchBuilder, line: int | None
    ) -> None:
        self._options = options
        self._report = report
        self._builder = builder
        self._line = line
        self._is_first = line == 1
        self._names = tuple(
            dict.fromkeys(
                [*options.id_names, options.text_name, options.html_name, *options.fields]
            )
        )
        self._decoder = members_decoder(self._names)
        self._id_numbers = [self._names.index(name) for name in options.id_names]
        self._text_number = self._names.index(options.text_name)
        self._html_number = self._names.index(options.html_name)
        self._field_numbers = [self._names.index(name) for name in options.fields]
        self._shown_numbers = {*self._field_numbers, *self._id_numbers} - {self._text_number}

    def reject_long(self, offset: int) -> None:
        """Reject the next line, at ``offset``."""
        self._reject(offset, f"is longer than {self._options.max_record_bytes} bytes")
        self._count(1)

    def read(self, block: LineBlock) -> bool:
        """Read the next lines; return False if the file has none, so that nothing more is read."""
        begin = self._after_marks(block, 0)
        if self._read_at_once(block, begin):
            return True
        while (begin := self._after_blank_lines(block, begin)) < block.size:
            begin = self._after_marks(block, begin)
            if self._is_first:
                head = bytes(block.buffer[begin : min(block.size, begin + HEAD_BYTES)])
                if reason := file_reason(head):
                    self._reject(block.offset + begin, reason, rest_of_file=True)
                    # records may follow an array that ends in its line
                    first = head.partition(b"\n")[0].strip(_BLANKS)
                    if not (first.startswith(b"[") and first.endswith(b"]")):
                        return False
                    self._is_first = False
                    self._count(1)
                    begin = block.buffer.find(b"\n", begin, block.size) + 1 or block.size
                    continue
            end = block.buffer.find(b"\n", begin, block.size) + 1 or block.size
            self._read_line(bytes(block.buffer[begin:end]), block.offset + begin)
            begin = end
        return True

    @staticmethod
    def _after_marks(block: LineBlock, begin: int) -> int:
        """Return where a line begins behind byte order marks, from ``begin`` on."""
        while block.buffer.startswith(codecs.BOM_UTF8, begin, block.size):
            begin += len(codecs.BOM_UTF8)
        return begin

    def _after_blank_lines(self, block: LineBlock, begin: int) -> int:
        """Return where the first line that is not blank begins, from ``begin`` on."""
        # beyond that many bytes a single line may be too long
        stop = min(block.size, begin + self._options.max_record_bytes)
        blank = _BLANK.match(block.buffer, begin, stop)
        assert blank is not None
        end = block.buffer.rfind(b"\n", begin, blank.end()) + 1
        if not end:
            return begin
        self._count(block.buffer.count(b"\n", begin, end))
        return end

    def _read_at_once(self, block: LineBlock, begin: int) -> bool:
        """Add all lines from ``begin`` on; return False, with none added, if any is unusual."""
        content = memoryview(block.buffer)[begin : block.size]
        edges = _edges_of_objects(np.frombuffer(content, np.uint8))
        if edges is None or np.diff(edges).max() > self._options.max_record_bytes:
            return False
        offsets = edges[:-1] + (block.offset + begin)
        is_replaced = False
        records = self._decoded(content)
        if records is None:
            # once more without NaN and the like, which is of no account where they are not read
            is_replaced = True
            records = self._decoded(standard_json(bytes(content)))
        if records is None:
            return False
        # as many objects as lines, each within its line: one per line
        if len(records) != len(offsets):
            return False
        members = list(zip(*map(msgspec.structs.astuple, records), strict=True))
        texts = texts_of(members[self._text_number])
        if texts is None or self._has_html_for_blank(texts, members[self._html_number]):
            return False
        if is_replaced and any(
            map(_has_placeholder, itertools.chain(*(members[n] for n in self._shown_numbers)))
        ):
            return False
        fields = [
            texts
            if number == self._text_number
            else pa.array(map(_field_text, members[number]), pa.large_string())
            for number in self._field_numbers
        ]
        self._is_first = False
        ids = self._ids(members, offsets)
        lines = _slices(block, edges + begin) if self._options.keep_records else None
        self._builder.add_columns(self._report.file, ids, texts, offsets, fields, lines)
        self._count(len(records))
        return True

    def _decoded(self, content: bytes | memoryview) -> list[Any] | None:
        try:
            records: list[Any] = self._decoder.decode_lines(content)
        except (ValueError, RecursionError):
            return None
        return records

    @staticmethod
    def _has_html_for_blank(texts: pa.LargeStringArray, pages: Sequence[msgspec.Raw]) -> bool:
        """Return whether there is HTML beside a text that is empty or white space."""
        if not any(map(_size, pages)):
            return False
        blank = np.flatnonzero(are_blank(texts).to_numpy(zero_copy_only=False))
        return any(_size(pages[row]) for row in blank.tolist())

    def _ids(
        self, members: Sequence[Sequence[msgspec.Raw]], offsets: NDArray[np.int64]
    ) -> pa.LargeStringArray:
        if self._id_numbers:
            ids = texts_of(members[self._id_numbers[0]])
            if ids is not None and pc.min(pc.binary_length(ids)).as_py():
                return ids
        rows = [
            [members[number][row] for number in self._id_numbers] for row in range(offsets.size)
        ]
        found = [
            self._id(map(bytes, row), at) for row, at in zip(rows, offsets.tolist(), strict=True)
        ]
        return pa.array(found, pa.large_string())

    def _id(self, values: Iterable[bytes], offset: int) -> str:
        """Return the first of ids in JSON that is not empty, else the position."""
        is_unusable = False
        for value in values:
            try:
                if id := _text_of_id(value):
                    return id
            except ValueError:
                is_unusable = True
        self._report.unusable_ids(is_unusable)
        return f"{self._report.file}:{offset}"

    def _read_line(self, line: bytes, offset: int) -> None:
        if len(line.rstrip(b"\r\n")) > self._options.max_record_bytes:
            self.reject_long(offset)
            return
        if line.strip(_BLANKS):
            try:
                members = members_of(line, self._names)
                text = self._text(members[self._text_number], members[self._html_number])
            except _NoTextError as error:
                self._reject_without_text(line, offset, error)
            except (ValueError, RecursionError) as error:
                self._reject(offset, _reason(error))
            else:
                id = self._id([members[number] for number in self._id_numbers], offset)
                fields = [_field_text(members[number]) for number in self._field_numbers]
                record = line if line.endswith(b"\n") else line + b"\n"
                if isinstance(text, Page):
                    reject = partial(self._report.reject, offset, line=self._line)
                    self._builder.add_page(
                        self._report.file, id, text, offset, reject, fields, record
                    )
                else:
                    self._builder.add(self._report.file, id, text, offset, fields, record)
            self._is_first = False
        self._count(1)

    def _reject(
        self, offset: int, reason: str, text_field: str | None = None, rest_of_file: bool = False
    ) -> None:
        self._report.reject(offset, reason, self._line, text_field, rest_of_file)

    def _reject_without_text(self, line: bytes, offset: int, error: _NoTextError) -> None:
        """Report a record without a text; list the fields of one without the member of it."""
        try:
            spans = all_member_spans(line)
        except (ValueError, RecursionError):  # in what is not read of it
            spans = {}
        texts = {
            name: stop - start for name, (start, stop) in spans.items() if line[start] == _QUOTE
        }
        names = [name for name in texts if name not in self._options.id_names]
        longest = max(names, key=texts.__getitem__, default=None)
        if error.null is not None:
            self._report.without_text(offset, error.null, self._line, longest)
            return
        fields = f"; its fields are {listed_names(spans)}" if spans else ""
        self._reject(offset, f"{error}{fields}", longest)

    def _count(self, lines: int) -> None:
        if self._line is not None:
            self._line += lines

    def _text(self, text: bytes, html: bytes) -> str | Page:
        """Return the text or page of a record, given members in JSON.

        Raises ValueError if there is none.
        """
        names = self._options.text_name, self._options.html_name
        found = None
        if text not in _NOTHING:
            found = _string(text, names[0])
            # nothing else of a page is its text
            if found.strip() or html in _NOTHING or html[:1] != b'"':
                return found
        if html in _NOTHING:
            null = names[0] if text else names[1] if html else None
            raise _NoTextError("has neither {!r} nor {!r}".format(*names), null)
        return Page(_string(html, names[1]).encode(), self._options.html, "utf-8")


class _NoTextError(ValueError):
    """A valid record without a text: its message is the reason, ``null`` the member that is."""

    def __init__(self, reason: str, null: str | None) -> None:
        self.null = null
        super().__init__(reason)


HEAD_BYTES = 1 << 16
"""Of the beginning of a file, by which it is JSON over several lines or is not."""

_COMMENTS = (b"//", b"/*", b"#")


_MIN_LINES = 3
"""Of a file of fewer lines that are no records each may be a damaged record."""


def file_reason(head: bytes) -> str | None:
    """Return the reason to reject a file as a whole that is not JSON lines, else None.

    ``head`` is its beginning, of ``HEAD_BYTES`` or all of it. It is JSON over several lines, see
    ``_spread_reason``, or another format if it does not begin as JSON, no line is a record, and its
    first bytes are those of a binary file, HTML or XML, or there are three lines or more.

    >>> file_reason(b"<!DOCTYPE html>\\n<p>Not found</p>")
    'is HTML, not JSON lines'
    >>> file_reason(b'\\xff damaged\\nas well\\n{"text": "a record"}\\n')
    """
    is_cut = len(head) >= HEAD_BYTES
    text = head.lstrip(_BLANKS).removeprefix(codecs.BOM_UTF8).lstrip(_BLANKS)
    if text.startswith((b"{", b"[", *_COMMENTS)):
        return _spread_reason(text, is_cut)
    if not text or _has_record(text, is_cut):
        return None
    kind = binary_format(head)
    last = text.rpartition(b"\n")[2].lstrip(_BLANKS)
    if kind is None and is_cut and (len(last) == len(text) or last.startswith(b"{")):
        # a record may follow a line whose beginning is lost
        return None
    if kind is None and is_binary(head, "utf-8"):
        kind = "binary data"
    if kind is None and text.startswith(b"<"):
        kind = "HTML" if looks_like_html(text) and not text.startswith(b"<?xml") else "XML"
    if kind is not None:
        return f"is {kind}, not JSON lines"
    lines = [line for line in text.split(b"\n") if line.strip(_BLANKS)]
    if len(lines) < _MIN_LINES or any(line.lstrip(_BLANKS).startswith(b"{") for line in lines):
        return None
    for separator, name in _SEPARATORS.items():
        if 0 < lines[0].count(separator) == lines[1].count(separator):
            return f"is a table with {name} between columns, not JSON lines"
    return "is text, not JSON lines: none of its first lines is a record"


_SEPARATORS = {b"\t": "tabs", b",": "commas", b";": "semicolons", b"|": "bars"}


def _spread_reason(text: bytes, is_cut: bool) -> str | None:
    """Return the reason to reject a file that is not JSON Lines but other JSON, else None.

    It is JSON over several lines if its first line is a brace alone, or a comment and no other line
    is a record, or begins a value that goes on in the next lines, as GeoJSON with a feature a line.
    So a damaged first line is a reject of its own.

    >>> _spread_reason(b'{"a":\\n{"a": 1}\\n{"a": 2}\\n', False)
    """
    first, _, rest = text.partition(b"\n")
    first = first.strip(_BLANKS)
    opened = first[1:].lstrip(_BLANKS)
    if first.startswith(b"["):
        is_array = not rest.strip(_BLANKS) or not opened or opened.startswith(_COMMENTS)
        if is_array or (not first.endswith(b"]") and _goes_on(text, first, is_cut)):
            return "is a JSON array, not a record a line; jq -c '.[]' writes its records as lines"
        return None
    opened = first.removeprefix(b"{").lstrip(_BLANKS)
    if not rest.strip(_BLANKS) or not first.startswith((b"{", *_COMMENTS)) or first.endswith(b"}"):
        return None
    if opened and (
        not _goes_on(text, first, is_cut)
        if not opened.startswith(_COMMENTS)
        else _has_record(rest, is_cut)
    ):
        return None
    return "is JSON over several lines, not a record a line; jq -c . writes records as lines"


def _has_record(rest: bytes, is_cut: bool) -> bool:
    """Return whether a line is an object; the last one is not known if they are cut."""
    lines = rest.split(b"\n")
    return any(map(_is_record, lines[:-1] if is_cut else lines))


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line.decode(errors="replace")), dict)
    except (ValueError, RecursionError):
        return False


def _goes_on(text: bytes, first: bytes, is_cut: bool) -> bool:
    """Return whether the value that ``text`` begins with goes on after its ``first`` line."""
    shown = text.decode(errors="replace")
    try:
        json.JSONDecoder().raw_decode(shown)
    except json.JSONDecodeError as error:
        line = len(first.decode(errors="replace"))
        next_line = len(shown) - len(shown[line:].lstrip())
        is_at_end = is_cut and error.pos >= len(shown.rstrip())
        return error.pos > next_line and (is_at_end or not _has_record(text, is_cut))
    except RecursionError:
        pass
    return True


def _edges_of_objects(content: NDArray[np.uint8]) -> NDArray[np.int64] | None:
    """Return the edges of lines, int64[n + 1], if each begins with { and ends with }; else None."""
    if not content.size:
        return None
    ends = np.flatnonzero(content == ord("\n"))
    if not ends.size or ends[-1] != content.size - 1:
        ends = np.append(ends, content.size)
    starts = np.append(0, ends[:-1] + 1)
    stops = ends - (content[ends - 1] == ord("\r"))
    are_objects = (content[starts] == ord("{")) & (content[stops - 1] == ord("}"))
    if not (are_objects & (stops - starts >= 2)).all():
        return None
    return np.append(starts, content.size)


def _slices(block: LineBlock, edges: NDArray[np.int64]) -> pa.LargeBinaryArray:
    """Return copies of the lines of a block between ``edges``, the last one with LF."""
    data = bytes(memoryview(block.buffer)[: edges[-1]])
    if not data.endswith(b"\n"):
        data += b"\n"
        edges = np.append(edges[:-1], len(data))
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(edges) - 1, buffers)


def _has_placeholder(value: msgspec.Raw) -> bool:
    content = bytes(value)
    return any(mark in content for mark in PLACEHOLDERS)


def _size(value: msgspec.Raw) -> int:
    return len(memoryview(value))


def _text_of_id(value: bytes) -> str | None:
    """Return an id in JSON as text, as ``value_texts``; ValueError if it has no form."""
    if value in _NOTHING:
        return None
    kind = value[:1]
    if kind == b'"':
        return str(msgspec.json.decode(value, type=str))
    if kind in b"{[":
        raise ValueError("has no form as text")
    if kind in b"tf" or value.removeprefix(b"-").isdigit():
        return value.decode()
    return float_text(float(value)) or _text_of_id(b"[]")


def _field_text(value: bytes | msgspec.Raw) -> str | None:
    """Return a member as text: a string unchanged, None for null or missing, others as JSON.

    What is not Unicode becomes U+FFFD.
    """
    content = bytes(value)
    if content in _NOTHING:
        return None
    text = content.decode(errors="replace")
    if not content.startswith(b'"'):
        return text
    try:
        return str(msgspec.json.decode(content))
    except ValueError:
        # Python's own reads halves of surrogate pairs
        units = str(json.loads(text)).encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "replace")


def _string(content: bytes, name: str) -> str:
    """Return a string in JSON; ValueError if it is another value, or not Unicode."""
    if content[:1] != b'"':
        kinds = {b"{": "an object", b"[": "an array", b"t": "true", b"f": "false"}
        raise ValueError(f"its {name!r} is {kinds.get(content[:1], 'a number')}, not text")
    try:
        return str(msgspec.json.decode(content))
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        if standard_json(content) == content:
            raise
        raise ValueError(f"its {name!r} has half of a surrogate pair") from error


def _reason(error: ValueError | RecursionError) -> str:
    """Return in a few words what is wrong with a line."""
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        return f"is not as expected: {error}"
    if isinstance(error, msgspec.DecodeError):
        return f"is not JSON: {error}"
    return str(error)
