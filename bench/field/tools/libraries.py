"""Libraries for Python, by the short programs that their users write."""

from __future__ import annotations

from bench.field.tools.tool import program

_ALIGNED = "shingles of 3 words, threshold 0.8, 128 permutations"
_SHINGLES = ("--shingle", "3")

TOOLS = (
    program(
        "datasketch",
        "datasketch",
        "MinHashLSH with its defaults: threshold 0.9, 128 permutations; sets of words",
        "datasketch_lsh.py",
    ),
    program(
        "datasketch aligned",
        "datasketch",
        f"MinHashLSH: {_ALIGNED}",
        "datasketch_lsh.py",
        *(*_SHINGLES, "--threshold", "0.8"),
    ),
    program(
        "rensa",
        "rensa",
        "RMinHashDeduplicator as in its README: sets of words, threshold 0.8, 128 permutations",
        "rensa_deduplicator.py",
    ),
    program(
        "rensa aligned",
        "rensa",
        f"RMinHashDeduplicator: {_ALIGNED}",
        "rensa_deduplicator.py",
        *_SHINGLES,
    ),
    program(
        "gaoya",
        "gaoya",
        "MinHashStringIndex with its defaults: sets of words, threshold 0.75, 20 bands of 5",
        "gaoya_index.py",
    ),
    program(
        "gaoya aligned",
        "gaoya",
        f"MinHashStringIndex: {_ALIGNED}",
        "gaoya_index.py",
        "--aligned",
    ),
)
