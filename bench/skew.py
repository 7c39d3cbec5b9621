"""``python -m bench.skew``: the longest task of ``dedup`` on Spark, of documents that share keys.

Three sets of documents that are hard to divide: copies of one text, which share every key; variants
of one text in one cluster; one gzip file, which is one part. Each is de-duplicated on ``local[2]``
and in one process, whose decisions must be equal. Times of tasks are those of Spark's event log.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.machine import describe
from bench.measure import Mismatch
from bench.processes import Usage, measure, run
from mr_dedup.formats.parts import read_parts

SEED = 20261128
_WORDS = 200
_VARIED = (3, 10)
"""How many words of a variant are replaced: at least, and less than."""


class Tasks(NamedTuple):
    """The tasks of a run on Spark.

    Attributes:
        ended: How many there were.
        total: The seconds of all.
        longest: The seconds of the longest.
        job: What the longest was a task of.
    """

    ended: int
    total: float
    longest: float
    job: str


def main() -> int:
    """Print what was measured; return 1 if decisions differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--documents",
        type=int,
        default=100_000,
        help="of no cluster, and variants; ten times as many copies, and in the gzip file",
    )
    parser.add_argument("--work", type=Path, help="where files go (default: a temporary directory)")
    arguments = parser.parse_args()
    print(describe(), flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        try:
            for name in CASES:
                tasks, usage = measured(name, Path(folder), arguments.documents)
                print(
                    f"{name}: longest of {tasks.ended} tasks {tasks.longest:.1f} s, of {tasks.job},"
                    f" {tasks.longest / tasks.total:.2f} of all; run {usage.seconds:.0f} s,"
                    f" peak {usage.peak_bytes / 1e6:,.0f} MB",
                    flush=True,
                )
        except Mismatch as mismatch:
            print(f"bench: {mismatch}", file=sys.stderr)
            return 1
    return 0


def measured(name: str, folder: Path, documents: int) -> tuple[Tasks, Usage]:
    """Make documents and de-duplicate them; return the tasks of Spark, and what the run took."""
    pages = folder / "pages"
    pages.mkdir()
    CASES[name](pages, documents)
    expected, found = folder / "one-process", folder / "spark"
    log = folder / "log"
    log.mkdir()
    command = [sys.executable, "-m", "mr_dedup", "dedup", str(pages), "-o"]
    run([*command, str(expected)])
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    words = [word for item in settings.items() for word in ("-D", "=".join(item))]
    usage = measure([*command, str(found), "-r", "spark", "--master", "local[2]", *words])
    if not read_parts(found / "decisions").equals(read_parts(expected / "decisions")):
        raise Mismatch(f"skew: {name}: Spark decides otherwise than one process")
    tasks = tasks_of(next(path for path in log.iterdir() if path.is_file()))
    for path in (pages, expected, found, log):
        shutil.rmtree(path)
    return tasks, usage


def tasks_of(log: Path) -> Tasks:
    """Return the tasks that an event log of Spark has."""
    jobs: dict[int, str] = {}
    seconds: list[tuple[float, str]] = []
    with log.open(encoding="utf-8") as lines:
        for event in map(json.loads, lines):
            if event["Event"] == "SparkListenerJobStart":
                described = event["Properties"].get("spark.job.description", "")
                jobs |= dict.fromkeys(event["Stage IDs"], described.removeprefix("mr-dedup "))
            elif event["Event"] == "SparkListenerTaskEnd":
                task = event["Task Info"]
                taken = (task["Finish Time"] - task["Launch Time"]) / 1000
                seconds.append((taken, jobs[event["Stage ID"]]))
    longest, job = max(seconds)
    return Tasks(len(seconds), sum(taken for taken, _ in seconds), longest, job)


def _copies(folder: Path, documents: int) -> None:
    rng = random.Random(SEED)
    text = _text(rng)
    texts = (_text(rng) if number % 11 == 0 else text for number in range(11 * documents))
    _write(folder, texts)


def _variants(folder: Path, documents: int) -> None:
    rng = random.Random(SEED)
    words = _text(rng).split()

    def texts() -> Iterator[str]:
        for _ in range(documents):
            yield _text(rng)
            variant = list(words)
            for at in rng.sample(range(_WORDS), rng.randrange(*_VARIED)):
                variant[at] = _word(rng)
            yield " ".join(variant)

    _write(folder, texts())


def _one_gzip(folder: Path, documents: int) -> None:
    _write(folder, (_text(random.Random(SEED + number)) for number in range(documents // 10)))
    rng = random.Random(SEED)
    with gzip.open(folder / "large.jsonl.gz", "wt", encoding="utf-8", compresslevel=1) as file:
        for number in range(10 * documents):
            file.write(_line(f"large-{number}", _text(rng)))


CASES: Mapping[str, Callable[[Path, int], None]] = {
    "copies of one text": _copies,
    "variants of one text": _variants,
    "one gzip file": _one_gzip,
}


def _word(rng: random.Random) -> str:
    return f"w{rng.getrandbits(20):x}"


def _text(rng: random.Random) -> str:
    return " ".join(_word(rng) for _ in range(_WORDS))


def _line(id_: str, text: str) -> str:
    return json.dumps({"id": id_, "text": text}) + "\n"


def _write(folder: Path, texts: Iterator[str]) -> None:
    with (folder / "pages.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(_line(str(number), text) for number, text in enumerate(texts))


if __name__ == "__main__":
    sys.exit(main())
