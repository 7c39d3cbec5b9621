"""De-duplication by engines that write shards, beside one process, in CPU seconds of all processes.

CPU time is that of a control group, of the whole tree with Java in it: a worker's time is in
nobody's resource usage, as Spark's daemon ignores that it ended. So this needs the right to make
control groups (root), and PySpark. Results must be the same.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench import processes
from bench.control_groups import can_make_groups, control_group
from bench.inputs import SEED
from bench.measure import Mismatch, Row, case_row, interleaved
from mr_dedup.formats.parts import read_parts

_NAME = "spark"
_MAX_ROUNDS = 3

ENGINES = {
    "one process": ["-r", "memory"],
    "local": ["-r", "local"],
    "spark": ["-r", "spark", "--master", "local[2]"],
}


def run(quick: bool, rounds: int) -> list[Row]:
    """Return the rows of the benchmark; none where control groups cannot be made."""
    if not _can_measure():
        print(f"{_NAME}: needs control groups and PySpark", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages = folder / "pages"
        count = "2000" if quick else "100000"
        made = ["documents", "--documents", count, "--duplicates-per-document", "2"]
        made += ["--seed", str(SEED), "--out", str(pages)]
        processes.run([sys.executable, "-m", "data_gen", *made])
        files = sorted(map(str, pages.glob("*.jsonl")))
        size = sum(Path(file).stat().st_size for file in files)
        # to start Java takes most of the time of a quick run
        engines = {k: v for k, v in ENGINES.items() if not (quick and k == "spark")}
        cases = {
            engine: partial(_seconds, [*files, "-o", str(folder / engine), *words], folder)
            for engine, words in engines.items()
        }
        timings = interleaved(cases, min(rounds, _MAX_ROUNDS), _NAME)
        decisions = {engine: read_parts(folder / engine / "decisions") for engine in engines}
        for engine, found in decisions.items():
            if not found.equals(decisions["one process"]):
                raise Mismatch(f"{_NAME}: {engine} decides otherwise than one process")
        note = f"{size / 1e9:.2f} GB, {len(decisions['local']):,} documents"
        return [
            case_row(_NAME, engine, timings, "one process", note=note if not number else "")
            for number, engine in enumerate(engines)
        ]


def _can_measure() -> bool:
    return importlib.util.find_spec("pyspark") is not None and can_make_groups()


def _seconds(words: list[str], folder: Path) -> float:
    """Return the CPU seconds of all processes of a command."""
    command = [sys.executable, "-m", "mr_dedup", "dedup", *words, "--overwrite"]
    with control_group() as group:
        done = subprocess.run(
            command, preexec_fn=group.enter, capture_output=True, text=True, cwd=folder
        )
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")
        group.await_end(30)
        return group.cpu_seconds()
