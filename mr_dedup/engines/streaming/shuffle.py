"""From map to reduce on this machine: lines by key, in files of about one size.

mrjob has sort(1) do it, or Python's memory, and then copies everything once more. Our lines are
few and large, batches of some kilobytes to megabytes: so only their keys are sorted.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa


class _Line(NamedTuple):
    key: bytes
    file: int
    start: int
    stop: int


def shuffle(inputs: Sequence[Path], output: Callable[[int], Path], size_bytes: int) -> int:
    """Write the lines ``key TAB …`` of all inputs, ordered by key, to files; return how many.

    Keys compare as bytes; lines of one key stay in the order of the inputs, and in one file. A file
    ends where it has ``size_bytes``. In memory: 200 bytes a line. A last line may lack its end.
    """
    lines = [line for number, path in enumerate(inputs) for line in _lines(path, number)]
    lines.sort(key=lambda line: line.key)
    contents = [_content(path) for path in inputs]
    count = 0
    for group in _groups(lines, size_bytes):
        with output(count).open("wb") as file:
            for line in group:
                content = contents[line.file]
                file.write(content[line.start : line.stop])
                if content[line.stop - 1] != ord("\n"):
                    file.write(b"\n")
        count += 1
    return count


def _content(path: Path) -> memoryview:
    """Return a file mapped into memory, without a descriptor: there may be thousands of inputs."""
    if not path.stat().st_size:
        return memoryview(b"")
    with pa.memory_map(str(path)) as file:
        return memoryview(file.read_buffer())


def _lines(path: Path, number: int) -> Iterator[_Line]:
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = 0
        while start < len(content):
            end = content.find(b"\n", start)
            end = len(content) if end < 0 else end
            tab = content.find(b"\t", start, end)
            stop = min(end + 1, len(content))
            yield _Line(content[start : end if tab < 0 else tab], number, start, stop)
            start = stop


def _groups(lines: Sequence[_Line], size_bytes: int) -> Iterator[list[_Line]]:
    """Yield runs of ``lines`` of at least ``size_bytes`` that end where a key ends."""
    group: list[_Line] = []
    size = 0
    for line in lines:
        if group and size >= size_bytes and line.key != group[-1].key:
            yield group
            group, size = [], 0
        group.append(line)
        size += line.stop - line.start
    if group:
        yield group
