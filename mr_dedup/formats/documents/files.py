"""Document files: their formats, parts, and which of them file names stand for."""

from __future__ import annotations

import functools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from mr_dedup.errors import FormatError, MrDedupError, UnreadableError, escaped
from mr_dedup.files.inputs import expand, kind_of, local_path
from mr_dedup.files.io_errors import reading, reason_of
from mr_dedup.formats.chunks import Part
from mr_dedup.formats.compression import (
    Compression,
    compression_by_suffix,
    suffix_inside,
)
from mr_dedup.formats.documents.hadoop_lines import HadoopSplit
from mr_dedup.formats.fingerprint_files import UnknownFormatError
from mr_dedup.storage.listing import RemoteFile, list_files
from mr_dedup.storage.ranges import RangeSource
from mr_dedup.storage.uris import HIDDEN_QUERY, file_name, is_uri, without_secrets

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
    ".arc": "warc",
    ".txt": "text",
    ".md": "text",
    ".markdown": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".xht": "html",
}
_SPLITTABLE = ("jsonl", "parquet", "warc")


@dataclass(frozen=True)
class DocumentFile:
    """A file of documents: its path, name, format and compression.

    ``name`` is used in batches, rejects and errors, and as the id of a document that is a file;
    characters that are not UTF-8 or not printable are escaped. ``path`` is None for standard input
    and for a file elsewhere, ``remote``, of which a copy is read, or ranges. ``unreadable`` is the
    reason why it cannot be read, if that is known: the reader rejects it. Raises ValueError for an
    unknown format or compression.
    """

    path: Path | RangeSource | None
    name: str
    format: DocumentFormat
    compression: Compression | None = None
    remote: RemoteFile | None = None
    unreadable: str | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"format: expected one of {FORMATS}, got {self.format!r}")
        if self.compression not in (None, *get_args(Compression)):
            raise ValueError(
                f"compression: expected gzip, zstd, lz4 or None, got {self.compression!r}"
            )
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
        """Return the file at ``path``, its format by ``format`` or else by the suffix of ``name``.

        ``name`` is by default the path. Raises UnknownFormatError for an unknown suffix,
        FormatError if ``path`` is not a regular file or is Parquet inside gzip or zstd,
        UnreadableError if it cannot be found, or access is denied.
        """
        path = Path(path)
        name = str(path) if name is None else name
        with reading(path):
            kind = kind_of(path)
        if kind != "file":
            raise FormatError(path, None, f"is a {kind}, expected a file of documents")
        if not os.access(path, os.R_OK):
            raise UnreadableError(str(path), "cannot be read: Permission denied")
        compression = compression_by_suffix(path)
        found = format or format_by_ending(name)
        if found == "parquet" and compression:
            raise _packed_parquet(name, compression)
        if found is None:
            raise _unknown_format(name)
        return cls(path, name, found, compression)

    @classmethod
    def of_remote(
        cls, remote: RemoteFile, *, name: str | None = None, format: DocumentFormat | None = None
    ) -> DocumentFile:
        """Return a file elsewhere, its format by ``format`` or else by the suffix of its name.

        Raises as ``detect``.
        """
        last = file_name(remote.uri)
        # as a name of a file it ends with its ending
        shown = without_secrets(remote.uri).removesuffix(HIDDEN_QUERY) if name is None else name
        compression = compression_by_suffix(last)
        found = format or format_by_ending(last)
        if found == "parquet" and compression:
            raise _packed_parquet(shown, compression)
        if found is None:
            raise _unknown_format(shown)
        return cls(None, shown, found, compression, remote)

    @property
    def local_path(self) -> Path | None:
        """The path of a file on this machine; None for standard input."""
        assert self.remote is None, self.name
        assert not isinstance(self.path, RangeSource), self.name
        return self.path

    @property
    def is_standard_input(self) -> bool:
        """Whether it is read from standard input."""
        return self.path is None and self.remote is None

    @property
    def splittable(self) -> bool:
        """Whether a range of it can be read without what precedes it."""
        if self.is_standard_input or self.compression is not None or self.unreadable:
            return False
        if self.remote is not None and (self.format == "warc" or self.remote.size_bytes is None):
            # where a range of WARC ends is known only from what follows
            return False
        return self.format in _SPLITTABLE

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
        if self.split and not (self.file.is_standard_input and self.file.format == "jsonl"):
            raise ValueError(f"split: expected JSONL from standard input, got {self.file}")
        super().__post_init__()


@dataclass(frozen=True)
class FoundDocuments:
    """Document files of distinct names.

    Attributes:
        files: Each once; also those that cannot be read, and directories, for the reader to reject.
        skipped: How many files of other kinds are in their directories, by ``ending_of``.
        repeated: The names of files that were named before.
    """

    files: list[DocumentFile]
    skipped: Counter[str]
    repeated: list[str] = field(default_factory=list)


def find_documents(
    names: Iterable[str],
    format: DocumentFormat | None = None,
    called: Callable[[str], str] = str,
) -> FoundDocuments:
    """Return the files of documents that ``names`` stand for, in order.

    Args:
        names: as for ``inputs.expand``, URIs, or ``-``, standard input, which is JSONL.
        format: that of all files; without it, files with an unknown suffix are skipped in
            directories.
        called: returns what the user calls a path: copies have other names.

    Returns:
        The files. Where one directory is all that is named, the name of a file is its path in it;
        otherwise its path. Of two files of one name, as of web addresses that differ in what is not
        shown, the second gets a number.

    Raises:
        MrDedupError: as ``expand`` and ``detect`` for a file that is all that is named, and if
            ``-`` is repeated or no file is left. Among others, what cannot be read is no error.
    """
    names = list(names)
    found = FoundDocuments([], Counter())

    def add_unreadable(error: OSError) -> None:
        path = Path(error.filename)
        reason = f"is a directory that cannot be read: {reason_of(error)}"
        shown = str(path.relative_to(directory)) if is_only else called(str(path))
        found.files.append(DocumentFile(path, shown, format or "jsonl", unreadable=reason))

    for name in names:
        if name == STANDARD_INPUT:
            if any(file.is_standard_input for file in found.files):
                raise MrDedupError("-: standard input can be read only once")
            found.files.append(DocumentFile(None, "stdin", format or "jsonl"))
            continue
        if is_uri(name):
            _add_remote(name, format, len(names) == 1, found)
            continue
        directory = local_path(name)
        is_directory = directory.is_dir()
        is_only = is_directory and len(names) == 1
        for path in expand([name], add_unreadable):
            is_named = path == directory
            if not is_named and format is None and format_by_ending(path.name) is None:
                found.skipped[ending_of(path.name)] += 1
                continue
            shown = str(path.relative_to(directory)) if is_only else called(str(path))
            found.files.append(_detected(path, shown, format, is_named, len(names) == 1))
    if not found.files:
        raise MrDedupError(f"{', '.join(names)}: contains no file of documents")
    return _distinct(found)


def _detected(
    path: Path, name: str, format: DocumentFormat | None, is_named: bool, is_alone: bool
) -> DocumentFile:
    """Return a file as ``detect``; one that cannot be read is an error only if it is named alone.

    A pipe that is named is one, also among others.
    """
    try:
        return DocumentFile.detect(path, name=name, format=format)
    except UnknownFormatError:
        raise
    except (UnreadableError, FormatError) as error:
        if is_named and (is_alone or isinstance(error, FormatError)):
            raise
        known = format or format_by_ending(name) or "text"
        return DocumentFile(path, name, known, unreadable=error.reason)


_ENDING = re.compile(r"\.[^\W_][\w+-]{0,15}", re.ASCII)
NO_ENDING = "without an ending"


def ending_of(name: str) -> str:
    """Return the kind of a file that is skipped: its ending, two if the last is of a compression.

    >>> [ending_of(name) for name in ("a.b.CPP", "a.tar.gz", ".profile", "x. see page 7")]
    ['.cpp', '.tar.gz', 'without an ending', 'without an ending']
    """
    endings = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
    if not endings or not _ENDING.fullmatch(endings[-1]):
        return NO_ENDING
    is_packed = endings[-1] in _PACKED and len(endings) > 1 and _ENDING.fullmatch(endings[-2])
    return "".join(endings[-2:] if is_packed else endings[-1:])


_PACKED = (".gz", ".zst", ".bz2", ".xz", ".lz4", ".br", ".z")


def _distinct(found: FoundDocuments) -> FoundDocuments:
    """Return each file once, with a name of its own."""
    real_path = functools.cache(os.path.realpath)
    files: dict[str, DocumentFile] = {}
    for file in found.files:
        there = STANDARD_INPUT
        if file.remote is not None:
            there = file.remote.uri
        elif isinstance(file.path, Path):
            # links to directories lead where they lead; one to a file is a file of its own
            there = f"{real_path(file.path.parent)}/{file.path.name}"
        if files.setdefault(there, file) is not file:
            found.repeated.append(file.name)
    if len({file.name for file in files.values()}) == len(files):
        return replace(found, files=list(files.values()))
    names = {file.name for file in files.values()}
    taken: set[str] = set()
    last_numbers: dict[str, int] = {}
    distinct = []
    for file in files.values():
        name, number = file.name, last_numbers.get(file.name, 1)
        while name in taken or (number > 1 and name in names):
            number += 1
            name = with_number(file.name, number)
        last_numbers[file.name] = number
        taken.add(name)
        distinct.append(replace(file, name=name))
    return replace(found, files=distinct)


def with_number(name: str, number: int) -> str:
    """Return the name of the second file, or a later one, that would have the name of another.

    >>> with_number("2024/pages.jsonl.gz", 2)
    '2024/pages-2.jsonl.gz'
    """
    head, slash, last = name.rpartition("/")
    stem, dot, endings = last.partition(".")
    return f"{head}{slash}{stem}-{number}{dot}{endings}"


def _add_remote(
    name: str, format: DocumentFormat | None, is_only: bool, found: FoundDocuments
) -> None:
    """Add the files that a URI stands for; those of a directory as on this machine."""
    directory = name.rstrip("/") + "/"
    for remote in list_files([name]):
        is_inside = remote.uri.startswith(directory)
        if is_inside and format is None and format_by_ending(remote.uri) is None:
            found.skipped[ending_of(file_name(remote.uri))] += 1
            continue
        shown = remote.uri.removeprefix(directory) if is_inside and is_only else None
        found.files.append(DocumentFile.of_remote(remote, name=shown, format=format))


def _packed_parquet(name: str, compression: Compression) -> FormatError:
    return FormatError(
        name, None, f"is Parquet inside {compression}, which is not read; decompress it first"
    )


def _unknown_format(name: str) -> UnknownFormatError:
    if suffix_inside(name) == ".wat":
        return UnknownFormatError(
            f"{name}: WAT has metadata of pages and not their texts; read the WARC or WET files"
        )
    return UnknownFormatError(
        f"{name}: the format is not known by its ending ({', '.join(_FORMAT_OF_ENDING)}, "
        "each but .parquet perhaps with .gz, .zst or .lz4 after it)"
    )


def format_by_ending(name: str) -> DocumentFormat | None:
    """Return the format that the suffix of a file's name states, or None."""
    return _FORMAT_OF_ENDING.get(suffix_inside(name))


def is_plain_jsonl(name: str, format: DocumentFormat | None = None) -> bool:
    """Return whether a file is JSONL that Hadoop does not decompress, by its name alone.

    With ``format`` "jsonl" the name may have no suffix, or .txt.
    """
    suffix = PurePosixPath(name).suffix.lower()
    if format == "jsonl" and suffix in ("", ".txt"):
        return True
    return format in (None, "jsonl") and _FORMAT_OF_ENDING.get(suffix) == "jsonl"


def _printable(name: str) -> str:
    """Return ``name`` on one line, with bytes that are not UTF-8 escaped."""
    return escaped(os.fsencode(name).decode("utf-8", "backslashreplace"))
