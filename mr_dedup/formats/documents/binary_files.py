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

_SIGNATURES = {
    "PDF": rb"%PDF-[0-9]\.[0-9][ \t]*[\r\n]",
    "PostScript": rb"%!PS-Adobe-[0-9]|\xc5\xd0\xd3\xc6|\x80\x01.{4}%!",
    "RTF": rb"\{\\rtf[0-9]",
    "a PNG image": rb"\x89PNG\r\n\x1a\n",
    "a JPEG image": rb"\xff\xd8\xff[\xc0-\xfe]|\0\0\0\x0c(?:jP  |JXL )\r\n",
    "a GIF image": rb"GIF8[79]a(?=.{0,6}[\0-\x08])",
    "a WebP image": rb"RIFF.{4}WEBPVP8",
    "a TIFF image": rb"II[*+]\0|MM\0[*+]",
    "a BMP image": rb"BM.{4}\0\0\0\0",
    "an icon": rb"\0\0[\1\2]\0[\1-\x40]\0",
    "a Photoshop image": rb"8BPS\0",
    "DjVu": rb"AT&TFORM.{4}DJV",
    "a ZIP archive": rb"PK(?:\x03\x04|\x05\x06|\x07\x08)",
    "a RAR archive": rb"Rar!\x1a\x07",
    "a 7z archive": rb"7z\xbc\xaf\x27\x1c",
    "a tar archive": rb".{257}ustar[\0 ]",
    "a cabinet file": rb"MSCF\0\0\0\0",
    "an ar archive": rb"!<arch>\n",
    "an RPM package": rb"\xed\xab\xee\xdb",
    "gzip data": rb"\x1f\x8b\x08",
    "bzip2 data": rb"BZh[1-9]1AY&SY",
    "xz data": rb"\xfd7zXZ\0",
    "Zstandard data": rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",
    "LZ4 data": rb"\x04\x22\x4d\x18",
    "an OLE file": rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "RIFF sound or video": rb"RIFF.{4}(?:WAVEfmt |AVI LIST|RMIDdata|sfbkLIST)",
    "Ogg": rb"OggS\0",
    "MP3": rb"ID3[\x02-\x04]\0",
    "FLAC": rb"fLaC\0",
    "MIDI": rb"MThd\0\0\0\x06",
    "AIFF": rb"FORM.{4}AIF[FC]",
    "Flash": rb"FLV\x01|[CFZ]WS[\x01-\x08\x0b\x0c\x0e-\x1f]",
    "Matroska": rb"\x1aE\xdf\xa3",
    # MP4, QuickTime, AVIF, HEIC
    "ISO media": rb"\0.{3}(?:ftyp|moov|mdat|free|wide)",
    "Windows Media": rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
    "MPEG": rb"\0\0\x01[\xb3\xba]",
    "a font": rb"wOF[F2](?:\0\x01\0\0|OTTO|true)|OTTO\0|\0\x01\0\0\0|ttcf\0",
    "WebAssembly": rb"\0asm",
    "an ELF program": rb"\x7fELF",
    "a Windows program": rb"MZ.{6}[\x02\x04\x20]\0",
    "a Mach-O program": rb"[\xce\xcf]\xfa\xed\xfe|\xfe\xed\xfa[\xce\xcf]",
    "a Java class": rb"\xca\xfe\xba\xbe",
    "a DEX program": rb"dex\n0[0-9]{2}\0",
    "an SQLite database": rb"SQLite format 3\0",
    "Parquet": rb"PAR[1E]\x15",
    "Avro": rb"Obj\x01",
    "Arrow": rb"ARROW1\0\0|\xff\xff\xff\xff.{3}\0\x10\0\0\0",
    "ORC": rb"ORC[\0-\x1f][\0-\x08]",
    "a Hadoop sequence file": rb"SEQ[\x04-\x06]",
    "a NumPy array": rb"\x93NUMPY[\x01-\x03]\0",
    "HDF5": rb"\x89HDF\r\n\x1a\n",
    "NetCDF": rb"CDF[\x01\x02\x05]",
    "a pickle": rb"\x80[\x03-\x05](?:\x95|[\]\}\(c])",
    "GGUF": rb"GGUF[\x01-\x08]\0\0\0",
    "a Git pack": rb"PACK\0\0\0[\x02\x03]",
    "a capture of packets": rb"\xd4\xc3\xb2\xa1\x02\0|\x0a\x0d\x0d\x0a.{4}\x4d\x3c\x2b\x1a",
    "a torrent": rb"d[0-9]{1,2}:(?:announce|created by|creation date)",
}  # fmt: skip
"""Formats whose beginning may be text for the most part, and patterns of their first bytes.

No text begins so, as each has control characters, bytes that are no character, or a line of its
own.
"""

_SIGNATURE = re.compile(b"|".join(b"(%b)" % each for each in _SIGNATURES.values()), re.DOTALL)


def binary_format(data: bytes) -> str | None:
    """Return what a file is by its first bytes, if these are the signature of a binary format.

    >>> binary_format(b"%PDF-1.4\\n"), binary_format(b"PDF")
    ('PDF', None)
    """
    found = _SIGNATURE.match(data)
    return [*_SIGNATURES][found.lastindex - 1] if found and found.lastindex else None


def is_binary(page: bytes, encoding: str) -> bool:
    """Return whether the bytes of a page are those of a binary file, not of text in ``encoding``.

    Of text at most one character in 25 is a control character; a page that begins as HTML, or
    that is ASCII or UTF-8 without zero bytes, is text whatever it has. NULs before and after the
    text do not count.
    """
    if binary_format(page):
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
