"""Where a command's result lines go, and in which order."""

from __future__ import annotations

import argparse
import contextlib
import heapq
import mmap
import shutil
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from mr_dedup.engines.streaming import JobResult


@contextlib.contextmanager
def output(arguments: argparse.Namespace) -> Iterator[BinaryIO]:
    """Yield where the result is written: a file that appears whole, or standard output."""
    from mr_dedup.formats.outputs import whole_file

    if not arguments.out:
        yield sys.stdout.buffer
        return
    with whole_file(arguments.out, arguments.overwrite) as out:
        yield out


def copy_ordered(result: JobResult, out: BinaryIO) -> None:
    """Copy result lines, ascending by their first number; no two files share one.

    The files ascend each by itself. An engine that gives a reducer ranges of keys leaves them
    ascending as a whole: then this is a copy. One that deals keys out by hash does not: then it is
    a merge, a line at a time.
    """
    parts = [part for part in result.parts if part.stat().st_size]
    ends = [_end_numbers(part) for part in parts]
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(part.open("rb")) for part in parts]
        if all(before[1] < after[0] for before, after in pairwise(ends)):
            for file in files:
                shutil.copyfileobj(file, out, 1 << 20)
        else:
            out.writelines(heapq.merge(*files, key=_first_number))


def _first_number(line: bytes) -> int:
    return int(line[: line.index(b"\t")])


def _end_numbers(part: Path) -> tuple[int, int]:
    """Return the numbers that the first and the last line of a file begin with."""
    with part.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as lines:
        last = lines.rfind(b"\n", 0, len(lines) - 1) + 1
        return _first_number(lines[: lines.find(b"\n")]), _first_number(lines[last:])
