"""Libraries for Python, by the short programs that their users write."""

from __future__ import annotations

from bench.field.tools.tool import program

_ALIGNED = "sets of shingles of 3 words, threshold 0.8"

TOOLS = (
    program(
        "datasketch",
        "datasketch",
        "sets of words, MinHashLSH with its default threshold 0.9, 128 permutations",
        "datasketch_lsh.py",
    ),
    program(
        "datasketch aligned",
        "datasketch",
        f"{_ALIGNED}, 128 permutations",
        "datasketch_lsh.py",
        *("--shingle", "3", "--threshold", "0.8"),
    ),
)
