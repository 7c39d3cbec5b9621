"""Pipelines that read a corpus and write the kept documents: datatrove, text-dedup, dolma."""

from __future__ import annotations

from collections.abc import Sequence

from bench.field.outcomes import kept_documents
from bench.field.quality import Outcome
from bench.field.tools.tool import JSON_LINES, PROGRAMS, Task, Tool, program


def _text_dedup(name: str, settings: str, module: str, *options: str) -> Tool:
    def command(task: Task) -> Sequence[str]:
        words = [task.python, "-m", f"text_dedup.{module}", "--path", "parquet"]
        words += ["--data_files", f"{task.corpus}/*.parquet", "--split", "train"]
        words += ["--column", "text", "--output", str(task.kept)]
        return [*words, "--num_proc", str(task.workers), *options]

    def outcome(task: Task) -> Outcome:
        # beside these it writes JSON about the data set
        return kept_documents(task.kept, "*.arrow")

    return Tool(name, "text-dedup", settings, command, outcome=outcome)


def _dolma(task: Task) -> Sequence[str]:
    script, dolma = PROGRAMS / "dolma_documents.sh", task.environment / "bin" / "dolma"
    words = ["sh", str(script), str(dolma), str(task.corpus), str(task.kept)]
    return [*words, str(task.documents), str(task.workers)]


TOOLS = (
    program(
        "datatrove",
        "datatrove",
        "the four stages of its example: shingles of 5 words, 14 bands of 8 hashes of 64 bits",
        "datatrove_minhash.py",
    ),
    program(
        "datatrove aligned",
        "datatrove",
        "the same with shingles of 3 words; it has bands instead of a threshold",
        "datatrove_minhash.py",
        *("--shingle", "3"),
    ),
    _text_dedup(
        "text-dedup minhash",
        "its defaults: shingles of 5 words, threshold 0.7, 250 permutations",
        "minhash",
    ),
    _text_dedup(
        "text-dedup minhash aligned",
        "shingles of 3 words, threshold 0.8, 250 permutations",
        "minhash",
        *("--ngram", "3", "--threshold", "0.8"),
    ),
    _text_dedup(
        "text-dedup simhash",
        "its defaults: shingles of 3 words, 64 bits of which 3 may differ",
        "simhash",
    ),
    _text_dedup("text-dedup exact", "equal texts only, by MD5", "exact_hash"),
    Tool(
        "dolma",
        "dolma",
        "equal texts only, by a Bloom filter of texts with 0.0001 false positives, then its mixer",
        _dolma,
        "dolma_documents.sh",
        reads=JSON_LINES,
    ),
)
