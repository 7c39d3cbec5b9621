"""Copy the lines of a file that begin at given offsets."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.formats.documents.files import DocumentPart
from mr_dedup.formats.documents.read import part_line_blocks
from mr_dedup.formats.lines import LineBlock

_LINE_END = ord("\n")


def lines_at(
    part: DocumentPart,
    offsets: NDArray[np.int64],
    max_line_bytes: int,
    encoding: str | None = None,
) -> Iterator[pa.LargeBinaryArray]:
    """Yield copies of the lines of a part that begin at ``offsets``, those of a block at a time.

    Each has its end; LF is added if the content ends without. What follows the last one is not
    read.

    Args:
        part: a part of a JSONL file.
        offsets: int64[n], ascending bytes of the content.
        max_line_bytes: as for ``line_blocks``.
        encoding: that of the file, as for ``part_line_blocks``.

    Raises:
        FormatError: no line begins at an offset; and as ``line_blocks``.
    """
    done = 0
    if not offsets.size:
        return
    with part_line_blocks(part, max_line_bytes, encoding) as blocks:
        for block in blocks:
            stop = int(np.searchsorted(offsets, block.offset + block.size))
            if stop > done:
                starts = offsets[done:stop] - block.offset
                content = np.frombuffer(block.buffer, np.uint8, block.size)
                begins = _begin_lines(content, starts)
                if not begins.all():
                    done += int(np.argmin(begins))
                    break
                yield _copied(block, starts, content)
                done = stop
            if done == offsets.size:
                return
    raise FormatError(
        part.file.name,
        f"byte {offsets[done]}",
        "has other documents than when it was first read",
    )


def _begin_lines(content: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return where a line begins, bool[n], at the beginning or behind an end and marks."""
    begins: NDArray[np.bool_] = (starts == 0) | (starts > 0) & (
        content[np.maximum(starts, 1) - 1] == _LINE_END
    )
    for index in np.flatnonzero(~begins).tolist():
        stop = int(starts[index])
        while bytes(content[max(stop - 3, 0) : stop]) == codecs.BOM_UTF8:
            stop -= len(codecs.BOM_UTF8)
        begins[index] = stop < starts[index] and (not stop or content[stop - 1] == _LINE_END)
    return begins


def _copied(
    block: LineBlock, starts: NDArray[np.int64], content: NDArray[np.uint8]
) -> pa.LargeBinaryArray:
    """Return the lines of a block that begin at ``starts``."""
    ends = np.flatnonzero(content == _LINE_END) + 1
    # the last line of the content may lack its end
    stops = np.append(ends, block.size)[np.searchsorted(ends, starts, side="right")]
    gaps = starts[1:] != stops[:-1]
    runs = zip(
        starts[np.append(True, gaps)].tolist(), stops[np.append(gaps, True)].tolist(), strict=True
    )
    view = memoryview(block.buffer)
    lines = b"".join([view[start:stop] for start, stop in runs])
    if not lines.endswith(b"\n"):
        lines += b"\n"
        stops[-1] += 1
    edges = np.zeros(starts.size + 1, np.int64)
    np.cumsum(stops - starts, out=edges[1:])
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(lines)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), starts.size, buffers)
