"""Files of documents: JSON lines, optionally compressed, or an HTML file for each page."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

import zstandard

from data_gen.markup import to_html, to_html_bytes, to_text
from data_gen.outputs import NumberedFiles
from data_gen.pages import Page

FORMATS = ("jsonl", "jsonl.gz", "jsonl.zst", "html")

# writes a document, given its fields without the content, and its page
WriteDocument: TypeAlias = Callable[[dict[str, Any], Page], None]


@contextlib.contextmanager
def open_writer(folder: Path, format_: str, chunk_bytes: int) -> Iterator[WriteDocument]:
    """Yield the function that writes a document to ``folder`` in one of FORMATS.

    A line of JSON has the content as ``text`` or ``html``, in the format html the name of the file
    of the page as ``file``. Raises OSError if a file cannot be written.
    """
    suffix = "jsonl" if format_ == "html" else format_

    def open_file(number: str, stack: contextlib.ExitStack) -> IO[bytes]:
        return _open_lines(folder / f"documents-{number}.{suffix}", stack)

    with NumberedFiles(open_file, chunk_bytes) as files:

        def write_json(record: dict[str, Any]) -> None:
            files.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")

        def write_line(record: dict[str, Any], page: Page) -> None:
            name, convert = ("html", to_html) if page.html else ("text", to_text)
            write_json({**record, name: convert(page)})

        def write_page(record: dict[str, Any], page: Page) -> None:
            name = f"{record['id']}.html"
            (folder / name).write_bytes(to_html_bytes(page))
            write_json({**record, "file": name})

        yield write_page if format_ == "html" else write_line


def _open_lines(path: Path, stack: contextlib.ExitStack) -> IO[bytes]:
    """Open a file of lines for writing, compressed if its suffix says so."""
    file: Any = stack.enter_context(path.open("wb"))
    if path.suffix == ".gz":
        # without name and time: the same bytes each time
        file = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6)
    elif path.suffix == ".zst":
        file = zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False)
    opened: IO[bytes] = stack.enter_context(file)
    return opened
