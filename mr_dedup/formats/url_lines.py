"""URLs a line, in batches, as they come: who writes to a pipe slowly is not waited for."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, count
from pathlib import Path
from typing import NamedTuple

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.content import (
    Content,
    compression_of,
    open_content,
    open_recognised,
)
from mr_dedup.formats.documents.files import DocumentPart
from mr_dedup.formats.documents.lines import LineBlock, line_blocks
from mr_dedup.formats.documents.read import part_line_blocks
from mr_dedup.formats.documents.rejects import Rejects, Report
from mr_dedup.formats.fingerprint_files import Compression

MAX_LINE_BYTES = 1 << 16

STANDARD_INPUT = "-"

_COMPRESSION_OF_ENDING: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}


class UrlLines(NamedTuple):
    """Lines of a file that are not empty, without their ends, and the place of each for rejects."""

    report: Report
    places: list[int]
    urls: list[bytes]


def url_lines(name: str, rejects: Rejects) -> Iterator[UrlLines]:
    """Yield the lines of a file, ``-`` for standard input; a quarter of a megabyte at most.

    What begins as gzip or zstd data is unpacked, and what is called .gz or .zst in any case. Lines
    of more than MAX_LINE_BYTES are rejected; places are the numbers of lines. A byte order mark
    before all is dropped. Raises FormatError where compressed data is damaged, after the lines
    before, and MrDedupError where it cannot be read.
    """
    path = None if name == STANDARD_INPUT else Path(name)
    called = "standard input" if path is None else name
    report = Report(called, "line", rejects, strict=False)
    with _opened(path, called) as content:
        number = 1
        for block in line_blocks(content, 0, None, MAX_LINE_BYTES):
            _, lines = _lines_of(block)
            yield _urls_in(report, lines, count(number))
            number += len(lines)


def part_url_lines(part: DocumentPart, rejects: Rejects) -> Iterator[UrlLines]:
    """Yield the lines of a part of a list, which is cut as JSON lines are: as ``url_lines``.

    Places are bytes, which are known in parts too. Only names tell what is compressed: raises
    MrDedupError for what is and is not called so.
    """
    file = part.file
    unit = "decompressed byte" if file.compression else "byte"
    report = Report(file.name, unit, rejects, strict=False)
    with part_line_blocks(part, MAX_LINE_BYTES) as blocks:
        for block in blocks:
            if not block.offset:
                _refuse_compressed(bytes(block.buffer[:4]), file.name)
            offset, lines = _lines_of(block)
            places = accumulate((len(line or b"") + 1 for line in lines), initial=offset)
            yield _urls_in(report, lines, places)


def _opened(path: Path | None, name: str) -> contextlib.AbstractContextManager[Content]:
    compression = None if path is None else _COMPRESSION_OF_ENDING.get(path.suffix.lower())
    return open_content(path, name, compression) if compression else open_recognised(path, name)


def _lines_of(block: LineBlock) -> tuple[int, Sequence[bytes | None]]:
    """Return at which byte the lines of a block begin, and them; None for one that is too long."""
    if not block.size:
        return block.offset, [None]
    data = bytes(memoryview(block.buffer)[: block.size])
    offset = block.offset
    if offset == 0 and data.startswith(codecs.BOM_UTF8):
        offset = len(codecs.BOM_UTF8)
        data = data[offset:]
    return offset, data.removesuffix(b"\n").split(b"\n")


def _urls_in(report: Report, lines: Sequence[bytes | None], places: Iterable[int]) -> UrlLines:
    found: list[int] = []
    urls = []
    for place, line in zip(places, lines, strict=False):
        url = None if line is None else line.removesuffix(b"\r")
        if url is None or len(url) > MAX_LINE_BYTES:
            report.reject(place, f"is longer than {MAX_LINE_BYTES:,} bytes")
        elif url:
            found.append(place)
            urls.append(url)
    return UrlLines(report, found, urls)


def _refuse_compressed(beginning: bytes, name: str) -> None:
    kind = compression_of(beginning)
    if kind is not None:
        ending = {"gzip": ".gz", "zstd": ".zst"}[kind]
        raise MrDedupError(
            f"{name}: is {kind} data; unpack it first, or have its name end in {ending}"
        )
