"""The body of an HTTP response, decoded by what its bytes are.

Crawlers keep the original headers, but many write the body decoded: Common Crawl's older files have
``Content-Encoding: gzip`` before plain pages. So the header is a hint, and the bytes decide.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from mr_dedup.errors import FormatError
from mr_dedup.formats.compression import (
    ChecksumError,
    Coding,
    CutShortError,
    TrailingDataError,
    compression_by_magic,
    decompressed,
)

_MAX_LAYERS = 8
_MAX_SIZE_LINE_BYTES = 4096
"""Of a chunk: its size, and extensions."""

_SIZE_LINE = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(?:;[^\n]*)?\r?\n")

_GUESSED: tuple[Coding, ...] = ("zlib", "deflate", "br")
_MAX_EMPTY_BYTES = 16
"""Compressed data of an empty body is shorter."""

_MAX_LINE_END_BYTES = 4
"""Maximum number of line end bytes after the data in a record: an empty line."""

_LAST_CHUNK_END = re.compile(rb"\r?\n|[!#$%&'*+.^_`|~0-9A-Za-z-]+:")
"""An empty line, or the name of a trailer field."""

_CUT_SIZE_LINE = re.compile(rb"[0-9a-fA-F]{0,16}[ \t]*\r?\Z")
_LINE_END = re.compile(rb"\r?(?:\n|\Z)")

_SAMPLE_BYTES = 1024
# backspaces, of manual pages, are text
_CONTROLS = bytes(sorted({*range(32)} - {*b"\b\t\n\f\r\x1b"}))
MAX_CONTROLS = 1 / 25
"""Of text at most one in 25 bytes is a control character; of compressed data one in 10 is."""

# those that the WHATWG's MIME Sniffing Standard has browsers look for, and meta
_LOOKS_LIKE_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*<(?:!--|\?xml\s|(?:!doctype html|html|head|script|iframe|h1|div|font"
    rb"|table|a|style|title|b|body|br|p|meta)[\s>])",
    re.IGNORECASE,
)


class UndecodableError(ValueError):
    """A body that cannot be decoded; its message is the reason of the reject."""


def decoded_body(body: bytes, transfer: str, content: str, max_bytes: int) -> bytes:
    """Return a body without its transfer and content codings.

    Chunks are joined if the body consists of them to its end, or is declared to and begins with
    one. Data with a magic number of gzip or zstd is decompressed, whatever is declared. Data that
    is not text is tried as zlib, DEFLATE and Brotli data, and returned unchanged if it is none. Of
    truncated data, or data with a wrong checksum, what can be decompressed is returned, if that is
    not empty and the data has a magic number or is declared to be compressed. Bytes after the last
    chunk, and after gzip, zstd and zlib data, are dropped, and so are line ends after DEFLATE and
    Brotli data.

    Args:
        body: as it was received.
        transfer: the value of Transfer-Encoding, several separated by commas.
        content: the value of Content-Encoding.
        max_bytes: the largest result, and the largest intermediate one.

    Raises:
        UndecodableError: it is damaged, too large, or declared to be compressed and neither that
            nor text.
    """
    transfers, left = _tokens(transfer), _tokens(content)
    # gzip, chunked: a transfer coding is one more content coding
    left += [coding for coding in transfers if coding != "chunked"]
    body = _dechunked(body, "chunked" in transfers)
    for _ in range(_MAX_LAYERS):
        coding, content_of_body = _decompressed_once(body, bool(left), max_bytes)
        if coding is None:
            break
        name = "deflate" if coding == "zlib" else coding
        if left:
            # servers take one name for another, too
            left.pop(left.index(name) if name in left else -1)
        body = content_of_body
    if left and not is_text_like(body):
        raise UndecodableError(
            f"its body is declared to be compressed ({left[-1][:20]}), but is not"
        )
    if len(body) > max_bytes:
        raise UndecodableError(f"it is longer than {max_bytes} bytes")
    return body


def looks_like_html(data: bytes, at: int = 0) -> bool:
    """Return whether ``data`` has white space and a tag of HTML, or a comment, from ``at`` on."""
    return _LOOKS_LIKE_HTML.match(data, at) is not None


def _tokens(header: str) -> list[str]:
    """Return the codings of a header, in order, without identity."""
    names = (name.strip().lower().removeprefix("x-") for name in header.split(","))
    return [name for name in names if name not in ("", "identity", "none")]


def _dechunked(body: bytes, is_declared: bool) -> bytes:
    """Return the content of a body in chunks; the body as it is where it is not in chunks.

    Where one that is declared as chunks is damaged further on, what follows is taken as it is.
    """
    content = bytearray()
    at = 0
    while size_line := _SIZE_LINE.match(body, at, at + _MAX_SIZE_LINE_BYTES):
        begin = size_line.end()
        end = begin + int(size_line.group(1), 16)
        if begin == end:
            # the last chunk: what follows it is not in chunks
            if not body[end:].strip():
                return bytes(content) if at or is_declared else body
            if at and is_declared and _LAST_CHUNK_END.match(body, end):
                return bytes(content)
            break
        line_end = _LINE_END.match(body, min(end, len(body)))
        if line_end is None or (not at and end > len(body) and _is_text(body)):
            break
        content += body[begin:end]
        at = line_end.end()
    if not at or not is_declared:
        return body
    if not _CUT_SIZE_LINE.match(body, at):
        content += body[at:]
    return bytes(content)


def _decompressed_once(
    body: bytes, is_declared: bool, max_bytes: int
) -> tuple[Coding | None, bytes]:
    """Return how the body is compressed, None if it is not, and its content."""
    tolerated: tuple[type[FormatError], ...]
    found = compression_by_magic(body)
    # HTTP has no coding lz4: a body that begins so is a binary file, not a compressed page
    if found is not None and found != "lz4":
        try:
            return found, _decompressed(
                body, found, max_bytes, (CutShortError, TrailingDataError, ChecksumError)
            )
        except FormatError as error:
            raise UndecodableError(f"its body cannot be decompressed: {error.reason}") from error
    if _is_text(body):
        return None, body
    for stored in _without_line_ends(body):
        for coding in _GUESSED:
            # a zlib checksum is at its end
            tolerated = (TrailingDataError,) if coding == "zlib" else ()
            if (content := _guessed(stored, coding, max_bytes, tolerated)) is not None:
                return coding, content
    # without a magic number or checksum, any bytes may begin as compressed data does
    if is_declared and not is_text_like(body):
        for coding in _GUESSED:
            tolerated = CutShortError, ChecksumError
            if (content := _guessed(body, coding, max_bytes, tolerated)) is not None:
                return coding, content
    return None, body


def _without_line_ends(body: bytes) -> Iterator[bytes]:
    """Yield a body, then without each of the line end bytes that it ends with."""
    end = len(body)
    for _ in range(_MAX_LINE_END_BYTES + 1):
        yield body[:end]
        if body[end - 1 : end] not in (b"\r", b"\n"):
            return
        end -= 1


def _guessed(
    body: bytes, coding: Coding, max_bytes: int, tolerated: tuple[type[FormatError], ...]
) -> bytes | None:
    """Return the content of a body, None if it is not compressed so."""
    try:
        content = _decompressed(body, coding, max_bytes, tolerated)
    except FormatError:
        return None
    return content if content or len(body) <= _MAX_EMPTY_BYTES else None


def _decompressed(
    body: bytes, coding: Coding, max_bytes: int, tolerated: tuple[type[FormatError], ...]
) -> bytes:
    """Return the content of a body.

    Raises FormatError for damage other than ``tolerated``, and for any before its content.
    """
    content = bytearray()
    try:
        for piece in decompressed(io.BytesIO(body), "body", coding):
            content += piece
            if len(content) > max_bytes:
                raise UndecodableError(f"it is longer than {max_bytes} bytes")
    except tolerated:
        if not content:
            raise
    return bytes(content)


def _is_text(body: bytes) -> bool:
    """Return whether a body is text, and so not compressed, whatever is declared."""
    sample = body[:_SAMPLE_BYTES]
    if not is_text_like(sample):
        return False
    try:
        sample.decode()
    except UnicodeDecodeError as error:
        # the last character of the sample may be cut
        is_cut = len(body) > len(sample) and error.start >= len(sample) - 3
        return is_cut or looks_like_html(sample)
    return True


def is_text_like(body: bytes) -> bool:
    """Return whether a body has as few control characters as text, in whatever encoding."""
    sample = body[:_SAMPLE_BYTES]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return sample[:2] in (b"\xff\xfe", b"\xfe\xff") or controls <= len(sample) * MAX_CONTROLS
