"""The content of files of lines in other encodings, as UTF-8, so that lines end with a byte LF."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from mr_dedup.errors import FormatError
from mr_dedup.formats.content import Content
from mr_dedup.formats.documents.encoding import encoding_of_mark

_READ_BYTES = 1 << 18
_MARK_BYTES = 4


def transcoding_of(content: Content, encoding: str | None) -> str | None:
    """Return the codec that a content at its beginning must be decoded by; None if it is UTF-8.

    It is that of its byte order mark, else ``encoding``.
    """
    found = encoding_of_mark(content.peek_at(0, _MARK_BYTES)) or encoding
    return None if found in ("utf-8", "utf-8-sig") else found


def transcoded(content: Content, encoding: str, name: str) -> Content:
    """Return a content as UTF-8; ``position`` counts its bytes.

    What the encoding does not allow is left as bytes that are not UTF-8, for the reader to reject
    the line. Raises FormatError, naming the file ``name``, for a character that the end cuts off.
    """
    return Content(_pieces(content, encoding, name), name)


def _pieces(content: Content, encoding: str, name: str) -> Iterator[bytes]:
    errors = "surrogatepass" if encoding.startswith(("utf-16", "utf-32")) else "surrogateescape"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    while True:
        begin = content.position
        piece = content.read(_READ_BYTES)
        try:
            text = decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            at = f"byte {begin - len(error.object) + len(piece) + error.start}"
            raise FormatError(name, at, f"is not {encoding.upper()}") from error
        yield text.encode("utf-8", errors)
        if not piece:
            return
