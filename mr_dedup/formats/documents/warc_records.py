"""Find the records of WARC files: where each begins and ends, whatever is wrong with them.

FastWARC's iterator accepts truncated records, ends at the first damaged one, and knows the length
and type of a record only by one spelling of their names. A range of a file is read from header to
header from its beginning, since a page may contain what looks like a record.

WARC 0.17 to 1.1 is read, with lines that end with CR LF or LF. ClueWeb09 has headers with an empty
line in them, and copies with other line ends than their lengths count; in ClueWeb22 the first
record has no length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mr_dedup.formats.content import Content
from mr_dedup.formats.documents.header_fields import HeaderFields

PIECE_BYTES = 1 << 13
"""What is read at a time: little more than the headers, when going from one to the next."""

MEMBER_BEGIN = rb"\s{0,8}WARC/[0-9]\.[0-9]{1,2}[ \t]{0,4}\r?\n"
"""How the content of a gzip member begins that begins with a record."""

_MAGIC = b"WARC/"
_RECORD_END = b"\r\n\r\n"

_LINE_ENDS, _PADDING = b"\r\n", b"\r\n\0 \t"
"""Bytes that may separate records: tapes and tar add NULs, editors blanks."""

_MAX_NULS = 20 * 512
"""NULs that may end a file, as tar adds them. More are data that was never written."""

_HEADER_END = re.compile(rb"\n(?:\r?\n|(?=WARC/[0-9]))")
"""The empty line that must end a header, or the next record."""

_LENGTH_FURTHER_ON = re.compile(
    rb"\n(?:content-length[ \t]{0,9}:|WARC/[0-9]|HTTP/[0-9])", re.IGNORECASE
)
"""A length after an empty line, or a sign that the line was the end of the header."""

_NEXT_RECORD = re.compile(
    rb"WARC/(?<=[\n\0 \t]WARC/)[0-9]\.[0-9]{1,2}[ \t]{0,4}\r?\n[A-Za-z-]{2,32}[ \t]{0,4}:"
)
"""The beginning of a record; a pattern that begins with a literal is 30 times as fast."""

_LENGTH = re.compile(
    rb"\ncontent-length[ \t]*:[ \t\r\n]*0*([0-9]{1,18})[ \t]*(?=\r?\n)", re.IGNORECASE
)
_LENGTH_FIELD = re.compile(rb"(?ims)^content-length[ \t]*:.*?\n(?![ \t])")

_EMPTY_LINE = re.compile(rb"(?m)^\r*\n")

_TRAILER_BYTES = 16
_MAX_TRAILING_LINES = 4
_BLANK_BYTES = 1 << 12
_SCAN_BYTES = 1 << 16
MAX_MARK_BYTES = 64
"""Bytes of the longest mark by which a record is found."""

_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


class Record(NamedTuple):
    """A record: its byte offset, header and block; or only ``fault``, for which it is rejected.

    The header is the original without empty lines in it, and with one length, that of the block.
    Where it is made of that of another format, ``original`` are the bytes of the record in that.
    ``is_cut`` is the last one of compressed data that is cut short, as far as it is there.
    """

    offset: int
    header: bytes = b""
    block: bytes = b""
    fault: str | None = None
    rest_of_file: bool = False
    original: bytes | None = None
    is_cut: bool = False

    @property
    def content(self) -> bytes:
        """The record as it is kept."""
        if self.original is not None:
            return self.original
        return b"".join([self.header, self.block, _RECORD_END])


ReadRecord = Callable[[Content, int, bool, int], Record]
"""Reads the record at the position, which is given too, with its data only if wanted, and of so
many bytes at most."""


def records(
    content: Content,
    start: int,
    stop: int | None,
    max_record_bytes: int,
    read_record: ReadRecord,
) -> Iterator[Record]:
    """Yield the records, and the damaged ones, that begin at bytes ``start`` to ``stop``.

    Raises FormatError where the content is damaged, and for a record at the beginning of a damaged
    gzip member.

    Args:
        content: The content of a file.
        start, stop: A range of bytes; up to the end without ``stop``.
        max_record_bytes: Longer records are rejected.
        read_record: Reads a record of the format.
    """
    while True:
        end = content.position
        nuls = _skip_padding(content)
        offset = content.position
        if nuls > _MAX_NULS and end >= start and not content.peek(1):
            content.raise_damage()
            if stop is None or end < stop:
                yield Record(end, fault=f"ends with {nuls:,} NUL bytes", rest_of_file=True)
            return
        if stop is not None and offset >= stop:
            return
        if not content.peek(1):
            content.raise_damage()
            return
        record = read_record(content, offset, offset >= start, max_record_bytes)
        if content.damaged_from == offset:
            # the record is in the damaged member: its own fault is unknown
            content.raise_damage()
        if offset >= start:
            yield record


def read_warc_record(content: Content, offset: int, wanted: bool, max_record_bytes: int) -> Record:
    """Read the record of WARC at the position, with its data only if ``wanted``.

    Its length is trusted only if an empty line, another record or the end of the content follows.
    """
    header = _header(content, max_record_bytes)
    if header is None:
        begins = _MAGIC.startswith(content.peek(len(_MAGIC)))
        is_followed = _find_next(content)
        if not is_followed:
            content.raise_damage()
        is_cut = begins and not is_followed and content.position - offset < max_record_bytes
        fault = f"is not a WARC record, or its header is {'cut short' if is_cut else 'damaged'}"
        # a file without any record is of another format
        return Record(offset, fault=fault, rest_of_file=not (offset or is_followed))
    length = _LENGTH.search(header)
    if length is None:
        content.skip(len(header) - 1)
        _find_next(content)
        # the first record of ClueWeb22's files
        is_sound = (HeaderFields(header).get("WARC-Type") or "").lower() == "warcinfo"
        reason = "has no Content-Length that is a number of bytes"
        return Record(offset, header, fault=None if is_sound else reason)
    size = int(length.group(1))
    is_too_long = len(header) + size > max_record_bytes
    if is_too_long and content.size is None:
        # not seekable: a wrong length would skip other records, which could not be read again
        content.skip(len(header) - 1)
        is_followed = _find_next(content)
        if content.position >= offset + len(header) + size:
            return too_long_record(offset, max_record_bytes)
        if not is_followed:
            content.raise_damage()
        return cut_record(offset)
    if not _is_record_end(content, len(header) + size):
        return _measured(content, offset, header, size, max_record_bytes)
    content.skip(len(header))
    if wanted and not is_too_long:
        return Record(offset, _cleaned(header), content.read(size))
    content.skip(size)
    return too_long_record(offset, max_record_bytes) if is_too_long else Record(offset)


def _header(content: Content, max_bytes: int) -> bytes | None:
    """Return the header at the position, with the empty line that ends it; None if there is none.

    It has at most ``max_bytes``. An empty line without a length before it is part of the header if
    a length follows before the block or the next record.
    """
    if content.peek(len(_MAGIC)) != _MAGIC:
        return None
    end = content.search(_HEADER_END, 0, max_bytes)
    if end is None or end[1] - end[0] == 1:
        return None
    header = content.peek(end[1])
    if _LENGTH.search(header):
        return header
    found = content.search(_LENGTH_FURTHER_ON, len(header) - 1, max_bytes)
    if found is None or content.peek_at(found[0] + 1, 1) not in b"cC":
        return header
    end = content.search(_HEADER_END, found[1], max_bytes)
    return header if end is None or end[1] - end[0] == 1 else content.peek(end[1])


def _measured(
    content: Content, offset: int, header: bytes, size: int, max_record_bytes: int
) -> Record:
    """Read the record at the position, the length of which is wrong, up to the next record.

    It is taken up to there if it has as many bytes as its length when its line ends, or its
    characters beyond ASCII, are counted otherwise; or else rejected.
    """
    begin = len(header)
    # from the last byte of the header, which may be what the next record follows
    found = content.search(_NEXT_RECORD, begin - 1, max_record_bytes)
    if found is None:
        block = content.peek_at(begin, max_record_bytes)
        if content.is_cut_short:
            # the last page, as far as it is there; the damage is reported after it
            content.skip(begin + len(block))
            return _with_length(offset, header, block[:size])._replace(is_cut=True)
        if not _find_next(content):
            content.raise_damage()
            if is_copied(block, size):
                return _with_length(offset, header, block.rstrip(b"\r\n"))
        return cut_record(offset)
    content.skip(begin)
    measured = measured_block(content.read(found[0] - begin), size)
    return cut_record(offset) if measured is None else _with_length(offset, header, measured)


def measured_block(block: bytes, size: int) -> bytes | None:
    """Return the block of a record whose length is wrong; None if it is not counted otherwise.

    Args:
        block: What there is up to the next record.
        size: The length that the record has.
    """
    stripped = block.rstrip(_PADDING)
    max_size = len(block) + block.count(b"\n")
    counted = len(stripped.translate(None, _CONTINUATION_BYTES + b"\r"))
    if not counted <= size <= max_size:
        return None
    return block[: max(size, len(stripped))]


def is_copied(block: bytes, size: int) -> bool:
    """Return whether the last block of a file is complete, but for its line ends.

    Then ``size`` is the size that the block would have with CR LF at the end of all lines, of
    those of its HTTP header, or of none.
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
    """Return a header without empty lines but the last, and with one length, the one in use."""
    length = _LENGTH.search(header)
    assert length is not None
    used = length.start() + 1
    header = _LENGTH_FIELD.sub(lambda it: it.group() if it.start() == used else b"", header)
    # not split into lines: of a header of 64 MB these would take gigabytes
    return _EMPTY_LINE.sub(b"", header) + (b"\r\n" if header.endswith(b"\r\n") else b"\n")


def _with_length(offset: int, header: bytes, block: bytes) -> Record:
    """Return a record whose header has the length of its block."""
    header = _cleaned(header)
    length = _LENGTH.search(header)
    assert length is not None
    begin, end = length.span(1)
    return Record(offset, b"%s%d%s" % (header[:begin], len(block), header[end:]), block)


def cut_record(offset: int) -> Record:
    """Return a record that has fewer bytes than its length, or another length."""
    return Record(offset, fault="is cut short, or its length is wrong")


def too_long_record(offset: int, max_record_bytes: int) -> Record:
    """Return a record that has more bytes than are read."""
    return Record(offset, fault=f"is longer than {max_record_bytes} bytes")


def _is_record_end(content: Content, ahead: int) -> bool:
    """Return whether a record may end ``ahead`` bytes after the position."""
    if content.size is not None and content.position + ahead > content.size:
        return False
    # one byte before: content that ends there is truncated
    following = content.peek_at(ahead - 1, 1 + _TRAILER_BYTES)
    if not following:
        return False
    following = following[1:]
    if following.startswith(_RECORD_END):
        return True
    if following.strip(_LINE_ENDS) and not following.strip(_PADDING):
        # as many blanks may be within a page
        following = content.peek_at(ahead, _BLANK_BYTES)
    following = following.lstrip(_PADDING)
    return not following or following.startswith(_MAGIC[: len(following)])


def _skip_padding(content: Content) -> int:
    """Skip bytes between records, before the first one only line ends; return how many NULs."""
    nuls = 0
    padding = _PADDING if content.position else _LINE_ENDS
    # hardly ever more than two line ends
    max_bytes = _TRAILER_BYTES
    while some := content.peek_some(max_bytes):
        max_bytes = _BLANK_BYTES
        size = len(some) - len(some.lstrip(padding))
        nuls += some.count(b"\0", 0, size)
        content.skip(size)
        if size < len(some):
            break
    return nuls


def _find_next(content: Content) -> bool:
    """Go to the next record, or to the end; return False at the end."""

    def find(stop: int) -> int | None:
        found = content.search(_NEXT_RECORD, 0, stop)
        return None if found is None else found[0]

    return go_to_next(content, find)


def go_to_next(content: Content, find: Callable[[int], int | None]) -> bool:
    """Go to the next record, or to the end; return False at the end.

    Args:
        content: What is searched.
        find: Returns where a record begins, from the position, in so many bytes.
    """
    step = _SCAN_BYTES - MAX_MARK_BYTES
    while True:
        found = find(_SCAN_BYTES)
        if found is not None:
            content.skip(found)
            return True
        if len(content.peek_at(step, 1)) == 0:
            content.skip(step)
            return False
        content.skip(step)
