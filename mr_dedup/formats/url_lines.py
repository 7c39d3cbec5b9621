"""URLs a line, in batches, as they come: who writes to a pipe slowly is not waited for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.content import open_content
from mr_dedup.formats.documents.lines import line_blocks
from mr_dedup.formats.documents.rejects import Rejects, Report
from mr_dedup.formats.fingerprint_files import Compression

MAX_LINE_BYTES = 1 << 16

STANDARD_INPUT = "-"

_COMPRESSION_OF_ENDING: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}


class UrlLines(NamedTuple):
    """Lines of a file that are not empty, without their ends, and the number of each."""

    report: Report
    numbers: list[int]
    urls: list[bytes]


def url_lines(name: str, rejects: Rejects) -> Iterator[UrlLines]:
    """Yield the lines of a file, ``-`` for standard input; a quarter of a megabyte at most.

    A name that ends in .gz or .zst is unpacked. Lines of more than MAX_LINE_BYTES are rejected.
    Raises FormatError where compressed data is damaged, after the lines before, and MrDedupError
    where it cannot be read.
    """
    path = None if name == STANDARD_INPUT else Path(name)
    called = "standard input" if path is None else name
    compression = None if path is None else _COMPRESSION_OF_ENDING.get(path.suffix.lower())
    report = Report(called, "line", rejects, strict=False)
    with open_content(path, called, compression) as content:
        number = 1
        for block in line_blocks(content, 0, None, MAX_LINE_BYTES):
            if number == 1:
                _refuse_compressed(bytes(block.buffer[:2]), called)
            if not block.size:
                _reject_long(report, number)
                number += 1
                continue
            lines = bytes(memoryview(block.buffer)[: block.size]).split(b"\n")
            if not lines[-1]:
                lines.pop()
            numbers, urls = [], []
            for at, line in enumerate(lines, number):
                url = line.removesuffix(b"\r")
                if len(url) > MAX_LINE_BYTES:
                    _reject_long(report, at)
                elif url:
                    numbers.append(at)
                    urls.append(url)
            yield UrlLines(report, numbers, urls)
            number += len(lines)


def _reject_long(report: Report, number: int) -> None:
    report.reject(number, f"is longer than {MAX_LINE_BYTES:,} bytes")


def _refuse_compressed(beginning: bytes, name: str) -> None:
    kind = _COMPRESSED.get(beginning)
    if kind is not None:
        ending = {"gzip": ".gz", "zstd": ".zst"}[kind]
        raise MrDedupError(
            f"{name}: is {kind} data; unpack it first, or name a file that ends in {ending}"
        )
