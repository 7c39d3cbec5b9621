"""Lines of a content, many at a time, whatever their length; and ranges of them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.content import Content

_NEWLINE, _RETURN = b"\n\r"

_MARKS = re.compile(b"^(?:%b)+" % codecs.BOM_UTF8, re.MULTILINE)

_READ_BYTES = 1 << 18
"""Bytes of a block: of 64 KB to 8 MB the fastest to decode, as it fits the cache."""


class LineBlock(NamedTuple):
    """Whole lines from byte ``offset`` of the content: the first ``size`` bytes of ``buffer``.

    Each line has its end, which the last one of the content may lack. The buffer is reused for
    the next block. A block of ``size`` 0, with an empty buffer, is a line that is too long.
    """

    offset: int
    buffer: bytearray
    size: int


class NonEmptyLines(NamedTuple):
    """The lines of ``content`` that are not empty, of its ``line_count`` lines.

    ``numbers``, ``starts`` and ``ends`` are int64[n]: line numbers from 0, and byte offsets in
    ``content``, which is None for a line that is too long. A byte order mark before a line is not
    part of it. An empty line takes some nanoseconds, and no Python object.
    """

    content: bytes | None
    line_count: int
    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, block: LineBlock) -> NonEmptyLines:
        """Return the lines of a block; ``ends`` are before LF or CR LF."""
        if not block.size:
            zero = np.zeros(1, np.int64)
            return cls(None, 1, zero, zero, zero)
        content = bytes(memoryview(block.buffer)[: block.size])
        data = np.frombuffer(content, np.uint8)
        ends = np.flatnonzero(data == _NEWLINE)
        if not content.endswith(b"\n"):
            ends = np.append(ends, block.size)
        starts = np.append(0, ends[:-1] + 1)
        for line in np.flatnonzero(data[starts] == codecs.BOM_UTF8[0]).tolist():
            while content.startswith(codecs.BOM_UTF8, starts[line]):
                starts[line] += len(codecs.BOM_UTF8)
        stops = ends - ((ends > starts) & (data[ends - 1] == _RETURN))
        numbers = np.flatnonzero(stops > starts)
        return cls(content, len(ends), numbers, starts[numbers], stops[numbers])


def without_marks(lines: bytes) -> bytes:
    """Return whole lines without the byte order marks that they begin with, in linear time."""
    return _MARKS.sub(b"", lines) if codecs.BOM_UTF8 in lines else lines


def line_blocks(
    content: Content, start: int, stop: int | None, max_line_bytes: int
) -> Iterator[LineBlock]:
    """Yield the lines that begin at bytes ``start`` to ``stop``, in order.

    Consecutive ranges have each line once, wherever they are cut. A block has about a quarter of
    a megabyte, or one longer line; a line longer than ``max_line_bytes`` and a block is skipped
    without being buffered.

    Args:
        content: at its beginning; seekable unless ``start`` is 0.
        start: the first byte at which a line may begin.
        stop: the end of the range; None for the end of the content.
        max_line_bytes: the longest line.

    Raises:
        FormatError: as ``Content.read``, after the whole lines before the damage.
        MrDedupError: as ``Content.read``.
    """
    lines = _Lines(content, stop, max_line_bytes)
    if start:
        # a line begins at start if the byte before it ends one
        lines.begin_after_line(start - 1)
    while stop is None or lines.offset < stop:
        block = lines.next_block()
        if block is None:
            return
        yield block
        lines.drop(block)


class _Lines:
    """The lines of a content in a buffer that is reused.

    Reading into the same memory takes a third less time than joining and cutting new bytes.
    """

    def __init__(self, content: Content, stop: int | None, max_line_bytes: int) -> None:
        self.offset = content.position
        self._content = content
        self._stop = stop
        self._max_line_bytes = max_line_bytes
        self._buffer = bytearray(2 * _READ_BYTES)
        self._filled = 0

    def begin_after_line(self, offset: int) -> None:
        """Go to the end of the line that contains byte ``offset``."""
        self._content.seek(offset)
        self.offset = offset
        self._skip_line()

    def next_block(self) -> LineBlock | None:
        """Return the next lines, None at the end."""
        seen = 0
        while True:
            end = self._end_of_lines(seen)
            if end:
                return LineBlock(self.offset, self._buffer, end)
            seen = self._filled
            if seen > self._max_line_bytes + len(b"\r") and seen >= _READ_BYTES:
                offset = self.offset
                self._skip_line()
                return LineBlock(offset, bytearray(), 0)
            if not self._read():
                return LineBlock(self.offset, self._buffer, seen) if seen else None

    def drop(self, block: LineBlock) -> None:
        """Remove ``block`` from the beginning of the buffer."""
        self.offset += block.size
        self._filled -= block.size
        # sizes first: assigning to a slice of another size would resize
        rest = self._buffer[block.size : block.size + self._filled]
        if len(self._buffer) > 2 * _READ_BYTES >= 2 * self._filled:
            self._buffer = bytearray(2 * _READ_BYTES)
        self._buffer[: len(rest)] = rest

    def _end_of_lines(self, seen: int) -> int:
        """Return where the last line of the block ends, 0 if no line ends after ``seen``."""
        if self._stop is not None and self.offset + self._filled >= self._stop:
            # the line that contains the byte before stop is the last one to begin before it
            last = max(seen, self._stop - 1 - self.offset)
            end = self._buffer.find(b"\n", last, self._filled) + 1
            if end:
                return end
        return self._buffer.rfind(b"\n", seen, self._filled) + 1

    def _read(self) -> bool:
        """Read more; return False at the end."""
        if self._filled + _READ_BYTES > len(self._buffer):
            # not resized: a caller may still have a view of the old one
            self._buffer = self._buffer + bytearray(len(self._buffer))
        view = memoryview(self._buffer)[self._filled : self._filled + _READ_BYTES]
        got = self._content.readinto(view)
        self._filled += got
        return got > 0

    def _skip_line(self) -> None:
        """Skip to the next line, to the end, or at least to ``stop``."""
        self.offset += self._filled
        self._filled = 0
        while (self._stop is None or self.offset < self._stop) and self._read():
            end = self._buffer.find(b"\n", 0, self._filled) + 1
            skipped = end or self._filled
            self.drop(LineBlock(self.offset, self._buffer, skipped))
            if end:
                return
