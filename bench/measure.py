"""How the benchmarks measure: medians over interleaved rounds, ratios within a round, peak memory.

A shared machine drifts by a factor of two within minutes, so a ratio is only ever taken between
two runs of the same round, and the median of the rounds' ratios is what the table shows.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

# tqdm's monitor is a thread, and what is measured in a forked process must not have been forked
# from threads
tqdm.monitor_interval = 0

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Row:
    """One line of the table; what does not apply is None or empty.

    ``ratio`` is to what ``of`` names; ``note`` says what else was seen.
    """

    benchmark: str
    case: str
    seconds: float | None = None
    ratio: float | None = None
    of: str = ""
    memory_bytes: int | None = None
    note: str = ""

    HEADINGS = ("benchmark", "case", "seconds", "ratio", "memory", "notes")

    def cells(self) -> tuple[str, ...]:
        """Return the text of each cell."""
        seconds = "" if self.seconds is None else f"{self.seconds:#.3g}"
        if self.seconds is not None and self.seconds >= 100:
            seconds = f"{self.seconds:,.0f}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} x {self.of}"
        memory = "" if self.memory_bytes is None else f"{self.memory_bytes / 2**20:,.0f} MB"
        return self.benchmark, self.case, seconds, ratio, memory, self.note


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table, its columns aligned."""
    lines = [Row.HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(Row.HEADINGS))]
    rule = tuple("-" * width for width in widths)
    padded = (
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in [lines[0], rule, *lines[1:]]
    )
    return "\n".join(f"| {line} |" for line in padded)


class Mismatch(Exception):
    """Two searches disagree, or one lost what was planted: no time is worth printing."""


cpu_clock = time.process_time
"""For what runs in this process, on one thread: the time that others take does not count."""

wall_clock = time.perf_counter
"""For what runs in processes of its own, several at a time."""


@dataclass
class Timings:
    """Seconds of each case in each round, aligned."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, case: str, seconds: float) -> None:
        """Append one round of a case."""
        self.seconds.setdefault(case, []).append(seconds)

    def median(self, case: str) -> float:
        """Return a case's median seconds."""
        return statistics.median(self.seconds[case])

    def ratio(self, case: str, of: str) -> float:
        """Return the median over the rounds of one case's seconds to another's."""
        pairs = zip(self.seconds[case], self.seconds[of], strict=True)
        return statistics.median(one / other for one, other in pairs)


def interleaved(
    cases: Mapping[str, Callable[[], object]],
    rounds: int,
    name: str,
    clock: Callable[[], float] = cpu_clock,
) -> Timings:
    """Time every case once a round, ``rounds`` times, after a round that does not count.

    A case that returns a float has measured itself; its result is its seconds.
    """
    timings = Timings()
    for number in tqdm(range(rounds + 1), desc=name, unit=" rounds", disable=None, leave=False):
        for case, function in cases.items():
            gc.collect()
            started = clock()
            result = function()
            seconds = clock() - started
            if number:
                timings.add(case, result if isinstance(result, float) else seconds)
            del result
    return timings


def peak_bytes(function: Callable[[], object]) -> int | None:
    """Return how far ``function`` raises the memory of a process, at its peak.

    Runs it in a forked process, whose memory starts as this one's. None where the kernel does
    not tell (/proc is Linux's), or where the process failed.
    """
    if not _STATUS.exists():
        return None
    gc.collect()
    _return_freed_memory()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            before = status_bytes(_STATUS, "VmRSS")
            function()
            os.write(writing, b"%d" % (status_bytes(_STATUS, "VmHWM") - before))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    os.waitpid(pid, 0)
    return int(answer) if answer else None


def status_bytes(status: Path, name: str) -> int:
    """Return a size in a process's status file: VmRSS is its memory, VmHWM the most it had."""
    found = re.search(rf"{name}:\s+(\d+) kB", status.read_text())
    return int(found[1]) * 1024 if found else 0


def _return_freed_memory() -> None:
    """Have the C library give back what is free: reused, it would not show in a forked process."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


Pairs = tuple[NDArray[np.uint64], NDArray[np.uint64]]
"""Pairs of a query and a corpus fingerprint, two aligned arrays, ascending, each pair once."""


def require_equal(name: str, found: Pairs, expected: Pairs) -> None:
    """Raise Mismatch unless two searches found the same pairs."""
    same = all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    if not same:
        raise Mismatch(f"{name}: {found[0].size:,} pairs, not the {expected[0].size:,} expected")
