"""``mr-dedup query -r local`` from files to a result file, beside the kernels' own time.

A corpus of 8 chunks of 64 MB and a million queries with three planted near-duplicates each, from
``data-gen``. The command runs as a process of its own, with as many tasks at a time as there are
cores; the kernels build tables and probe the same chunks, already in memory, one after another on
one thread. The result must hold everything planted. ``--large`` compares uniform fingerprints
with ones that share their leading 24 bits, at 100 million.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.inputs import SEED, Fingerprints
from bench.measure import Mismatch, Row, Timings, interleaved, status_bytes, wall_clock
from mr_dedup.formats.fingerprint_files import FingerprintFile
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.planner import plan, spread_sample
from mr_dedup.hamming.search import BATCH_SIZE, search, warm_up

K = 3
LIMIT = 4
"""How many times the kernels' time the whole command may take."""

_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class _DataSet:
    """A folder that data-gen filled, and how large it is."""

    folder: Path
    corpus_size: int
    query_size: int

    @classmethod
    def generate(cls, folder: Path, corpus_size: int, query_size: int, *options: str) -> _DataSet:
        command = [sys.executable, "-m", "data_gen", "fingerprints", "--out", str(folder)]
        command += ["--corpus", str(corpus_size), "--queries", str(query_size)]
        command += ["--duplicates-per-query", "3", "-k", str(K), "--seed", str(SEED), *options]
        _run(command)
        return cls(folder, corpus_size, query_size)

    @property
    def corpus(self) -> list[Path]:
        return sorted(self.folder.glob("corpus-*.longs"))

    @property
    def queries(self) -> Path:
        return self.folder / "queries.longs"

    @property
    def result(self) -> Path:
        return self.folder.with_suffix(".out")

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "mr_dedup", "query", *map(str, self.corpus)]
        command += ["--queries", str(self.queries), "-k", str(K), "-r", "local"]
        return [*command, "-o", str(self.result), "--overwrite"]

    def run(self) -> None:
        """Run the command to its end."""
        _run(self.command())

    def processor_seconds(self) -> float:
        """Run the command; return what it and all its tasks took of the processor."""
        before = os.times()
        self.run()
        after = os.times()
        user_seconds = after.children_user - before.children_user
        return user_seconds + after.children_system - before.children_system

    def largest_task_bytes(self) -> int:
        """Run the command, watching; return the memory of its largest task.

        It counts the pages that tasks share with one another in each of them.
        """
        largest = 0
        with subprocess.Popen(self.command(), stderr=subprocess.DEVNULL) as process:
            while process.poll() is None:
                largest = max([largest, *_children_bytes(process.pid)])
                time.sleep(_POLL_SECONDS)
        return largest

    def require_planted(self) -> None:
        """Raise Mismatch unless the result holds every planted pair."""
        with self.result.open() as result, (self.folder / "truth.tsv").open() as truth:
            lines = iter(result)
            for expected in truth:
                query, *duplicates = expected.split()
                # both ascend by query; the result may have more, by chance
                found: Sequence[str] = next((w for w in map(str.split, lines) if w[0] == query), ())
                if not set(duplicates) <= set(found[1:]):
                    raise Mismatch(f"{self.folder.name}: a duplicate of {query} was not found")


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the table's rows; raises Mismatch where something planted is not in the result."""
    chunks, query_size = (2, 100_000) if quick else (8, 1_000_000)
    chunk_size = 1 << (20 if quick else 23)
    warm_up()
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        options = ["--chunk-size", str(8 * chunk_size)]
        data = _DataSet.generate(
            Path(folder) / "uniform", chunks * chunk_size, query_size, *options
        )
        command, kernels = "query, local", "kernels alone"
        timings = interleaved(
            {command: data.run, kernels: lambda: _kernel_seconds(data)},
            rounds,
            "whole command",
            wall_clock,
        )
        data.require_planted()
        memory = data.largest_task_bytes()
        processor_seconds = data.processor_seconds()
    size = f"{chunks} x {chunk_size:,} x {query_size:,}"
    ratio = timings.ratio(command, kernels)
    yield Row(
        "whole command",
        f"{command}, {size}",
        timings.median(command),
        ratio,
        kernels,
        memory,
        f"{_limit_note(ratio, quick)}{processor_seconds:.1f} s of processor time in all; "
        "memory of the largest task",
    )
    yield Row("whole command", kernels, timings.median(kernels))


def _limit_note(ratio: float, quick: bool) -> str:
    if quick:
        return "mostly starting up; "
    return f"limit {LIMIT}: {'kept' if ratio <= LIMIT else 'exceeded'}; "


def run_large(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield rows for 100 million fingerprints, uniform and sharing their leading bits."""
    corpus_size, query_size = (1_000_000, 10_000) if quick else (100_000_000, 1_000_000)
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        data = {
            name: _DataSet.generate(
                Path(folder) / name, corpus_size, query_size, "--distribution", name
            )
            for name in ("uniform", "prefix")
        }
        cases = {name: each.run for name, each in data.items()}
        timings: Timings = interleaved(cases, rounds, "large", wall_clock)
        for each in data.values():
            each.require_planted()
        memory = {name: each.largest_task_bytes() for name, each in data.items()}
    for name in data:
        yield Row(
            "large",
            f"query, local, {name}, {corpus_size:,} x {query_size:,}",
            timings.median(name),
            None if name == "uniform" else timings.ratio(name, "uniform"),
            "uniform",
            memory[name],
            "memory of the largest task",
        )


def _run(command: list[str]) -> None:
    """Run a command quietly; raise RuntimeError with what it said if it fails."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")


def _kernel_seconds(data: _DataSet) -> float:
    """Search each chunk by itself, as the tasks do; return the seconds, without reading."""
    queries = distinct(FingerprintFile.detect(data.queries).read())
    seconds = 0.0
    for path in data.corpus:
        chunk = FingerprintFile.detect(path).read()
        started = wall_clock()
        planned = plan(
            chunk.size, queries.size, K,
            corpus_sample=spread_sample(chunk), query_sample=spread_sample(queries),
        )  # fmt: skip
        for _ in search(partial(_blocks, chunk), queries, planned):
            pass
        seconds += wall_clock() - started
    return seconds


def _blocks(chunk: Fingerprints) -> Iterator[Fingerprints]:
    for start in range(0, chunk.size, BATCH_SIZE):
        yield chunk[start : start + BATCH_SIZE]


def _children_bytes(pid: int) -> list[int]:
    """Return the most memory each living child of a process has had; empty outside Linux."""
    sizes = []
    for task in Path("/proc").glob(f"{pid}/task/*/children"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for child in task.read_text().split():
                sizes.append(status_bytes(Path("/proc", child, "status"), "VmHWM"))
    return sizes
