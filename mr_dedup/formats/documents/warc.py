"""Documents in WARC files: the pages, and the texts, of their records."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

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
from mr_dedup.formats.documents.warc_records import RECORD_END, Record, records

_HTTP_STATUS = re.compile(rb"(?:HTTP/[0-9.]+|ICY)[ \t]+([0-9]{3})(?![0-9])", re.IGNORECASE)
_HTTP_HEADER_END = re.compile(rb"\n(?P<empty_line>\r*\n)|[\r\n](?=<)")
_MEDIA_TYPE = re.compile(r"""["'\s]*([\w!#$&^.+*-]+/[\w!#$&^.+*-]+)""", re.ASCII)
_CHARSET = re.compile(r"charset\s*=\s*([^\s;,]+)", re.IGNORECASE)

_HEADER_OF_NAME = {"id": "WARC-Record-ID", "url": "WARC-Target-URI"}
_HTML_TYPES = {"text/html", "application/xhtml+xml"}
_UNKNOWN_TYPES = {"*/*", "unknown/unknown", "application/unknown"}
"""Those that the WHATWG's MIME Sniffing Standard has browsers sniff as if there were none."""


class _NoDocumentError(Exception):
    """A valid record that is not a document."""

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

    The last ones stay in ``builder``. A document is the HTML or plain text of a response with HTTP
    status 2xx, of a resource, or of a conversion (as in WET files); other records are skipped and
    counted. A record is rejected if it is damaged, or if it or its decoded page is larger than the
    options allow. After damage, reading resumes at the next line that begins a record; after
    damaged gzip data, at the next member that begins with a record. Of compressed pages that the
    crawler truncated, the beginning is read.
    """
    for record in _resumed_records(content, start, stop, options, report):
        if record.fault is not None:
            report.reject(record.offset, record.fault, rest_of_file=record.rest_of_file)
            continue
        try:
            _add_document(record, options, report, builder)
        except _NoDocumentError as reason:
            report.skip(reason.why)
        except (OSError, ValueError) as error:
            report.reject(record.offset, f"its page cannot be read: {error}")
        yield from builder.full()


def _resumed_records(
    content: Content, start: int, stop: int | None, options: ReadOptions, report: Report
) -> Iterator[Record]:
    """Yield as ``records``; report damage and resume after it, if records follow."""
    while True:
        try:
            yield from records(content, start, stop, options.max_record_bytes)
            return
        except FormatError as error:
            if options.strict or not content.resume():
                raise
            report.damage(error, rest_of_file=False)


def _add_document(
    record: Record, options: ReadOptions, report: Report, builder: BatchBuilder
) -> None:
    """Add the document of a record to ``builder``.

    Raises _NoDocumentError for other records, OSError or ValueError for damage.
    """
    data = b"".join([record.header, record.block, RECORD_END])
    # quirks: lines may end with LF
    parsed = WarcRecord.from_reader(io.BytesIO(data), quirks_mode=True)
    page, media_type, charset = _page(parsed, record.block, options.max_record_bytes)
    is_html = media_type in _HTML_TYPES
    text = decode(page, charset, is_html)
    if is_html:
        text = html_text.text_of_html(text, options.html)
    id = next(filter(None, (_value(parsed, name) for name in options.id_names)), "")
    builder.add(
        report.file,
        id or f"{report.file}:{record.offset}",
        text,
        record.offset,
        [_value(parsed, name) for name in options.fields],
        data,
    )


def _page(record: WarcRecord, block: bytes, max_bytes: int) -> tuple[bytes, str, str | None]:
    """Return the bytes of a record's page, its media type and its declared charset."""
    if record.record_type not in (response, resource, conversion):
        raise _NoDocumentError("record_type")
    declared = record.headers.get("Content-Type") or ""
    page = block
    if record.record_type == response:
        status = _HTTP_STATUS.match(block)
        if status is not None:
            if not status.group(1).startswith(b"2"):
                raise _NoDocumentError("http_status")
            declared, page = _http_page(record, block, max_bytes)
        elif record.is_http or not declared:
            # ClueWeb22 has no HTTP headers
            if not looks_like_html(block):
                raise ValueError("there is no HTTP status")
            declared = ""
    media_type = _media_type(declared)
    if media_type and media_type != "text/plain" and media_type not in _HTML_TYPES:
        raise _NoDocumentError("media_type")
    charset = _CHARSET.search(declared)
    # conversions are UTF-8, whatever charset their text may declare
    default = "utf-8" if record.record_type == conversion else None
    return page, media_type or _sniffed(page), charset.group(1) if charset else default


def _media_type(declared: str) -> str:
    """Return the media type that a Content-Type begins with; empty if there is none."""
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
    # FastWARC decides by the Content-Type of the record, which may be missing or wrong
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
    """Return a response with an empty line before the body, as FastWARC needs it."""
    block = b"\r\n\r\n".join([block[:at], block[at:]])
    header = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: %d\r\n\r\n" % len(block)
    return WarcRecord.from_reader(io.BytesIO(header + block + RECORD_END), quirks_mode=True)


def _sniffed(data: bytes) -> str:
    """Return the media type of a page that was sent without one, by its bytes."""
    if looks_like_html(data):
        return "text/html"
    found = detect_mime(data)
    if found not in ("text/plain", *_HTML_TYPES):
        raise _NoDocumentError("media_type")
    return found


def _value(record: WarcRecord, name: str) -> str | None:
    """Return a header of the record; ids and URIs without enclosing <>."""
    value = record.headers.get(_HEADER_OF_NAME.get(name, name))
    if value is not None and name in _HEADER_OF_NAME and value[:1] + value[-1:] == "<>":
        return value[1:-1]
    return value
