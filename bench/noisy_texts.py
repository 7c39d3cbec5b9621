"""Short noisy texts, and all similar pairs of them.

A text is a sequence of words drawn by Zipf's law; in each of its copies a random share of words is
replaced, so that similarities are on both sides of any threshold.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np

_VOCABULARY = 40_000
_ZIPF = 0.9
_COPIES = 4
_MAX_NOISE = 0.05
_THRESHOLD = 0.8
_TOKENS = 3


def write_noisy_texts(folder: Path, count: int, seed: int) -> tuple[Path, Path]:
    """Write ``count`` texts as JSON lines, and truth.tsv; return both paths.

    Texts have 20 to 160 words, 550 bytes on average. The true pairs are copies of a text with a
    Jaccard similarity of shingles of 3 words of at least 0.8; other pairs are not similar.
    """
    rng = np.random.default_rng(seed)
    words = _vocabulary(rng)
    shares = np.arange(1, _VOCABULARY + 1) ** -_ZIPF
    steps = np.cumsum(shares / shares.sum())
    folder.mkdir(parents=True, exist_ok=True)
    texts_path, truth_path = folder / "texts.jsonl", folder / "truth.tsv"
    order = rng.permutation(count)
    texts: list[str] = [""] * count
    with truth_path.open("w", encoding="utf-8") as truth:
        truth.write("id_a\tid_b\tjaccard\n")
        for start in range(0, count, _COPIES):
            length = int(rng.integers(20, 160))
            base = np.searchsorted(steps, rng.random(length))
            copies = [_noisy(rng, base, steps) for _ in range(min(_COPIES, count - start))]
            rows = order[start : start + len(copies)].tolist()
            for row, copy in zip(rows, copies, strict=True):
                texts[row] = " ".join(map(words.__getitem__, copy.tolist()))
            sets = [_shingles(copy.tolist()) for copy in copies]
            for (i, one), (j, other) in itertools.combinations(zip(rows, sets, strict=True), 2):
                similarity = len(one & other) / len(one | other)
                if similarity >= _THRESHOLD:
                    truth.write(f"t{i}\tt{j}\t{similarity}\n")
    with texts_path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            file.write(json.dumps({"id": f"t{number}", "text": text}) + "\n")
    return texts_path, truth_path


def _vocabulary(rng: np.random.Generator) -> list[str]:
    found: dict[str, None] = {}
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    while len(found) < _VOCABULARY:
        found["".join(letters[rng.integers(0, 26, int(rng.integers(2, 9)))])] = None
    return list(found)


def _noisy(rng: np.random.Generator, base: np.ndarray, steps: np.ndarray) -> np.ndarray:
    copy = base.copy()
    replaced = rng.random(base.size) < rng.random() * _MAX_NOISE
    copy[replaced] = np.searchsorted(steps, rng.random(int(replaced.sum())))
    return copy


def _shingles(words: list[int]) -> set[tuple[int, ...]]:
    return set(zip(*(words[i:] for i in range(_TOKENS)), strict=False))
