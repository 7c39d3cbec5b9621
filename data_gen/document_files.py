"""Files of documents: JSONL, perhaps compressed and cut into files, or a file for each page."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeAlias

import zstandard

from data_gen.markup import to_html, to_html_bytes, to_text
from data_gen.outputs import OutputError
from data_gen.pages import Page

FORMATS = ("jsonl", "jsonl.gz", "jsonl.zst", "html")
MAX_FILES = 100_000  # five digits: names sort as the files do

# Writes a document: its fields but for the content, and its page.
WriteDocument: TypeAlias = Callable[[dict[str, Any], Page], None]


@contextlib.contextmanager
def open_writer(folder: Path, format_: str, chunk_bytes: int) -> Iterator[WriteDocument]:
    """Yield the function that writes a document to ``folder`` in one of FORMATS.

    A line of JSON has the content as ``text`` or ``html``; in the format html it has the name
    of the page's file as ``file`` instead. Raises OSError where something cannot be written.
    """
    suffix = "jsonl" if format_ == "html" else format_
    with _Lines(folder, suffix, chunk_bytes) as lines:

        def write_line(record: dict[str, Any], page: Page) -> None:
            name, convert = ("html", to_html) if page.html else ("text", to_text)
            lines.write({**record, name: convert(page)})

        def write_page(record: dict[str, Any], page: Page) -> None:
            name = f"{record['id']}.html"
            (folder / name).write_bytes(to_html_bytes(page))
            lines.write({**record, "file": name})

        yield write_page if format_ == "html" else write_line


class _Lines:
    """A series of files documents-00000, documents-00001, … of lines of JSON.

    A line that would take a file past ``chunk_bytes``, counted before compression, begins the
    next one. There is always a first file.
    """

    def __init__(self, folder: Path, suffix: str, chunk_bytes: int) -> None:
        self._folder, self._suffix, self._chunk_bytes = folder, suffix, chunk_bytes
        self._files = 0
        self._written_bytes = 0
        self._open: contextlib.ExitStack = contextlib.ExitStack()

    def __enter__(self) -> _Lines:
        self._file = self._next_file()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def write(self, record: dict[str, Any]) -> None:
        """Write one record."""
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        if self._written_bytes and self._written_bytes + len(line) > self._chunk_bytes:
            self._file = self._next_file()
        self._file.write(line)
        self._written_bytes += len(line)

    def _next_file(self) -> IO[bytes]:
        self._open.close()
        if self._files == MAX_FILES:
            raise OutputError(
                f"chunk_bytes must be large enough for at most {MAX_FILES:,} files, "
                f"not {self._chunk_bytes}"
            )
        path = self._folder / f"documents-{self._files:05}.{self._suffix}"
        self._files += 1
        self._written_bytes = 0
        file: Any = self._open.enter_context(path.open("wb"))
        if self._suffix.endswith(".gz"):
            # no name and no time: the same bytes each time
            file = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6)
        elif self._suffix.endswith(".zst"):
            file = zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False)
        opened: IO[bytes] = self._open.enter_context(file)
        return opened
