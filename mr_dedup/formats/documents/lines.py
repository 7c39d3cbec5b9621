"""Lines of a content, many at a time, whatever their length; ranges of them for map tasks."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.content import Content, open_content

_NEWLINE, _RETURN = b"\n\r"

_READ_BYTES = 1 << 18
"""Lines handed on together: of 64 KB to 8 MB the fastest to decode, for the cache holds it."""

_PLACE_BYTES = 24
"""What a place before a line takes at most, with its TAB."""


class LineBlock(NamedTuple):
    """Whole lines, from byte ``offset`` of the content on: the first ``size`` of ``buffer``.

    Each has its end; the last one of the content may lack it. The buffer is used again for the
    next block. There is none, and ``size`` is 0, for one line that is too long.
    """

    offset: int
    buffer: bytearray
    size: int


class NonEmptyLines(NamedTuple):
    """The lines of ``content`` that are not empty: which of ``line_count`` they are, from 0.

    ``numbers``, ``starts`` and ``ends`` are int64[n]. The content is None for a line that is too
    long. A byte order mark at the beginning of a file is not part of a line. Empty lines take some
    nanoseconds each, and no Python object.
    """

    content: bytes | None
    line_count: int
    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, block: LineBlock) -> NonEmptyLines:
        """Return the lines of a block; their ends are those without CR LF or LF."""
        if not block.size:
            zero = np.zeros(1, np.int64)
            return cls(None, 1, zero, zero, zero)
        content = bytes(memoryview(block.buffer)[: block.size])
        begin = len(codecs.BOM_UTF8) if _begins_with_mark(block) else 0
        data = np.frombuffer(content, np.uint8)
        ends = np.flatnonzero(data == _NEWLINE)
        if not content.endswith(b"\n"):
            ends = np.append(ends, block.size)
        starts = np.append(begin, ends[:-1] + 1)
        stops = ends - ((ends > starts) & (data[ends - 1] == _RETURN))
        numbers = np.flatnonzero(stops > starts)
        return cls(content, len(ends), numbers, starts[numbers], stops[numbers])


def _begins_with_mark(block: LineBlock) -> bool:
    return block.offset == 0 and block.buffer.startswith(codecs.BOM_UTF8)


def line_blocks(
    content: Content, start: int, stop: int | None, max_line_bytes: int
) -> Iterator[LineBlock]:
    """Yield the lines that begin at bytes ``start`` to ``stop``, in order.

    So ranges that follow each other have each line once, wherever they are cut. ``content``
    stands at its beginning; ``start`` is 0 unless it can be sought in. Blocks have about a
    quarter of a megabyte, or one longer line; one that is longer than ``max_line_bytes`` and a
    block is passed over without being held. Raises as ``Content.read``, after the whole lines
    before.
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


@dataclass(frozen=True)
class PlacedLines:
    """The lines of a part of a file as Hadoop's TextInputFormat hands them to a task.

    They are those that begin behind byte ``start``, or at 0, and up to ``stop``, but none of
    ``longest_bytes`` or more; each comes after the byte at which it begins and a TAB. The file has
    ``file_bytes``, and ``fetch`` returns a copy of it.
    """

    start: int
    stop: int
    file_bytes: int
    longest_bytes: int
    fetch: Callable[[], Path]


def placed_line_blocks(
    stream: BinaryIO, lines: PlacedLines, name: str, max_line_bytes: int
) -> Iterator[LineBlock]:
    """Yield the lines of a part, which come by ``stream``, as :func:`line_blocks` would.

    Where one is missing, it and all behind it are read from a copy of the file ``name``: that is
    slow, but rare, and in memory there is never more. Raises as ``line_blocks`` and ``fetch``, and
    MrDedupError for a line that comes without its place.
    """
    handed = _HandedLines(stream, lines, name, max_line_bytes)
    yield from handed.blocks()
    if handed.end > min(lines.stop, lines.file_bytes - 1):
        return
    # who writes to it would fail if nobody read
    while stream.read(_READ_BYTES):
        pass
    with open_content(lines.fetch(), name) as content:
        yield from line_blocks(content, handed.end, lines.stop + 1, max_line_bytes)


class _HandedLines:
    """Lines that come with their places, as long as they follow each other, up to ``end``."""

    def __init__(
        self, stream: BinaryIO, lines: PlacedLines, name: str, max_line_bytes: int
    ) -> None:
        self.end = lines.start + 1 if lines.start else 0
        self._stream = stream
        self._lines = lines
        self._name = name
        # what has more is too long, whatever its end
        self._most_bytes = _PLACE_BYTES + max(max_line_bytes + len(b"\r\n"), _READ_BYTES)
        self._buffer = bytearray()
        self._came = 0

    def blocks(self) -> Iterator[LineBlock]:
        """Yield the lines up to the first that is missing."""
        while line := self._stream.readline(self._most_bytes):
            tab = line.find(b"\t", 0, _PLACE_BYTES)
            if not line[: max(tab, 0)].isdigit():
                raise MrDedupError(f"{self._name}: a line came to its task without its place")
            if not self._is_next(int(line[:tab])):
                break
            self._came += 1
            is_long = len(line) == self._most_bytes and not line.endswith(b"\n")
            if is_long or len(self._buffer) >= _READ_BYTES:
                yield from self._gathered()
            if is_long:
                yield LineBlock(self.end, bytearray(), 0)
                self.end += len(line) - (tab + 1) + self._pass_over_line()
            else:
                self._buffer += memoryview(line)[tab + 1 :]
                self.end += len(line) - (tab + 1)
        if self._came == 1 and self._buffer and not self._lines.start:
            # of a byte order mark only the gap is left that it leaves before the next line
            self.end = 0
            return
        yield from self._gathered()

    def _is_next(self, place: int) -> bool:
        """Return whether the line at ``place`` follows those before, and have ``end`` there."""
        start = self._lines.start
        if self._came == 0 and start:
            # a line of which the part before has the beginning ends there, and no longer one
            found = start < place < start + self._lines.longest_bytes
        else:
            gap = place - self.end
            found = gap == 0 or (self._came == 1 and not start and gap == len(codecs.BOM_UTF8))
        if found:
            self.end = place
        return found

    def _gathered(self) -> Iterator[LineBlock]:
        if self._buffer:
            yield LineBlock(self.end - len(self._buffer), self._buffer, len(self._buffer))
            self._buffer = bytearray()

    def _pass_over_line(self) -> int:
        """Go to the next line; return how many bytes there were."""
        passed = 0
        while rest := self._stream.readline(_READ_BYTES):
            passed += len(rest)
            if rest.endswith(b"\n"):
                break
        return passed


class _Lines:
    """A buffer that is filled and emptied again and again.

    Reading all into the same memory takes a third less time than fresh bytes, cut and joined.
    """

    def __init__(self, content: Content, stop: int | None, max_line_bytes: int) -> None:
        self.offset = content.position
        self._content = content
        self._stop = stop
        self._max_line_bytes = max_line_bytes
        self._buffer = bytearray(2 * _READ_BYTES)
        self._held = 0

    def begin_after_line(self, offset: int) -> None:
        """Go to the end of the line that holds byte ``offset``."""
        self._content.seek(offset)
        self.offset = offset
        self._pass_over_line()

    def next_block(self) -> LineBlock | None:
        """Return the next lines, None at the end."""
        seen = 0
        while True:
            end = self._end_of_lines(seen)
            if end:
                return LineBlock(self.offset, self._buffer, end)
            seen = self._held
            if seen > self._max_line_bytes + len(b"\r") and seen >= _READ_BYTES:
                offset = self.offset
                self._pass_over_line()
                return LineBlock(offset, bytearray(), 0)
            if not self._read():
                return LineBlock(self.offset, self._buffer, seen) if seen else None

    def drop(self, block: LineBlock) -> None:
        """Have what follows ``block`` at the beginning of the buffer."""
        self.offset += block.size
        self._held -= block.size
        # sizes first: assigning to a slice of another size would resize
        rest = self._buffer[block.size : block.size + self._held]
        if len(self._buffer) > 2 * _READ_BYTES >= 2 * self._held:
            self._buffer = bytearray(2 * _READ_BYTES)
        self._buffer[: len(rest)] = rest

    def _end_of_lines(self, seen: int) -> int:
        """Return where the last line that is wanted ends, 0 if none does from ``seen`` on."""
        if self._stop is not None and self.offset + self._held >= self._stop:
            # the line that holds the byte before stop is the last one to begin before it
            last = max(seen, self._stop - 1 - self.offset)
            end = self._buffer.find(b"\n", last, self._held) + 1
            if end:
                return end
        return self._buffer.rfind(b"\n", seen, self._held) + 1

    def _read(self) -> bool:
        """Read on; return whether there was anything."""
        if self._held + _READ_BYTES > len(self._buffer):
            # not resized: whoever looks at the old one may do so
            self._buffer = self._buffer + bytearray(len(self._buffer))
        view = memoryview(self._buffer)[self._held : self._held + _READ_BYTES]
        got = self._content.readinto(view)
        self._held += got
        return got > 0

    def _pass_over_line(self) -> None:
        """Go to the next line, or to the end, or to ``stop`` at least."""
        self.offset += self._held
        self._held = 0
        while (self._stop is None or self.offset < self._stop) and self._read():
            end = self._buffer.find(b"\n", 0, self._held) + 1
            passed = end or self._held
            self.drop(LineBlock(self.offset, self._buffer, passed))
            if end:
                return
