"""Lines in blocks: as they are, and as Hadoop hands those of a part of a file to a task."""

import io
import tracemalloc
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.content import open_content
from mr_dedup.formats.documents.hadoop_lines import HadoopSplit, split_line_blocks
from mr_dedup.formats.lines import line_blocks
from tests import text_input
from tests.formats.documents.reading import small_blocks

MAX = 40


def of_blocks(blocks):
    """The lines in blocks: where each begins, and what it is, None if it is too long."""
    found = []
    for block in blocks:
        if not block.size:
            found.append((block.offset, None))
        place = block.offset
        for line in bytes(block.buffer[: block.size]).split(b"\n"):
            if place == 0 and line.startswith(text_input.BOM):
                place, line = place + 3, line[3:]
            content = line.removesuffix(b"\r")
            found.append((place, content if len(content) <= MAX else None))
            place += len(line) + 1
        # behind the last line end there is no line
        found = found[:-1] if found[-1][1] == b"" else found
    return found


def as_they_are(path):
    with open_content(path, "a") as content:
        return of_blocks(line_blocks(content, 0, None, MAX))


@dataclass
class Task:
    """What a task is handed of a file's part, how it has the lines, and if it asked for a copy."""

    came: list[tuple[int, bytes]]
    found: list[tuple[int, bytes | None]] = field(default_factory=list)
    fetched: bool = False

    @classmethod
    def over(cls, path, start, length, longest, buffer_bytes=1 << 16):
        content = path.read_bytes()
        task = cls(list(text_input.lines(content, start, length, longest, buffer_bytes)))

        def fetch():
            task.fetched = True
            return path

        stream = io.BytesIO(b"".join(b"%d\t%s\n" % record for record in task.came))
        lines = HadoopSplit(start, start + length, len(content), longest, fetch)
        task.found = of_blocks(split_line_blocks(stream, lines, "a", MAX))
        assert stream.read() == b""
        return task


def line():
    short = st.sampled_from([b"", b"x", b"1\t2", b"a line\r", b"\xff\xfe", b'{"text": "b"}'])
    return short | st.integers(1, 150).map(lambda size: b"y" * size)


def comparable(found):
    """Have a line that is too long begin at 0 if only a mark is before it."""
    return [(0 if place == 3 and line is None else place, line) for place, line in found]


@given(
    st.lists(line(), max_size=12),
    st.booleans(),
    st.booleans(),
    st.integers(4, 400),
    st.sampled_from([8, 30, 60, 1000]),
    st.sampled_from([4, 64, 1 << 18]),
    st.sampled_from([1, 7, 64]),
)
def test_parts_have_all_lines_once_whatever_hadoop_leaves_out(
    tmp_path_factory, lines, marked, whole_end, part_bytes, longest, read_bytes, buffer_bytes
):
    content = text_input.BOM * marked + b"\n".join(lines) + b"\n" * whole_end
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_bytes(content)
    [parts] = text_input.splits([len(content)], 1, part_bytes, 1)
    with pytest.MonkeyPatch.context() as monkeypatch, small_blocks(monkeypatch, read_bytes):
        tasks = [Task.over(path, *part, longest, buffer_bytes) for part in parts]
        expected = as_they_are(path)
        found = [line for task in tasks for line in task.found]
        assert comparable(found) == comparable(expected)


def test_a_task_that_gets_all_lines_fetches_nothing(tmp_path):
    path = tmp_path / "a.jsonl"
    for end in (b"", b"\n"):
        path.write_bytes(text_input.BOM + b"\r\n".join(b"line %d" % n for n in range(500)) + end)
        [parts] = text_input.splits([path.stat().st_size], 1, 700, 1)
        tasks = [Task.over(path, *part, 100) for part in parts]
        assert not any(task.fetched for task in tasks)
        assert sum(len(task.found) for task in tasks) == 500


def test_a_line_without_an_offset_is_refused(tmp_path):
    lines = HadoopSplit(0, 10, 10, 100, lambda: tmp_path)
    for stream in (b"a line", b"\tx\n", b"12a\tx\n", b"9" * 40 + b"\tx\n"):
        with pytest.raises(MrDedupError, match=r"^a\.jsonl: a line has no offset before it$"):
            list(split_line_blocks(io.BytesIO(stream), lines, "a.jsonl", MAX))


class OneLongLine(io.RawIOBase):
    """A stream of a short line, one of 40 MB, and another short one."""

    def __init__(self):
        self._left = [b"0\ta\n2\t", *[bytes(1 << 16)] * 640, b"\n%d\tb\n" % ((40 << 20) + 3)]

    def readable(self):
        return True

    def readinto(self, view):
        piece = self._left.pop(0)[: len(view)] if self._left else b""
        view[: len(piece)] = piece
        return len(piece)


def test_a_line_that_is_too_long_is_not_held():
    end = (40 << 20) + 5
    lines = HadoopSplit(0, end, end, 1 << 30, lambda: None)
    stream = io.BufferedReader(OneLongLine(), 1 << 16)
    tracemalloc.start()
    blocks = list(split_line_blocks(stream, lines, "a", 1 << 20))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(block.offset, block.size) for block in blocks] == [(0, 2), (2, 0), (end - 2, 2)]
    assert most < 6 << 20
