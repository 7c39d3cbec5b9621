"""Lists of URLs, one per line, read in batches as they arrive."""

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
    """The lines of a file that are not empty, without their ends, and the position of each."""

    report: Report
    positions: list[int]
    urls: list[bytes]


def url_lines(name: str, rejects: Rejects) -> Iterator[UrlLines]:
    """Yield the lines of a file, at most a quarter of a megabyte at a time.

    A file is decompressed if it is named .gz, .zst or .lz4, or begins as such data. Positions
    are line numbers. A byte order mark is dropped, and lines of more than MAX_LINE_BYTES are
    rejected.

    Args:
        name: the path; ``-`` for standard input.
        rejects: collects rejected lines.

    Raises:
        FormatError: compressed data is damaged; the lines before are yielded first.
        MrDedupError: the file cannot be read.
    """
    path = None if name == STANDARD_INPUT else Path(name)
    shown = "standard input" if path is None else name
    report = Report(shown, "line", rejects, strict=False)
    with _opened(path, shown) as content:
        number = 1
        for block in line_blocks(content, 0, None, MAX_LINE_BYTES):
            lines = NonEmptyLines.of(block)
            yield _urls_in(report, lines, (lines.numbers + number).tolist())
            number += lines.line_count


def part_url_lines(part: DocumentPart, rejects: Rejects) -> Iterator[UrlLines]:
    """Yield the lines of a part of a file, which is cut as JSON lines are.

    As ``url_lines``, but positions are byte offsets, and a file is decompressed by its name alone:
    MrDedupError is raised for compressed data that is not named so.
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


def _urls_in(report: Report, lines: NonEmptyLines, positions: list[int]) -> UrlLines:
    content = lines.content
    if content is not None and (lines.ends - lines.starts).max(initial=0) <= MAX_LINE_BYTES:
        spans = zip(lines.starts.tolist(), lines.ends.tolist(), strict=True)
        return UrlLines(report, positions, [content[start:end] for start, end in spans])
    found: list[int] = []
    urls = []
    for position, start, end in zip(
        positions, lines.starts.tolist(), lines.ends.tolist(), strict=True
    ):
        if content is None or end - start > MAX_LINE_BYTES:
            report.reject(position, f"is longer than {MAX_LINE_BYTES:,} bytes")
        else:
            found.append(position)
            urls.append(content[start:end])
    return UrlLines(report, found, urls)


def _refuse_compressed(beginning: bytes, name: str) -> None:
    kind = compression_by_magic(beginning)
    if kind is not None:
        ending = SUFFIX_OF_COMPRESSION[kind]
        raise MrDedupError(
            f"{name}: contains {kind} data; decompress it first, or let its name end in {ending}"
        )
