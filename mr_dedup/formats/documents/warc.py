"""Documents in WARC files: the pages, and the texts, that their records hold.

FastWARC reads the records; finding where they begin and end is done here, for its iterator takes
a record that is cut short for a whole one, and ends at the first damaged one. A range is found by
going from header to header, from the beginning of the file: what a page holds may look like a
record, so there is no telling from the middle.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import NamedTuple

from fastwarc.warc import WarcRecord, conversion, resource, response
from resiliparse.parse.encoding import detect_mime

from mr_dedup.formats.documents import html_text
from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch
from mr_dedup.formats.documents.content import Content
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import PassedOver, Report

PIECE_BYTES = 1 << 13
"""Going from header to header, little besides the headers should be read."""

_MAGIC = b"WARC/"
_HEADER_END = b"\r\n\r\n"
_RECORD_END = b"\r\n\r\n"
_MOST_HEADER_BYTES = 1 << 15
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_SCAN_BYTES = 1 << 16
_TRAILER_BYTES = 16

_HEADER_OF_NAME = {"id": "WARC-Record-ID", "url": "WARC-Target-URI"}
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype html|html|head|title|meta|body|div|p|h1|table)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_HTML_TYPES = {"text/html", "application/xhtml+xml"}


class Frame(NamedTuple):
    """A record: where it begins, and its bytes; without them it is rejected for ``fault``."""

    offset: int
    data: bytes = b""
    fault: str | None = None


class _NoDocument(Exception):
    """A sound record that holds no document."""

    def __init__(self, why: PassedOver) -> None:
        self.why = why


def read_warc(
    content: Content,
    start: int,
    stop: int | None,
    options: ReadOptions,
    report: Report,
    builder: BatchBuilder,
) -> Iterator[DocumentBatch]:
    """Yield the documents of the records that begin at bytes ``start`` to ``stop``.

    The last ones stay in ``builder``. A document is the HTML or plain text of a response of HTTP
    status 2xx, of a resource, or of a conversion (as in WET files); other records are passed over
    and counted. A record is rejected that is damaged, that is larger than the options allow, or
    the page of which is, unpacked from its transfer and content coding. After damage, reading
    goes on with the next line that begins a record after an empty one. What a crawler cut short
    of a compressed page counts as far as it goes.
    """
    for frame in frames(content, start, stop, options.max_record_bytes):
        if frame.fault is not None:
            report.reject(frame.offset, frame.fault)
            continue
        try:
            _take(frame, options, report, builder)
        except _NoDocument as reason:
            report.pass_over(reason.why)
        except (OSError, ValueError) as error:
            report.reject(frame.offset, f"holds no readable page: {error}")
        yield from builder.full()


def frames(
    content: Content, start: int, stop: int | None, max_record_bytes: int
) -> Iterator[Frame]:
    """Yield the records, and the damaged ones, that begin at bytes ``start`` to ``stop``.

    A record must be followed by an empty line, another record or the end of the content, or else
    its length is not believed.
    """
    while True:
        _pass_over_blank_lines(content)
        offset = content.position
        if stop is not None and offset >= stop:
            return
        if not content.peek(1):
            _tell_damage(content)
            return
        frame = _next_frame(content, offset, offset >= start, max_record_bytes)
        if offset >= start:
            yield frame


def _next_frame(content: Content, offset: int, wanted: bool, max_record_bytes: int) -> Frame:
    """Return the record that begins here, and stand after it; unless ``wanted``, without data."""
    header = content.peek(PIECE_BYTES)
    if _HEADER_END not in header:
        header = content.peek(_MOST_HEADER_BYTES)
    if _HEADER_END not in header and len(header) < _MOST_HEADER_BYTES:
        content.skip(len(header))
        _tell_damage(content)
        return Frame(offset, fault="is no WARC record, or its header is cut short")
    header = header[: header.find(_HEADER_END) + len(_HEADER_END)]
    length = _LENGTH.search(header)
    if not header.startswith(_MAGIC) or length is None:
        _find_next(content)
        return Frame(offset, fault="is no WARC record, or its header is damaged")
    content.skip(len(header))
    size = int(length.group(1))
    too_long = len(header) + size > max_record_bytes
    block, sound = _block(content, size, wanted and not too_long, not too_long)
    if not sound:
        # the header's own end may be what stands before the next record
        content.unread(_HEADER_END)
        _find_next(content)
        return Frame(offset, fault="is cut short, or its length is wrong")
    if too_long:
        return Frame(offset, fault=f"is longer than {max_record_bytes} bytes")
    return Frame(offset, header + block + _RECORD_END)


def _block(content: Content, size: int, wanted: bool, may_hold: bool) -> tuple[bytes, bool]:
    """Return the block, and whether it ends as it should; stand after it, or if not before it."""
    begin = content.position
    if content.size is not None:
        end = begin + size
        if end <= content.size:
            content.seek(end)
            if _at_end_of_record(content):
                content.seek(begin)
                block = content.read(size) if wanted else b""
                content.seek(end)
                return block, True
        content.seek(begin)
        return b"", False
    if not may_hold:
        return b"", content.skip(size) == size
    block = content.read(size)
    if len(block) == size and _at_end_of_record(content):
        return block, True
    if len(block) < size:
        _tell_damage(content)
    content.unread(block)
    return b"", False


def _tell_damage(content: Content) -> None:
    """Raise FormatError if it is damage that content ends at, which peeking keeps to itself."""
    content.read(1)


def _at_end_of_record(content: Content) -> bool:
    """Return whether a record may end here: with its empty line, or before the next or the end."""
    following = content.peek(_TRAILER_BYTES)
    if following.startswith(_RECORD_END):
        return True
    following = following.lstrip(b"\r\n")
    return not following or following.startswith(_MAGIC[: len(following)])


def _pass_over_blank_lines(content: Content) -> None:
    while (blank := content.peek(_TRAILER_BYTES)) and blank[0] in b"\r\n":
        content.skip(len(blank) - len(blank.lstrip(b"\r\n")))


def _find_next(content: Content) -> None:
    """Go to the next record that follows an empty line, or to the end."""
    mark = _RECORD_END + _MAGIC
    while True:
        window = content.peek(_SCAN_BYTES)
        found = window.find(mark)
        if found >= 0:
            content.skip(found + len(_RECORD_END))
            return
        if len(window) < _SCAN_BYTES:
            content.skip(len(window))
            return
        content.skip(len(window) - len(mark) + 1)


def _take(frame: Frame, options: ReadOptions, report: Report, builder: BatchBuilder) -> None:
    """Add the document of a record; raise _NoDocument, or OSError or ValueError where damaged."""
    # a reader of bytes: from_bytes unpacks all of a content coding at once, bombs included
    record = WarcRecord.from_reader(io.BytesIO(frame.data))
    data, media_type, charset = _page(record, options.max_record_bytes)
    text = html_text.decode(data, charset)
    if media_type in _HTML_TYPES:
        text = html_text.text_of_html(text, options.html)
    id = next(filter(None, (_value(record, name) for name in options.id_names)), "")
    builder.add(
        report.file,
        id or f"{report.file}:{frame.offset}",
        text,
        frame.offset,
        [_value(record, name) for name in options.fields],
        frame.data,
    )


def _page(record: WarcRecord, max_bytes: int) -> tuple[bytes, str, str | None]:
    """Return the bytes of a record's page, its media type and the charset declared with it."""
    if record.record_type not in (response, resource, conversion):
        raise _NoDocument("another record type")
    if record.record_type == response and record.is_http:
        record.parse_http(auto_decode="all")
        status = record.http_headers.status_code
        if status is None:
            raise ValueError("there is no HTTP status")
        if not 200 <= status < 300:
            raise _NoDocument("HTTP status")
        declared = record.http_headers.get("Content-Type") or ""
    else:
        declared = record.headers.get("Content-Type") or ""
    media_type, _, parameters = declared.partition(";")
    media_type = media_type.strip().lower()
    if media_type and media_type != "text/plain" and media_type not in _HTML_TYPES:
        raise _NoDocument("media type")
    data = _payload(record, max_bytes)
    charset = re.search(r"charset\s*=\s*([^\s;]+)", parameters, re.IGNORECASE)
    return data, media_type or _sniffed(data), charset.group(1) if charset else None


def _payload(record: WarcRecord, max_bytes: int) -> bytes:
    pieces = []
    left = max_bytes + 1
    while left and (piece := record.reader.read(left)):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise ValueError(f"it is longer than {max_bytes} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _sniffed(data: bytes) -> str:
    """Return the media type of a page that was sent without one."""
    if _LOOKS_LIKE_HTML.match(data):
        return "text/html"
    found = detect_mime(data)
    if found not in ("text/plain", *_HTML_TYPES):
        raise _NoDocument("media type")
    return found


def _value(record: WarcRecord, name: str) -> str | None:
    """Return a header of the record; ids and addresses without the <> that some wrap them in."""
    value = record.headers.get(_HEADER_OF_NAME.get(name, name))
    if value is not None and name in _HEADER_OF_NAME and value[:1] + value[-1:] == "<>":
        return value[1:-1]
    return value
