"""De-duplication of documents, from JSON lines to kept documents, beside MinHash packages.

Made-up English pages with one near-duplicate of each original, of nine kinds in turn; and short
noisy texts. Each rival and ``mr-dedup dedup`` is a process of its own, in wall time from start to
end; only ours writes the kept documents, decisions and a report, the rivals a list of ids. Memory
is the peak of all its processes together, where shared pages count in each.

``python -m bench.dedup SET… [--tokens N] [--text-dedup PYTHON]`` measures directories as of
bench.quality instead. text-dedup needs a Python of its own, because it needs PySpark, ONNX and an
old urllib3, 1.3 GB together.

Accuracy is by all pairs with a Jaccard similarity of shingles of at least 0.8. *Drops*: a dropped
document that is similar to any kept one is a true positive, a kept one that is similar to one kept
before it a false negative. *Pairs*: precision is the share of dropped documents that are similar
to the original named for them, recall the share of true pairs of which a document is dropped.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from bench import processes
from bench.dedup_rivals import RIVALS
from bench.inputs import SEED
from bench.machine import describe
from bench.measure import Mismatch, Row, case_row, interleaved, table, wall_clock
from bench.noisy_texts import write_noisy_texts

THRESHOLD = 0.8
_NAME = "dedup"
_OURS = "mr-dedup dedup"
_TEXT_DEDUP = "text-dedup"
_MAX_ROUNDS = 3
_MIN_PRECISION = 0.999  # similarities of very long texts are estimated

Originals = dict[str, str]
"""The kept document that each one duplicates: itself if it is kept, "" if it is unknown."""


def run(quick: bool, rounds: int) -> Iterator[Row]:
    """Yield the rows of the table; a round takes minutes, so there are at most 3."""
    originals = 1500 if quick else 100_000
    with tempfile.TemporaryDirectory(prefix="mr_dedup-bench-") as folder:
        corpus = Corpus.of_pages(originals, Path(folder, "pages"))
        yield from measure(corpus, min(rounds, _MAX_ROUNDS), Path(folder))
        count = 2 * originals
        texts, listed = write_noisy_texts(Path(folder, "noisy"), count, SEED)
        corpus = Corpus(f"{count:,} short noisy texts", [texts], Truth.read(listed))
        yield from measure(corpus, min(rounds, _MAX_ROUNDS), Path(folder))


@dataclass(frozen=True)
class Truth:
    """The true pairs: the similar documents of each document that has any."""

    neighbours: Mapping[str, frozenset[str]]

    @classmethod
    def read(cls, path: Path) -> Truth:
        """Read ``id_a TAB id_b TAB jaccard`` lines below a header, also as .gz."""
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
    """The quality of decisions; a ratio of nothing is None."""

    kept: int
    precision: float | None
    recall: float | None
    pair_precision: float | None
    pair_recall: float | None

    @classmethod
    def of(cls, originals: Originals, truth: Truth) -> Accuracy:
        """Evaluate decisions, in the order of the documents."""
        kept = {name for name, original in originals.items() if name == original}
        dropped = [name for name in originals if name not in kept]
        positives = sum(not truth.of(name).isdisjoint(kept) for name in dropped)
        before: set[str] = set()
        negatives = 0
        for name in originals:
            if name in kept and truth.of(name).isdisjoint(before):
                before.add(name)
            elif name in kept:
                negatives += 1
        named = [name for name in dropped if originals[name]]
        similar = sum(originals[name] in truth.of(name) for name in named)
        # both counts have each pair twice
        pairs = sum(map(len, truth.neighbours.values()))
        both_kept = sum(len(truth.of(name) & kept) for name in kept)
        return cls(
            len(kept),
            _ratio(positives, len(dropped)),
            _ratio(positives, positives + negatives),
            _ratio(similar, len(named)),
            _ratio(pairs - both_kept, pairs),
        )

    def __str__(self) -> str:
        return (
            f"kept {self.kept:,}; drops: precision {_text(self.precision)}, recall "
            f"{_text(self.recall)}; pairs: {_text(self.pair_precision)}, {_text(self.pair_recall)}"
        )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _text(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.4f}"


@dataclass(frozen=True)
class Corpus:
    """Documents in files of JSON lines, and their true pairs by shingles of ``tokens``."""

    name: str
    files: Sequence[Path]
    truth: Truth
    tokens: int = 3

    @classmethod
    def of_pages(cls, originals: int, folder: Path) -> Corpus:
        """Return made-up pages, an original and a near-duplicate each, generated in ``folder``."""
        command = [sys.executable, "-m", "data_gen", "documents", "--out", str(folder)]
        command += ["--documents", str(originals), "--duplicates-per-document", "1"]
        processes.run([*command, "--seed", str(SEED)])
        truth = Truth.read(folder / "truth.tsv")
        return cls(f"{2 * originals:,} pages", sorted(folder.glob("*.jsonl")), truth)

    @classmethod
    def of_set(cls, folder: Path, tokens: int, scratch: Path) -> Corpus:
        """Return the documents of a data set, decompressed to ``scratch``."""
        path = scratch / f"{folder.name}.jsonl"
        with gzip.open(folder / "docs.jsonl.gz") as packed, path.open("wb") as file:
            shutil.copyfileobj(packed, file)
        (pairs,) = folder.glob("pairs*.tsv.gz")
        return cls(folder.name, [path], Truth.read(pairs), tokens)


@dataclass
class Program:
    """A program that de-duplicates.

    Args:
        command: the program and its arguments.
        read: returns the decisions that it wrote.
        cache: a directory of its cache, which is removed before a run.
    """

    command: list[str]
    read: Callable[[], Originals]
    cache: Path | None = None
    usages: list[processes.Usage] = field(default_factory=list)

    def run(self) -> float:
        """Run it; return the seconds of wall time."""
        if self.cache is not None:
            shutil.rmtree(self.cache, ignore_errors=True)
        self.usages.append(processes.measure(self.command))
        return self.usages[-1].seconds


def measure(
    corpus: Corpus, rounds: int, scratch: Path, text_dedup: str | None = None
) -> Iterator[Row]:
    """Yield the rows of a corpus; raise Mismatch if we drop a document unlike its original."""
    programs = _programs(corpus, scratch, text_dedup)
    cases = {name: program.run for name, program in programs.items()}
    timings = interleaved(cases, rounds, f"{_NAME}, {corpus.name}", wall_clock)
    for name, program in programs.items():
        accuracy = Accuracy.of(program.read(), corpus.truth)
        if name == _OURS and (accuracy.pair_precision or 1.0) < _MIN_PRECISION:
            raise Mismatch(
                f"{corpus.name}: a document was dropped as a duplicate of a dissimilar one"
            )
        cpu_seconds = statistics.median(usage.cpu_seconds for usage in program.usages)
        yield case_row(
            _NAME, name, timings, _OURS,
            name=f"{name}, {corpus.name}",
            memory_bytes=max(usage.peak_bytes for usage in program.usages),
            note=f"{cpu_seconds:.3g} s of CPU time; {accuracy}",
        )  # fmt: skip
    for name in RIVALS:
        if name not in programs:
            yield Row(_NAME, f"{name}, {corpus.name}", note=f"skipped: {name} is not installed")
    if text_dedup is None:
        note = "skipped: see python -m bench.dedup --text-dedup"
        yield Row(_NAME, f"{_TEXT_DEDUP}, {corpus.name}", note=note)


def _programs(corpus: Corpus, scratch: Path, text_dedup: str | None) -> dict[str, Program]:
    files = [str(path) for path in corpus.files]
    out = scratch / "ours"
    ours = [sys.executable, "-m", "mr_dedup", "dedup", *files, "-o", str(out), "--overwrite"]
    # the true pairs are those of words
    ours += [f"--shingles=words:{corpus.tokens}", "--symbols=ignore"]
    programs = {_OURS: Program(ours, lambda: _decisions(out))}
    for name in RIVALS:
        if importlib.util.find_spec(name.partition("-")[0]) is None:
            continue
        path = scratch / f"{name}.tsv"
        command = [sys.executable, "-m", "bench.dedup_rivals", name, str(corpus.tokens), str(path)]
        programs[name] = Program([*command, *files], partial(_listed, path))
    if text_dedup:
        programs[_TEXT_DEDUP] = _text_dedup(text_dedup, corpus, scratch)
    return programs


def _text_dedup(python: str, corpus: Corpus, scratch: Path) -> Program:
    """Return text-dedup with our threshold and shingles, otherwise as in its README."""
    out, cache = scratch / _TEXT_DEDUP, scratch / f"{_TEXT_DEDUP}-cache"
    command = [python, "-m", "text_dedup.minhash", "--path", "json", "--split", "train"]
    # its --data_files takes one pattern for all files, with braces
    names = ",".join(str(path) for path in corpus.files)
    command += ["--data_files", f"{{{names}}}" if len(corpus.files) > 1 else names]
    command += ["--cache_dir", str(cache), "--output", str(out), "--column", "text"]
    command += ["--batch_size", "10000", "--threshold", str(THRESHOLD)]
    command += ["--ngram", str(corpus.tokens)]

    def read() -> Originals:
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


def _decisions(out: Path) -> Originals:
    table = pq.read_table(out / "decisions", columns=["id", "kept_id"])
    return dict(zip(table["id"].to_pylist(), table["kept_id"].to_pylist(), strict=True))


def _listed(path: Path) -> Originals:
    with path.open(encoding="utf-8") as lines:
        rows = (line.rstrip("\n").partition("\t") for line in lines)
        return {name: original for name, _, original in rows}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the data sets of ``argv``; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.dedup", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("sets", nargs="+", type=Path, metavar="SET")
    add("--tokens", type=int, default=3, help="tokens of a shingle: 5 for Chinese (default 3)")
    add("--rounds", type=int, default=5, metavar="N", help="timed rounds (default 5)")
    add("--text-dedup", metavar="PYTHON", help="a Python with text-dedup, to run this too")
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
