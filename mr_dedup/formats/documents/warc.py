"""Documents in WARC and ARC files: the pages, and the texts, of their records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from mr_dedup.errors import FormatError
from mr_dedup.formats.content import Content
from mr_dedup.formats.documents.arc_records import MEMBER_BEGIN as ARC_BEGIN
from mr_dedup.formats.documents.arc_records import is_arc, read_arc_record
from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch
from mr_dedup.formats.documents.binary_files import is_binary
from mr_dedup.formats.documents.encoding import encoding_of
from mr_dedup.formats.documents.header_fields import HeaderFields
from mr_dedup.formats.documents.html_process import Page
from mr_dedup.formats.documents.http_body import decoded_body, looks_like_html
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import Report, SkipReason
from mr_dedup.formats.documents.warc_records import MEMBER_BEGIN as WARC_BEGIN
from mr_dedup.formats.documents.warc_records import Record, read_warc_record, records

MEMBER_BEGIN = re.compile(WARC_BEGIN + b"|" + ARC_BEGIN)
"""How the content of a gzip member begins that begins with a record."""

_HTTP_STATUS = re.compile(rb"(?:HTTP/[0-9.]+|ICY)[ \t]+([0-9]{3})(?![0-9])", re.IGNORECASE)
_HTTP_HEADER_END = re.compile(rb"\n(?P<empty_line>\r*\n)|[\r\n](?=<)")
_MEDIA_TYPE = re.compile(r"""["'\s]*([\w!#$&^.+*-]+/[\w!#$&^.+*-]+)""", re.ASCII)
_CHARSET = re.compile(r"charset\s*=\s*([^\s;,]+)", re.IGNORECASE)

_HTTP_TYPE = re.compile(r"application/http\b", re.IGNORECASE)
_PAGE_TYPES = ("response", "resource", "conversion")
"""The types of records that may be documents."""

_FIELD_OF_NAME = {"id": "WARC-Record-ID", "url": "WARC-Target-URI"}
_XHTML_TYPE = "application/xhtml+xml"
_HTML_TYPES = {"text/html", _XHTML_TYPE, "application/vnd.wap.xhtml+xml"}
_XML_TYPES = {"text/xml", "application/xml"}
_XHTML = re.compile(
    rb"[^<]*(?:(?:<!--.*?-->|<\?.*?\?>|<![^->][^>]*>)[^<]*)*<(?:[\w.-]+:)?html[\s>]",
    re.IGNORECASE | re.DOTALL,
)
"""The first element of XML that is a page."""

_MAX_PROLOG_BYTES = 64 << 10
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
    crawler truncated, the beginning is read, and so is that of the last page of compressed data
    that is cut short, which is reported.
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
            # of a record that is cut, the rest of the file is a reject
            if not record.is_cut:
                _reject(report, record.offset, error)
        yield from builder.full()


def _resumed_records(
    content: Content, start: int, stop: int | None, options: ReadOptions, report: Report
) -> Iterator[Record]:
    """Yield as ``records``; report damage and resume after it, if records follow."""
    read_record = read_arc_record if is_arc(content) else read_warc_record
    while True:
        try:
            yield from records(content, start, stop, options.max_record_bytes, read_record)
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
    header = HeaderFields(record.header)
    page, media_type, charset = _page(header, record.block, options.max_record_bytes)
    if record.is_cut and not page.strip():
        return
    if page[:1] == b"\0" and not page.strip(b"\0\r\n"):
        raise ValueError("it consists of NUL bytes")
    is_html = media_type in _HTML_TYPES
    encoding = encoding_of(page, charset, is_html)
    if is_binary(page, encoding):
        raise _NoDocumentError("media_type")
    file, at = report.file, record.offset
    id = next(filter(None, (_value(header, name) for name in options.id_names)), f"{file}:{at}")
    fields = [_value(header, name) for name in options.fields]
    data = record.content if options.keep_records else b""
    if is_html:
        reject = partial(_reject, report, at)
        builder.add_page(file, id, Page(page, options.html, encoding), at, reject, fields, data)
    else:
        builder.add(file, id, page.decode(encoding, "replace"), at, fields, data)


def _reject(report: Report, offset: int, reason: object) -> None:
    report.reject(offset, f"its page cannot be read: {reason}")


def _page(fields: HeaderFields, block: bytes, max_bytes: int) -> tuple[bytes, str, str | None]:
    """Return the bytes of a record's page, its media type and its declared charset."""
    kind = (fields.get("WARC-Type") or "").lower()
    if not kind:
        raise ValueError("there is no WARC-Type")
    if kind not in _PAGE_TYPES:
        raise _NoDocumentError("record_type")
    declared = fields.get("Content-Type") or ""
    http, page = _http_parts(block) if kind == "response" else (None, block)
    if http is not None:
        declared = http.get("Content-Type") or ""
    elif kind == "response" and (not declared or _HTTP_TYPE.match(declared)):
        # ClueWeb22 has no HTTP headers
        if not looks_like_html(block):
            raise ValueError("there is no HTTP status")
        declared = ""
    media_type = _media_type(declared)
    is_xml = media_type in _XML_TYPES
    if media_type not in ("", "text/plain", *_HTML_TYPES) and not is_xml:
        raise _NoDocumentError("media_type")
    if http is not None:
        try:
            page = _body(http, page, max_bytes)
        except ValueError as error:
            if is_xml:
                # feeds and site maps, which are no pages
                raise _NoDocumentError("media_type") from error
            raise
    if is_xml:
        if not _XHTML.match(page, 0, _MAX_PROLOG_BYTES):
            raise _NoDocumentError("media_type")
        media_type = _XHTML_TYPE
    charset = _CHARSET.search(declared)
    # conversions are UTF-8, whatever charset their text may declare
    default = "utf-8" if kind == "conversion" else None
    sniffed = "text/html" if looks_like_html(page) else "text/plain"
    return page, media_type or sniffed, charset.group(1) if charset else default


def _media_type(declared: str) -> str:
    """Return the media type that a Content-Type begins with; empty if there is none."""
    found = _MEDIA_TYPE.match(declared)
    media_type = found.group(1).lower() if found else ""
    return "" if media_type in _UNKNOWN_TYPES else media_type


def _http_parts(block: bytes) -> tuple[HeaderFields | None, bytes]:
    """Return the header of a successful response, and its body as it was received.

    The header is None where there is none, and the block is the body.
    """
    start = 0
    while (status := _HTTP_STATUS.match(block, start)) is not None:
        # one of 1xx is followed by another header
        if not status.group(1).startswith((b"1", b"2")):
            raise _NoDocumentError("http_status")
        end = _http_header_end(block, start)
        if end is None:
            raise ValueError("its HTTP header has no end")
        if status.group(1).startswith(b"2"):
            return HeaderFields(block[start:end]), block[end:]
        start = end
    if start:
        raise _NoDocumentError("http_status")
    return None, block


def _http_header_end(block: bytes, start: int) -> int | None:
    """Return where an HTTP header ends: after an empty line, or before one that begins HTML."""
    for found in _HTTP_HEADER_END.finditer(block, start):
        if found.group("empty_line") is not None or looks_like_html(block, found.end()):
            return found.end()
    return None


def _body(http: HeaderFields, body: bytes, max_bytes: int) -> bytes:
    """Return the decoded body of a response; ValueError if all of it is missing."""
    length = http.get("Content-Length") or ""
    if not body and length.isdecimal() and length.strip("0"):
        raise ValueError("its body is missing, of which HTTP has a Content-Length")
    transfer, content = (
        ",".join(http.all(name)) for name in ("Transfer-Encoding", "Content-Encoding")
    )
    return decoded_body(body, transfer, content, max_bytes)


def _value(fields: HeaderFields, name: str) -> str | None:
    """Return a field of the record; ids and URIs without enclosing <>."""
    value = fields.get(_FIELD_OF_NAME.get(name, name))
    if value is not None and name in _FIELD_OF_NAME and value[:1] + value[-1:] == "<>":
        return value[1:-1]
    return value
