"""Documents as JSON lines, decoded a quarter of a megabyte at a time.

A block of lines is decoded in one call, with only the wanted members, and its texts go to Arrow
together; a block in which anything is unusual is read again line by line. To have ids and texts
in Arrow takes 1.1 to 1.3 times as long as to read the file and call ``orjson.loads`` line by line
and keep nothing, twice as long as ``orjson.loads`` over lines already in memory. Line by line,
orjson or msgspec and Arrow take 1.2 to 1.5 times as long as in blocks; ``pyarrow.json`` does from
0.7 (Chinese) to 2 times, but counts objects, not lines, and takes what is not UTF-8.
"""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch
from mr_dedup.formats.documents.content import Content
from mr_dedup.formats.documents.html_text import HtmlError, text_of_html
from mr_dedup.formats.documents.lines import LineBlock, line_blocks
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import Report

_NEWLINE, _RETURN, _OPEN, _CLOSE = b"\n\r{}"
_BLANKS = b" \t\r\n"

_PROBE_BYTES = 1 << 12
_MANY_LINES = 12
"""From so many in the first ones on, finding lines together beats finding them one by one."""


def read_jsonl(
    content: Content,
    start: int,
    stop: int | None,
    options: ReadOptions,
    report: Report,
    builder: BatchBuilder,
) -> Iterator[DocumentBatch]:
    """Yield the documents of the lines that begin at bytes ``start`` to ``stop``.

    The last ones stay in ``builder``. Blank lines are passed over, and a byte order mark. A line
    is rejected that is longer than the options allow, is not JSON (RFC 8259: lone surrogates and
    NaN are errors), is no object, has no text, an id that is neither text nor an integer, or is
    not UTF-8 in what is read of it. A document without an id, or with an empty one, is called
    after its place.
    """
    reader = _Reader(options, report, builder, line=None if start else 1)
    for block in line_blocks(content, start, stop, options.max_record_bytes):
        if not block.size:
            reader.reject_long(block.offset)
        else:
            reader.take(block)
        yield from builder.full()


@dataclass(frozen=True)
class _Names:
    """The members that are decoded: the attribute that holds each, and all attributes' types."""

    attributes: dict[str, str]
    types: list[tuple[str, Any, Any]]

    @classmethod
    def of(cls, options: ReadOptions) -> _Names:
        kinds: dict[str, tuple[Any, Any]] = {}
        for name in options.id_names:
            kinds[name] = (str | int | None, None)
        for name in (options.text_name, options.html_name):
            kinds[name] = (str | None, None)
        for name in options.fields:
            kinds.setdefault(name, (msgspec.Raw, msgspec.Raw()))
        attributes = {name: f"member_{number}" for number, name in enumerate(kinds)}
        types = [(attributes[name], kind, default) for name, (kind, default) in kinds.items()]
        return cls(attributes, types)


class _Reader:
    """Takes the lines of one file, in order; ``line`` is the number of the first, if known."""

    def __init__(
        self, options: ReadOptions, report: Report, builder: BatchBuilder, line: int | None
    ) -> None:
        self._options = options
        self._report = report
        self._builder = builder
        self._line = line
        names = _Names.of(options)
        record = msgspec.defstruct(
            "Record",
            names.types,
            rename={attribute: name for name, attribute in names.attributes.items()},
            gc=False,
        )
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(record)
        self._get_ids = [attrgetter(names.attributes[name]) for name in options.id_names]
        self._get_text = attrgetter(names.attributes[options.text_name])
        self._get_html = attrgetter(names.attributes[options.html_name])
        self._get_fields = [attrgetter(names.attributes[name]) for name in options.fields]

    def reject_long(self, offset: int) -> None:
        """Reject the next line, at ``offset``."""
        self._reject(offset, f"is longer than {self._options.max_record_bytes} bytes")
        self._count(1)

    def take(self, block: LineBlock) -> None:
        """Take the next lines."""
        begin = 0
        if block.offset == 0 and block.buffer.startswith(codecs.BOM_UTF8):
            begin = len(codecs.BOM_UTF8)
        edges = _edges(block, begin)
        if self._take_at_once(block, edges):
            self._count(len(edges) - 1)
            return
        for start, stop in itertools.pairwise(edges.tolist()):
            self._take_line(bytes(block.buffer[start:stop]), block.offset + start)

    def _take_at_once(self, block: LineBlock, edges: NDArray[np.int64]) -> bool:
        """Add all lines of a block; return False, with nothing added, if any is unusual."""
        if np.diff(edges).max(initial=0) > self._options.max_record_bytes:
            return False
        if not _are_objects(block, edges):
            return False
        data = memoryview(block.buffer)[edges[0] : block.size]
        try:
            records = self._decoder.decode_lines(data)
            # objects that begin and end with their lines, and as many: one each
            if len(records) != len(edges) - 1:
                return False
            texts = pa.array(list(map(self._get_text, records)), pa.large_string())
            ids = list(map(self._get_ids[0], records)) if self._get_ids else [""]
            if texts.null_count or not all(ids):
                return False
            id_column = pa.array(ids, pa.large_string())
            fields = [
                pa.array([_field_text(get(record)) for record in records], pa.large_string())
                for get in self._get_fields
            ]
        # a TypeError is for an id that is an integer
        except (ValueError, TypeError, RecursionError):
            return False
        lines = _slices(data, edges - edges[0]) if self._options.keep_records else None
        places = edges[:-1] + block.offset
        self._builder.add_columns(self._report.file, id_column, texts, places, fields, lines)
        return True

    def _take_line(self, line: bytes, offset: int) -> None:
        if len(line.rstrip(b"\r\n")) > self._options.max_record_bytes:
            self.reject_long(offset)
            return
        if line.strip(_BLANKS):
            try:
                record = self._decoder.decode(line)
                id = next(filter(None, (_text_of_id(get(record)) for get in self._get_ids)), "")
                fields = [_field_text(get(record)) for get in self._get_fields]
                text = self._text(record)
            except (ValueError, RecursionError) as error:
                self._reject(offset, _reason(error))
            else:
                id = id or f"{self._report.file}:{offset}"
                self._builder.add(self._report.file, id, text, offset, fields, line)
        self._count(1)

    def _reject(self, offset: int, reason: str) -> None:
        self._report.reject(offset, reason, self._line)

    def _count(self, lines: int) -> None:
        if self._line is not None:
            self._line += lines

    def _text(self, record: Any) -> str:
        """Return the text; raise ValueError if there is none."""
        text = self._get_text(record)
        if isinstance(text, str):
            return text
        html = self._get_html(record)
        if not isinstance(html, str):
            names = self._options.text_name, self._options.html_name
            raise _NoTextError("has neither {!r} nor {!r}".format(*names))
        return text_of_html(html, self._options.html)


class _NoTextError(ValueError):
    """A record that is sound but has no text; says so in the words of a reject."""


def _edges(block: LineBlock, begin: int) -> NDArray[np.int64]:
    """Return where lines begin, the first at ``begin``, and where the last ends: int64[n + 1]."""
    buffer, size = block.buffer, block.size
    if buffer.count(b"\n", 0, min(size, _PROBE_BYTES)) < _MANY_LINES:
        edges = [begin]
        while end := buffer.find(b"\n", edges[-1], size) + 1:
            edges.append(end)
        found = np.array(edges)
    else:
        newlines = np.flatnonzero(np.frombuffer(buffer, np.uint8, size) == _NEWLINE)
        found = np.concatenate(([begin], newlines + 1))
    return found if found[-1] == size else np.append(found, size)


def _are_objects(block: LineBlock, edges: NDArray[np.int64]) -> bool:
    """Return whether each line begins with { and ends with }: no object goes on in the next."""
    buffer = np.frombuffer(block.buffer, np.uint8, block.size)
    ends = edges[1:] - 1
    ends = ends - (buffer[ends] == _NEWLINE)
    # of an empty line this is the end of the one before, but its beginning is no object
    ends = ends - (buffer[ends] == _RETURN)
    return bool(((buffer[edges[:-1]] == _OPEN) & (buffer[ends] == _CLOSE)).all())


def _slices(data: memoryview, edges: NDArray[np.int64]) -> pa.LargeBinaryArray:
    """Return copies of the slices of ``data`` between ``edges``."""
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(bytes(data))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(edges) - 1, buffers)


def _text_of_id(value: str | int | None) -> str:
    return "" if value is None else str(value)


def _field_text(value: str | int | msgspec.Raw | None) -> str | None:
    """Return a member as text: a string as it is, null or none as None, others as JSON."""
    if not isinstance(value, msgspec.Raw):
        return None if value is None else str(value)
    json = bytes(value)
    if json.startswith(b'"'):
        return str(msgspec.json.decode(json))
    return None if json in (b"", b"null") else json.decode()


def _reason(error: ValueError | RecursionError) -> str:
    """Say in a few words what is wrong with a line."""
    if isinstance(error, (_NoTextError, HtmlError)):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        return f"is not as expected: {error}"
    return f"is not JSON: {error}"
