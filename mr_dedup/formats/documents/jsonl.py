"""Documents as JSON lines, decoded a quarter of a megabyte at a time.

A block of lines is decoded in one call, with only the members that are needed; a block with
anything unusual is decoded again line by line. Texts are decoded without a Python string for each,
see ``json_strings``. ``pyarrow.json`` counts objects, not lines, and accepts what is not UTF-8.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch
from mr_dedup.formats.documents.html_process import Page
from mr_dedup.formats.documents.json_strings import texts_of
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import Report, listed_names
from mr_dedup.formats.lines import LineBlock

_BLANKS = b" \t\r\n"
_BLANK = re.compile(rb"[ \t\r\n]*")


def read_jsonl(
    blocks: Iterable[LineBlock],
    first_line: int | None,
    options: ReadOptions,
    report: Report,
    builder: BatchBuilder,
) -> Iterator[DocumentBatch]:
    """Yield the documents of lines; the last ones stay in ``builder``.

    Blank lines and a byte order mark are skipped. A line is rejected if it is longer than the
    options allow, is not JSON (RFC 8259: lone surrogates and NaN are errors) or not an object, has
    no text, has an id that is neither a string nor an integer, or is not UTF-8 where it is read.
    A document without an id, or with an empty one, gets the id ``FILE:OFFSET``.

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
        else:
            reader.read(block)
        yield from builder.full()


@dataclass(frozen=True)
class _Names:
    """The members that are decoded: the attribute of each, and the types of all attributes."""

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

    def decoder(self, raw: str | None = None) -> msgspec.json.Decoder[Any]:
        """Return a decoder of lines that leaves the member ``raw`` as it is."""
        types = [
            (attribute, msgspec.Raw, msgspec.Raw()) if name == raw else described
            for (name, attribute), described in zip(
                self.attributes.items(), self.types, strict=True
            )
        ]
        rename = {attribute: name for name, attribute in self.attributes.items()}
        return msgspec.json.Decoder(msgspec.defstruct("Record", types, rename=rename, gc=False))


@lru_cache(maxsize=4)
def _decoders(
    options: ReadOptions,
) -> tuple[_Names, msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]:
    """Return decoders of lines; the second leaves texts as they are in JSON.

    To make them takes a millisecond, as much as to read a small file.
    """
    names = _Names.of(options)
    return names, names.decoder(), names.decoder(raw=options.text_name)


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
        names, self._decoder, self._raw_decoder = _decoders(options)
        self._get_ids = [attrgetter(names.attributes[name]) for name in options.id_names]
        self._get_text = attrgetter(names.attributes[options.text_name])
        self._get_html = attrgetter(names.attributes[options.html_name])
        self._get_fields = [attrgetter(names.attributes[name]) for name in options.fields]

    def reject_long(self, offset: int) -> None:
        """Reject the next line, at ``offset``."""
        self._reject(offset, f"is longer than {self._options.max_record_bytes} bytes")
        self._count(1)

    def read(self, block: LineBlock) -> None:
        """Read the next lines."""
        begin = 0
        if block.offset == 0 and block.buffer.startswith(codecs.BOM_UTF8):
            begin = len(codecs.BOM_UTF8)
        if self._read_at_once(block, begin):
            return
        while (begin := self._after_blank_lines(block, begin)) < block.size:
            end = block.buffer.find(b"\n", begin, block.size) + 1 or block.size
            self._read_line(bytes(block.buffer[begin:end]), block.offset + begin)
            begin = end

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
        try:
            records = self._raw_decoder.decode_lines(content)
            # as many objects as lines, each within its line: one per line
            if len(records) != len(offsets):
                return False
            texts = texts_of(list(map(self._get_text, records)))
            if texts is None:
                return False
            fields = [
                pa.array([_field_text(get(record)) for record in records], pa.large_string())
                if name != self._options.text_name
                else texts
                for name, get in zip(self._options.fields, self._get_fields, strict=True)
            ]
        except (ValueError, RecursionError):
            return False
        self._is_first = False
        ids = self._ids(records, offsets)
        lines = _slices(block, edges + begin) if self._options.keep_records else None
        self._builder.add_columns(self._report.file, ids, texts, offsets, fields, lines)
        self._count(len(records))
        return True

    def _ids(self, records: list[Any], offsets: NDArray[np.int64]) -> pa.LargeStringArray:
        ids = list(map(self._get_ids[0], records)) if self._get_ids else [None]
        if all(ids):
            # a TypeError is for an id that is an integer
            with contextlib.suppress(TypeError):
                return pa.array(ids, pa.large_string())
        return pa.array(list(map(self._id, records, offsets.tolist())), pa.large_string())

    def _id(self, record: Any, offset: int) -> str:
        ids = (_text_of_id(get(record)) for get in self._get_ids)
        return next(filter(None, ids), f"{self._report.file}:{offset}")

    def _read_line(self, line: bytes, offset: int) -> None:
        if len(line.rstrip(b"\r\n")) > self._options.max_record_bytes:
            self.reject_long(offset)
            return
        if line.strip(_BLANKS):
            try:
                decoded = self._decoder.decode(line)
                id = self._id(decoded, offset)
                fields = [_field_text(get(decoded)) for get in self._get_fields]
                text = self._get_text(decoded)
                html = self._html(decoded) if text is None else None
            except _NoTextError as error:
                self._reject_without_text(line, offset, str(error))
            except (ValueError, RecursionError) as error:
                spread = _spread(line) if self._is_first else None
                # of an array, or of JSON spread over several lines, nothing is read
                self._reject(offset, spread or _reason(error), rest_of_file=spread is not None)
            else:
                record = line if line.endswith(b"\n") else line + b"\n"
                if html is None:
                    self._builder.add(self._report.file, id, text, offset, fields, record)
                else:
                    page = Page(html.encode(), self._options.html, "utf-8")
                    reject = partial(self._report.reject, offset, line=self._line)
                    self._builder.add_page(
                        self._report.file, id, page, offset, reject, fields, record
                    )
            self._is_first = False
        self._count(1)

    def _reject(
        self, offset: int, reason: str, text_field: str | None = None, rest_of_file: bool = False
    ) -> None:
        self._report.reject(offset, reason, self._line, text_field, rest_of_file)

    def _reject_without_text(self, line: bytes, offset: int, reason: str) -> None:
        """Reject a record without a text, and list its fields."""
        try:
            record = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        except (ValueError, RecursionError):  # in what is not read of it
            record = {}
        if not record:
            self._reject(offset, reason)
            return
        texts = {name: len(bytes(raw)) for name, raw in record.items() if bytes(raw)[:1] == b'"'}
        names = [name for name in texts if name not in self._options.id_names]
        longest = max(names, key=texts.__getitem__, default=None)
        self._reject(offset, f"{reason}; its fields are {listed_names(record)}", longest)

    def _count(self, lines: int) -> None:
        if self._line is not None:
            self._line += lines

    def _html(self, record: Any) -> str:
        """Return the HTML of a record without a text; raise _NoTextError if there is none."""
        html: str | None = self._get_html(record)
        if html is None:
            names = self._options.text_name, self._options.html_name
            raise _NoTextError("has neither {!r} nor {!r}".format(*names))
        return html


class _NoTextError(ValueError):
    """A valid record without a text; its message is the reason of the reject."""


def _spread(line: bytes) -> str | None:
    """Return the reason to reject a file that is not JSON Lines but other JSON, else None."""
    line = line.removeprefix(codecs.BOM_UTF8).strip(_BLANKS)
    if line.startswith(b"["):
        return "is a JSON array, not a record a line; jq -c '.[]' writes its records as lines"
    if line == b"{":
        return "is JSON over several lines, not a record a line; jq -c . writes records as lines"
    return None


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


def _text_of_id(value: str | int | None) -> str:
    return "" if value is None else str(value)


def _field_text(value: str | int | msgspec.Raw | None) -> str | None:
    """Return a member as text: a string unchanged, None for null or missing, others as JSON."""
    if not isinstance(value, msgspec.Raw):
        return None if value is None else str(value)
    json = bytes(value)
    if json.startswith(b'"'):
        return str(msgspec.json.decode(json))
    return None if json in (b"", b"null") else json.decode()


def _reason(error: ValueError | RecursionError) -> str:
    """Return in a few words what is wrong with a line."""
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        return f"is not as expected: {error}"
    return f"is not JSON: {error}"
