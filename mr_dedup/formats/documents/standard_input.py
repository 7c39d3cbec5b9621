"""Standard input as a file of documents, which can be read more than once."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Collection, Generator, Iterator
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.files.io_errors import reading, reason_of
from mr_dedup.formats.compression import SUFFIX_OF_COMPRESSION, compression_by_magic
from mr_dedup.formats.content import open_content
from mr_dedup.formats.documents.files import DocumentFile, DocumentFormat

_COPIED_BYTES = 1 << 20

_SUFFIXES: dict[DocumentFormat, str] = {
    "jsonl": ".jsonl", "parquet": ".parquet", "warc": ".warc", "text": ".txt", "html": ".html"
}  # fmt: skip


def spool_standard_input(
    folder: Path, format: DocumentFormat | None = None, used_names: Collection[str] = ()
) -> DocumentFile:
    """Copy standard input to a file, a megabyte at a time.

    Its compression, and its format if that is not given, are detected by its first bytes:
    Parquet, WARC, ARC, or else JSON lines.

    Args:
        folder: the directory of the file.
        format: the format, if known.
        used_names: names that the file must not have.

    Returns:
        The file. It is named ``stdin`` with suffixes, as ``stdin.jsonl.gz``, or
        ``stdin-2.jsonl.gz`` and so on.

    Raises:
        MrDedupError: standard input cannot be read or copied.
    """
    path = folder / "stdin"
    with contextlib.closing(_pieces()) as pieces, _copying_to(folder):
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        with path.open("rb") as file:
            compression = compression_by_magic(file.read(8))
    begin = b""
    if format in (None, "warc"):
        with open_content(path, "standard input", compression) as content:
            begin = content.peek(8)
    if format is None:
        format = "warc" if begin.startswith((b"WARC/", b"filedesc")) else "jsonl"
        if compression is None and begin.startswith(b"PAR1"):
            format = "parquet"
    if format == "parquet":
        compression = None
    suffix = ".arc" if begin == b"filedesc" else _SUFFIXES[format]
    ending = suffix + (SUFFIX_OF_COMPRESSION[compression] if compression else "")
    names = itertools.chain([f"stdin{ending}"], (f"stdin-{n}{ending}" for n in itertools.count(2)))
    name = next(name for name in names if name not in used_names)
    with _copying_to(folder):
        return DocumentFile(path.rename(folder / name), name, format, compression)


def _pieces() -> Generator[bytes, None, None]:
    """Yield standard input; MrDedupError if it cannot be read."""
    with reading("standard input"), io.FileIO(0, closefd=False) as stdin:
        while piece := stdin.read(_COPIED_BYTES):
            yield piece


@contextlib.contextmanager
def _copying_to(folder: Path) -> Iterator[None]:
    """Turn errors of writing to ``folder`` into MrDedupError."""
    try:
        yield
    except OSError as error:
        reason = reason_of(error)
        raise MrDedupError(f"standard input: cannot be copied to {folder}: {reason}") from error
