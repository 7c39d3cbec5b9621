"""Pairs of fingerprints as text: each line a fingerprint and, after a TAB each, its partners.

``query`` prints its matches so, optionally with a colon and the distance after each, and jobs
their labels. Fingerprints are written as in text files (see text.py). Lines end with LF or CR LF;
empty ones are skipped.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.formats import text
from mr_dedup.formats.content import Content
from mr_dedup.formats.lines import line_blocks

Pairs = tuple[NDArray[np.uint64], NDArray[np.uint64]]

MAX_LINE_BYTES = 1 << 30
"""A whole line is in memory: that of a query with 50 million matches."""

_DISTANCE = re.compile(rb"(\t[^\t\r\n:]*):[0-9]{1,2}(?=[\t\r\n])")
_TAB, _NEWLINE, _RETURN = b"\t\n\r"


def read(content: Content, name: str) -> Iterator[Pairs]:
    """Yield the pairs of a text in their order, two aligned arrays uint64[n] at a time.

    Each array is new, and has the pairs of about a quarter of a megabyte of text, or of one longer
    line. Raises FormatError, naming the line, for other lines, and as ``Content.read``.
    """
    line = 1
    for block in line_blocks(content, 0, None, MAX_LINE_BYTES):
        if not block.size:
            raise FormatError(name, f"line {line}", f"is longer than {MAX_LINE_BYTES} bytes")
        lines = bytes(memoryview(block.buffer)[: block.size])
        lines += b"" if lines.endswith(b"\n") else b"\n"
        parsed = _parse(text.without_blank_lines(lines), name)
        if parsed is None:
            raise _invalid_line(lines, name, line)
        yield parsed
        line += lines.count(b"\n")


def _parse(lines: bytes, name: str) -> Pairs | None:
    """Parse whole lines together; return None if any is invalid."""
    plain = _without_distances(lines)
    try:
        values = _fingerprints(plain, name)
    except FormatError:
        return None
    buffer = np.frombuffer(plain, np.uint8)
    newlines = np.flatnonzero(buffer == _NEWLINE)
    starts = np.append(0, newlines[:-1] + 1)
    blank = (newlines == starts) | ((newlines == starts + 1) & (buffer[starts] == _RETURN))
    tabs = np.diff(np.searchsorted(np.flatnonzero(buffer == _TAB), newlines), prepend=0)[~blank]
    if (tabs < 1).any() or values.size != tabs.sum() + tabs.size:
        return None
    firsts = np.append(0, (tabs + 1).cumsum()[:-1]) if tabs.size else tabs
    return np.repeat(values[firsts], tabs), np.delete(values, firsts)


def _without_distances(lines: bytes) -> bytes:
    return _DISTANCE.sub(rb"\1", lines) if b":" in lines else lines


def _fingerprints(plain: bytes, name: str) -> NDArray[np.uint64]:
    """Return the fingerprints of lines without distances, separated by TABs or line ends."""
    fields = io.BytesIO(plain.replace(b"\t", b"\n"))
    return np.concatenate([np.empty(0, np.uint64), *text.read(fields, name)])


def _invalid_line(lines: bytes, name: str, line: int) -> FormatError:
    """Return the error of the first invalid line; ``line`` is the number of the first."""
    found = lines[:-1].split(b"\n")
    while len(found) > 1:
        half = len(found) // 2
        if _parse(b"\n".join(found[:half]) + b"\n", name) is None:
            found = found[:half]
        else:
            found, line = found[half:], line + half
    reason = "expected a fingerprint and, after a TAB each, one or more others"
    try:
        _fingerprints(_without_distances(found[0] + b"\n"), name)
    except FormatError as error:
        reason = error.reason
    return FormatError(name, f"line {line}", reason)
