"""Programs that cargo builds: fastdedup and duplodocus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.field.outcomes import kept_documents
from bench.field.quality import Outcome
from bench.field.tools.tool import JSON_LINES, ONE_PARQUET, Task, Tool


def _fastdedup(name: str, settings: str, subcommand: str, *options: str) -> Tool:
    def command(task: Task) -> Sequence[str]:
        words = [str(task.environment / "bin" / "fastdedup"), subcommand]
        return [*words, "-i", str(task.corpus), "-o", str(_file(task)), *options]

    def outcome(task: Task) -> Outcome:
        return kept_documents(_file(task))

    return Tool(name, "fastdedup", settings, command, outcome=outcome, reads=ONE_PARQUET)


def _file(task: Task) -> Path:
    return task.out / "kept.parquet"


def _duplodocus(name: str, settings: str, subcommand: str, *options: str) -> Tool:
    def command(task: Task) -> Sequence[str]:
        words = [str(task.environment / "bin" / "duplodocus"), subcommand]
        words += ["--input-dir", str(task.corpus), "--output-dir", str(task.kept)]
        return [*words, "--text-key", "text", *_storage(subcommand, task), *options]

    return Tool(name, "duplodocus", settings, command, reads=JSON_LINES)


def _storage(subcommand: str, task: Task) -> list[str]:
    return ["--storage-dir", str(task.out / "work")] if subcommand == "minhash-memory" else []


TOOLS = (
    _fastdedup(
        "fastdedup",
        "its defaults: shingles of 3 characters, threshold 0.8, 16 bands of 8",
        "fuzzy-dedup",
    ),
    _fastdedup(
        "fastdedup aligned",
        "shingles of 3 words, threshold 0.8, 16 bands of 8",
        "fuzzy-dedup",
        *("--word-shingles", "--shingle-size", "3"),
    ),
    _fastdedup("fastdedup exact", "equal texts only", "exact-dedup", "--field", "text"),
    _duplodocus(
        "duplodocus",
        "its defaults: shingles of 5 tokens of cl100k, 14 bands of 8; the default name of these "
        "tokens, cl100k_base, is unknown to it",
        "minhash-memory",
        *("--tokenizer", "cl100k"),
    ),
    _duplodocus(
        "duplodocus aligned",
        "shingles of 5 tokens, of which spaces are some: of 2 or 3 words; 14 bands of 8, as it has "
        "no threshold",
        "minhash-memory",
        *("--tokenizer", "uniseg", "--ngram-size", "5"),
    ),
    _duplodocus("duplodocus exact", "equal texts only", "exact-dedup-memory"),
)
