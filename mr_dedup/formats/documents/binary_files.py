"""Binary files under the name of text: servers send archives, images and PDF as text/html.

What is text by its declaration is not a page if its first bytes are those of a format that is not
text, or if it has more control characters than text has.
"""

from __future__ import annotations

import re
import unicodedata

from mr_dedup.formats.documents.encoding import is_utf8
from mr_dedup.formats.documents.http_body import MAX_CONTROLS, is_text_like, looks_like_html

_SAMPLE_BYTES = 1024

# Formats whose beginning may be text for the most part: no text begins so, as each has control
# characters, bytes that are no character, or a line of its own.
_SIGNATURE = re.compile(
    rb"%PDF-[0-9]\.[0-9][ \t]*[\r\n]|%!PS-Adobe-[0-9]|\{\\rtf[0-9]"
    # images
    rb"|\x89PNG\r\n\x1a\n|\xff\xd8\xff[\xc0-\xfe]|GIF8[79]a(?=.{0,6}[\0-\x08])|RIFF.{4}WEBPVP8"
    rb"|II\*\0|MM\0\*|BM.{4}\0\0\0\0|8BPS\0|AT&TFORM.{4}DJV"
    # archives, office files
    rb"|PK(?:\x03\x04|\x05\x06|\x07\x08)|Rar!\x1a\x07|7z\xbc\xaf\x27\x1c|BZh[1-9]1AY&SY"
    rb"|\x1f\x8b\x08|\xfd7zXZ\0|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1|.{257}ustar[\0 ]"
    # sound, video
    rb"|RIFF.{4}(?:WAVEfmt |AVI LIST)|OggS\0|ID3[\x02-\x04]\0|fLaC\0|FLV\x01|\x1aE\xdf\xa3"
    rb"|\0.{3}(?:ftyp|moov|mdat|free|wide)"
    # fonts, programs
    rb"|wOF[F2](?:\0\x01\0\0|OTTO|true)|OTTO\0|\0\x01\0\0\0|\0asm|\x7fELF|\xca\xfe\xba\xbe",
    re.DOTALL,
)


def is_binary(page: bytes, encoding: str) -> bool:
    """Return whether the bytes of a page are those of a binary file, not of text in ``encoding``.

    Of text at most one character in 25 is a control character; a page that begins as HTML, or
    that is ASCII or UTF-8 without zero bytes, is text whatever it has. NULs before and after the
    text do not count.
    """
    if _SIGNATURE.match(page):
        return True
    sample = page[:_SAMPLE_BYTES]
    if encoding in ("utf-16", "utf-32"):
        # with a byte order mark
        return False
    if encoding.startswith(("utf-16", "utf-32")):
        text = sample.decode(encoding, "replace").rstrip("\0")
        return sum(map(_is_odd, text)) > len(text) * MAX_CONTROLS
    if not sample.strip(b"\0"):
        sample = page.lstrip(b"\0")[:_SAMPLE_BYTES]
    sample = sample.strip(b"\0")
    if is_text_like(sample) or looks_like_html(sample):
        return False
    return 0 in sample or not is_utf8(sample)


def _is_odd(character: str) -> bool:
    """Return whether a character is a control, or none at all."""
    return character == "\ufffd" or (
        character not in "\b\t\n\f\r\x1b"
        and unicodedata.category(character) in ("Cc", "Cn", "Co", "Cs")
    )
