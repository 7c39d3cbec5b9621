"""Standard input as a file of documents, for what reads documents more than once."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.content import compression_of, open_content
from mr_dedup.formats.documents.files import DocumentFile, DocumentFormat

_COPIED_BYTES = 1 << 20

_ENDINGS: dict[str | None, str] = {
    "jsonl": ".jsonl", "parquet": ".parquet", "warc": ".warc", "text": ".txt", "html": ".html",
    "gzip": ".gz", "zstd": ".zst", None: "",
}  # fmt: skip


def spool_standard_input(folder: Path, format: DocumentFormat | None = None) -> DocumentFile:
    """Copy standard input to a file in ``folder``, and return that.

    Its compression is known by its first bytes, and so is its format unless it is given: Parquet,
    WARC, or else JSON lines. It is called ``stdin`` and what it is, as in ``stdin.jsonl.gz``. In
    memory: a megabyte. Raises MrDedupError if it cannot be read or copied.
    """
    path = folder / "stdin"
    try:
        with io.FileIO(0, closefd=False) as stdin, path.open("wb") as file:
            shutil.copyfileobj(stdin, file, _COPIED_BYTES)
        with path.open("rb") as file:
            compression = compression_of(file.read(8))
    except OSError as error:
        reason = error.strerror or error
        raise MrDedupError(f"standard input: cannot be copied to {folder}: {reason}") from error
    if format is None:
        with open_content(path, "standard input", compression) as content:
            begin = content.peek(8)
        format = "warc" if begin.startswith(b"WARC/") else "jsonl"
        if compression is None and begin.startswith(b"PAR1"):
            format = "parquet"
    if format == "parquet":
        compression = None
    name = f"stdin{_ENDINGS[format]}{_ENDINGS[compression]}"
    return DocumentFile(path.rename(folder / name), name, format, compression)
