"""The character encoding of a page or a text, and its characters.

Servers declare their default, and pages that of their template: a declaration is used only if
the bytes agree with it.
"""

from __future__ import annotations

import codecs
import re

from mr_dedup.formats.documents.charsets import codec_of, extended
from mr_dedup.formats.documents.plausibility import implausible_share

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")

_MAX_UNDECODABLE = 1 / 4
"""Maximum share of the non-ASCII bytes that may be undecodable. Damaged UTF-8 has less, other
encodings decoded as UTF-8 have more."""

_MAX_IMPLAUSIBLE = 1 / 20
"""Share of the non-ASCII characters that may be implausible in the encoding that is declared."""

_EAST_ASIAN = ("cp949", "gb18030", "euc_jp", "cp932", "big5hkscs", "shift_jis", "big5", "cp950")
_OTHERS = ("cp1252", "utf-8", *_EAST_ASIAN[:5], "mac-roman")
"""Encodings that may be, whatever is detected."""

_JAPANESE = ("cp932", "euc_jp", "shift_jis")
_ESCAPED = ("iso2022_jp_2", "iso2022_kr", "hz")
"""ASCII with escape sequences."""

_MIN_CONTINUATION_BYTES = 4
"""Short texts in these encodings may be valid UTF-8 by chance: of random common characters 18 % of
single ones in GBK, 3 % of two, 0.6 % of three, 0.1 % of four, 0.01 % of five (others less often).
They have one continuation byte a character, or fewer.
"""

_MIN_DETECTED = 4
"""Bytes beyond ASCII from which on the detected encoding comes before windows-1252."""

_MIN_HANGUL = 12
"""Hangul has the first bytes of half of the common characters of GBK: so many in sequence are
Chinese in one of thousands of texts."""

_DECLARED_BYTES = 4096
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_META = re.compile(rb"""<meta[\s/][^>]*?charset\s*=\s*["']?\s*([^\s"'/>;]+)""", re.IGNORECASE)
_XML = re.compile(rb"""\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([^"'>]{1,40})["']""")

_NOT_ASCII = bytes(range(0x80, 0x100))
_ASCII = bytes(range(0x80))
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))

_SAMPLE_BYTES = 1 << 14
# two bytes before, of which the last may end a character, and one after
_ASCII_RUN = re.compile(rb"(?<=[\x00-\x7f]{2})[\x00-\x7f]{64,}")


def decode(data: bytes, charset: str | None = None, is_html: bool = True) -> str:
    """Return the bytes of a page as text; what its encoding does not allow becomes U+FFFD.

    ``charset`` is what HTTP declared; the encoding is that of `encoding_of`.
    """
    return data.decode(encoding_of(data, charset, is_html), "replace")


def encoding_of(data: bytes, charset: str | None = None, is_html: bool = True) -> str:
    """Return the name of the Python codec that decodes a page; a byte order mark is not text.

    In this order:

    1. that of a byte order mark;
    2. UTF-16 or UTF-32, if there are zero bytes and the characters are plausible;
    3. UTF-8 for bytes that are valid UTF-8, whatever is declared; a last character may be cut off.
       Where only East Asian encodings are declared, and decode the bytes too, there must be at
       least 4 continuation bytes, as few may be chance. ASCII is UTF-8, unless it is ISO-2022 or
       HZ by its escape sequences;
    4. UTF-8 for bytes of which three quarters beyond ASCII are characters of UTF-8;
    5. that of ``charset``, which HTTP declared, then that of the meta element or of the XML
       declaration: the first that makes plausible characters of all but a twentieth;
    6. of these, East Asian ones and the detected one, that of the fewest implausible characters.

    Linear in the bytes; detection and plausibility take 16 KiB, of what is not ASCII and around it.

    Args:
        data: the bytes.
        charset: what HTTP declared, if anything. A name that is not known counts as none.
        is_html: whether to look for a meta element.
    """
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return encoding
    by_http = codec_of(charset)
    if by_http:
        by_http = extended(by_http, data)
    if 0 in data and (wide := _wide(data, by_http)):
        return wide
    declared = [name for name in (by_http, _declared_inside(data, is_html)) if name]
    if is_utf8(data):
        if data.isascii():
            return _escaped(data, declared) or "utf-8"
        by_chance = declared and all(_is_utf8_by_chance(data, name) for name in declared)
        return declared[0] if by_chance else "utf-8"
    if _is_nearly_utf8(data):
        return "utf-8"
    return _most_plausible(data, [name for name in declared if name not in (*_WIDE, "utf-8")])


def is_utf8(data: bytes) -> bool:
    """Return whether ``data`` is valid UTF-8.

    The last character may be cut off, unless it is the only one beyond ASCII.
    """
    try:
        end = codecs.utf_8_decode(data, "strict", False)[1]
    except UnicodeDecodeError:
        return False
    return end == len(data) or not data[:end].isascii()


def _declared_inside(data: bytes, is_html: bool) -> str | None:
    """Return the encoding that an XML declaration or a meta element declares."""
    head = data[:_DECLARED_BYTES]
    found = _XML.match(head)
    if found is None and is_html:
        found = _META.search(_COMMENT.sub(b"", head))
    encoding = codec_of(found.group(1).decode("latin-1")) if found else None
    # one that could be read is not in UTF-16, whatever it declares
    return "utf-8" if encoding in _WIDE else encoding


def _wide(data: bytes, declared: str | None) -> str | None:
    """Return which of UTF-16 and UTF-32 bytes without a mark are in; None if they are in neither.

    With either byte order other letters, and mostly no words, come out.
    """
    sample = data[:_SAMPLE_BYTES]
    shares = {}
    for name in _WIDE:
        text = sample.decode(name, "replace").strip("\0")
        # of a page that is padded with NULs there is little more than these
        if text and "\0" not in text and text.count("\ufffd") * 25 <= len(text):
            share = implausible_share(text, of_all=True)
            shares[name] = share - (0.01 if name == declared else 0)
    best = min(shares, key=shares.__getitem__, default=None)
    return best if best and shares[best] <= _MAX_IMPLAUSIBLE else None


def _escaped(data: bytes, declared: list[str]) -> str | None:
    """Return the encoding of ASCII with the escape sequences of one; None if there are none."""
    candidates = [name for name in declared if name in _ESCAPED]
    if b"\x1b$)C" in data:
        candidates = ["iso2022_kr"]
    elif b"\x1b$" in data:
        candidates = ["iso2022_jp_2"]
    elif b"~{" not in data:
        return None
    return candidates[0] if candidates else None


def _is_utf8_by_chance(data: bytes, declared: str) -> bool:
    """Return whether bytes that are valid UTF-8 may nevertheless be in the encoding declared."""
    return (
        declared in _EAST_ASIAN
        and len(data) - len(data.translate(None, _CONTINUATION_BYTES)) < _MIN_CONTINUATION_BYTES
        and "\ufffd" not in data.decode(declared, "replace")
    )


def _is_nearly_utf8(data: bytes) -> bool:
    """Return whether three quarters of the bytes beyond ASCII are characters of UTF-8."""
    beyond_ascii = len(data) - len(data.translate(None, _NOT_ASCII))
    valid = data.decode("utf-8", "ignore").encode()
    undecodable = len(data) - len(valid)
    return undecodable <= beyond_ascii * _MAX_UNDECODABLE


def _most_plausible(data: bytes, declared: list[str]) -> str:
    """Return the encoding of bytes that are not UTF-8."""
    sample = _ASCII_RUN.sub(b" ", data)[:_SAMPLE_BYTES]
    shares = {name: _share(sample, name) for name in declared}
    is_korean = _is_korean(sample)
    for name, share in shares.items():
        # GBK makes common characters of Hangul
        if share <= _MAX_IMPLAUSIBLE and not (is_korean and name in _EAST_ASIAN):
            return name
    if is_korean:
        return "cp949"
    # of a few letters no language is detected
    is_short = len(sample.translate(None, _ASCII)) < _MIN_DETECTED
    for name in (*(["cp1252"] if is_short else []), _detected(sample), *_OTHERS):
        shares.setdefault(name, _share(sample, name))
    # what is declared is right unless another is much better
    best = min(shares.values()) * 2
    likely = next((name for name in declared if shares[name] <= best), None)
    return likely or min(shares, key=shares.__getitem__)


def _share(sample: bytes, encoding: str) -> float:
    return implausible_share(sample.decode(encoding, "replace"), has_kana=encoding in _JAPANESE)


def _is_korean(sample: bytes) -> bool:
    """Return whether bytes are Hangul of EUC-KR, and of nothing that is common in Chinese."""
    text = sample.decode("cp949", "replace")
    beyond_ascii = [character for character in text if character > "\x7f"]
    hangul = sum("\uac00" <= character <= "\ud7a3" for character in beyond_ascii)
    return hangul >= _MIN_HANGUL and hangul >= len(beyond_ascii) * 0.9 and _share(sample, "cp949") <= _MAX_IMPLAUSIBLE


def _detected(sample: bytes) -> str:
    import chardet
    from chardet import EncodingEra

    era = EncodingEra.MODERN_WEB | EncodingEra.LEGACY_ISO | EncodingEra.LEGACY_MAC | EncodingEra.DOS
    return codec_of(chardet.detect(sample, encoding_era=era)["encoding"]) or "cp1252"
