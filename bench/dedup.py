"""De-duplication of documents, from JSON lines to what is kept, against MinHash packages.

Made-up English pages, of each original a near-duplicate, of nine kinds in turn; and short texts
with noise in each. Each rival and ``mr-dedup dedup`` is a process of its own, timed by the clock
from its start to its end; only ours writes the kept documents, decisions and a report, the rivals a
list of ids. Memory is that of all its processes together at their peak, where shared pages count in
each.

``python -m bench.dedup SET… [--tokens N] [--text-dedup PYTHON]`` measures folders as bench.quality
takes them instead. text-dedup has a Python of its own, for it needs PySpark, ONNX and an old
urllib3, 1.3 GB in all.

Accuracy, by all pairs whose Jaccard similarity of shingles is at least 0.8. *Drops*: right is a
dropped document that is so similar to a kept one, whichever; missed a kept one that would be
dropped yet if what is kept was gone through once more. *Pairs*: found are dropped documents with
the keepers that are named for them, right those that are so similar; missed true pairs of which
both are kept. Precision is the share of what is found that is right. Recall of drops is right /
(right + missed), of pairs the share of the true ones that are not missed.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from bench.dedup_rivals import RIVALS
from bench.inputs import SEED
from bench.machine import describe
from bench.measure import Mismatch, Row, interleaved, status_bytes, table, wall_clock
from bench.noisy_texts import write_noisy_texts

THRESHOLD = 0.8
_NAME = "dedup"
_OURS = "mr-dedup dedup"
_TEXT_DEDUP = "text-dedup"
_MOST_ROUNDS = 3
_LEAST_PRECISION = 0.999  # what very long texts have in common is estimated
_POLL_SECONDS = 0.1

Keepers = dict[str, str]
"""The keeper of each document: itself if it is kept, "" if it is not known."""


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the table's rows; a round is of minutes, so there are at most 3."""
    originals = 1500 if quick else 100_000
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        pages = Path(folder, "pages")
        command = [sys.executable, "-m", "data_gen", "documents", "--out", str(pages)]
        command += ["--documents", str(originals), "--duplicates-per-document", "1"]
        _run([*command, "--seed", str(SEED)])
        truth = Truth.read(pages / "truth.tsv")
        corpus = Corpus(f"{2 * originals:,} pages", sorted(pages.glob("*.jsonl")), truth)
        yield from measure(corpus, min(rounds, _MOST_ROUNDS), Path(folder))
        count = 2 * originals
        texts, listed = write_noisy_texts(Path(folder, "noisy"), count, SEED)
        corpus = Corpus(f"{count:,} short noisy texts", [texts], Truth.read(listed))
        yield from measure(corpus, min(rounds, _MOST_ROUNDS), Path(folder))


@dataclass(frozen=True)
class Truth:
    """The true pairs: for each document that has any, those that are similar to it."""

    neighbours: Mapping[str, frozenset[str]]

    @classmethod
    def read(cls, path: Path) -> Truth:
        """Read ``id_a TAB id_b TAB jaccard`` lines below a heading, also .gz."""
        neighbours: dict[str, set[str]] = {}
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as lines:
            next(lines)
            for line in lines:
                one, other, similarity = line.rstrip("\n").split("\t")
                if float(similarity) >= THRESHOLD:
                    neighbours.setdefault(one, set()).add(other)
                    neighbours.setdefault(other, set()).add(one)
        return cls({name: frozenset(others) for name, others in neighbours.items()})

    def of(self, name: str) -> frozenset[str]:
        """Return the documents that are similar to one."""
        return self.neighbours.get(name, frozenset())


@dataclass(frozen=True)
class Accuracy:
    """How good decisions are; shares of 1, None where there is nothing to have a share of."""

    kept: int
    precision: float | None
    recall: float | None
    pair_precision: float | None
    pair_recall: float | None

    @classmethod
    def of(cls, keepers: Keepers, truth: Truth) -> Accuracy:
        """Judge the decisions on documents that are in their order."""
        kept = {name for name, keeper in keepers.items() if name == keeper}
        dropped = [name for name in keepers if name not in kept]
        right = sum(not truth.of(name).isdisjoint(kept) for name in dropped)
        before: set[str] = set()
        missed = 0
        for name in keepers:
            if name in kept and truth.of(name).isdisjoint(before):
                before.add(name)
            elif name in kept:
                missed += 1
        named = [name for name in dropped if keepers[name]]
        similar = sum(keepers[name] in truth.of(name) for name in named)
        # each pair is met from both sides
        pairs = sum(map(len, truth.neighbours.values()))
        both_kept = sum(len(truth.of(name) & kept) for name in kept)
        return cls(
            len(kept),
            _share(right, len(dropped)),
            _share(right, right + missed),
            _share(similar, len(named)),
            _share(pairs - both_kept, pairs),
        )

    def __str__(self) -> str:
        return (
            f"kept {self.kept:,}; drops {_shown(self.precision)} right, recall "
            f"{_shown(self.recall)}; pairs {_shown(self.pair_precision)}, "
            f"{_shown(self.pair_recall)}"
        )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _shown(share: float | None) -> str:
    return "-" if share is None else f"{share:.4f}"


@dataclass(frozen=True)
class Corpus:
    """Documents in files of JSON lines, and what is true of them by shingles of ``tokens``."""

    name: str
    files: Sequence[Path]
    truth: Truth
    tokens: int = 3

    @classmethod
    def of_set(cls, folder: Path, tokens: int, scratch: Path) -> Corpus:
        """Return the documents of a set, unpacked to ``scratch``."""
        path = scratch / f"{folder.name}.jsonl"
        with gzip.open(folder / "docs.jsonl.gz") as packed, path.open("wb") as file:
            shutil.copyfileobj(packed, file)
        (pairs,) = folder.glob("pairs*.tsv.gz")
        return cls(folder.name, [path], Truth.read(pairs), tokens)


@dataclass
class Program:
    """A program that de-duplicates, how to read what it left, and what it took.

    ``cache`` is a folder that it fills for its next run; it does not have it.
    """

    command: list[str]
    read: Callable[[], Keepers]
    cache: Path | None = None
    peak_bytes: int = 0
    processor_seconds: list[float] = field(default_factory=list)

    def run(self) -> float:
        """Run it to its end; return the seconds by the clock; RuntimeError if it fails."""
        if self.cache is not None:
            shutil.rmtree(self.cache, ignore_errors=True)
        ended = threading.Event()
        with tempfile.TemporaryFile("w+") as said:
            started = wall_clock()
            process = subprocess.Popen(self.command, stdout=said, stderr=said, env=_environment())
            watch = threading.Thread(target=self._watch, args=(process.pid, ended))
            watch.start()
            _, status, usage = os.wait4(process.pid, 0)
            seconds = wall_clock() - started
            ended.set()
            watch.join()
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            if process.returncode:
                raise RuntimeError(f"exit code {process.returncode}: {said.read().strip()}")
        self.processor_seconds.append(usage.ru_utime + usage.ru_stime)
        return seconds

    def _watch(self, pid: int, ended: threading.Event) -> None:
        """Note the memory of a process and those below it, now and then, as it takes their time."""
        while not ended.wait(_POLL_SECONDS):
            self.peak_bytes = max(self.peak_bytes, _tree_bytes(pid))
            with contextlib.suppress(OSError):  # it may end meanwhile
                peak = status_bytes(Path("/proc", str(pid), "status"), "VmHWM")
                self.peak_bytes = max(self.peak_bytes, peak)


def measure(
    corpus: Corpus, rounds: int, scratch: Path, text_dedup: str | None = None
) -> Iterator[Row]:
    """Yield the rows of one corpus; raises Mismatch if what we drop is not similar to a keeper."""
    programs = _programs(corpus, scratch, text_dedup)
    cases = {name: program.run for name, program in programs.items()}
    timings = interleaved(cases, rounds, f"{_NAME}, {corpus.name}", wall_clock)
    for name, program in programs.items():
        accuracy = Accuracy.of(program.read(), corpus.truth)
        if name == _OURS and (accuracy.pair_precision or 1.0) < _LEAST_PRECISION:
            raise Mismatch(f"{corpus.name}: a document was dropped for one that it is unlike")
        yield Row(
            _NAME,
            f"{name}, {corpus.name}",
            timings.median(name),
            timings.ratio(name, _OURS) if name != _OURS else None,
            _OURS,
            program.peak_bytes,
            f"{statistics.median(program.processor_seconds):.3g} s of processor time; {accuracy}",
        )
    for name in RIVALS:
        if name not in programs:
            yield Row(_NAME, f"{name}, {corpus.name}", note=f"skipped: {name} is not installed")
    if text_dedup is None:
        note = "skipped: python -m bench.dedup --text-dedup runs it"
        yield Row(_NAME, f"{_TEXT_DEDUP}, {corpus.name}", note=note)


def _programs(corpus: Corpus, scratch: Path, text_dedup: str | None) -> dict[str, Program]:
    files = [str(path) for path in corpus.files]
    out = scratch / "ours"
    ours = [sys.executable, "-m", "mr_dedup", "dedup", *files, "-o", str(out), "--overwrite"]
    ours += [f"--shingles=words:{corpus.tokens}"]
    programs = {_OURS: Program(ours, lambda: _decisions(out))}
    for name in RIVALS:
        if importlib.util.find_spec(name.partition("-")[0]) is None:
            continue
        path = scratch / f"{name}.tsv"
        command = [sys.executable, "-m", "bench.dedup_rivals", name, str(corpus.tokens), str(path)]
        programs[name] = Program([*command, *files], lambda path=path: _listed(path))
    if text_dedup:
        programs[_TEXT_DEDUP] = _text_dedup(text_dedup, corpus, scratch)
    return programs


def _text_dedup(python: str, corpus: Corpus, scratch: Path) -> Program:
    """Return text-dedup's MinHash, its threshold and shingles set, else as its README has it."""
    out, cache = scratch / _TEXT_DEDUP, scratch / f"{_TEXT_DEDUP}-cache"
    command = [python, "-m", "text_dedup.minhash", "--path", "json", "--split", "train"]
    # one pattern for all files, braces and all, is what its --data_files takes
    names = ",".join(str(path) for path in corpus.files)
    command += ["--data_files", f"{{{names}}}" if len(corpus.files) > 1 else names]
    command += ["--cache_dir", str(cache), "--output", str(out), "--column", "text"]
    command += ["--batch_size", "10000", "--threshold", str(THRESHOLD)]
    command += ["--ngram", str(corpus.tokens)]

    def read() -> Keepers:
        import pyarrow as pa

        kept: set[str] = set()
        for part in sorted(out.glob("*.arrow")):
            with pa.memory_map(str(part)) as source:
                kept.update(pa.ipc.open_stream(source).read_all()["id"].to_pylist())
        return {name: name if name in kept else "" for name in _ids(corpus)}

    return Program(command, read, cache)


def _ids(corpus: Corpus) -> Iterator[str]:
    import orjson

    for path in corpus.files:
        with path.open("rb") as lines:
            yield from (orjson.loads(line)["id"] for line in lines)


def _decisions(out: Path) -> Keepers:
    found = pq.read_table(out / "decisions.parquet", columns=["id", "keeper"])
    return dict(zip(found["id"].to_pylist(), found["keeper"].to_pylist(), strict=True))


def _listed(path: Path) -> Keepers:
    with path.open(encoding="utf-8") as lines:
        decided = (line.rstrip("\n").partition("\t") for line in lines)
        return {name: keeper for name, _, keeper in decided}


def _tree_bytes(pid: int) -> int:
    """Return the memory of a process and all below it, now; 0 outside Linux."""
    process = Path("/proc", str(pid))
    with contextlib.suppress(OSError):  # it may end meanwhile
        below = [task.read_text().split() for task in process.glob("task/*/children")]
        own = status_bytes(process / "status", "VmRSS")
        return own + sum(_tree_bytes(int(child)) for children in below for child in children)
    return 0


def _environment() -> dict[str, str]:
    """Return what programs are run with: our modules are compiled once, as installed ones are.

    To compile those of a de-duplication takes 0.15 s.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _run(command: list[str]) -> None:
    """Run a command quietly; raise RuntimeError with what it said if it fails."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the sets that ``argv`` names; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.dedup", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("sets", nargs="+", type=Path, metavar="SET")
    add("--tokens", type=int, default=3, help="of a shingle: 5 for a set of Chinese (3)")
    add("--rounds", type=int, default=5, metavar="N", help="timed rounds (5)")
    add("--text-dedup", metavar="PYTHON", help="a Python that has text-dedup, to run it too")
    arguments = parser.parse_args(argv)
    print(describe(), flush=True)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        for each in arguments.sets:
            corpus = Corpus.of_set(each, arguments.tokens, Path(folder))
            rows += measure(corpus, arguments.rounds, Path(folder), arguments.text_dedup)
    print(f"\n{table(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
