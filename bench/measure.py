"""Timing: medians over interleaved rounds, ratios within a round; and peak memory.

The speed of a shared machine changes by a factor of two within minutes. So a ratio is between two
runs of the same round, and the table has the median of the ratios of all rounds.
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

# tqdm's monitor is a thread, and a process with threads must not be forked
tqdm.monitor_interval = 0

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Args:
        benchmark: the name of the benchmark.
        case: what was timed.
        seconds: the median of its time; None if it was not timed.
        ratio: the median ratio to the case ``of``.
        of: the case that the ratio is to.
        memory_bytes: its memory.
        note: further results.
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
    """Two implementations disagree, or a planted near-duplicate was not found."""


cpu_clock = time.process_time
"""CPU time of this process, independent of other programs."""

wall_clock = time.perf_counter
"""Wall time, for what runs in several processes."""


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


def case_row(
    benchmark: str,
    case: str,
    timings: Timings,
    base: str,
    *,
    name: str | None = None,
    memory_bytes: int | None = None,
    note: str = "",
) -> Row:
    """Return the row of a case, with its ratio to ``base`` unless it is this.

    ``name`` is printed instead of ``case``.
    """
    ratio = None if case == base else timings.ratio(case, base)
    seconds = timings.median(case)
    return Row(benchmark, name or case, seconds, ratio, base, memory_bytes, note)


def interleaved(
    cases: Mapping[str, Callable[[], object]],
    rounds: int,
    name: str,
    clock: Callable[[], float] = cpu_clock,
) -> Timings:
    """Time every case once in each of ``rounds`` rounds, after a warm-up round.

    If a case returns a float, these are its seconds.
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
    """Return how much ``function`` adds to the memory of a process at its peak.

    It runs in a forked process. Returns None outside Linux, or if the process fails.
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
        result = stream.read()
    os.waitpid(pid, 0)
    return int(result) if result else None


def status_bytes(status: Path, name: str) -> int:
    """Return a size in a status file of a process: VmRSS is its memory, VmHWM its peak."""
    found = re.search(rf"{name}:\s+(\d+) kB", status.read_text())
    return int(found[1]) * 1024 if found else 0


def _return_freed_memory() -> None:
    """Have the C library return free memory, the reuse of which would not be measured."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


PairArrays = tuple[NDArray[np.uint64], NDArray[np.uint64]]
"""Distinct ascending pairs of a query and a corpus fingerprint, as two aligned arrays."""


def require_equal(name: str, found: PairArrays, expected: PairArrays) -> None:
    """Raise Mismatch unless two searches found the same pairs."""
    same = all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    if not same:
        raise Mismatch(f"{name}: {found[0].size:,} pairs, not the {expected[0].size:,} expected")
