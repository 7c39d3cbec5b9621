"""``mr-dedup query -r local`` from files to a result file, beside the time of its kernels.

A corpus of 8 chunks of 64 MB and a million queries with three planted near-duplicates each, from
``data-gen``. The command is a process of its own with a task for each core; the kernels build
tables and probe the same chunks in memory, one after another in one thread. The result must have
all planted pairs. ``--large`` compares 100 million uniform fingerprints with as many that have the
same 24 leading bits.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import processes
from bench.inputs import SEED, Fingerprints
from bench.measure import Mismatch, Row, case_row, interleaved, wall_clock
from mr_dedup.formats.fingerprint_files import FingerprintFile
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.planner import plan, spread_sample
from mr_dedup.hamming.search import BATCH_SIZE, search
from mr_dedup.kernels.library import load_kernels

K = 3
LIMIT = 4
"""The largest ratio of the time of the command to that of its kernels."""

_NAME = "query command"
_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class _DataSet:
    """A directory that data-gen filled."""

    folder: Path
    corpus_size: int
    query_size: int

    @classmethod
    def generate(cls, folder: Path, corpus_size: int, query_size: int, *options: str) -> _DataSet:
        command = [sys.executable, "-m", "data_gen", "fingerprints", "--out", str(folder)]
        command += ["--corpus", str(corpus_size), "--queries", str(query_size)]
        command += ["--duplicates-per-query", "3", "-k", str(K), "--seed", str(SEED), *options]
        processes.run(command)
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
        """Run the command."""
        processes.run(self.command())

    def measure(self) -> processes.Usage:
        """Run the command; its memory is that of its largest task, with shared pages."""
        return processes.measure(self.command(), processes.largest_child_bytes, _POLL_SECONDS)

    def require_planted(self) -> None:
        """Raise Mismatch unless the result has all planted pairs."""
        with self.result.open() as result, (self.folder / "truth.tsv").open() as truth:
            lines = iter(result)
            for expected in truth:
                query, *duplicates = expected.split()
                # both ascend by query; the result may have more pairs, by chance
                found: Sequence[str] = next((w for w in map(str.split, lines) if w[0] == query), ())
                if not set(duplicates) <= set(found[1:]):
                    raise Mismatch(f"{self.folder.name}: a duplicate of {query} was not found")


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table; raise Mismatch if a planted pair is not in the result."""
    chunks, query_size = (2, 100_000) if quick else (8, 1_000_000)
    chunk_size = 1 << (20 if quick else 23)
    load_kernels()
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        options = ["--chunk-size", str(8 * chunk_size)]
        data = _DataSet.generate(
            Path(folder) / "uniform", chunks * chunk_size, query_size, *options
        )
        command, kernels = "query, local", "kernels alone"
        timings = interleaved(
            {command: data.run, kernels: lambda: _kernel_seconds(data)}, rounds, _NAME, wall_clock
        )
        data.require_planted()
        usage = data.measure()
    ratio = timings.ratio(command, kernels)
    yield case_row(
        _NAME, command, timings, kernels,
        name=f"{command}, {chunks} x {chunk_size:,} x {query_size:,}",
        memory_bytes=usage.peak_bytes,
        note=f"{_limit_note(ratio, quick)}{usage.cpu_seconds:.1f} s of CPU time; memory of the "
        "largest task",
    )  # fmt: skip
    yield case_row(_NAME, kernels, timings, kernels)


def _limit_note(ratio: float, quick: bool) -> str:
    if quick:
        return "mostly starting up; "
    return f"limit {LIMIT}: {'kept' if ratio <= LIMIT else 'exceeded'}; "


def run_large(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield rows for 100 million fingerprints, uniform and with the same leading bits."""
    corpus_size, query_size = (1_000_000, 10_000) if quick else (100_000_000, 1_000_000)
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        data = {
            name: _DataSet.generate(
                Path(folder) / name, corpus_size, query_size, "--distribution", name
            )
            for name in ("uniform", "prefix")
        }
        cases = {name: each.run for name, each in data.items()}
        timings = interleaved(cases, rounds, "large", wall_clock)
        for each in data.values():
            each.require_planted()
        memory = {name: each.measure().peak_bytes for name, each in data.items()}
    for name in data:
        yield case_row(
            "large", name, timings, "uniform",
            name=f"query, local, {name}, {corpus_size:,} x {query_size:,}",
            memory_bytes=memory[name],
            note="memory of the largest task",
        )  # fmt: skip


def _kernel_seconds(data: _DataSet) -> float:
    """Search each chunk by itself, as the tasks do; return the seconds without reading."""
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
