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

_MIN_NEARLY_UTF8 = 32
"""Bytes of characters of damaged UTF-8, from which on no other encoding is considered."""

_MAX_IMPLAUSIBLE = 1 / 20
"""Share of the non-ASCII characters that may be implausible in the encoding that is declared."""

_EAST_ASIAN = ("cp949", "gb18030", "euc_jp", "cp932", "big5hkscs", "shift_jis", "big5", "cp950")
_OTHERS = ("cp1252", "utf-8", *_EAST_ASIAN[:5], "mac-roman")
"""Encodings that may be, whatever is detected."""

_JAPANESE = ("cp932", "euc_jp", "shift_jis")
_MIN_CONTINUATION_BYTES = 4
"""Short texts in these encodings may be valid UTF-8 by chance: of random common characters 18 % of
single ones in GBK, 3 % of two, 0.6 % of three, 0.1 % of four, 0.01 % of five (others less often).
They have one continuation byte a character, or fewer.
"""

_MIN_DETECTED = 4
"""Bytes beyond ASCII from which on the detected encoding comes before windows-1252."""

_MIN_HANGUL, _MIN_HANGUL_DETECTED = 16, 5
"""Different characters of Hangul from which on a text is Korean, whatever is declared, or detected:
it has the first bytes of half of the common characters of GBK, so that 16 of these are taken for
Hangul in one of 10,000 texts, and 5 in 5 %."""

_DECLARED_BYTES = 4096
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_META = re.compile(rb"""<meta[\s/][^>]*?charset\s*=\s*["']?\s*([^\s"'/>;]+)""", re.IGNORECASE)
_XML = re.compile(rb"""\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([^"'>]{1,40})["']""")

_DECLARATION = re.compile(rb"charset|encoding", re.IGNORECASE)
"""What the detector must not see, as it believes declarations."""

_ASCII = bytes(range(0x80))
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))

_SAMPLE_BYTES, _WINDOW_BYTES, _CONTEXT_BYTES = 1 << 12, 1 << 16, 64
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
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
    4. UTF-8 for bytes of which most beyond ASCII are characters of UTF-8;
    5. that of ``charset``, which HTTP declared, then that of the meta element or of the XML
       declaration: the first that makes plausible characters of all but a twentieth;
    6. of these, the detected one and some others, that of the fewest implausible characters.

    Linear in the bytes; detection and plausibility take 4 KiB of what is not ASCII and around
    it, from the 64 KiB after the first such byte.

    Args:
        data: the bytes.
        charset: what HTTP declared, if anything. A name that is not known counts as none.
        is_html: whether to look for a meta element.
    """
    if marked := encoding_of_mark(data):
        return marked
    by_http = codec_of(charset)
    if by_http:
        by_http = extended(by_http, data)
    if 0 in data and (wide := _wide(data, by_http)):
        return wide
    declared = [name for name in (by_http, _declared_inside(data, is_html)) if name]
    escaped = _escaped(data, declared)
    if escaped:
        return escaped
    if is_utf8(data):
        by_chance = declared and all(_is_utf8_by_chance(data, name) for name in declared)
        return declared[0] if by_chance else "utf-8"
    if _is_nearly_utf8(data, is_declared="utf-8" in declared):
        return "utf-8"
    return _most_plausible(data, [name for name in declared if name not in _WIDE])


def encoding_of_mark(data: bytes) -> str | None:
    """Return the codec of the byte order mark that ``data`` begins with, and which removes it."""
    marks = (name for mark, name in _BYTE_ORDER_MARKS.items() if data.startswith(mark))
    return next(marks, None)


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
    """Return the encoding of ASCII with escape sequences; None if it has none.

    A few bytes may be damaged.
    """
    # a single byte is searched for faster
    is_iso = 0x1B in data and b"\x1b$" in data
    if not is_iso and "hz" not in declared:
        return None
    if len(data.translate(None, _ASCII)) * 50 > len(data):
        return None
    if is_iso:
        return "iso2022_kr" if b"\x1b$)C" in data else "iso2022_jp_2"
    return "hz"


def _is_utf8_by_chance(data: bytes, declared: str) -> bool:
    """Return whether bytes that are valid UTF-8 may nevertheless be in the encoding declared."""
    return (
        declared in _EAST_ASIAN
        and len(data) - len(data.translate(None, _CONTINUATION_BYTES)) < _MIN_CONTINUATION_BYTES
        and "\ufffd" not in data.decode(declared, "replace")
    )


def _is_nearly_utf8(data: bytes, *, is_declared: bool) -> bool:
    """Return whether bytes are damaged UTF-8, by the share of those beyond ASCII that are valid.

    Of few the plausibility of the characters decides, unless UTF-8 is declared.
    """
    valid = data.decode("utf-8", "ignore").encode()
    characters = len(valid.translate(None, _ASCII))
    undecodable = len(data) - len(valid)
    if is_declared:
        return undecodable * 3 <= characters
    return undecodable * 8 <= characters >= _MIN_NEARLY_UTF8


def _most_plausible(data: bytes, declared: list[str]) -> str:
    """Return the encoding of bytes that are not UTF-8."""
    sample = _sample(data)
    shares = {name: _share(sample, name) for name in declared}
    hangul = _hangul(sample)
    for name, share in shares.items():
        # other encodings make common characters of Hangul
        if share <= _MAX_IMPLAUSIBLE and (name not in _EAST_ASIAN or hangul < _MIN_HANGUL):
            return name
    if hangul >= _MIN_HANGUL_DETECTED:
        return "cp949"
    # of a few letters no language is detected
    is_short = len(sample.translate(None, _ASCII)) < _MIN_DETECTED
    for name in (*(["cp1252"] if is_short else []), _detected(sample), *_OTHERS):
        shares.setdefault(name, _share(sample, name))
        if not shares[name] and not declared:
            return name
    # what is declared is right unless another is much better
    best = min(shares.values()) * 2
    likely = next((name for name in declared if shares[name] <= best), None)
    return likely or min(shares, key=shares.__getitem__)


def _sample(data: bytes) -> bytes:
    """Return bytes that are not ASCII, and those around them."""
    found = _NOT_ASCII.search(data)
    begin = max(0, found.start() - _CONTEXT_BYTES) if found else 0
    window = data[begin : begin + _WINDOW_BYTES]
    return _ASCII_RUN.sub(b" ", _DECLARATION.sub(b"", window))[:_SAMPLE_BYTES]


def _share(sample: bytes, encoding: str) -> float:
    return implausible_share(sample.decode(encoding, "replace"), has_kana=encoding in _JAPANESE)


def _hangul(sample: bytes) -> int:
    """Return the number of different characters of Hangul, 0 if they are not all in EUC-KR."""
    text = sample.decode("cp949", "replace")
    beyond_ascii = [character for character in text if character > "\x7f"]
    hangul = [character for character in beyond_ascii if "\uac00" <= character <= "\ud7a3"]
    is_korean = len(hangul) >= len(beyond_ascii) * 0.9
    return len(set(hangul)) if is_korean and _share(sample, "cp949") <= _MAX_IMPLAUSIBLE else 0


def _detected(sample: bytes) -> str:
    import chardet
    from chardet import EncodingEra

    era = EncodingEra.MODERN_WEB | EncodingEra.LEGACY_ISO | EncodingEra.LEGACY_MAC | EncodingEra.DOS
    return codec_of(chardet.detect(sample, encoding_era=era)["encoding"]) or "cp1252"
