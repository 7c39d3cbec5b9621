"""Which files hold documents, what they are, and how they are shared out among tasks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, get_args
from urllib.parse import unquote

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.chunks import Part
from mr_dedup.formats.compression import Compression, compression_by_suffix, suffix_inside
from mr_dedup.formats.documents.hadoop_lines import HadoopSplit
from mr_dedup.formats.file_kinds import kind_of
from mr_dedup.formats.fingerprint_files import UnknownFormatError
from mr_dedup.formats.inputs import expand
from mr_dedup.formats.io_errors import reading

DocumentFormat = Literal["jsonl", "parquet", "warc", "text", "html"]
FORMATS: tuple[DocumentFormat, ...] = get_args(DocumentFormat)

STANDARD_INPUT = "-"

_FORMAT_OF_ENDING: dict[str, DocumentFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".warc": "warc",
    ".wet": "warc",
    ".txt": "text",
    ".md": "text",
    ".markdown": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}
_SPLITTABLE = ("jsonl", "parquet", "warc")


@dataclass(frozen=True)
class DocumentFile:
    """A file of documents: where it is, what it is called, and how it is to be read.

    ``name`` stands for the file in batches, rejects and errors, and is the id of a document that
    is a file; what in it is not UTF-8 or not printable is escaped. ``path`` is None for standard
    input. Raises ValueError for a format or compression that there is not.
    """

    path: Path | None
    name: str
    format: DocumentFormat
    compression: Compression | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"format: expected one of {FORMATS}, got {self.format!r}")
        if self.compression not in (None, *get_args(Compression)):
            raise ValueError(f"compression: expected gzip, zstd or None, got {self.compression!r}")
        if self.format == "parquet" and self.compression:
            raise ValueError("compression: a Parquet file is compressed inside")
        object.__setattr__(self, "name", _printable(self.name))

    @classmethod
    def detect(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        format: DocumentFormat | None = None,
    ) -> DocumentFile:
        """Return the file at ``path``, its format by ``format`` or else by the ending of ``name``.

        ``name`` is by default the path. Raises UnknownFormatError if the ending says nothing,
        FormatError if ``path`` is not a regular file or is Parquet inside gzip or zstd,
        MrDedupError if it cannot be found.
        """
        path = Path(path)
        name = str(path) if name is None else name
        with reading(path):
            kind = kind_of(path)
        if kind != "file":
            raise FormatError(path, None, f"is a {kind}, expected a file of documents")
        compression = compression_by_suffix(path)
        found = format or format_by_ending(name)
        if found == "parquet" and compression:
            raise FormatError(
                name, None, f"is Parquet inside {compression}, which is not read; unpack it first"
            )
        if found is None:
            raise UnknownFormatError(
                f"{name}: the format is not known by its ending ({', '.join(_FORMAT_OF_ENDING)}, "
                "each but .parquet perhaps with .gz or .zst after it)"
            )
        return cls(path, name, found, compression)

    @property
    def splittable(self) -> bool:
        """Whether ranges of it can be read by themselves."""
        return self.path is not None and self.compression is None and self.format in _SPLITTABLE

    def whole(self) -> DocumentPart:
        """Return all of the file."""
        return DocumentPart(self)


@dataclass(frozen=True)
class DocumentPart(Part[DocumentFile]):
    """The records of a file that begin at ``start`` to ``stop``, in bytes or Parquet row groups.

    Consecutive parts have all documents of the file, in its order, wherever it is cut. With
    ``split`` the part is those lines of a file of JSONL, which come by standard input. Raises
    ValueError as ``Part``.
    """

    split: HadoopSplit | None = None

    def __post_init__(self) -> None:
        if self.split and (self.file.path is not None or self.file.format != "jsonl"):
            raise ValueError(f"split: expected JSONL from standard input, got {self.file}")
        super().__post_init__()


@dataclass(frozen=True)
class Found:
    """The files of documents that names stand for, and those of other kinds in their folders."""

    files: list[DocumentFile]
    passed_over: list[Path]


def find_documents(names: Iterable[str], format: DocumentFormat | None = None) -> Found:
    """Return the files of documents that ``names`` stand for, in order.

    Names are as for ``inputs.expand``, or ``-``, standard input, which is JSONL. A file in a
    folder is called by its path in it, if that folder is all that is named; else as it was named,
    so that no two files have one name. ``format`` is that of all files; without it, those whose
    ending says nothing are passed over in folders. Raises as ``expand`` and ``detect``, and
    MrDedupError if ``-`` is repeated or nothing is left.
    """
    names = list(names)
    found = Found([], [])
    for name in names:
        if name == STANDARD_INPUT:
            if any(file.path is None for file in found.files):
                raise MrDedupError("-: standard input can be read only once")
            found.files.append(DocumentFile(None, "stdin", format or "jsonl"))
            continue
        folder = _folder(name)
        for path in expand([name]):
            if folder and format is None and format_by_ending(path.name) is None:
                found.passed_over.append(path)
                continue
            inside = folder is not None and len(names) == 1
            called = str(path.relative_to(folder)) if folder and inside else str(path)
            found.files.append(DocumentFile.detect(path, name=called, format=format))
    if not found.files:
        raise MrDedupError(f"{', '.join(names)}: holds no file of documents")
    return found


def _folder(name: str) -> Path | None:
    """Return the folder that ``name`` is, or None."""
    if name.startswith("file://"):
        name = unquote(
            name.removeprefix("file://").removeprefix("localhost"), errors="surrogateescape"
        )
    path = Path(name)
    return path if name and path.is_dir() else None


def format_by_ending(name: str) -> DocumentFormat | None:
    """Return the format that the ending of a file's name tells, or None."""
    return _FORMAT_OF_ENDING.get(suffix_inside(name))


def is_plain_jsonl(name: str, format: DocumentFormat | None = None) -> bool:
    """Return whether a file is JSONL that nothing takes for compressed, by its name alone.

    ``format`` is that of all files, if it is told: they need no ending then, or may be text.
    """
    ending = PurePosixPath(name).suffix.lower()
    told = format == "jsonl" and ending in ("", ".txt")
    return told or (format in (None, "jsonl") and _FORMAT_OF_ENDING.get(ending) == "jsonl")


def _printable(name: str) -> str:
    """Return ``name`` on one line, with bytes that are not UTF-8 escaped."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
