"""Other tools that find repeated passages, each run as its documentation says on the same pages.

- datatrove's de-duplication of sentences: spans of three sentences, or of three lines.
- deduplicate-text-datasets, the program of Lee and others (2022): a suffix array of all bytes.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.planted_passages import texts
from bench.processes import Usage, measure

SUBSTRING_BYTES = 400
"""50 words of the made-up pages, with what is between them."""

_SEPARATOR = b"\xff\xff"


@dataclass(frozen=True)
class Run:
    """What a tool took, and the step that it was in when it ended."""

    usage: Usage
    step: str


def datatrove(python: str, source: Path, work: Path, unit: str, limit_seconds: float) -> Run:
    """Run datatrove by its interpreter; the pages are then in ``work / "out"``."""
    work.mkdir()
    script = Path(__file__).with_name("datatrove_sentences.py")
    command = [python, str(script), str(source), str(work), unit]
    variables = {"TMPDIR": str(work)}
    usage = measure(command, variables=variables, folder=work, limit_seconds=limit_seconds)
    return Run(usage, (work / "step").read_text() if (work / "step").exists() else "0 of 3")


def datatrove_pages(work: Path) -> Iterator[tuple[str, bytes]]:
    """Yield id and text of each page that is left."""
    for id, text in texts((work / "out").iterdir()):
        yield id, text.encode()


class Substring:
    """deduplicate-text-datasets on all pages in one file, as its script for single files does.

    Args:
        program: ``target/release/dedup_dataset`` in its directory, beside whose scripts it is.
        source: a directory of JSON lines.
        work: a new directory.
    """

    def __init__(self, program: Path, source: Path, work: Path) -> None:
        self._program = program.resolve()
        self._source = source
        self._work = work
        self._file = work / "pages"
        self._edges = [0]
        (work / "target" / "debug").mkdir(parents=True)
        (work / "tmp").mkdir()
        # where its script expects it
        (work / "target" / "debug" / "dedup_dataset").symlink_to(self._program)
        with self._file.open("wb") as file:
            for number, (_, text) in enumerate(texts(source.iterdir())):
                # no two pages begin in the same way, so that no substring is in parts of two
                file.write(_SEPARATOR + struct.pack("<I", number) + text.encode())
                self._edges.append(file.tell())

    def run(self, limit_seconds: float) -> Run:
        """Make the suffix array, find what is repeated, collect ranges of bytes."""
        script = self._program.parents[2] / "scripts" / "make_suffix_array.py"
        threads = str(os.cpu_count())
        shared = f'--data-file "$1" --length-threshold {SUBSTRING_BYTES} --cache-dir cache'
        steps = {
            "suffix array": f'"{sys.executable}" "{script}" "$1"',
            "self-similar": f'mkdir cache; "$0" self-similar {shared} --num-threads {threads}',
            "collect": f'"$0" collect {shared} >ranges',
        }
        usage = Usage(0, 0, 0)
        last = ""
        for name, step in steps.items():
            last = name
            # its script opens each of up to 96 parts several times
            line = f"ulimit -Sn $(ulimit -Hn); {step}"
            command = ["sh", "-c", f"cd '{self._work}' && {line}", self._program, self._file]
            left = max(0.0, limit_seconds - usage.seconds)
            took = measure([*map(str, command)], folder=self._work, limit_seconds=left)
            usage = usage.followed_by(took)
            if not took.is_complete:
                break
        return Run(usage, last)

    def pages(self) -> Iterator[tuple[str, bytes]]:
        """Yield id and text of each page without the ranges that it prints."""
        lines = iter((self._work / "ranges").read_text().splitlines())
        for line in lines:
            if line == "out":
                break
        ranges = [tuple(map(int, line.split())) for line in lines]
        header = len(_SEPARATOR) + 4
        at = 0
        with self._file.open("rb") as file:
            for number, (id, _) in enumerate(texts(self._source.iterdir())):
                begin, end = self._edges[number] + header, self._edges[number + 1]
                file.seek(begin)
                text, kept, start = file.read(end - begin), b"", 0
                while at < len(ranges) and ranges[at][0] < end:
                    first, stop = (min(max(0, each - begin), len(text)) for each in ranges[at])
                    kept += text[start:first]
                    start = max(start, stop)
                    if ranges[at][1] > end:  # it goes on in the next page
                        break
                    at += 1
                yield id, kept + text[start:]
