"""``python -m tests.same_results FILE…``: one result of ``dedup`` by all engines, however divided.

Each file of JSON lines, plain or as .gz, is de-duplicated by each method in one process. Then by
the engines that ``--engine`` names (spilling, local, spark, hadoop), in as many parts and with as
many reducers as PARTS and REDUCERS say. On Spark the first number of parts goes with the first of
reducers, the second with the second, and so on; with ``--all-divisions`` each goes with each. On
Hadoop, where a run takes minutes, a method has one of these divisions a file, by turns. Decisions,
clusters, fingerprints, signatures and kept records must be those of one process. Without files
they are made up, one of them with skew.

Prints a line a run; exits with 1 if one differs. Takes minutes a file and engine.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import itertools
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from mr_dedup.cli import dedup_jobs
from mr_dedup.cli.main import main
from mr_dedup.formats.documents import chunks
from tests.cli.documents import made_up_documents, write_jsonl
from tests.cli.result_tables import tables_of
from tests.engines.spark import sessions

METHODS = [
    ["minhash"],
    ["minhash:bands=40,rows=2,min_shared_keys=3"],
    ["simhash:k=3"],
    ["super-shingles"],
    ["segments"],
    ["winnowing:window=3"],
    ["text-profile"],
    ["keywords"],
    ["abstract"],
    ["exact"],
    ["minhash", "simhash:k=6"],
]

PARTS = (1, 7, 64)
REDUCERS = (1, 3, 16)

ENGINES = {
    "spilling": ["-r", "memory", "--memory", "64MB"],
    "local": ["-r", "local"],
    "spark": ["-r", "spark", "--master", "local[2]"],
    "hadoop": ["-r", "hadoop", "--python-bin", sys.executable],
}


def made_up(folder: Path) -> Iterator[Path]:
    """Write pages, and documents of which a third are one text and a third variants of another."""
    pages = [
        {**document, "id": f"{seed}-{document['id']}"}
        for seed in range(100)
        for document in made_up_documents(seed)
    ]
    yield write_jsonl(folder / "pages.jsonl", pages)
    rng = random.Random(7)
    words = [f"word{number}" for number in range(300)]
    texts = []
    for page in pages:
        variant = [word if rng.random() < 0.98 else "other" for word in words]
        texts.append(rng.choice([page["text"], "the same text " * 20, " ".join(variant)]))
    skewed = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    yield write_jsonl(folder / "skewed.jsonl", skewed)


def unpacked(file: Path, folder: Path) -> Path:
    """Return a file of plain JSON lines, which may be divided."""
    if file.suffix != ".gz":
        return file
    path = folder / f"{file.parent.name}.jsonl"
    path.write_bytes(gzip.decompress(file.read_bytes()))
    return path


def run(file: Path, out: Path, words: list[str], parts: int) -> dict[str, object]:
    """Return the tables of a result."""
    size = max(1, -(-file.stat().st_size // parts))
    shutil.rmtree(out, ignore_errors=True)
    said = io.StringIO()
    with (
        mock.patch.multiple(chunks, CHUNK_BYTES=size, _MIN_BYTES=size, _FILE_BYTES=0),
        contextlib.redirect_stderr(said),
    ):
        if main(["dedup", str(file), "-o", str(out), *words]) != 0:
            raise SystemExit(f"{' '.join(words)}: {said.getvalue()}")
    return tables_of(out)


def divisions(engine: str, turn: int, each_with_each: bool) -> list[tuple[int, int | None]]:
    """Return the numbers of parts and of reducers of the runs of an engine."""
    if engine not in {"spark", "hadoop"}:
        return [(parts, None) for parts in PARTS]
    if engine == "spark" and each_with_each:
        return list(itertools.product(PARTS, REDUCERS))
    pairs: list[tuple[int, int | None]] = list(zip(PARTS, REDUCERS, strict=True))
    return [pairs[turn % len(pairs)]] if engine == "hadoop" else pairs


def compared(file: Path, engines: list[str], folder: Path, first: int, each_with_each: bool) -> int:
    """Print a line for each run over a file; return how many results differ."""
    different = 0
    for turn, methods in enumerate(METHODS, first):
        method = [word for name in methods for word in ("--method", name)]
        expected = run(file, folder / "memory", ["-r", "memory", *method], 1)
        for engine in engines:
            for parts, reducers in divisions(engine, turn, each_with_each):
                words = [*ENGINES[engine], *method]
                if reducers is not None:
                    words += ["--reducers", str(reducers)]
                found = run(file, folder / engine, words, parts)
                same = found == expected
                different += not same
                print(
                    f"{file.name}  {' '.join(methods)}  {engine}  parts {parts}"
                    f"  reducers {reducers or '-'}  {'same' if same else 'DIFFERENT'}",
                    flush=True,
                )
    return different


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--engine", action="append", choices=list(ENGINES), dest="engines")
    parser.add_argument("--all-divisions", action="store_true")
    arguments = parser.parse_args()
    # tasks read all shards, however few
    dedup_jobs.SMALL_BYTES.clear()
    with tempfile.TemporaryDirectory() as name, sessions.master("local[2]"):
        folder = Path(name)
        files = [unpacked(file, folder) for file in arguments.files] or made_up(folder)
        engines = arguments.engines or ["spilling", "local", "spark"]
        different = sum(
            compared(file, engines, folder, turn, arguments.all_divisions)
            for turn, file in enumerate(files)
        )
    print(f"{different} results differ")
    sys.exit(different != 0)
