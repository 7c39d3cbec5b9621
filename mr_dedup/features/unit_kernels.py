# mypy: ignore-errors
"""Loops that split texts into lines, paragraphs or sentences.

Sentences end with one of .!? before white space, with one of 。！？, and at an empty line;
paragraphs at empty lines. Nothing is validated or allocated here. All take linear time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int64, uint8, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.text_batch import TextBatch
from mr_dedup.features.token_kernels import is_null
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import U1, U2

LINES, SENTENCES, PARAGRAPHS = range(3)
"""What texts are split into."""

_SPACE, _TAB, _LINE_END, _RETURN = (np.uint8(ord(c)) for c in " \t\n\r")
_STOP, _EXCLAMATION, _QUESTION = (np.uint8(ord(c)) for c in ".!?")


class Units(NamedTuple):
    """The lines, paragraphs or sentences of n texts, m in all, but those of white space alone.

    Attributes:
        edges: int64[n + 1], the first unit of each text.
        begins: uint32[m], where a unit begins, with white space, in bytes.
        starts, stops: uint32[m], offsets without white space at the ends.
        nexts: uint32[m], where the next unit begins, or white space alone.
    """

    edges: NDArray[np.int64]
    begins: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    stops: NDArray[np.uint32]
    nexts: NDArray[np.uint32]


@entry
def find_units(batch: TextBatch, kind: int, units: Units) -> None:
    """Write the units of texts; ``units`` has space for one for every two bytes of a text."""
    content, starts, stops = batch
    count = int64(0)
    units.edges[0] = 0
    for i in range(starts.size):
        if not is_null(content, starts[i]):
            begin, end = starts[i], stops[i]
            while begin < end:
                after = end_of_unit(content, begin, end, kind)
                first, last = begin, after
                while first < last and _is_white(content[first]):
                    first += U1
                while last > first and _is_white(content[last - U1]):
                    last -= U1
                if first < last:
                    units.begins[count] = uint32(begin - starts[i])
                    units.starts[count] = uint32(first - starts[i])
                    units.stops[count] = uint32(last - starts[i])
                    units.nexts[count] = uint32(after - starts[i])
                    count += 1
                begin = after
        units.edges[i + 1] = count


@kernel
def end_of_unit(content, begin, end, kind):
    """Return the end of the line, paragraph or sentence that starts at ``begin``."""
    for i in range(begin, end):
        byte = content[i]
        after = uint64(i) + U1
        if byte == _LINE_END:
            if kind == LINES or _is_blank(content, after, end):
                return after
        elif kind == SENTENCES:
            if byte in (_STOP, _EXCLAMATION, _QUESTION):
                if after == end or _is_white(content[after]):
                    return after
            elif _ends_chinese(content, uint64(i), end):
                return after + U2
    return end


@kernel
def _is_white(byte):
    return byte in (_SPACE, _LINE_END, _TAB, _RETURN)


@kernel
def _is_blank(content, begin, end):
    """Return whether a line has only white space from ``begin`` on; False for an unended line."""
    for i in range(begin, end):
        if content[i] == _LINE_END:
            return True
        if not _is_white(content[i]):
            return False
    return False


@kernel
def _ends_chinese(content, i, end):
    """Return whether content[i : i + 3] is 。 or ！ or ？."""
    lead = content[i]
    if lead < uint8(0xE3) or i + U2 >= end:
        return False
    middle, last = content[i + U1], content[i + U2]
    if lead == uint8(0xE3):
        return middle == uint8(0x80) and last == uint8(0x82)
    full_width = lead == uint8(0xEF) and middle == uint8(0xBC)
    return full_width and (last == uint8(0x81) or last == uint8(0x9F))
