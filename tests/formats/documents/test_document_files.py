"""Which files hold documents, what they are called, and documents that are files."""

import gzip
import os
from pathlib import Path

import pytest
import zstandard

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.chunks import document_parts
from mr_dedup.formats.documents.files import DocumentFile, DocumentPart, find_documents
from mr_dedup.formats.fingerprint_files import UnknownFormatError
from tests.formats.documents.reading import read, standard_input


@pytest.mark.parametrize(
    ("name", "format", "compression"),
    [
        ("a.jsonl", "jsonl", None),
        ("a.ndjson.gz", "jsonl", "gzip"),
        ("a.JSON.zst", "jsonl", "zstd"),
        ("a.parquet", "parquet", None),
        ("a.warc.gz", "warc", "gzip"),
        ("a.warc.wet.gz", "warc", "gzip"),
        ("a.md", "text", None),
        ("a.txt.zst", "text", "zstd"),
        ("a.htm", "html", None),
        ("a.b.XHTML", "html", None),
    ],
)
def test_endings(tmp_path, name, format, compression):
    (tmp_path / name).touch()
    file = DocumentFile.detect(tmp_path / name)
    assert (file.format, file.compression) == (format, compression)


def test_what_no_ending_says(tmp_path):
    for name in ("a.png", "a", "a.gz"):
        (tmp_path / name).touch()
        with pytest.raises(UnknownFormatError, match="not known by its ending"):
            DocumentFile.detect(tmp_path / name)
    assert DocumentFile.detect(tmp_path / "a.png", format="jsonl").format == "jsonl"
    for name, compression in (("a.parquet.gz", "gzip"), ("a.PARQUET.ZST", "zstd")):
        (tmp_path / name).touch()
        reason = f"{name}: is Parquet inside {compression}, which is not read; decompress it first"
        with pytest.raises(FormatError, match=reason):
            find_documents([str(tmp_path / name)])
        assert read(*find_documents([str(tmp_path)]).files).reasons == [
            (None, reason.removeprefix(f"{name}: "))
        ]
        (tmp_path / name).unlink()
    with pytest.raises(FormatError, match=r"a\.gz: is Parquet inside gzip"):
        DocumentFile.detect(tmp_path / "a.gz", format="parquet")
    with pytest.raises(FormatError, match="is a directory"):
        DocumentFile.detect(tmp_path)
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(FormatError, match="is a pipe"):
        DocumentFile.detect(tmp_path / "pipe.jsonl")
    with pytest.raises(MrDedupError, match="cannot be read"):
        DocumentFile.detect(tmp_path / "none.jsonl")


def test_misuse_is_a_value_error():
    path = Path("x")
    for make, parameter in (
        (lambda: DocumentFile(path, "x", "longs"), "format"),
        (lambda: DocumentFile(path, "x", "jsonl", "bzip2"), "compression"),
        (lambda: DocumentFile(path, "x", "parquet", "gzip"), "compression"),
        (lambda: DocumentPart(DocumentFile(path, "x", "jsonl"), 3, 2), "start, stop"),
        (lambda: DocumentPart(DocumentFile(path, "x", "jsonl"), -1), "start, stop"),
        (lambda: DocumentPart(DocumentFile(path, "x", "text"), 1), "start, stop"),
        (lambda: DocumentPart(DocumentFile(None, "x", "jsonl"), 1), "start, stop"),
        (lambda: document_parts(DocumentFile(path, "x", "jsonl"), 0), "size_bytes"),
    ):
        with pytest.raises(ValueError, match=parameter):
            make()


def tree(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"text of " + name.encode())


def test_a_folder_names_its_files_by_their_paths_in_it(tmp_path, monkeypatch):
    tree(tmp_path / "site", "b.md", "a/x.txt", "a/y.html", "a/logo.png", ".hidden.txt")
    for name in (str(tmp_path / "site"), (tmp_path / "site").as_uri()):
        found = find_documents([name])
        assert [file.name for file in found.files] == ["a/x.txt", "a/y.html", "b.md"]
        assert found.skipped == {".png": 1}
    reading = read(*found.files)
    assert reading.documents[0] == ("a/x.txt", "text of a/x.txt", 0)
    assert reading.files == ["a/x.txt", "a/y.html", "b.md"]
    assert reading.batches == [3]
    monkeypatch.chdir(tmp_path)
    tree(tmp_path / "other", "b.md")
    found = find_documents(["site", "other"])
    assert [file.name for file in found.files][-2:] == ["site/b.md", "other/b.md"]
    assert [file.name for file in find_documents(["site/*.md"]).files] == ["site/b.md"]
    assert [file.name for file in find_documents(["site/b.md"]).files] == ["site/b.md"]


def test_names_that_stand_for_nothing(tmp_path):
    tree(tmp_path, "a.png", "b.jsonl")
    with pytest.raises(MrDedupError, match="no such file"):
        find_documents([str(tmp_path / "none")])
    with pytest.raises(UnknownFormatError):
        find_documents([str(tmp_path / "a.png")])
    tree(tmp_path, "images/a.png")
    with pytest.raises(MrDedupError, match="contains no file of documents"):
        find_documents([str(tmp_path / "images")])
    with pytest.raises(MrDedupError, match="only once"):
        find_documents(["-", "-"])
    found = find_documents([str(tmp_path)], format="text")
    assert [file.format for file in found.files] == ["text"] * 3


def test_standard_input_is_jsonl():
    lines = b'{"text": "a"}\n{"id": "b", "text": "b"}\n'
    (file,) = find_documents(["-"]).files
    assert not file.splittable
    assert document_parts(file, 1) == [file.whole()]
    with standard_input(lines):
        assert read(file).documents == [("stdin:0", "a", 0), ("b", "b", 14)]


def test_names_that_are_not_utf8_or_not_printable(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff\n\xc3\xbc.txt"))
    path.write_bytes(b"x")
    assert read(*find_documents([str(tmp_path)]).files).ids == ["a\\xff\\nü.txt"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", ""),
        ("ü\r\n\0".encode(), "ü\r\n\0"),
        (b"\xef\xbb\xbf" + "ü".encode(), "ü"),
        ("ü早".encode("utf-16"), "ü早"),
        (b"\xfe\xff" + "ü早".encode("utf-16-be"), "ü早"),
        (b"\xff\xfea\0b", "a\ufffd"),
        ("señor, año".encode("latin-1"), "señor, año"),
    ],
)
def test_text_files(tmp_path, content, text):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert read(path, keep_records=True).documents == [(str(path), text, 0)]
    assert read(path, keep_records=True, fields=["x"]).records == [content]
    assert read(path, fields=["x"]).fields == [{"x": None}]


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        (b"abc \xff", "byte 4", "is not UTF-8"),
        (b"\xff\xfea", "byte 2", "is not UTF-16"),
        (b"\xff\xfe\x00\xd8", "byte 2", "is not UTF-16"),
        (b"x" * 101, "byte 0", "is longer than 100 bytes"),
    ],
)
def test_text_files_that_are_rejected(tmp_path, content, place, reason):
    path = tmp_path / "a.md"
    path.write_bytes(content)
    reading = read(path, max_record_bytes=100, encoding="utf-8")
    assert reading.documents == []
    ((found_place, found_reason),) = reading.reasons
    assert found_reason.startswith(reason)
    assert found_place.startswith("byte")
    assert found_place == place or reason.startswith("is not UTF-16")


def test_compressed_and_html_files(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one"))
    (tmp_path / "b.html.zst").write_bytes(zstandard.compress("<p>zw\xf6lf".encode("latin1")))
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"three")[:-4])
    (tmp_path / "d.html").write_bytes(b"<p>" * 600_000)
    reading = read(*find_documents([str(tmp_path)]).files)
    assert reading.documents == [("a.txt.gz", "one", 0), ("b.html.zst", "zwölf", 0)]
    assert [(r.file, r.position) for r in reading.rejects.listed] == [
        ("c.txt.gz", "decompressed byte 5"),
        ("d.html", "byte 0"),
    ]


def test_parts_of_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(b'{"id": "%d", "text": ""}\n' % n for n in range(100)))
    file = DocumentFile.detect(path)
    for size in (1, 10, 333, 5000):
        parts = document_parts(file, size)
        assert parts[-1].stop is None
        assert read(*parts).ids == [str(n) for n in range(100)]
    path.write_bytes(b"")
    assert len(document_parts(file, 10)) == 1
    path.unlink()
    assert document_parts(file, 10) == [file.whole()]
