"""Hadoop's TextInputFormat, as its sources have it: which bytes a task gets of a file, as lines.

That of the old interface, mapred, on files that are not compressed, with LF as delimiter.
"""

from __future__ import annotations

from collections.abc import Iterator

SLOP = 1.1

BOM = b"\xef\xbb\xbf"


def splits(
    sizes: list[int], maps: int, min_bytes: int, block_bytes: int
) -> list[list[tuple[int, int]]]:
    """Return start and length of the parts of each file: ``FileInputFormat.getSplits``."""
    goal = sum(sizes) // max(maps, 1)
    part = max(min_bytes, min(goal, block_bytes))
    cut = []
    for size in sizes:
        parts, left = [], size
        while left / part > SLOP:
            parts.append((size - left, part))
            left -= part
        cut.append([*parts, *([(size - left, left)] if left or not size else [])])
    return cut


def lines(
    content: bytes, start: int, length: int, longest: int, buffer_bytes: int = 1 << 16
) -> Iterator[tuple[int, bytes]]:
    """Yield places and lines of a part: ``LineRecordReader.next``, ``LineReader.readLine``.

    Lines of ``longest`` bytes or more are passed over; of one that goes on behind the part no more
    than so many bytes are looked at, to the end of the buffer, and the next begins there.
    """
    end = start + length

    def size_of_line(position: int) -> int:
        line_end = content.find(b"\n", position) + 1 or len(content)
        most = max(end - position, longest)
        if line_end - position <= most:
            return line_end - position
        # buffers are filled up to the end of the part, and again from there
        filled = start if position + most <= end else end
        stop = filled + -(-(position + most - filled) // buffer_bytes) * buffer_bytes
        stop = end if filled == start and stop > end else stop
        return min(stop, line_end) - position

    position = start
    if start:
        position += size_of_line(position)
    while position <= end:
        place, size = position, size_of_line(position)
        position += size
        line = content[place:position].removesuffix(b"\n")
        most = longest
        if place == 0:
            most += len(BOM)
            if line.startswith(BOM):
                line, size = line[len(BOM) :], size - len(BOM)
        if not size:
            return
        if size < longest:
            yield place, line
