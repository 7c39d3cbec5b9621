"""Documents in WARC files: the pages, and the texts, that their records have.

FastWARC reads the records; finding where they begin and end is done here, for its iterator takes
a record that is cut short for a whole one, and ends at the first damaged one. A range is found by
going from header to header, from the beginning of the file: what a page says may look like a
record, so there is no telling from the middle.

Records are read as they are found: of WARC 0.17 to 1.1, with lines that end with CR LF or LF. Of
ClueWeb09 some headers have an empty line in them, and some copies other line ends than the lengths
count; of ClueWeb22 the first record has no length, and pages come without HTTP headers.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import NamedTuple

from fastwarc.warc import WarcRecord, conversion, resource, response
from resiliparse.parse.encoding import detect_mime

from mr_dedup.errors import FormatError
from mr_dedup.formats.content import Content
from mr_dedup.formats.documents import html_text
from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch
from mr_dedup.formats.documents.encoding import decode
from mr_dedup.formats.documents.http_body import decoded_body, looks_like_html
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import Report, SkipReason

PIECE_BYTES = 1 << 13
"""Going from header to header, little besides the headers should be read."""

MEMBER_BEGIN = re.compile(rb"\s{0,8}WARC/[0-9]\.[0-9]{1,2}[ \t]{0,4}\r?\n")
"""What a member of gzip data begins with that begins with a record."""

_MAGIC = b"WARC/"
_RECORD_END = b"\r\n\r\n"

_LINE_ENDS, _PADDING = b"\r\n", b"\r\n\0 \t"
"""What may be between records: tapes and tar add NULs, editors blanks."""

_MAX_NULS = 20 * 512
"""NULs that may end a file: those of a tar. More are data that was never written."""

_MAX_HEADER_BYTES = 1 << 15

_HEADER_END = re.compile(rb"\n(?:\r?\n|(?=WARC/[0-9]))")
"""An empty line, which a header must have, or the next record."""

_LENGTH_FURTHER_ON = re.compile(rb"\n(?:content-length:|WARC/[0-9]|HTTP/[0-9])", re.IGNORECASE)
"""A length after an empty line, or what shows that the line was the end of the header."""

_NEXT_RECORD = re.compile(
    rb"WARC/(?<=[\n\0 \t]WARC/)[0-9]\.[0-9]{1,2}[ \t]{0,4}\r?\n[A-Za-z-]{2,24}:"
)
"""The begin of a record; the pattern begins with a literal, which is found 30 times as fast."""

_LENGTH = re.compile(rb"\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?=\r?\n)", re.IGNORECASE)
_LENGTH_LINE = re.compile(rb"content-length[ \t]*:", re.IGNORECASE)
_WARCINFO = re.compile(rb"\nwarc-type:[ \t]*warcinfo[ \t]*\r?\n", re.IGNORECASE)
_HTTP_STATUS = re.compile(rb"(?:HTTP/[0-9.]+|ICY)[ \t]+([0-9]{3})(?![0-9])", re.IGNORECASE)
_HTTP_HEADER_END = re.compile(rb"\n(?P<empty_line>\r*\n)|[\r\n](?=<)")
_MEDIA_TYPE = re.compile(r"""["'\s]*([\w!#$&^.+*-]+/[\w!#$&^.+*-]+)""", re.ASCII)
_CHARSET = re.compile(r"charset\s*=\s*([^\s;,]+)", re.IGNORECASE)

_TRAILER_BYTES = 16
_MAX_TRAILING_LINES = 4
_BLANK_BYTES = 1 << 12
_SCAN_BYTES = 1 << 16
_MAX_MARK_BYTES = 64
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))

_HEADER_OF_NAME = {"id": "WARC-Record-ID", "url": "WARC-Target-URI"}
_HTML_TYPES = {"text/html", "application/xhtml+xml"}
_UNKNOWN_TYPES = {"*/*", "unknown/unknown", "application/unknown"}
"""Those that the WHATWG's MIME Sniffing Standard has browsers sniff as if there were none."""


class Frame(NamedTuple):
    """A record: where it begins, its header and block; without them it is rejected for ``fault``.

    The header is as it came, but without empty lines in it, and with one length, the block's.
    """

    offset: int
    header: bytes = b""
    block: bytes = b""
    fault: str | None = None
    rest_of_file: bool = False


class _NoDocument(Exception):
    """A sound record that holds no document."""

    def __init__(self, why: SkipReason) -> None:
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
    status 2xx, of a resource, or of a conversion (as in WET files); other records are skipped and
    counted. A record is rejected that is damaged, that is larger than the options allow, or the
    page of which is, decoded. After damage, reading goes on with the next line that begins a
    record; after damaged gzip data with the next member that begins with a record. What a crawler
    cut short of a compressed page counts as far as it goes.
    """
    for frame in _resumed_frames(content, start, stop, options, report):
        if frame.fault is not None:
            report.reject(frame.offset, frame.fault, rest_of_file=frame.rest_of_file)
            continue
        try:
            _take(frame, options, report, builder)
        except _NoDocument as reason:
            report.skip(reason.why)
        except (OSError, ValueError) as error:
            report.reject(frame.offset, f"its page cannot be read: {error}")
        yield from builder.full()


def _resumed_frames(
    content: Content, start: int, stop: int | None, options: ReadOptions, report: Report
) -> Iterator[Frame]:
    """Yield as ``frames``; report damage after which there are more, and go on behind it."""
    while True:
        try:
            yield from frames(content, start, stop, options.max_record_bytes)
            return
        except FormatError as error:
            if options.strict or not content.resume():
                raise
            report.damage(error, rest_of_file=False)


def frames(
    content: Content, start: int, stop: int | None, max_record_bytes: int
) -> Iterator[Frame]:
    """Yield the records, and the damaged ones, that begin at bytes ``start`` to ``stop``.

    A record must be followed by an empty line, another record or the end of the content, or else
    its length is not believed. Raises FormatError where the content is damaged, for a record that
    begins the damaged member of gzip data, too.
    """
    while True:
        end = content.position
        nuls = _skip_padding(content)
        offset = content.position
        if nuls > _MAX_NULS and end >= start and not content.peek(1):
            content.raise_damage()
            if stop is None or end < stop:
                yield Frame(end, fault=f"ends with {nuls:,} NUL bytes", rest_of_file=True)
            return
        if stop is not None and offset >= stop:
            return
        if not content.peek(1):
            content.raise_damage()
            return
        frame = _next_frame(content, offset, offset >= start, max_record_bytes)
        if content.damaged_from == offset:
            # the member of this record: what is wrong in it is not known
            content.raise_damage()
        if offset >= start:
            yield frame


def _next_frame(content: Content, offset: int, wanted: bool, max_record_bytes: int) -> Frame:
    """Return the record that begins here, and stand after it; unless ``wanted``, without data."""
    header = _header(content)
    if header is None:
        is_cut = len(content.peek(_MAX_HEADER_BYTES)) < _MAX_HEADER_BYTES
        is_followed = _find_next(content)
        if not is_followed and is_cut:
            content.raise_damage()
            # without any record it is a file of something else
            fault = "is not a WARC record, or its header is cut short"
            return Frame(offset, fault=fault, rest_of_file=not offset)
        fault = "is not a WARC record, or its header is damaged"
        return Frame(offset, fault=fault, rest_of_file=not (offset or is_followed))
    length = _LENGTH.search(header)
    if length is None:
        _find_next(content)
        # the first record of ClueWeb22's files
        is_sound = _WARCINFO.search(header) is not None
        return Frame(offset, header, fault=None if is_sound else "has no Content-Length")
    size = int(length.group(1))
    is_too_long = len(header) + size > max_record_bytes
    if is_too_long and content.size is None:
        # what is skipped cannot be read again: the length may be false, and skip other records
        content.skip(len(header) - 1)
        is_followed = _find_next(content)
        if content.position >= offset + len(header) + size:
            return _too_long(offset, max_record_bytes)
        if not is_followed:
            content.raise_damage()
        return _cut(offset)
    if not _is_record_end(content, len(header) + size):
        return _measured(content, offset, header, size, max_record_bytes)
    content.skip(len(header))
    if wanted and not is_too_long:
        return Frame(offset, _cleaned(header), content.read(size))
    content.skip(size)
    return _too_long(offset, max_record_bytes) if is_too_long else Frame(offset)


def _header(content: Content) -> bytes | None:
    """Return the header here, with the empty line that ends it; None if there is none.

    Where there is no length before an empty line, but another header with one follows, and not the
    block or the next record, the empty line is a part of the header.
    """
    if content.peek(len(_MAGIC)) != _MAGIC:
        return None
    end = content.search(_HEADER_END, 0, _MAX_HEADER_BYTES)
    if end is None or end[1] - end[0] == 1:
        return None
    header = content.peek(end[1])
    if _LENGTH.search(header):
        return header
    found = content.search(_LENGTH_FURTHER_ON, len(header) - 1, _MAX_HEADER_BYTES)
    if found is None or content.peek_at(found[0] + 1, 1) not in b"cC":
        return header
    end = content.search(_HEADER_END, found[1], _MAX_HEADER_BYTES)
    return header if end is None or end[1] - end[0] == 1 else content.peek(end[1])


def _measured(
    content: Content, offset: int, header: bytes, size: int, max_record_bytes: int
) -> Frame:
    """Return the record here, the length of which is wrong, and stand before the next one.

    It is taken up to there if it has as many bytes as its length says when its line ends, or its
    characters beyond ASCII, are counted otherwise; or else rejected.
    """
    begin = len(header)
    # from the last byte of the header, which may be what the next record follows
    found = content.search(_NEXT_RECORD, begin - 1, max_record_bytes)
    if found is None:
        block = content.peek_at(begin, max_record_bytes)
        if not _find_next(content):
            content.raise_damage()
            if _is_copied(block, size):
                return _with_length(offset, header, block.rstrip(b"\r\n"))
        return _cut(offset)
    content.skip(begin)
    block = content.read(found[0] - begin)
    least = block.rstrip(_PADDING)
    most = len(block) + block.count(b"\n")
    counted = len(least.translate(None, _CONTINUATION_BYTES + b"\r"))
    if not counted <= size <= most:
        return _cut(offset)
    return _with_length(offset, header, block[: max(size, len(least))])


def _is_copied(block: bytes, size: int) -> bool:
    """Return whether the last block of a file is a copy with other line ends, and nothing is cut.

    Then ``size`` is that of the block, without what ends the record, with CR LF at the end of all
    lines, or of those of its HTTP header, or of none.
    """
    for _ in range(_MAX_TRAILING_LINES + 1):
        header_lines = block.partition(b"\n\n")[0].count(b"\n") + 2
        added = (
            {block.count(b"\n"), header_lines} if b"\r" not in block else {-block.count(b"\r\n")}
        )
        if size - len(block) in added:
            return True
        block = block.removesuffix(b"\n").removesuffix(b"\r")
    return False


def _cleaned(header: bytes) -> bytes:
    """Return a header without empty lines but the last, and with the length that is used alone."""
    length = _LENGTH.search(header)
    assert length is not None
    used = length.start() + 1
    kept = []
    at = 0
    for line in header.split(b"\n"):
        is_other = _LENGTH_LINE.match(line) is not None and at != used
        if line.strip() and not is_other:
            kept.append(line)
        at += len(line) + 1
    return b"\n".join([*kept, b"\r" * header.endswith(b"\r\n"), b""])


def _with_length(offset: int, header: bytes, block: bytes) -> Frame:
    """Return a record with the length that its block has."""
    header = _cleaned(header)
    length = _LENGTH.search(header)
    assert length is not None
    begin, end = length.span(1)
    return Frame(offset, b"%s%d%s" % (header[:begin], len(block), header[end:]), block)


def _cut(offset: int) -> Frame:
    return Frame(offset, fault="is cut short, or its length is wrong")


def _too_long(offset: int, max_record_bytes: int) -> Frame:
    return Frame(offset, fault=f"is longer than {max_record_bytes} bytes")


def _is_record_end(content: Content, ahead: int) -> bool:
    """Return whether a record may end there: with its empty line, or before the next or the end."""
    if content.size is not None and content.position + ahead > content.size:
        return False
    # one byte more: what ends before there is cut short
    following = content.peek_at(ahead - 1, 1 + _TRAILER_BYTES)
    if not following:
        return False
    following = following[1:]
    if following.startswith(_RECORD_END):
        return True
    if following.strip(_LINE_ENDS) and not following.strip(_PADDING):
        # of blanks there may be as many within a page
        following = content.peek_at(ahead, _BLANK_BYTES)
    following = following.lstrip(_PADDING)
    return not following or following.startswith(_MAGIC[: len(following)])


def _skip_padding(content: Content) -> int:
    """Skip what may be between records, before the first only line ends; return how many NULs."""
    nuls = 0
    padding = _PADDING if content.position else _LINE_ENDS
    while some := content.peek_some(_BLANK_BYTES):
        size = len(some) - len(some.lstrip(padding))
        nuls += some.count(b"\0", 0, size)
        content.skip(size)
        if size < len(some):
            break
    return nuls


def _find_next(content: Content) -> bool:
    """Go to the next record, or to the end; return whether there is one."""
    step = _SCAN_BYTES - _MAX_MARK_BYTES
    while True:
        found = content.search(_NEXT_RECORD, 0, _SCAN_BYTES)
        if found is not None:
            content.skip(found[0])
            return True
        if len(content.peek_at(step, 1)) == 0:
            content.skip(step)
            return False
        content.skip(step)


def _take(frame: Frame, options: ReadOptions, report: Report, builder: BatchBuilder) -> None:
    """Add the document of a record; raise _NoDocument, or OSError or ValueError where damaged."""
    data = b"".join([frame.header, frame.block, _RECORD_END])
    # quirks: lines may end with LF
    record = WarcRecord.from_reader(io.BytesIO(data), quirks_mode=True)
    page, media_type, charset = _page(record, frame.block, options.max_record_bytes)
    is_html = media_type in _HTML_TYPES
    text = decode(page, charset, is_html)
    if is_html:
        text = html_text.text_of_html(text, options.html)
    id = next(filter(None, (_value(record, name) for name in options.id_names)), "")
    builder.add(
        report.file,
        id or f"{report.file}:{frame.offset}",
        text,
        frame.offset,
        [_value(record, name) for name in options.fields],
        data,
    )


def _page(record: WarcRecord, block: bytes, max_bytes: int) -> tuple[bytes, str, str | None]:
    """Return the bytes of a record's page, its media type and the charset declared with it."""
    if record.record_type not in (response, resource, conversion):
        raise _NoDocument("another record type")
    declared = record.headers.get("Content-Type") or ""
    page = block
    if record.record_type == response:
        status = _HTTP_STATUS.match(block)
        if status is not None:
            if not status.group(1).startswith(b"2"):
                raise _NoDocument("HTTP status")
            declared, page = _http_page(record, block, max_bytes)
        elif record.is_http or not declared:
            # of ClueWeb22 there are no HTTP headers
            if not looks_like_html(block):
                raise ValueError("there is no HTTP status")
            declared = ""
    media_type = _media_type(declared)
    if media_type and media_type != "text/plain" and media_type not in _HTML_TYPES:
        raise _NoDocument("media type")
    charset = _CHARSET.search(declared)
    # conversions are in UTF-8: that of the page they were made from may be said in their text
    usual = "utf-8" if record.record_type == conversion else None
    return page, media_type or _sniffed(page), charset.group(1) if charset else usual


def _media_type(declared: str) -> str:
    """Return the media type that a Content-Type begins with, whatever follows; or nothing."""
    found = _MEDIA_TYPE.match(declared)
    media_type = found.group(1).lower() if found else ""
    return "" if media_type in _UNKNOWN_TYPES else media_type


def _http_page(record: WarcRecord, block: bytes, max_bytes: int) -> tuple[str, bytes]:
    """Return the Content-Type and the decoded body of a response."""
    end = _http_header_end(block)
    if end is None:
        raise ValueError("its HTTP header has no end")
    if end.group("empty_line") is None:
        record = _with_empty_line(block, end.end())
    # without one, or with another, FastWARC takes the block for something else
    record.is_http = True
    record.parse_http(auto_decode="none", quirks_mode=True)
    headers = record.http_headers
    transfer, content = (
        ",".join(headers.get_multiple(name)) for name in ("Transfer-Encoding", "Content-Encoding")
    )
    body = decoded_body(record.reader.read(), transfer, content, max_bytes)
    return headers.get("Content-Type") or "", body


def _http_header_end(block: bytes) -> re.Match[bytes] | None:
    """Return where an HTTP header ends: at an empty line, or before a line that begins HTML."""
    for found in _HTTP_HEADER_END.finditer(block):
        if found.group("empty_line") is not None or looks_like_html(block, found.end()):
            return found
    return None


def _with_empty_line(block: bytes, at: int) -> WarcRecord:
    """Return a response with an empty line in its block, for FastWARC to find the body."""
    block = b"\r\n\r\n".join([block[:at], block[at:]])
    header = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: %d\r\n\r\n" % len(block)
    return WarcRecord.from_reader(io.BytesIO(header + block + _RECORD_END), quirks_mode=True)


def _sniffed(data: bytes) -> str:
    """Return the media type of a page that was sent without one."""
    if looks_like_html(data):
        return "text/html"
    found = detect_mime(data)
    if found not in ("text/plain", *_HTML_TYPES):
        raise _NoDocument("media type")
    return found


def _value(record: WarcRecord, name: str) -> str | None:
    """Return a header of the record; ids and URIs without the <> that some wrap them in."""
    value = record.headers.get(_HEADER_OF_NAME.get(name, name))
    if value is not None and name in _HEADER_OF_NAME and value[:1] + value[-1:] == "<>":
        return value[1:-1]
    return value
