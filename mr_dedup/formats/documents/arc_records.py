"""Find the records of ARC files, the archives of before WARC: version 1 and 2.

A record is a line, its header, and a block of as many bytes as that says. A header has the fields
of version 1, ``URL IP-address Archive-date Content-type Archive-length``, or of version 2, which
has five more before the last. URLs may contain blanks. The first record is the version block, whose
URL is ``filedesc://NAME``; files may be concatenated, so others may follow. Records are separated
by line ends, of which writers leave out some or add others.

Mike Burner and Brewster Kahle, *Arc File Format*, Internet Archive 1996.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mr_dedup.formats.content import Content
from mr_dedup.formats.documents.warc_records import (
    MAX_MARK_BYTES,
    Record,
    cut_record,
    go_to_next,
    is_copied,
    measured_block,
    too_long_record,
)

_SCHEME = rb"[A-Za-z][A-Za-z0-9+.-]{1,20}:"

MEMBER_BEGIN = rb"\s{0,8}" + _SCHEME + rb"[^\s]{2}"
"""How the content of a gzip member begins that begins with a record."""

_FILE_SCHEME = b"filedesc:"

_MAX_HEADER_BYTES = 1 << 13
"""Bytes of the longest header: URLs of crawlers have 2,000 at most."""

_DATE = rb" (?P<date>[0-9]{8,17}) "
_ADDRESS = re.compile(
    rb" (?P<ip>-|0|(?=[0-9A-Fa-f\[]{0,46}[.:])\[?[0-9A-Fa-f.:]{2,45}(?:%[0-9A-Za-z]{1,16})?\]?)"
    + _DATE
)
_NAME = re.compile(rb" (?P<ip>[^ \n]{1,64})" + _DATE)
"""What some crawlers wrote instead of an address: a name of a host, or of none."""

_LENGTH = re.compile(rb" (?P<length>[0-9]{1,18}) {0,4}\r?\n\Z")
_BEGIN = re.compile(_SCHEME)
_LINE = re.compile(rb"\n(?=" + _SCHEME + rb")")
_USUAL_SCHEME = re.compile(
    rb"(?:https?|ftp|dns|whois|filedesc|gopher|nntp|news|mailto|file|rtsp|mms|wais|telnet):"
)
_LINE_END = re.compile(rb"\n")
_HTTP = re.compile(rb"(?:HTTP/[0-9.]+|ICY)[ \t]+[0-9]{3}", re.IGNORECASE)

_SEPARATORS = b"\r\n\0"
_FIELDS_OF_VERSION_2 = 6
"""Fields between the date and the length: the type of the content, and five more."""

_VERSION_BLOCK = {
    1: b"1 0 mr_dedup\nURL IP-address Archive-date Content-type Archive-length\n",
    2: b"2 0 mr_dedup\nURL IP-address Archive-date Content-type Result-code Checksum Location "
    b"Offset Filename Archive-length\n",
}


class _Header(NamedTuple):
    """The header of a record: its line, the fields, and where in the line the length is."""

    line: bytes
    url: bytes
    ip: bytes
    date: bytes
    rest: list[bytes]
    length: int
    span: tuple[int, int]


def _header_of(beginning: bytes, is_known: bool = False) -> _Header | None:
    """Return the header that these bytes begin with; linear in them.

    Args:
        beginning: The bytes of a line, and others after it.
        is_known: Whether a record must begin here, whatever its address.
    """
    line = beginning[: beginning.find(b"\n") + 1]
    end = _LENGTH.search(line, max(0, len(line) - 32))
    if end is None or _BEGIN.match(line) is None:
        return None
    found = _ADDRESS.search(line) or (_NAME.search(line) if is_known else None)
    if found is None or found.end() > end.start() + 1:
        return None
    fields = line[found.end() : end.start()].split()
    span = end.span("length")
    return _Header(
        line, line[: found.start()], found["ip"], found["date"], fields, int(end["length"]), span
    )


def is_arc(content: Content) -> bool:
    """Return whether content begins with the header of a record of ARC."""
    beginning = content.peek(_MAX_HEADER_BYTES).lstrip(b"\r\n \t")
    return beginning.startswith(_FILE_SCHEME) or _header_of(beginning) is not None


def read_arc_record(content: Content, offset: int, wanted: bool, max_record_bytes: int) -> Record:
    """Read the record of ARC at the position, with its data only if ``wanted``.

    It has a header of WARC with the fields of its own, and its bytes as ``original``. Its length is
    trusted only if another header, the end of the content, or a line end follows.
    """
    found = content.search(_LINE_END, 0, _MAX_HEADER_BYTES)
    header = _header_of(content.peek(found[1] if found else 0), is_known=True)
    if header is None:
        is_followed = _find_next(content)
        if not is_followed:
            content.raise_damage()
        fault = "is not an ARC record, or its header is damaged"
        return Record(offset, fault=fault, rest_of_file=not (offset or is_followed))
    line, size = header.line, header.length
    if len(line) + size > max_record_bytes:
        if _is_record_end(content, len(line) + size):
            content.skip(len(line) + size)
        elif not _find_next(content):
            content.raise_damage()
        return too_long_record(offset, max_record_bytes)
    if not _is_record_end(content, len(line) + size) and not _is_divided(content, len(line), size):
        return _measured(content, offset, header, max_record_bytes)
    content.skip(len(line))
    if not wanted:
        content.skip(size)
        return Record(offset)
    return _record(offset, header, content.read(size))


def _record(offset: int, header: _Header, block: bytes) -> Record:
    """Return a record with a header of WARC."""
    url, date = header.url, header.date.ljust(14, b"0")[:14]
    kind = b"response" if _HTTP.match(block) else b"resource"
    if url.startswith(_FILE_SCHEME):
        kind = b"warcinfo"
    declared = b"" if kind == b"response" or not header.rest else header.rest[0]
    if declared.lower() == b"no-type":
        declared = b""
    moment = re.sub(rb"(....)(..)(..)(..)(..)(..)", rb"\1-\2-\3T\4:\5:\6Z", date)
    fields = (
        (b"WARC-Type", kind), (b"WARC-Target-URI", url), (b"WARC-Date", moment),
        (b"WARC-IP-Address", header.ip), (b"Content-Type", declared),
        (b"Content-Length", b"%d" % len(block)),
    )  # fmt: skip
    lines = b"".join(b"%s: %s\r\n" % field for field in fields)
    begin, end = header.span
    original = b"%s%d%s" % (header.line[:begin], len(block), header.line[end:])
    return Record(
        offset, b"ARC\r\n" + lines + b"\r\n", block, original=b"".join([original, block, b"\n"])
    )


def _measured(content: Content, offset: int, header: _Header, max_record_bytes: int) -> Record:
    """Read the record at the position, the length of which is wrong, up to the next record.

    As ``warc_records``: it is taken if its bytes are counted otherwise, or if it is the last one of
    cut data.
    """
    begin, size = len(header.line), header.length
    found = _find_header(content, begin - 1, max_record_bytes)
    if found is not None:
        content.skip(begin)
        block = measured_block(content.read(found + 1 - begin), size)
        return cut_record(offset) if block is None else _record(offset, header, block)
    block = content.peek_at(begin, max_record_bytes)
    if content.is_cut_short:
        # the last page, as far as it is there; the damage is reported after it
        content.skip(begin + len(block))
        return _record(offset, header, block[:size])._replace(is_cut=True)
    if not _find_next(content):
        content.raise_damage()
        if is_copied(block, size):
            return _record(offset, header, block.rstrip(b"\r\n"))
    return cut_record(offset)


def _is_record_end(content: Content, ahead: int) -> bool:
    """Return whether a record may end ``ahead`` bytes after the position."""
    if content.size is not None and content.position + ahead > content.size:
        return False
    # one byte before: content that ends there is truncated
    following = content.peek_at(ahead - 1, 1 + _MAX_HEADER_BYTES)
    if not following:
        return False
    following = following[1:]
    stripped = following.lstrip(_SEPARATORS)
    if not stripped:
        return True
    # without a line end before it, it may be within a header
    is_begin = len(stripped) < len(following) or _USUAL_SCHEME.match(stripped) is not None
    return is_begin and _header_of(stripped, is_known=True) is not None


def _is_divided(content: Content, begin: int, size: int) -> bool:
    """Return whether a line end follows a block, and a URL, or no record begins in the block."""
    following = content.peek_at(begin + size, MAX_MARK_BYTES)
    if following[:1] not in (b"\n", b"\r"):
        return False
    if _BEGIN.match(following.lstrip(_SEPARATORS)):
        return True
    return _find_header(content, begin - 1, begin + size) is None


def _find_next(content: Content) -> bool:
    """Go to the next record, or to the end; return False at the end."""
    # the one at the position is not searched for again
    content.skip(1)

    def find(stop: int) -> int | None:
        found = _find_header(content, 0, stop)
        return None if found is None else found + 1

    return go_to_next(content, find)


def _find_header(content: Content, start: int, stop: int) -> int | None:
    """Return where the line ends before which a header begins, from the position; or None.

    Args:
        content: What is searched.
        start, stop: From where to where that line may end.
    """
    while (found := content.search(_LINE, start, stop, MAX_MARK_BYTES)) is not None:
        start = found[1]
        if _header_of(content.peek_at(start, _MAX_HEADER_BYTES)) is not None:
            return start - 1
    return None


def version_block(name: str, record: bytes) -> bytes:
    """Return what a file begins with whose first record this is.

    Args:
        name: The name of the file.
        record: The bytes of a record of ARC.

    Returns:
        A version block, with the version and the date of the record; empty if it is not of ARC.
    """
    header = _header_of(record)
    if header is None:
        return b""
    is_second = len(header.rest) >= _FIELDS_OF_VERSION_2
    block = _VERSION_BLOCK[2 if is_second else 1] + b"\n"
    shown = name.replace(" ", "_").encode(errors="replace")
    more = b" 200 - - 0 %s" % shown if is_second else b""
    head = b"filedesc://%s 0.0.0.0 %s text/plain%s" % (shown, header.date, more)
    return b"%s %d\n%s\n" % (head, len(block), block)
