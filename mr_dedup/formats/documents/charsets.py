"""The codecs of Python for the names of encodings that pages declare."""

from __future__ import annotations

import codecs
from functools import lru_cache

_SUPERSETS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949",
    "iso2022_jp": "iso2022_jp_2", "utf-16": "utf-16-le", "utf-32": "utf-32-le",
    "utf-8-sig": "utf-8",
}  # fmt: skip
"""Codecs that decode the same characters, and those that pages have beyond their encoding."""

_EXTENDED = {"shift_jis": "cp932", "big5": "big5hkscs", "cp950": "big5hkscs"}
"""Codecs that have more characters, but a few others for the same bytes."""

_ALIASES = {
    "x-mac-ce": "mac-latin2", "x-mac-centraleurroman": "mac-latin2",
    "x-mac-ukrainian": "mac-cyrillic", "x-mac-japanese": "cp932", "x-mac-korean": "cp949",
    "x-mac-chinesesimp": "gb18030", "x-mac-chinesetrad": "big5hkscs",
    "x-mac-icelandic": "mac-iceland", "windows-949": "cp949", "unified-hangul": "cp949",
    "windows-936": "gb18030", "windows-950": "cp950", "windows-932": "cp932",
    "windows-31j": "cp932", "windows-874": "cp874", "dos-874": "cp874",
    "iso-8859-8-e": "iso8859-8", "koi8": "koi8-r", "hz-gb-2312": "hz", "unicode": "utf-16-le",
    "ucs-2": "utf-16-le", "ucs-4": "utf-32-le", "iso-10646-ucs-4": "utf-32-le",
}  # fmt: skip
"""Names that neither Python nor Resiliparse knows."""

_NO_CHARSETS = ("utf-7", "idna", "punycode", "unicode-escape", "raw-unicode-escape")
"""Codecs of text that are no encodings of files; browsers do not read UTF-7 either."""


@lru_cache(maxsize=256)
def codec_of(charset: str | None) -> str | None:
    """Return the codec of an encoding that is declared; None for a name that is not known.

    Names are those of browsers, of Python, and of the Macintosh. An encoding that is part of
    another is that other, as browsers read it: ISO-8859-1 is windows-1252, EUC-KR is CP949.

    >>> codec_of("x-mac-cyrillic"), codec_of("KS_C_5601-1987"), codec_of("no-such-charset")
    ('mac-cyrillic', 'cp949', None)
    """
    name = (charset or "").strip("\"' \t\r\n").lower().replace("_", "-")
    if not name or not name.isascii() or "\0" in name:
        return None
    for candidate in (name, name.removeprefix("x-")):
        found = _text_codec(_ALIASES.get(candidate, candidate)) or _text_codec(_html5(candidate))
        if found:
            return _SUPERSETS.get(found, found)
    return None


def extended(encoding: str, data: bytes) -> str:
    """Return a codec that has more characters than ``encoding``, if ``data`` has such."""
    if encoding in _EXTENDED and "\ufffd" in data.decode(encoding, "replace"):
        return _EXTENDED[encoding]
    return encoding


def _html5(name: str) -> str:
    from resiliparse.parse.encoding import map_encoding_to_html5

    return map_encoding_to_html5(name, fallback_utf8=False) or ""


def _text_codec(name: str) -> str | None:
    """Return Python's name of a codec of text; None for others, as rot13, and for UTF-7."""
    try:
        codec = codecs.lookup(name)
        b"aaaa".decode(name, "replace")
    except (LookupError, ValueError):
        return None
    return None if codec.name in _NO_CHARSETS else codec.name
