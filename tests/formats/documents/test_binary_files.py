"""Binary files under the name of text, and texts that begin as such files do."""

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.formats.documents.binary_files import is_binary
from mr_dedup.formats.documents.encoding import encoding_of
from tests.formats.documents.reading import read
from tests.formats.documents.test_document_warc import page, record, write

NOISE = random.Random(1).randbytes(3000)
WORDS = b"words of a text that stands in a file "


def archive(*names, store=zipfile.ZIP_STORED, content=WORDS * 60):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", store) as written:
        for name in names:
            written.writestr(name, content)
    return file.getvalue()


def tar(content=WORDS * 60):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as written:
        entry = tarfile.TarInfo("folder/a.txt")
        entry.size = len(content)
        written.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def box(kind, data):
    return struct.pack(">I", len(data) + 8) + kind + data


PNG = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 9, 9, 8, 2, 0, 0, 0))
EXIF = b"\xff\xe1" + struct.pack(">H", 900) + b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta "
BINARY = {
    "pdf": b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<< /Length 3000 >>\nstream\n" + NOISE,
    "pdf in ASCII": b"%PDF-1.7\r\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n" * 30,
    "png": PNG + chunk(b"IDAT", zlib.compress(NOISE)),
    "png with a text": PNG + chunk(b"tEXt", b"Comment\0" + WORDS * 60),
    "jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0" + NOISE,
    "jpeg with a text": b"\xff\xd8" + EXIF + WORDS * 60,
    "gif": b"GIF89a" + struct.pack("<HHBBB", 300, 200, 0xF7, 0, 0) + NOISE,
    "gif with a text": b"GIF87a" + struct.pack("<HHBBB", 20, 20, 0, 0, 0) + b"!\xfe" + WORDS * 40,
    "webp": b"RIFF" + struct.pack("<I", 3000) + b"WEBPVP8 " + NOISE,
    "bmp": b"BM" + struct.pack("<IHHI", 3000, 0, 0, 54) + NOISE,
    "tiff": b"II*\0\x08\0\0\0" + NOISE,
    "ico": b"\0\0\1\0\1\0\x10\x10\0\0" + NOISE,
    "psd": b"8BPS\0\1" + bytes(6) + NOISE,
    "zip": archive("a.txt", "b.txt", store=zipfile.ZIP_DEFLATED),
    "zip of stored text": archive("a.txt", "b.txt"),
    "docx": archive("[Content_Types].xml", "word/document.xml", store=zipfile.ZIP_DEFLATED),
    "odt, epub": archive("mimetype", content=b"application/vnd.oasis.opendocument.text" * 40),
    "empty zip": archive(),
    "doc, xls, ppt": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(60) + WORDS * 50,
    "rtf": b"{\\rtf1\\ansi\\deff0 words}" * 40,
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n" * 30,
    "tar": tar(),
    "tar.gz": gzip.compress(tar()),
    "tar.bz2": bz2.compress(tar()),
    "tar.xz": lzma.compress(tar()),
    "7z": b"7z\xbc\xaf\x27\x1c\0\4" + NOISE,
    "rar": b"Rar!\x1a\x07\1\0" + NOISE,
    "woff": b"wOFF\0\1\0\0" + NOISE,
    "woff2": b"wOF2\0\1\0\0" + NOISE,
    "ttf": b"\0\1\0\0\0\x0c\0\x80" + b"OS/2" * 9 + WORDS * 40,
    "otf": b"OTTO\0\x0b\0\x80" + NOISE,
    "mp4": box(b"ftyp", b"isom\0\0\2\0mp41") + box(b"free", WORDS * 60),
    "mov": box(b"moov", WORDS * 60),
    "webm": b"\x1aE\xdf\xa3\x9fB\x86\x81\1" + NOISE,
    "avi": b"RIFF" + struct.pack("<I", 3000) + b"AVI LIST" + NOISE,
    "flv": b"FLV\1\5\0\0\0\x09\0\0\0\0" + NOISE,
    "swf": b"CWS\x0d" + struct.pack("<I", 3000) + NOISE,
    "mp3 with a text": b"ID3\3\0\0\0\0\x0f\x76TIT2\0\0\0\x20\0\0\0" + WORDS * 60,
    "mp3": b"\xff\xfb\x90\x64" + NOISE,
    "ogg": b"OggS\0\2" + bytes(8) + NOISE,
    "flac": b"fLaC\0\0\0\x22" + NOISE,
    "wav": b"RIFF" + struct.pack("<I", 3000) + b"WAVEfmt " + NOISE,
    "midi": b"MThd\0\0\0\6\0\1\0\3\0\xf0MTrk" + NOISE,
    "wasm": b"\0asm\1\0\0\0" + WORDS * 40,
    "elf": b"\x7fELF\2\1\1" + bytes(9) + WORDS * 40,
    "exe": b"MZ\x90\0\3\0\0\0\4\0\0\0\xff\xff\0\0" + bytes(40) + NOISE,
    "class": b"\xca\xfe\xba\xbe\0\0\0\x34\0\x1d" + NOISE,
    "sqlite": b"SQLite format 3\0\x10\0\1\1\0@  " + bytes(60) + NOISE,
    "parquet": b"PAR1\x15\4\x15\x10\x15\x14\x4c\x15\2\x15\0\x12\0\0" + NOISE,
    "protobuf": b"".join(b"\n\x08%06d\x10\1\x18\0 \2" % n for n in range(99)),
    "iso": bytes(32768) + b"\1CD001\1\0" + NOISE,
    **{
        name: begin + WORDS * 60
        for name, begin in {
            "avif": box(b"ftyp", b"avif\0\0\0\0mif1"),
            "heic": box(b"ftyp", b"heic\0\0\0\0heic"),
            "jpeg 2000": b"\0\0\0\x0cjP  \r\n\x87\n",
            "cursor": b"\0\0\2\0\1\0\x20\x20\0\0",
            "big tiff": b"II+\0\x08\0\0\0",
            "font collection": b"ttcf\0\1\0\0",
            "class with names": b"\xca\xfe\xba\xbe\0\0\0\x34\0\x1d",
            "mach-o": b"\xcf\xfa\xed\xfe\7\0\0\1",
            "exe with a text": b"MZ\x90\0\3\0\0\0\4\0\0\0",
            "dex": b"dex\n035\0",
            "sqlite of text": b"SQLite format 3\0\x10\0",
            "parquet of text": b"PAR1\x15\4\x15\x10",
            "avro": b"Obj\1\4\x14avro.codec\x08null\x16avro.schema",
            "arrow": b"ARROW1\0\0\xff\xff\xff\xff",
            "arrow stream": b"\xff\xff\xff\xff\x78\0\0\0\x10\0\0\0",
            "orc": b"ORC\x0a\3",
            "sequence file": b"SEQ\6\x19org.apache.hadoop.io.Text",
            "hdf5": b"\x89HDF\r\n\x1a\n",
            "numpy": b"\x93NUMPY\1\0v\0",
            "pickle": b"\x80\4\x95\x10",
            "lz4": b'\4"M\x18d',
            "cabinet": b"MSCF\0\0\0\0",
            "deb": b"!<arch>\ndebian-binary   ",
            "rpm": b"\xed\xab\xee\xdb\3\0",
            "pfb": b"\x80\1\x20\x0b\0\0%!PS-AdobeFont-1.0",
            "eps with a preview": b"\xc5\xd0\xd3\xc6\x20\0\0\0",
            "midi with a text": b"MThd\0\0\0\6\0\1",
            "aiff": b"FORM\0\0\x20\0AIFF",
            "wma": b"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
            "mpeg": b"\0\0\1\xba\x44\0",
            "swf of text": b"FWS\6\0\1\0\0",
            "torrent": b"d8:announce30:http://tracker.example.com/",
        }.items()
    },
    "noise": NOISE,
}
PROSE = "is what this page is about, and it has many words. "
NAMES = """
    PK BM GIF89a GIF87a RIFF RIFF1234WEBP %PDF-1.4 %PDF MZ ID3 Rar! 7z OggS fLaC FLV CWS II* MM
    wOFF OTTO BZh91AY JFIF 8BPS SQLite PAR1 %! {\\rtf { ustar ELF ftyp moov MThd AT&TFORM BMP
    """
TEXTS = {
    **{name: f"{name} {PROSE * 20}".encode() for name in NAMES.split()},
    "a name": b"PK\nBM\r\nMM\n",
    "no words": b"",
    "blanks": b" \r\n" * 99,
    "manual page": b"".join(bytes([c, 8, c]) for c in b"NAME and SYNOPSIS of this page") * 9,
    "colours of a terminal": b"\x1b[1mbold\x1b[0m " * 90,
    "pages of a printer": b"\x0c" + WORDS * 20 + b"\x0c",
    "fields after control characters": b"abc\1def\1ghi\n" * 90,
    "end of DOS": WORDS * 9 + b"\x1a",
    "filled with zeros": WORDS * 9 + bytes(5000),
    "after zeros": bytes(4000) + WORDS * 9,
    "a stray zero": b"one\0two " + WORDS * 20,
    "html with zeros": b"<html><p>" + b"a\0\0b" * 99,
    "utf-16": "Wörter мир 文本 ".encode("utf-16") * 1 + "Wörter мир 文本 ".encode("utf-16-le") * 50,
    "cp437": "╔════╗ Wörter █▓▒░ ║ ".encode("cp437") * 50,
}  # fmt: skip
ENCODED = {
    ("Привет, мир. Как дела сегодня? ", "cp1251 koi8-r iso-8859-5 cp866 utf-8 utf-16"),
    ("яшя язык явление яблоко ", "cp1251 koi8-r"),
    ("这是一个中文的网页内容，我们需要检测它。", "gbk gb18030 big5hkscs utf-8 utf-16"),
    ("これは日本語のテキストです。", "shift_jis euc_jp iso-2022-jp utf-8"),
    ("한국어 문서의 글입니다. ", "euc_kr utf-8 utf-16"),
    ("Zażółć gęślą jaźń œuvre ", "cp1250 iso-8859-2 utf-8"),
    ("ÿØÿ þorn ÐÏ ", "latin1 utf-8"),
    ("نص بالعربية \u200c\u200f ", "cp1256 utf-8 utf-16"),
}
TEXTS |= {
    f"{text} in {encoding}": (text * 40).encode(encoding, "replace")
    for text, encodings in ENCODED
    for encoding in encodings.split()
}


@pytest.mark.parametrize("declared", [b"text/html", b"text/plain; charset=utf-8", b""])
def test_binary_files_are_no_documents_whatever_they_are_declared_as(tmp_path, declared):
    path = write(tmp_path, *(page(n, body, declared) for n, body in enumerate(BINARY.values())))
    reading = read(path)
    names = list(BINARY)
    assert [names[int(id.rpartition(":")[2])] for id in reading.ids] == []
    assert reading.reasons == []
    assert reading.rejects.skipped == {"media_type": len(BINARY)}


@pytest.mark.parametrize("name", BINARY)
def test_files_that_are_binary_whatever_their_suffix(tmp_path, name):
    for suffix in (".html", ".txt", ".md"):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(BINARY[name])
        reading = read(path)
        assert (reading.documents, reading.reasons) == ([], []), suffix
        assert reading.rejects.skipped == {"media_type": 1}


@pytest.mark.parametrize("declared", [b"text/html", b"text/plain", b""])
def test_texts_that_begin_as_binary_files_do_are_read(tmp_path, declared):
    records = [page(n, body, declared) for n, body in enumerate(TEXTS.values())]
    reading = read(write(tmp_path, *records))
    names = list(TEXTS)
    found = {int(id.rpartition(":")[2]) for id in reading.ids}
    assert [name for n, name in enumerate(names) if n not in found] == []
    assert reading.reasons == []


def test_texts_in_utf_16_without_a_mark_are_read(tmp_path):
    texts = ["Words of a page in English. " * 9, "这是一个中文的网页内容。" * 30, "мир " * 99]
    encodings = ["utf-16-le", "utf-16-be"]
    records = [
        record(n, text.encode(name), b"resource", b"text/plain; charset=" + name.encode())
        for n, (text, name) in enumerate((text, name) for text in texts for name in encodings)
    ]
    assert read(write(tmp_path, *records)).texts == [text for text in texts for _ in encodings]


@given(
    st.sampled_from(["", "PK", "GIF89a", "RIFF1234WEBP", "%PDF-1.4 ", "BM", "ID3", "ftyp"]),
    st.text(st.characters(exclude_categories=["C"]), max_size=200),
)
def test_no_text_in_utf_8_is_binary(begin, text):
    data = (begin + text).encode()
    assert not is_binary(data, encoding_of(data, None, False))
