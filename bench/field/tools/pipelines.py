"""Pipelines that read a corpus and write the kept documents: datatrove, text-dedup, dolma."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bench.field.outcomes import kept_documents
from bench.field.quality import Outcome
from bench.field.tools.tool import JSON_LINES, PROGRAMS, Task, Tool, program


def _text_dedup(name: str, settings: str, module: str, **options: object) -> Tool:
    def command(task: Task) -> Sequence[str]:
        words = ["sh", str(PROGRAMS / _TEXT_DEDUP), task.python, module]
        given = {"algorithm_name": module, "num_proc": task.workers, **options}
        if module == "bloom_filter":
            given["max_elements"] = task.documents
        # JSON writes these values as TOML does
        lines = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
        return [*words, str(task.corpus), str(task.kept), *lines]

    def outcome(task: Task) -> Outcome:
        # beside these it writes JSON about the data set
        return kept_documents(task.kept, "*.arrow")

    return Tool(name, "text-dedup", settings, command, _TEXT_DEDUP, outcome=outcome)


_TEXT_DEDUP = "text_dedup.sh"
_MINHASH = {"num_perm": 240, "check_false_positive": True}
_ALIGNED = {**_MINHASH, "ngram_size": 3, "threshold": 0.8}


def stage_reached(task: Task, said: str) -> str:
    """Return the last stage of datatrove, and how many of its tasks are done, by its logs."""
    stages = sorted(task.out.glob("logs/[1-4]"))
    if not stages:
        return "no stage begun"
    done = len(list(stages[-1].glob("completions/*")))
    return f"stage {stages[-1].name} of 4: {done} tasks done"


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
        progress=stage_reached,
    ),
    program(
        "datatrove aligned",
        "datatrove",
        "the same with shingles of 3 words; it has bands instead of a threshold",
        "datatrove_minhash.py",
        *("--shingle", "3"),
        progress=stage_reached,
    ),
    _text_dedup(
        "text-dedup minhash",
        "as in its README: shingles of 5 words, threshold 0.7, 240 permutations; all pairs of a "
        "cluster are compared",
        "minhash",
        **_MINHASH,
        ngram_size=5,
        threshold=0.7,
    ),
    _text_dedup(
        "text-dedup minhash aligned",
        "the same with shingles of 3 words, threshold 0.8",
        "minhash",
        **_ALIGNED,
    ),
    _text_dedup(
        "text-dedup minhash aligned, unchecked",
        "the same, but no pair is compared, which is the default of its option "
        "check_false_positive",
        "minhash",
        **{**_ALIGNED, "check_false_positive": False},
    ),
    _text_dedup(
        "text-dedup simhash",
        "its defaults: shingles of 3 words, 64 bits of which 3 may differ",
        "simhash",
    ),
    _text_dedup(
        "text-dedup exact",
        "equal texts only, by a Bloom filter with 0.00001 false positives",
        "bloom_filter",
        error_rate=1e-5,
    ),
    Tool(
        "dolma",
        "dolma",
        "equal texts only, by a Bloom filter of texts with 0.0001 false positives, then its mixer",
        _dolma,
        "dolma_documents.sh",
        reads=JSON_LINES,
    ),
)
