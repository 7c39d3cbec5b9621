"""The character encoding of a page, and its text.

Servers declare their default, and pages that of their template: a declaration is used only if
the bytes agree with it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_MAX_UNDECODABLE = 1 / 4
"""Maximum share of the non-ASCII bytes that may be undecodable. Damaged UTF-8 has less, other
encodings decoded as UTF-8 have more."""

_EAST_ASIAN = {"gbk", "gb18030", "big5", "euc_jp", "shift_jis", "euc_kr", "iso2022_jp"}
_MIN_CONTINUATION_BYTES = 4
"""Short texts in these encodings may be valid UTF-8 by chance: of random common characters 18 % of
single ones in GBK, 3 % of two, 0.6 % of three, 0.1 % of four, 0.01 % of five (others less often).
They have one continuation byte a character, or fewer.
"""

_META_BYTES = 4096
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_META = re.compile(rb"""<meta[\s/][^>]*?charset\s*=\s*["']?\s*([^\s"'/>;]+)""", re.IGNORECASE)

_ALPHABETS = bytes(range(9))
"""In UTF-16 the upper bytes of characters from Latin to Arabic."""

_NOT_ASCII = bytes(range(0x80, 0x100))
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


def decode(data: bytes, charset: str | None = None, is_html: bool = True) -> str:
    """Return the bytes of a page as text; what its encoding does not allow becomes U+FFFD.

    ``charset`` is what HTTP declared; the encoding is that of `encoding_of`.
    """
    return data.decode(encoding_of(data, charset, is_html), "replace")


def encoding_of(data: bytes, charset: str | None = None, is_html: bool = True) -> str:
    """Return the name of the Python codec that decodes a page; a byte order mark is not text.

    In this order:

    1. that of a byte order mark;
    2. UTF-8 for bytes that are valid UTF-8, whatever is declared; a last character may be cut off.
       Where only East Asian encodings are declared, and decode the bytes too, there must be at
       least 4 continuation bytes, as few may be chance. ASCII is UTF-8, unless it is UTF-16 or
       ISO-2022-JP by its zero bytes or escape sequences;
    3. that of ``charset``, which HTTP declared, then that of the meta element of HTML, then the
       detected one: the first that leaves at most a quarter of the bytes beyond ASCII undecodable.
       UTF-16 must have zero bytes.

    Linear in the bytes; detection reads 128 KiB of them.

    Args:
        data: the bytes.
        charset: what HTTP declared, if anything. A name that is not known counts as none.
        is_html: whether to look for a meta element.
    """
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return encoding
    meta = _meta(data) if is_html else None
    declared = [encoding for encoding in (_python_name(charset), meta) if encoding]
    if is_utf8(data):
        if declared and all(_is_utf8_by_chance(data, name) for name in declared):
            return declared[0]
        # ISO-2022-JP is ASCII with escape sequences
        return _detected(data) if b"\x1b$" in data and data.isascii() else "utf-8"
    for encoding in _candidates(data, declared):
        if _fits(data, encoding):
            return encoding
    return "utf-8"


def _candidates(data: bytes, declared: list[str]) -> Iterator[str]:
    yield from declared
    yield _detected(data)


def _detected(data: bytes) -> str:
    from resiliparse.parse.encoding import detect_encoding

    return detect_encoding(data) or "utf-8"


def _python_name(charset: str | None) -> str | None:
    """Return the codec of an encoding as browsers name it; None for a name not known."""
    from resiliparse.parse.encoding import map_encoding_to_html5

    if not charset or not charset.isascii():
        return None
    return map_encoding_to_html5(charset.strip("\"' "), fallback_utf8=False)


def _meta(data: bytes) -> str | None:
    """Return the encoding that a meta element declares.

    Resiliparse reads it too, but does not return whether there was one, or it detected.
    """
    found = _META.search(_COMMENT.sub(b"", data[:_META_BYTES]))
    encoding = _python_name(found.group(1).decode("latin-1")) if found else None
    # a meta element that could be read is not in UTF-16, whatever it declares
    return "utf-8" if encoding and encoding.startswith("utf-16") else encoding


def is_utf8(data: bytes) -> bool:
    """Return whether ``data`` is valid UTF-8.

    The last character may be cut off, unless it is the only one beyond ASCII.
    """
    try:
        end = codecs.utf_8_decode(data, "strict", False)[1]
    except UnicodeDecodeError:
        return False
    return end == len(data) or not data[:end].isascii()


def _is_utf8_by_chance(data: bytes, declared: str) -> bool:
    """Return whether bytes that are valid UTF-8 may nevertheless be in the encoding declared."""
    if declared.startswith("utf-16"):
        # every other byte of most alphabets is a control character
        high = len(data) - len(data.translate(None, _ALPHABETS))
        return 0 in data and high * 4 > len(data)
    return (
        declared in _EAST_ASIAN
        and len(data) - len(data.translate(None, _CONTINUATION_BYTES)) < _MIN_CONTINUATION_BYTES
        and _undecodable(data, declared) == 0
    )


def _fits(data: bytes, encoding: str) -> bool:
    """Return whether ``data`` may be in this encoding."""
    if encoding.startswith("utf-16"):
        return 0 in data
    beyond_ascii = len(data) - len(data.translate(None, _NOT_ASCII))
    return _undecodable(data, encoding) <= beyond_ascii * _MAX_UNDECODABLE


def _undecodable(data: bytes, encoding: str) -> int:
    """Return the number of bytes that the encoding does not allow."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return len(data) - len(data.decode(encoding, "ignore").encode(encoding, "replace"))
    return 0
