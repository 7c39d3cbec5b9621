"""URLs a line, in batches, as they come: who writes to a pipe slowly is not waited for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.compression import (
    SUFFIX_OF_COMPRESSION,
    compression_by_magic,
    compression_by_suffix,
)
from mr_dedup.formats.content import Content, open_content, open_detected
from mr_dedup.formats.documents.files import DocumentPart
from mr_dedup.formats.documents.read import part_line_blocks
from mr_dedup.formats.documents.rejects import Rejects, Report
from mr_dedup.formats.lines import NonEmptyLines, line_blocks

MAX_LINE_BYTES = 1 << 16

STANDARD_INPUT = "-"


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
            lines = NonEmptyLines.of(block)
            yield _urls_in(report, lines, (lines.numbers + number).tolist())
            number += lines.line_count


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
            lines = NonEmptyLines.of(block)
            yield _urls_in(report, lines, (lines.starts + block.offset).tolist())


def _opened(path: Path | None, name: str) -> contextlib.AbstractContextManager[Content]:
    compression = None if path is None else compression_by_suffix(path)
    return open_content(path, name, compression) if compression else open_detected(path, name)


def _urls_in(report: Report, lines: NonEmptyLines, places: list[int]) -> UrlLines:
    content = lines.content
    if content is not None and (lines.ends - lines.starts).max(initial=0) <= MAX_LINE_BYTES:
        spans = zip(lines.starts.tolist(), lines.ends.tolist(), strict=True)
        return UrlLines(report, places, [content[start:end] for start, end in spans])
    found: list[int] = []
    urls = []
    for place, start, end in zip(places, lines.starts.tolist(), lines.ends.tolist(), strict=True):
        if content is None or end - start > MAX_LINE_BYTES:
            report.reject(place, f"is longer than {MAX_LINE_BYTES:,} bytes")
        else:
            found.append(place)
            urls.append(content[start:end])
    return UrlLines(report, found, urls)


def _refuse_compressed(beginning: bytes, name: str) -> None:
    kind = compression_by_magic(beginning)
    if kind is not None:
        ending = SUFFIX_OF_COMPRESSION[kind]
        raise MrDedupError(
            f"{name}: is {kind} data; unpack it first, or have its name end in {ending}"
        )
