"""Lines of a split of a JSONL file, as Hadoop's TextInputFormat passes them to a task."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.content import open_content
from mr_dedup.formats.lines import LineBlock, line_blocks

_READ_BYTES = 1 << 18

_OFFSET_BYTES = 24
"""The longest offset before a line, with its TAB."""


@dataclass(frozen=True)
class HadoopSplit:
    """The lines of a range of a file as Hadoop's TextInputFormat passes them to a task.

    They are those that begin after byte ``start``, or at 0, up to byte ``stop``, except for lines
    of ``longest_bytes`` or more. Each is preceded by its byte offset and a TAB. The file has
    ``file_bytes``, and ``fetch`` returns the path of a copy of it.
    """

    start: int
    stop: int
    file_bytes: int
    longest_bytes: int
    fetch: Callable[[], Path]


def split_line_blocks(
    stream: BinaryIO, split: HadoopSplit, name: str, max_line_bytes: int
) -> Iterator[LineBlock]:
    """Yield the lines of a split, which are read from ``stream``, as :func:`line_blocks` would.

    Where one is missing, it and all after it are read from a copy of the file ``name``: slow but
    rare. Raises as ``line_blocks`` and ``fetch``, and MrDedupError for a line without its offset.
    """
    streamed = _StreamedLines(stream, split, name, max_line_bytes)
    yield from streamed.blocks()
    if streamed.end > min(split.stop, split.file_bytes - 1):
        return
    # the writer of a pipe fails if it is not read to its end
    while stream.read(_READ_BYTES):
        pass
    with open_content(split.fetch(), name) as content:
        yield from line_blocks(content, streamed.end, split.stop + 1, max_line_bytes)


class _StreamedLines:
    """Consecutive lines of a stream, each with its offset; ``end`` is where the last one ends."""

    def __init__(
        self, stream: BinaryIO, split: HadoopSplit, name: str, max_line_bytes: int
    ) -> None:
        self.end = split.start + 1 if split.start else 0
        self._stream = stream
        self._split = split
        self._name = name
        # a line with more is too long, whatever its end
        self._max_bytes = _OFFSET_BYTES + max(max_line_bytes + len(b"\r\n"), _READ_BYTES)
        self._buffer = bytearray()
        self._count = 0

    def blocks(self) -> Iterator[LineBlock]:
        """Yield the lines up to the first that is missing."""
        while line := self._stream.readline(self._max_bytes):
            tab = line.find(b"\t", 0, _OFFSET_BYTES)
            if not line[: max(tab, 0)].isdigit():
                raise MrDedupError(f"{self._name}: a line has no offset before it")
            if not self._is_next(int(line[:tab])):
                break
            self._count += 1
            is_long = len(line) == self._max_bytes and not line.endswith(b"\n")
            if is_long or len(self._buffer) >= _READ_BYTES:
                yield from self._flush()
            if is_long:
                yield LineBlock(self.end, bytearray(), 0)
                self.end += len(line) - (tab + 1) + self._skip_line()
            else:
                self._buffer += memoryview(line)[tab + 1 :]
                self.end += len(line) - (tab + 1)
        if self._count == 1 and self._buffer and not self._split.start:
            # of a byte order mark only the gap before the next line is left
            self.end = 0
            return
        yield from self._flush()

    def _is_next(self, offset: int) -> bool:
        """Return whether the line at ``offset`` follows those before; if so, move ``end`` there."""
        start = self._split.start
        if self._count == 0 and start:
            # the line that the split before has the beginning of ends there; no longer one does
            follows = start < offset < start + self._split.longest_bytes
        else:
            gap = offset - self.end
            follows = gap == 0 or (self._count == 1 and not start and gap == len(codecs.BOM_UTF8))
        if follows:
            self.end = offset
        return follows

    def _flush(self) -> Iterator[LineBlock]:
        if self._buffer:
            yield LineBlock(self.end - len(self._buffer), self._buffer, len(self._buffer))
            self._buffer = bytearray()

    def _skip_line(self) -> int:
        """Skip to the next line; return the number of bytes."""
        skipped = 0
        while rest := self._stream.readline(_READ_BYTES):
            skipped += len(rest)
            if rest.endswith(b"\n"):
                break
        return skipped
